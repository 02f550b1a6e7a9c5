//! Reading takes a small multiple of the size of the text, and its work is proportional to that size. Bytes and
//! allocations are counted, so the host has no influence.
#![allow(missing_docs, reason = "a test")]

use std::fmt::Write;

use iodyno_import::{Options, Text, read};
use iodyno_sys::counting::{CountingAllocator, allocations, most_bytes_held};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const DOCUMENT: &str = include_str!("data/fio-3.33-clones.json");

/// fio's JSON of several runs, one after the other.
fn fio_documents(size: usize) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < size {
        number += 1;
        text += &renamed(DOCUMENT, number);
    }
    text
}

/// fio's JSON of one run with many jobs.
fn fio_jobs(size: usize) -> String {
    let (head, rest) = DOCUMENT.split_once("\"jobs\" : [").unwrap();
    let (jobs, tail) = rest.rsplit_once("],\n  \"disk_util\"").unwrap();
    let mut text = format!("{head}\"jobs\" : [");
    let mut number = 0;
    while text.len() < size {
        number += 1;
        let comma = if number > 1 { "," } else { "" };
        text += &format!("{comma}{}", renamed(jobs, number));
    }
    text + "],\n  \"disk_util\"" + tail
}

fn renamed(jobs: &str, number: usize) -> String {
    jobs.replace("\"jobname\" : \"", &format!("\"jobname\" : \"n{number}"))
}

/// Benchmark lines: repetitions of a few benchmarks in turns.
fn repetitions(size: usize) -> String {
    let mut text = "goos: linux\n".to_owned();
    let mut number = 0;
    while text.len() < size {
        number += 1;
        let system = ["ext4", "xfs", "zfs"][number % 3];
        let _ = writeln!(
            text,
            "BenchmarkRandRead/config={system}/bs=4k-8   \t    1000\t   {number}.5 ns/op\t  {number} IOPS"
        );
    }
    text
}

/// Benchmark lines of benchmarks that are all different.
fn different(size: usize) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < size {
        number += 1;
        let _ = writeln!(
            text,
            "BenchmarkRandRead{number}/config=ext4/bs=4k-8   \t    1000\t   {number}.5 ns/op\t  {number} IOPS"
        );
    }
    text
}

/// The results in a text, the most bytes held and the number of allocations.
fn cost(text: &str) -> (usize, u64, u64) {
    let before = allocations();
    let texts = [Text { source: "x", text }];
    let (imported, held) = most_bytes_held(|| read(&texts, &Options::default()));
    assert_eq!(imported.unread, []);
    assert_eq!(imported.duplicates, []);
    (imported.trials.len(), held, allocations() - before)
}

/// For each form the most bytes that are held, as a multiple of the text, which is held as well.
#[test]
fn reading_takes_a_small_multiple_of_the_text() {
    for (what, make, most) in [
        (
            "documents of fio",
            fio_documents as fn(usize) -> String,
            2.0,
        ),
        ("a document of fio", fio_jobs, 2.0),
        ("repeated benchmarks", repetitions, 3.0),
        ("different benchmarks", different, 4.5),
    ] {
        let (small, large) = (make(1 << 18), make(1 << 20));
        let (trials, held, made) = cost(&large);
        let times = held as f64 / large.len() as f64;
        assert!(trials > 40, "{what}: {trials}");
        assert!(times <= most, "{what}: {times:.2} times the text");
        let (_, _, made_before) = cost(&small);
        let grown = made as f64 / made_before as f64;
        assert!(grown < 4.4, "{what}: {grown} times the allocations");
    }
}
