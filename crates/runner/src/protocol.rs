//! What parent and child say to one another, and how it is framed.
//!
//! A message is a length (u32, little-endian) and so many bytes of JSON. Both begin with `Hello`; a
//! peer of another version is told apart there, and nothing else is said to it. A length beyond the
//! cap is an error before any memory is taken for it.

use std::io::{self, Read, Write};

use iodyno_model::{
    BoundPlan, Diagnostic, Environment, Frame, Outcome, Part, Step, TelemetryBatch,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the protocol; both ends must speak the same.
pub const PROTOCOL: u32 = 2;

/// No message is longer, bytes. A part of a thousand clones with wide histograms has some 100 MB.
const LONGEST: u32 = 512 << 20;

/// Parent → child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum ToNode {
    /// First.
    Hello { version: u32 },
    /// Make everything ready.
    Prepare { plan: Box<BoundPlan> },
    /// Begin at this instant of the node's CLOCK_MONOTONIC, ns; at once if it has passed.
    StartAt { instant: u64 },
    /// End early and keep what was measured.
    Finish,
    /// Cancel what is in flight and end.
    Abort,
}

/// Child → parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum FromNode {
    /// First.
    Hello {
        version: u32,
        /// iodyno's own version.
        iodyno: String,
        pid: u32,
    },
    /// Of a long step.
    Progress { step: Step, done: u64, total: u64 },
    /// Everything is ready to start.
    Ready {
        environment: Box<Environment>,
        notes: Vec<String>,
    },
    /// The guard refused a target. The last word.
    Refused { diagnostics: Vec<Diagnostic> },
    /// It could not be made ready. The last word.
    Unprepared { diagnostics: Vec<Diagnostic> },
    /// It was told to end before it began. The last word.
    Withdrawn,
    /// The jobs begin.
    Started { unix_ms: u64 },
    /// A second of it.
    Frame { frame: Frame },
    /// What the host did meanwhile.
    Telemetry { batch: TelemetryBatch },
    /// Everything measured. The last word.
    Part { part: Box<Part>, outcome: Outcome },
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer closed its end between two messages.
    #[error("end of input")]
    End,
    /// … or within one.
    #[error("the input ends within a message")]
    CutOff,
    /// Not a length that a message can have.
    #[error("a message of {0} bytes is announced; at most {LONGEST} are possible")]
    Length(u32),
    /// Not what it should be.
    #[error("a message cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The pipe broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes one message and flushes.
pub(crate) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message of {} bytes is too long", body.len()),
            )
        })?;
    tracing::trace!(kind = kind(&body), bytes = length, "sent");
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&body)?;
    to.flush()
}

/// Reads one message; waits for it.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, ReadError> {
    let mut length = [0; 4];
    match fill(from, &mut length)? {
        0 => return Err(ReadError::End),
        4 => {}
        _ => return Err(ReadError::CutOff),
    }
    let length = u32::from_le_bytes(length);
    if length == 0 || length > LONGEST {
        return Err(ReadError::Length(length));
    }
    // Memory grows with what arrives, not with what was announced.
    let mut body = Vec::new();
    from.take(length.into()).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(ReadError::CutOff);
    }
    tracing::trace!(kind = kind(&body), bytes = length, "received");
    Ok(serde_json::from_slice(&body)?)
}

/// The kind of a message, for the log: the value of its first key.
fn kind(body: &[u8]) -> &str {
    let text = str::from_utf8(body).unwrap_or_default();
    text.split('"').nth(3).unwrap_or_default()
}

/// Fills as much as there is; less only at the end of input.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(messages: &[FromNode]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            write(&mut bytes, message).unwrap();
        }
        bytes
    }

    fn samples() -> Vec<FromNode> {
        vec![
            FromNode::Hello {
                version: PROTOCOL,
                iodyno: "0.1.0".into(),
                pid: 7,
            },
            FromNode::Progress {
                step: Step::LayOut,
                done: 1,
                total: 2,
            },
            FromNode::Refused {
                diagnostics: vec![Diagnostic::error("no").hint("do")],
            },
            FromNode::Frame {
                frame: Frame {
                    number: 3,
                    start_ns: 0,
                    end_ns: u64::MAX,
                    step: Step::Measure,
                    cpu_ns: 9,
                    jobs: Vec::new(),
                },
            },
            FromNode::Withdrawn,
        ]
    }

    #[test]
    fn messages_follow_one_another_and_then_the_input_ends() {
        let bytes = bytes(&samples());
        let mut rest = bytes.as_slice();
        for message in samples() {
            assert_eq!(read::<FromNode>(&mut rest).unwrap(), message);
        }
        assert!(matches!(read::<FromNode>(&mut rest), Err(ReadError::End)));
    }

    #[test]
    fn an_impossible_length_takes_no_memory() {
        for length in [0, LONGEST + 1, u32::MAX] {
            let mut input = length.to_le_bytes().to_vec();
            input.extend([b'{'; 64]);
            let error = read::<FromNode>(&mut input.as_slice()).unwrap_err();
            assert!(matches!(error, ReadError::Length(found) if found == length));
        }
        let mut input = LONGEST.to_le_bytes().to_vec();
        input.extend(b"{}");
        let error = read::<FromNode>(&mut input.as_slice()).unwrap_err();
        assert!(matches!(error, ReadError::CutOff));
    }

    proptest! {
        #[test]
        fn a_cut_message_is_an_error(cut in 1usize..60) {
            let whole = bytes(&samples()[..1]);
            let cut = cut.min(whole.len() - 1);
            let error = read::<FromNode>(&mut &whole[..cut]).unwrap_err();
            prop_assert!(matches!(error, ReadError::CutOff));
        }

        #[test]
        fn damage_gives_an_error_or_another_message_but_never_a_panic(
            place in 0usize..500, value in any::<u8>()
        ) {
            let mut damaged = bytes(&samples());
            let place = place % damaged.len();
            damaged[place] = value;
            let mut rest = damaged.as_slice();
            for _ in 0..samples().len() {
                if read::<FromNode>(&mut rest).is_err() {
                    break;
                }
            }
        }

        #[test]
        fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read::<ToNode>(&mut noise.as_slice()).is_err());
        }
    }
}
