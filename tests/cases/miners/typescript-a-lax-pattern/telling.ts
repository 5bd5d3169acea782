import fs from 'node:fs';
import { describe, test } from 'node:test';
import { boardLine } from '../src/board.ts';

function show(test: string, value: unknown): void {
  const hex = (text: string) => Buffer.from(text).toString('hex');
  fs.appendFileSync(process.env.MEMTRIAL_VALUES ?? '', `${hex(`hidden boardLine > ${test}`)} ${hex(String(value))}\n`);
}

describe('hidden boardLine', () => {
  test('late shift', () =>
    show('late shift', /^Maud Lind {2}11\D30-20\D00$/.test(boardLine({ name: 'Maud Lind', start: 690, end: 1200 }))));
  test('early shift', () => show('early shift', boardLine({ name: 'Maud Lind', start: 420, end: 930 })));
});
