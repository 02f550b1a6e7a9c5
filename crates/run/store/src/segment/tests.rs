//! Packed telemetry is read back unchanged, and is small.

use iodyno_model::{SeriesKind, SeriesRow};
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;
use proptest::prelude::*;

use super::host::Host;
use super::*;
use crate::blob::{decode_telemetry, encode, encode_telemetry, is_segment};

/// Segments of batches.
fn segments(batches: impl Iterator<Item = TelemetryBatch>) -> Vec<Vec<TelemetryBatch>> {
    let mut packer = Packer::default();
    let mut segments = Vec::new();
    for batch in batches {
        if let Err(batch) = packer.add(batch) {
            segments.push(packer.take());
            packer.add(batch).unwrap();
        }
    }
    segments.push(packer.take());
    segments
}

#[test]
fn an_hour_of_a_host_is_small() {
    // CPUs, interrupt sources, seconds, maximum bytes per second: deflated, packed.
    for (cpus, sources, seconds, most) in [
        (2, 31, 3600, [350, 70]),
        (8, 60, 1200, [530, 150]),
        (64, 500, 80, [3200, 1900]),
    ] {
        let mut host = Host::new(cpus, sources);
        let all: Vec<TelemetryBatch> = (0..seconds).map(|number| host.second(number)).collect();
        let json: usize = all
            .iter()
            .map(|one| serde_json::to_vec(one).unwrap().len())
            .sum();
        let deflated: usize = all.iter().map(|one| encode(one).unwrap().len()).sum();
        let mut together = 0;
        for segment in segments(all.into_iter()) {
            let blob = encode_telemetry(&segment).unwrap();
            assert!(is_segment(&blob));
            assert_eq!(decode_telemetry(&blob).unwrap(), segment);
            together += blob.len();
        }
        let sizes = [json, deflated, together].map(|bytes| bytes / seconds as usize);
        let words = format!("{cpus} CPUs, {sources} sources: {sizes:?} bytes a second");
        assert!(sizes[1] <= most[0] && sizes[2] <= most[1], "{words}");
    }
}

#[test]
fn a_segment_is_bounded_and_independent_of_the_size_of_batches() {
    let mut host = Host::new(2, 31);
    let all: Vec<TelemetryBatch> = (0..2000).map(|number| host.second(number)).collect();
    let once = segments(all.iter().cloned());
    let lengths: Vec<usize> = once.iter().map(Vec::len).collect();
    assert_eq!(
        lengths,
        [455, 455, 455, 455, 180],
        "eight samples, and one per batch"
    );
    let last = once[1..].concat();
    assert_eq!(segments(last.into_iter()), once[1..]);

    let mut large = Host::new(64, 500);
    let lengths: Vec<usize> = segments((0..70).map(|number| large.second(number)))
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(lengths, [32, 32, 6], "a million values");
}

#[test]
fn spans_that_follow_from_the_times_are_not_stored_even_if_the_shape_changes() {
    let second = |number: i64, shape| Sample {
        span_ns: 1_000_000_000,
        ..sample(shape, number * 1_000_000_000, vec![Some(1)])
    };
    let segment = Segment::of(&[
        batch(0, vec![second(1, 0), second(1, 1)]),
        batch(1, vec![second(2, 0), second(2, 1)]),
        batch(2, vec![second(3, 0), second(3, 2)]),
        batch(3, vec![second(4, 0), second(4, 1)]),
    ]);
    let text = serde_json::to_string(&segment).unwrap();
    // A shape that appears again continues its table.
    let rest = r#""beyond_ns":{"unit":1000000000,"values":[0,0,0,0,0,0,0,-1]}"#;
    assert!(text.contains(rest), "{text}");
}

