//! The encoding of records as blobs.
//!
//! The first byte names the encoding, the rest is the payload:
//!
//! | byte | payload |
//! |---|---|
//! | 1 | JSON |
//! | 2 | JSON in a zlib stream |
//! | 3 | as 2, of packed telemetry (`segment`) |
//!
//! Bytes of a frame with two directions, latencies log-normal with σ = 0.3:
//!
//! | ops | JSON | deflated |
//! |---|---|---|
//! | 200 | 900 | 540 |
//! | 13 000 | 9 700 | 3 400 |
//! | 184 000 | 15 300 | 6 900 |
//!
//! The rest is the counts of about a thousand bins: they are noise and do not compress. zstd saves 2 % compared to
//! zlib. Storing gaps and counts separately saves 24 %, which does not justify a second description of the histogram.

use std::io::{BufReader, BufWriter, Read, Write};

use iodyno_model::TelemetryBatch;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::segment::Segment;
use crate::zlib::{Deflater, Inflater};

const JSON: u8 = 1;
const DEFLATED_JSON: u8 = 2;
const DEFLATED_SEGMENT: u8 = 3;

/// Level 6 takes two to four times as long and gains 5 to 10 %.
const LEVEL: u8 = 2;

/// Compression level of packed telemetry: no caller waits for it, and it is kept for years.
const SEGMENT_LEVEL: u8 = 6;

/// Maximum size of a decoded blob, bytes. A trial of 1000 clones with full histograms is below 100 MB; a larger blob
/// is damaged.
const LARGEST: usize = 1 << 30;

/// [`decode_large`] decodes blobs from this size on while it inflates them, bytes. Decoding a text that is in memory
/// takes about half as long, but that text has ten to thirty times the size of the blob.
const LARGE: usize = 1 << 20;

/// A large blob can be decoded to this multiple of its size, and to at least [`LARGEST`].
const MAX_TIMES: usize = 100;

/// Encodes a record. Its JSON is deflated as it is made, and is not held in memory.
pub(crate) fn encode(record: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut deflated = BufWriter::new(Deflater::new(vec![DEFLATED_JSON], LEVEL));
    // One kind of writer in this crate: each further one compiles all of `model` again.
    serde_json::to_writer(&mut deflated as &mut dyn Write, record)?;
    let deflater = deflated.into_inner().map_err(|error| error.into_error());
    deflater
        .and_then(Deflater::finish)
        .map_err(serde_json::Error::io)
}

/// A record as JSON.
pub(crate) fn text(record: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    serde_json::to_writer(&mut text as &mut dyn Write, record)?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// A record as a document.
pub(crate) fn document(record: &impl Serialize) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(text(record)?.as_bytes())
}

/// The record of a document. It is read as text is: each further kind of reader compiles all of `model` again.
pub(crate) fn of_document<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    serde_json::from_slice(text(value)?.as_bytes())
}

/// Decodes a record. Its text is held in memory.
///
/// # Errors
/// What is wrong with the blob, as text.
pub(crate) fn decode<T: DeserializeOwned>(blob: &[u8]) -> Result<T, String> {
    match blob.split_first() {
        Some((&JSON, text)) => json(text),
        Some((&DEFLATED_JSON, stream)) => inflated(stream),
        Some((other, _)) => Err(format!("encoding {other} is unknown")),
        None => Err("it is empty".to_owned()),
    }
}

/// Encodes batches of telemetry. Several batches are packed.
pub(crate) fn encode_telemetry(batches: &[TelemetryBatch]) -> Result<Vec<u8>, serde_json::Error> {
    if let [alone] = batches {
        return encode(alone);
    }
    let text = text(&Segment::of(batches))?;
    let mut blob = vec![DEFLATED_SEGMENT];
    blob.extend(compress_to_vec_zlib(text.as_bytes(), SEGMENT_LEVEL));
    Ok(blob)
}

/// Decodes batches of telemetry, as [`decode`] does.
pub(crate) fn decode_telemetry(blob: &[u8]) -> Result<Vec<TelemetryBatch>, String> {
    match blob.split_first() {
        Some((&DEFLATED_SEGMENT, stream)) => inflated::<Segment>(stream)?.batches(),
        _ => Ok(vec![decode(blob)?]),
    }
}

/// Whether the blob holds more than one batch of telemetry.
pub(crate) fn is_segment(blob: &[u8]) -> bool {
    blob.first() == Some(&DEFLATED_SEGMENT)
}

