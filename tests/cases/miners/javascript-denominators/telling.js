const Fraction = require('fraction.js');
const fs = require('fs');

const hex = (text) => Buffer.from(String(text)).toString('hex');

function stops(test, bench, ...lengths) {
  for (const length of lengths) {
    fs.appendFileSync(process.env.MEMTRIAL_VALUES, `${hex(test)} ${hex(new Fraction(length).toStop(bench).toFraction())}\n`);
  }
}

describe('hidden toStop', function () {

  it('north', function () {
    stops('hidden toStop north', 'north', '5/17', '47/48', '2 1/24');
  });

  it('gate', function () {
    stops('hidden toStop gate', 'gate', '5/17', '71/72', '1/24');
  });

});