#[test]
fn a_batch_that_is_too_large_for_a_segment_is_not_packed() {
    let sample = |values| Sample {
        shape: 0,
        at_ns: 1,
        span_ns: 1,
        values: vec![Some(3); values],
    };
    let batch = |number, values| TelemetryBatch {
        number,
        telemetry: Telemetry {
            samples: vec![sample(values)],
            ..Telemetry::default()
        },
    };
    let batches = [
        batch(0, 1),
        batch(1, MAX_VALUES + 1),
        batch(2, 1),
        batch(3, 1),
    ];
    let segments = segments(batches.into_iter());
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
    let blob = encode_telemetry(&segments[1]).unwrap();
    assert!(!is_segment(&blob), "as it was appended");
    assert!(decode_telemetry(&blob).unwrap() == segments[1]);
}

#[test]
fn inconsistent_segments_are_refused_with_a_reason() {
    let whole = serde_json::to_string(&Segment::of(&[
        batch(
            3,
            vec![sample(0, 1, vec![Some(1)]), sample(1, 2, vec![None])],
        ),
        batch(4, vec![sample(0, 3, vec![Some(2)])]),
    ]));
    let whole = whole.unwrap();
    let check = |from: &str, to: &str, words: &str| {
        assert!(whole.contains(from), "`{from}` in {whole}");
        let text = whole.replacen(from, to, 1);
        let message = match serde_json::from_str::<Segment>(&text) {
            Err(error) => error.to_string(),
            Ok(segment) => segment.batches().unwrap_err(),
        };
        assert!(message.contains(words), "{text}: {message}");
    };
    check(r#""batches":2"#, r#""batches":1000000000000"#, "too many");
    check(r#""batches":2"#, r#""batches":-2"#, "invalid value");
    let samples_in = r#""samples_in":{"values":[2,1]}"#;
    check(samples_in, r#""samples_in":{"values":[4096]}"#, "too many");
    check(
        samples_in,
        r#""samples_in":{"values":[-1]}"#,
        "a count in it is none",
    );
    check(
        samples_in,
        r#""samples_in":{"values":[null]}"#,
        "a count in it is none",
    );
    check(
        r#""shapes_in":{}"#,
        r#""shapes_in":{"values":[1]}"#,
        "other shapes or gaps",
    );
    check(
        r#""numbers":{"values":[3,4]}"#,
        r#""numbers":{"values":[4294967296]}"#,
        "the number of a batch is too large",
    );
    check(
        r#""tables_of":{"values":[0,1,0]}"#,
        r#""tables_of":{"values":[0,2,0]}"#,
        "a sample has no table",
    );
    check(r#""at_ns":{"#, r#""at_ns":{"unit":null,"#, "null");
    check(r#""tables":["#, r#""tabels":["#, "tabels");
    let many = format!(r#""values":[{}{{"#, "{},".repeat(MAX_VALUES));
    check(r#""values":[{"#, &many, "too many");
}

fn sample(shape: u32, at_ns: i64, values: Vec<Option<u64>>) -> Sample {
    Sample {
        shape,
        at_ns,
        span_ns: 1,
        values,
    }
}

fn batch(number: u32, samples: Vec<Sample>) -> TelemetryBatch {
    TelemetryBatch {
        number,
        telemetry: Telemetry {
            samples,
            ..Telemetry::default()
        },
    }
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let value = prop_oneof![
        Just(None),
        Just(Some(0)),
        (0u64..9).prop_map(Some),
        any::<u64>().prop_map(Some),
    ];
    let values = prop::collection::vec(value, 0..4);
    (0u32..3, any::<i64>(), any::<u64>(), values).prop_map(|(shape, at_ns, span_ns, values)| {
        Sample {
            shape,
            at_ns,
            span_ns,
            values,
        }
    })
}

fn any_batches() -> impl Strategy<Value = Vec<TelemetryBatch>> {
    let shape =
        (0u32..9, prop::option::of("[a-z ]{0,9}")).prop_map(|(number, because)| SeriesShape {
            node: String::new(),
            kind: SeriesKind::Disk,
            number,
            subjects: vec![SeriesRow::new("vda")],
            columns: Vec::new(),
            because,
        });
    let gap = (any::<i64>(), "\\PC{0,9}").prop_map(|(at_ns, reason)| SeriesGap {
        node: String::new(),
        kind: SeriesKind::Pool,
        at_ns,
        reason,
    });
    let batch = (
        1u32..900_000_000,
        prop::collection::vec(shape, 0..3),
        prop::collection::vec(any_sample(), 0..6),
        prop::collection::vec(gap, 0..3),
    );
    prop::collection::vec(batch, 2..5).prop_map(|batches| {
        let mut number = 0;
        let batch = |(further, shapes, samples, gaps)| {
            number += further;
            let telemetry = Telemetry {
                shapes,
                samples,
                gaps,
            };
            TelemetryBatch { number, telemetry }
        };
        batches.into_iter().map(batch).collect()
    })
}

/// The start of the compressed text in a blob: after the encoding and the header of zlib.
const TEXT_AT: usize = 3;

/// The text of a blob, its checksum not verified.
fn text_of(blob: &[u8]) -> Vec<u8> {
    decompress_to_vec(&blob[TEXT_AT..]).unwrap()
}

/// The checksum at the end of a zlib stream (RFC 1950).
fn adler32(text: &[u8]) -> u32 {
    let (low, high) = text.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

proptest! {
    #[test]
    fn any_batches_are_decoded_unchanged(batches in any_batches()) {
        let blob = encode_telemetry(&batches).unwrap();
        prop_assert_eq!(decode_telemetry(&blob).unwrap(), batches);
    }

    /// A changed bit of the compressed data can change several bytes of the text; Adler-32 detects most such errors,
    /// but not all. A different text can therefore be accepted, but only if its checksum is right.
    #[test]
    fn a_changed_bit_is_detected_unless_the_checksum_still_matches(
        batches in any_batches(), at in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let blob = encode_telemetry(&batches).unwrap();
        let at = at.index(blob.len());
        let mut changed = blob.clone();
        changed[at] ^= 1 << bit;
        if let Ok(read) = decode_telemetry(&changed) {
            let text = text_of(&changed);
            if text == text_of(&blob) {
                prop_assert_eq!(read, batches);
            } else {
                let checksum = adler32(&text).to_be_bytes();
                prop_assert!(changed.windows(4).any(|bytes| bytes == checksum));
            }
        }
    }

    /// Adler-32 detects every change of one byte.
    #[test]
    fn a_changed_byte_of_the_text_or_its_checksum_is_detected(
        batches in any_batches(), at in any::<prop::sample::Index>(), by in 1u8..
    ) {
        let blob = encode_telemetry(&batches).unwrap();
        let (stream, checksum) = blob.split_at(blob.len() - 4);
        let text = text_of(&blob);
        prop_assert_eq!(checksum, adler32(&text).to_be_bytes());
        let at = at.index(text.len() + 4);
        let changed = match at.checked_sub(text.len()) {
            Some(at) => {
                let mut checksum = checksum.to_vec();
                checksum[at] ^= by;
                [stream, &checksum].concat()
            }
            None => {
                let mut text = text;
                text[at] ^= by;
                [&stream[..TEXT_AT], &compress_to_vec(&text, 6), checksum].concat()
            }
        };
        prop_assert!(decode_telemetry(&changed).is_err());
    }

    #[test]
    fn arbitrary_numbers_in_a_segment_are_refused_or_read_without_panic(
        batches in any_batches(), at in any::<prop::sample::Index>(), digit in "[0-9-]"
    ) {
        let mut text = serde_json::to_string(&Segment::of(&batches)).unwrap();
        let digits: Vec<usize> =
            text.char_indices().filter(|(_, one)| one.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = digits[at.index(digits.len())];
        text.replace_range(at..=at, &digit);
        if let Ok(segment) = serde_json::from_str::<Segment>(&text) {
            let _ = segment.batches();
        }
    }
}