/// Decodes a record that can be large, as [`decode`] does. The text of a large one is not held in memory.
pub(crate) fn decode_large<T: DeserializeOwned>(blob: &[u8]) -> Result<T, String> {
    match blob.split_first() {
        Some((&DEFLATED_JSON, stream)) if stream.len() >= LARGE => {
            let most = LARGEST.max(stream.len().saturating_mul(MAX_TIMES));
            let text = BufReader::with_capacity(1 << 16, Inflater::new(stream)).take(most as u64);
            serde_json::from_reader(text).map_err(|error| error.to_string())
        }
        _ => decode(blob),
    }
}

fn inflated<T: DeserializeOwned>(stream: &[u8]) -> Result<T, String> {
    let most = LARGEST.max(stream.len().saturating_mul(MAX_TIMES));
    let text = decompress_to_vec_zlib_with_limit(stream, most);
    json(&text.map_err(|error| error.to_string())?)
}

fn json<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{Direction, DirectionFrame, Frame, Histogram, JobFrame, Step};
    use proptest::prelude::*;
    use rand_distr::{Distribution, LogNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn frame(reads: u64, writes: u64) -> Frame {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let law = LogNormal::new(320_000f64.ln(), 0.3).unwrap();
        let mut done = |direction, ops| DirectionFrame {
            direction,
            ops,
            bytes: ops * 4096,
            errors: 0,
            service: (0..ops)
                .map(|_| law.sample(&mut random) as u64)
                .collect::<Histogram>(),
            response: None,
        };
        Frame {
            node: String::new(),
            number: 17,
            start_ns: 17_000_000_123,
            end_ns: 18_000_000_456,
            step: Step::Measure,
            cpu_ns: 1_234_567_890,
            jobs: vec![JobFrame {
                job: 0,
                running: 4,
                directions: vec![done(Direction::Read, reads), done(Direction::Write, writes)],
            }],
        }
    }

    #[test]
    fn a_frame_stays_small() {
        for (reads, writes, most) in [
            (150, 50, 700),
            (10_000, 3_000, 3500),
            (138_000, 46_000, 7500),
        ] {
            let frame = frame(reads, writes);
            let blob = encode(&frame).unwrap();
            assert!(
                blob.len() <= most,
                "{reads} and {writes} ops: {} bytes",
                blob.len()
            );
            assert_eq!(decode::<Frame>(&blob).unwrap(), frame);
        }
    }

    #[test]
    fn plain_json_is_read_as_well() {
        assert_eq!(decode::<Vec<u32>>(b"\x01[1,2]").unwrap(), [1, 2]);
    }

    #[test]
    fn an_unknown_encoding_is_reported_with_its_number() {
        assert!(decode::<u32>(b"\x091").unwrap_err().contains('9'));
        assert!(decode::<u32>(b"").is_err());
    }

    /// True for each bit of this blob. Adler-32 does not guarantee it for every blob: see the tests of `segment`.
    #[test]
    fn a_changed_bit_is_detected_or_has_no_effect() {
        let frame = frame(20, 5);
        let blob = encode(&frame).unwrap();
        for bit in 0..blob.len() * 8 {
            let mut changed = blob.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // Some bits of a zlib stream, such as the padding of its last byte, carry no information.
            if let Ok(read) = decode::<Frame>(&changed) {
                assert_eq!(read, frame, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_large_blob_is_decoded_and_its_errors_are_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let law = LogNormal::new(10.0, 3.0).unwrap();
        let numbers: Vec<f64> = (0..200_000).map(|_| law.sample(&mut random)).collect();
        let blob = encode(&numbers).unwrap();
        assert!(blob.len() > LARGE, "{}", blob.len());
        assert_eq!(decode::<Vec<f64>>(&blob).unwrap(), numbers);
        assert!(decode::<Vec<f64>>(&blob[..blob.len() - 1]).is_err());
        assert!(decode::<Vec<f64>>(&blob[..blob.len() - 100]).is_err());
        for byte in [blob.len() / 2, blob.len() - 1] {
            let mut changed = blob.clone();
            changed[byte] ^= 1;
            assert!(decode::<Vec<f64>>(&changed).is_err(), "byte {byte}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_without_panic(blob in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode::<Frame>(&blob);
        }
    }
}
