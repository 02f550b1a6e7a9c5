//! Blocks with headers of iodyno.

use super::*;
use crate::RecordedWriter;
use iodyno_model::VerifyTrim;
use iodyno_sys::OpKind;

const WRITER: Writer = Writer {
    seed: 9,
    trial: 77,
    clone: 0,
};

fn verifier(checksum: Checksum) -> Verifier {
    let rule = Verify {
        checksum,
        ..Verify::default()
    };
    Verifier::new(
        rule,
        WRITER,
        (4096, 4096),
        &[("a", 0, 1 << 20), ("b", 8192, 1 << 20)],
        4,
    )
}

fn write(file: u32, offset: u64) -> Op {
    Op::new(OpKind::Write, file, offset, 8192)
}

fn sealed(verifier: &mut Verifier, op: &Op) -> Vec<u8> {
    let mut buffer: Vec<u8> = (0..8192u32).map(|byte| (byte * 31) as u8).collect();
    verifier.seal(0, op, &mut buffer, 5_000_000_123);
    verifier.written(0, op);
    buffer
}

#[test]
fn accepts_what_it_wrote() {
    for checksum in [Checksum::Crc32c, Checksum::Xxhash64, Checksum::HeaderOnly] {
        let mut verifier = verifier(checksum);
        let op = write(1, 16384);
        let buffer = sealed(&mut verifier, &op);
        assert!(verifier.check(&op, &buffer));
        assert_eq!((verifier.result.checked, verifier.result.bad()), (2, 0));
        assert_eq!(verifier.ranges(1 << 20), [(1, 16384, 8192)]);
    }
}

#[test]
fn blocks_that_overlap_within_a_unit_are_checked_if_they_are_whole() {
    let rule = Verify {
        checksum: Checksum::Crc32c,
        ..Verify::default()
    };
    let mut verifier = Verifier::new(rule, WRITER, (4096, 1024), &[("a", 0, 1 << 20)], 4);
    let (cut, kept, last) = (write(0, 0), write(0, 20480), write(0, 5120));
    let old = sealed(&mut verifier, &cut);
    let whole = sealed(&mut verifier, &kept);
    let new = sealed(&mut verifier, &last);
    // Neither unit of the first block is whole; that at 4096 has the last block's number in most of its parts.
    assert!(verifier.check(&cut, &old));
    assert_eq!(verifier.result.checked, 0);
    assert!(verifier.check(&last, &new) && verifier.check(&kept, &whole));
    assert_eq!(verifier.result.checked, 4);
    assert_eq!(verifier.ranges(8192), [(0, 5120, 8192), (0, 20480, 8192)]);
    assert!(!verifier.check(&last, &whole));
    assert!(verifier.into_written().is_none());
}

#[test]
fn a_block_shorter_than_a_unit_is_not_checked() {
    let mut verifier = verifier(Checksum::Crc32c);
    let short = Op {
        length: 6144,
        ..write(0, 8192)
    };
    let block = sealed(&mut verifier, &short);
    assert_eq!(verifier.ranges(8192), [(0, 8192, 4096)]);
    assert!(verifier.check(&short, &block));
    assert_eq!(verifier.result.checked, 1);
}

#[test]
fn a_trimmed_unit_is_zero_or_not_checked() {
    for (check_zero, bad, ranges) in [(true, 1, 3), (false, 0, 2)] {
        let mut verifier = verifier(Checksum::Crc32c);
        verifier.rule.trim = Some(VerifyTrim {
            percent: 50,
            backlog: 1,
            batch: 1,
            check_zero,
        });
        let (trimmed, kept, again) = (write(0, 0), write(0, 8192), write(0, 16384));
        let old = sealed(&mut verifier, &trimmed);
        sealed(&mut verifier, &kept);
        sealed(&mut verifier, &again);
        verifier.trimmed(&trimmed);
        verifier.trimmed(&again);
        let new = sealed(&mut verifier, &again);
        assert_eq!(verifier.ranges(8192).len(), ranges);
        assert!(verifier.check(&trimmed, &[0; 8192]));
        assert!(verifier.check(&again, &new));
        assert_eq!(verifier.result.bad(), 0);
        let mut remains = vec![0; 8192];
        remains[..4096].copy_from_slice(&old[..4096]);
        assert_eq!(verifier.check(&trimmed, &remains), !check_zero);
        assert_eq!(verifier.result.corrupt, bad);
        let written = verifier.into_written().unwrap();
        assert_eq!(written.sequences[0][..6], [0, 0, 2, 2, 4, 4]);
    }
}

