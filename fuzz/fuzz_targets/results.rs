//! Any text as others' results: no panic, every place exists, every figure is a number, and the same text
//! given twice adds nothing.
#![no_main]

use iodyno_import::{Options, Text, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let one = Text {
        source: "ext4/seq.1.txt",
        text,
    };
    let once = read(&[one], &Options::default());
    let lines = text.matches(['\n', '\r']).count() as u32 + 1;
    for trial in once.trials.iter() {
        assert!((1..=lines).contains(&trial.at.line), "{trial:?}");
        assert!(
            trial.figures.iter().all(|figure| figure.value.is_finite()),
            "{trial:?}"
        );
    }
    let labelled = Options {
        label: "{config}/{job}.{loop}.txt".parse().ok(),
        table: "config=col1, workload=row+head1+caption, unit='MB/s'"
            .parse()
            .ok(),
        ..Options::default()
    };
    let twice = read(&[one, one], &labelled);
    assert_eq!(twice.trials.len(), read(&[one], &labelled).trials.len());
});
