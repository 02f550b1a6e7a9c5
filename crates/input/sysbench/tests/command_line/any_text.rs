//! Arbitrary arguments: no panic, locations are within the line, arguments are preserved.

use iodyno_model::Severity;
use iodyno_sysbench::{self as sysbench, Action};
use proptest::prelude::*;

/// Splits a line as a shell does, as far as the quotes that the crate writes.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                word.extend(characters.by_ref().take_while(|inner| *inner != '\''));
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Meaningful names, values and words, and arbitrary ones.
fn argument() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = sysbench::option_names().collect();
    let values = prop_oneof![
        Just("on".to_owned()),
        Just("rndrw".to_owned()),
        Just("async".to_owned()),
        Just("direct,sync".to_owned()),
        Just("special".to_owned()),
        "[0-9]{1,20}[KMGT]?",
        "[0-9]{1,3}\\.[0-9]{1,3}",
        ".{0,6}",
    ];
    prop_oneof![
        (proptest::sample::select(names), values)
            .prop_map(|(name, value)| format!("--{name}={value}")),
        Just("run".to_owned()),
        Just("prepare".to_owned()),
        Just("--file-test-mode=rndwr".to_owned()),
        ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_arguments_are_read_or_answered(arguments in prop::collection::vec(argument(), 0..8)) {
        match sysbench::read(&arguments) {
            Ok(command) => {
                prop_assert_eq!(shell_words(&command.source.text), arguments);
                prop_assert!(command.notes.iter().all(|note| note.severity != Severity::Error));
                let made = matches!(command.action, Action::Run | Action::Prepare);
                prop_assert_eq!(command.job.is_some(), made);
                if let Some(job) = &command.job {
                    let shared = job.work.shared_files().unwrap();
                    prop_assert!(shared.block >= 1 && shared.block <= shared.file_size);
                    prop_assert!(shared.merged % shared.block == 0);
                    prop_assert!(job.clones >= 1 && shared.engine.depth >= 1);
                    prop_assert_eq!(shared.count, command.file_num);
                    let whole = shared.file_size.checked_mul(u64::from(shared.count));
                    prop_assert_eq!(Some(shared.total_size()), whole);
                    prop_assert!(job.pacing.ops_per_s.is_finite());
                }
            }
            Err(said) => {
                prop_assert!(said.iter().any(|said| said.severity == Severity::Error));
                for place in said.iter().filter_map(|said| said.place.as_ref()) {
                    prop_assert_eq!(shell_words(&place.text), arguments.clone());
                    let end = (place.column - 1 + place.length) as usize;
                    prop_assert!(end <= place.text.chars().count(), "{:?}", place);
                }
            }
        }
    }

    #[test]
    fn what_is_asked_for_is_what_the_job_has(
        (files, blocks) in (1u32..1000, 1u64..100_000),
        block in (9u32..24).prop_map(|power| 1u64 << power),
        (threads, seconds, events) in (1u32..1000, 0u64..100_000, 0u64..1_000_000),
        (frequency, rate) in (0u32..1_000_000, 0u32..1_000_000),
    ) {
        let total = u64::from(files) * blocks * block;
        let arguments: Vec<String> = [
            ("file-num", u64::from(files)),
            ("file-total-size", total),
            ("file_block_size", block),
            ("threads", u64::from(threads)),
            ("time", seconds),
            ("events", events),
            ("file-fsync-freq", u64::from(frequency)),
            ("rate", u64::from(rate)),
        ]
        .map(|(name, value)| format!("--{name}={value}"))
        .into_iter()
        .chain(["--file-test-mode=seqrewr".to_owned(), "run".to_owned()])
        .collect();
        let job = sysbench::read(&arguments).unwrap().job.unwrap();
        let shared = job.work.shared_files().unwrap();
        prop_assert_eq!((shared.file_size, shared.block), (blocks * block, block));
        prop_assert_eq!((shared.count, job.clones), (files, threads));
        prop_assert_eq!(job.end.runtime.map(|time| time.0), (seconds > 0).then_some(seconds * 1_000_000_000));
        prop_assert_eq!(job.end.ops, (events > 0).then_some(events));
        prop_assert_eq!(shared.fsync_every, frequency);
        prop_assert!((job.pacing.ops_per_s * f64::from(threads) - f64::from(rate)).abs() < 1e-6);
    }
}