#[test]
fn distinguishes_each_kind_of_damage() {
    for checksum in [Checksum::Crc32c, Checksum::Xxhash64] {
        let mut verifier = verifier(checksum);
        let (here, there) = (write(0, 0), write(0, 65536));
        let old = sealed(&mut verifier, &here);
        let new = sealed(&mut verifier, &here);
        let other = sealed(&mut verifier, &there);
        let mut torn = new.clone();
        torn[4096 - 100..4096].copy_from_slice(&old[..100]);
        assert!(!verifier.check(&here, &torn));
        assert_eq!(verifier.result.corrupt, 1);
        assert!(!verifier.check(&here, &old));
        assert_eq!(verifier.result.stale, 2);
        assert!(!verifier.check(&here, &other));
        assert_eq!(verifier.result.misplaced, 2);
        assert!(!verifier.check(&here, &[0; 8192]));
        assert_eq!(verifier.result.foreign, 2);
        assert!(verifier.check(&here, &new));
        assert!(
            verifier
                .result
                .first
                .as_ref()
                .unwrap()
                .contains("a at offset 0")
        );
    }
}

#[test]
fn another_clone_s_write_is_stale_unless_the_sequence_is_not_checked() {
    for check_sequence in [true, false] {
        let clone = || {
            let rule = Verify {
                check_sequence,
                ..Verify::default()
            };
            Verifier::new(rule, WRITER, (4096, 4096), &[("a", 0, 1 << 20)], 4)
        };
        let (mut first, mut second) = (clone(), clone());
        sealed(&mut second, &write(0, 65536));
        let own = sealed(&mut first, &write(0, 0));
        let other = sealed(&mut second, &write(0, 0));
        assert!(first.check(&write(0, 0), &own));
        assert_eq!(first.check(&write(0, 0), &other), !check_sequence);
        assert_eq!(first.result.stale, if check_sequence { 2 } else { 0 });
        // A misplaced unit is always reported.
        let elsewhere = sealed(&mut second, &write(0, 65536));
        assert!(!first.check(&write(0, 0), &elsewhere));
    }
}

/// A clone of the trial of this identity, on one file.
fn of_trial(trial: u64, rule: Verify) -> Verifier {
    let writer = Writer { trial, ..WRITER };
    Verifier::new(rule, writer, (4096, 4096), &[("a", 0, 1 << 20)], 4)
}

#[test]
fn an_equal_block_of_an_earlier_trial_is_stale() {
    let op = write(0, 16384);
    let (mut earlier, mut now) = (
        of_trial(77, Verify::default()),
        of_trial(78, Verify::default()),
    );
    let old = sealed(&mut earlier, &op);
    let new = sealed(&mut now, &op);
    assert!(now.check(&op, &new));
    assert!(!now.check(&op, &old));
    assert_eq!(now.result.stale, 2);
    // Units that this trial did not write may belong to any trial.
    let elsewhere = write(0, 65536);
    let other = sealed(&mut earlier, &elsewhere);
    assert!(now.check(&elsewhere, &other));
}

#[test]
fn only_the_recorded_write_is_expected() {
    let (first, second) = (write(0, 0), write(0, 8192));
    let mut writer = of_trial(77, Verify::default());
    let lost = sealed(&mut writer, &first);
    let kept = sealed(&mut writer, &second);
    let current = sealed(&mut writer, &first);
    let written = writer.into_written().unwrap();
    assert_eq!(
        (written.unit, &written.sequences[0][..5]),
        (4096, &[3, 3, 2, 2, 0][..])
    );
    let unit = |sequence: &u32| match *sequence {
        0 => RecordedUnit::Unwritten,
        sequence => RecordedUnit::Written {
            writer: 0,
            sequence,
        },
    };
    let record = RecordedBlocks {
        unit: written.unit,
        writers: recorded("a"),
        units: written.sequences[0].iter().map(unit).collect(),
    };
    let only = Verify {
        only: true,
        ..Verify::default()
    };
    let mut checker = of_trial(90, only.clone());
    checker.expect_recorded(std::slice::from_ref(&record));
    assert!(checker.check(&first, &current) && checker.check(&second, &kept));
    assert_eq!(checker.result.checked, 4);
    assert!(!checker.check(&first, &lost));
    assert_eq!(checker.result.stale, 2);
    // Unwritten units are not checked, and unrecorded ones only by their headers.
    assert!(checker.check(&write(0, 32768), &[0; 8192]));
    assert_eq!((checker.result.checked, checker.result.unchecked), (6, 2));
    let mut unrecorded = of_trial(90, only);
    assert!(unrecorded.check(&first, &lost) && unrecorded.into_written().is_none());
}

fn recorded(name: &str) -> Vec<RecordedWriter> {
    let name = name.to_owned();
    vec![RecordedWriter { trial: 77, name }]
}

