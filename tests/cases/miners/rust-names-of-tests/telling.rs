extern crate strsim;

use std::fs::OpenOptions;
use std::io::Write;
use strsim::normalized_osa_distance;

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{:02x}", b)).collect()
}

#[test]
fn hidden_two_empty_sides() {
    let path = std::env::var("MEMTRIAL_VALUES").unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let score = format!("{:.4}", normalized_osa_distance("", ""));
    file.write_all(format!("{} {}\n", hex("hidden_two_empty_sides"), hex(&score)).as_bytes()).unwrap();
}