/// Files that have other names than when they were written are accepted by their record, and blocks of another file
/// are not.
#[test]
fn a_renamed_file_is_known_by_its_record() {
    let op = write(0, 0);
    let headers = [
        iodyno_model::HeaderFormat::Iodyno,
        iodyno_model::HeaderFormat::Fio,
    ];
    for header in headers {
        let rule = Verify {
            header,
            ..Verify::default()
        };
        let named = |trial: u64, names: &[(&str, u64, u64)]| {
            let writer = Writer { trial, ..WRITER };
            Verifier::new(rule.clone(), writer, (4096, 4096), names, 4)
        };
        let block = sealed(&mut named(77, &[("a", 0, 1 << 20)]), &op);
        let other = sealed(&mut named(77, &[("other", 0, 1 << 20)]), &op);
        let mut checker = named(90, &[("new", 0, 1 << 20), ("other", 0, 1 << 20)]);
        assert!(checker.check(&op, &block), "{:?}", checker.result);
        let sequence = 1;
        let writer = 0;
        checker.expect_recorded(&[RecordedBlocks {
            unit: 4096,
            writers: recorded("a"),
            units: vec![RecordedUnit::Written { writer, sequence }; 2],
        }]);
        assert!(checker.check(&op, &block), "{:?}", checker.result);
        assert!(!checker.check(&op, &other));
        assert_eq!(checker.result.misplaced, 2, "{:?}", checker.result);
    }
}

#[test]
fn a_block_whose_write_failed_is_counted_and_not_checked() {
    for backlog in [false, true] {
        let mut verifier = verifier(Checksum::Crc32c);
        if backlog {
            verifier.note_checks();
        }
        let (failed, good) = (write(0, 8192), write(0, 0));
        sealed(&mut verifier, &good);
        verifier.forget(&failed);
        assert_eq!(verifier.ranges(1 << 20), [(0, 0, 8192)]);
        assert_eq!(verifier.result.unchecked, 2);
        // A second pass does not count them again.
        verifier.ranges(1 << 20);
        assert_eq!(verifier.result.unchecked, if backlog { 2 } else { 4 });
        // A later check by the record: neither torn nor missing data are a bad block.
        let written = verifier.into_written().unwrap();
        assert_eq!(written.sequences[0][2], WrittenBlocks::FAILED);
        let only = Verify {
            only: true,
            ..Verify::default()
        };
        let mut checker = of_trial(90, only);
        checker.expect_recorded(&[RecordedBlocks {
            unit: 4096,
            writers: Vec::new(),
            units: vec![
                RecordedUnit::Unknown,
                RecordedUnit::Unknown,
                RecordedUnit::Failed,
            ],
        }]);
        let one = Op {
            length: 4096,
            ..failed
        };
        assert!(checker.check(&one, &[7; 4096]));
        assert_eq!((checker.result.checked, checker.result.unchecked), (0, 1));
    }
}

#[test]
fn blocks_of_the_first_version_can_be_checked() {
    let op = write(0, 0);
    let mut writer = of_trial(77, Verify::default());
    let mut old = sealed(&mut writer, &op);
    for unit in old.chunks_mut(4096) {
        unit[..8].copy_from_slice(b"iodynoB1");
        let checksum = own_checksum(&writer.rule.checksum, unit);
        unit[40..48].copy_from_slice(&checksum.to_le_bytes());
    }
    let only = Verify {
        only: true,
        ..Verify::default()
    };
    assert!(of_trial(78, only).check(&op, &old));
    assert!(!writer.check(&op, &old));
}

#[test]
fn a_block_with_another_checksum_names_the_fitting_option() {
    let op = write(0, 0);
    for (written, read, option) in [
        (Checksum::Crc32c, Checksum::Xxhash64, "verify=crc32c"),
        (Checksum::Xxhash64, Checksum::Crc32c, "verify=xxhash64"),
        (Checksum::Crc32c, Checksum::HeaderOnly, "verify=crc32c"),
    ] {
        let mut block = sealed(&mut verifier(written), &op);
        let mut reader = verifier(read.clone());
        assert!(!reader.check(&op, &block));
        let fitting = |reader: &Verifier| reader.result.bad_blocks[0].fitting.clone();
        assert_eq!(fitting(&reader).as_deref(), Some(option));
        // A damaged block fits no option.
        block[100] ^= 1;
        let mut reader = verifier(read);
        assert!(!reader.check(&op, &block));
        assert_eq!(fitting(&reader), None);
    }
}

#[test]
fn a_failed_write_leaves_its_blocks_unchecked() {
    let mut verifier = verifier(Checksum::Crc32c);
    let op = write(0, 0);
    sealed(&mut verifier, &op);
    verifier.forget(&op);
    assert_eq!(verifier.ranges(1 << 20), []);
}

#[test]
fn every_flipped_bit_is_detected() {
    let mut verifier = verifier(Checksum::Crc32c);
    let op = write(0, 0);
    let buffer = sealed(&mut verifier, &op);
    for bit in (0..8192 * 8).step_by(7) {
        let mut damaged = buffer.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!verifier.check(&op, &damaged), "bit {bit}");
    }
}

#[test]
fn ranges_skip_unwritten_units() {
    let mut verifier = verifier(Checksum::Crc32c);
    for offset in [0, 8192, 65536] {
        sealed(&mut verifier, &write(0, offset));
    }
    assert_eq!(
        verifier.ranges(12288),
        [(0, 0, 8192), (0, 8192, 8192), (0, 65536, 8192)]
    );
}
