//! The features that transports negotiate with the kernel, in addition to those of the server.

use super::protocol::{HEADER, REPLY_HEADER, u32_at};

/// Flags of `INIT`: there are more flags in a second word; the kernel collects writes.
const EXTENDED: u32 = 1 << 30;
const WRITEBACK: u32 = 1 << 16;
/// Flags in the second word.
const PASSTHROUGH: u32 = 1 << 5;
const IO_URING: u32 = 1 << 9;
/// Offsets of the words in the request and in the reply.
const OFFERED: usize = HEADER + 12;
const OFFERED_MORE: usize = HEADER + 16;
const AGREED: usize = REPLY_HEADER + 12;
const AGREED_MORE: usize = REPLY_HEADER + 32;
const STACKED: usize = REPLY_HEADER + 36;

/// The negotiated features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) io_uring: bool,
    pub(super) passthrough: bool,
}

/// Adds the wanted and offered features to the reply to an `INIT`. `None`: the reply does not accept a protocol
/// version.
pub(super) fn agree(request: &[u8], reply: &mut [u8], wanted: Agreed) -> Option<Agreed> {
    let complete = u32_at(reply, 0)? as usize >= STACKED + 4 && reply.len() >= STACKED + 4;
    let refused = u32_at(reply, 4)? != 0 || u32_at(reply, REPLY_HEADER) != u32_at(request, HEADER);
    if !complete || refused {
        return None;
    }
    let extended = u32_at(request, OFFERED)? & EXTENDED != 0;
    let offered = match extended {
        true => u32_at(request, OFFERED_MORE).unwrap_or(0),
        false => 0,
    };
    let (mut agreed, mut more) = (u32_at(reply, AGREED)?, u32_at(reply, AGREED_MORE)?);
    let found = Agreed {
        io_uring: wanted.io_uring && offered & IO_URING != 0,
        // The kernel does not support both at once.
        passthrough: wanted.passthrough && offered & PASSTHROUGH != 0 && agreed & WRITEBACK == 0,
    };
    if found.io_uring {
        more |= IO_URING;
    }
    if found.passthrough {
        more |= PASSTHROUGH;
        // Files of other file systems that are not stacked themselves.
        reply[STACKED..STACKED + 4].copy_from_slice(&1u32.to_ne_bytes());
    }
    if more != 0 {
        agreed |= EXTENDED;
    }
    reply[AGREED..AGREED + 4].copy_from_slice(&agreed.to_ne_bytes());
    reply[AGREED_MORE..AGREED_MORE + 4].copy_from_slice(&more.to_ne_bytes());
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Agreed = Agreed {
        io_uring: true,
        passthrough: true,
    };

    /// An offer of the kernel, and the reply of a server to it.
    fn texts(flags: u32, more: u32, agreed: u32) -> (Vec<u8>, Vec<u8>) {
        let (mut request, mut reply) = (vec![0; HEADER + 64], vec![0; REPLY_HEADER + 64]);
        for (at, word) in [(HEADER, 7), (OFFERED, flags), (OFFERED_MORE, more)] {
            request[at..at + 4].copy_from_slice(&u32::to_ne_bytes(word));
        }
        let length = reply.len() as u32;
        for (at, word) in [(0, length), (REPLY_HEADER, 7), (AGREED, agreed)] {
            reply[at..at + 4].copy_from_slice(&u32::to_ne_bytes(word));
        }
        (request, reply)
    }

    #[test]
    fn only_what_is_offered_and_wanted_is_agreed_on() {
        let none = Agreed::default();
        for (flags, more, agreed, wanted, expected) in [
            (EXTENDED, u32::MAX, 5, BOTH, BOTH),
            (EXTENDED, u32::MAX, 5, none, none),
            (
                EXTENDED,
                IO_URING,
                5,
                BOTH,
                Agreed {
                    passthrough: false,
                    ..BOTH
                },
            ),
            (
                EXTENDED,
                u32::MAX,
                WRITEBACK,
                BOTH,
                Agreed {
                    passthrough: false,
                    ..BOTH
                },
            ),
            (0, u32::MAX, 5, BOTH, none),
        ] {
            let (request, mut reply) = texts(flags, more, agreed);
            assert_eq!(agree(&request, &mut reply, wanted), Some(expected));
            let word = |at| u32_at(&reply, at).unwrap();
            assert_eq!(word(AGREED) & !EXTENDED, agreed);
            assert_eq!(word(AGREED) & EXTENDED != 0, expected != none);
            assert_eq!(word(AGREED_MORE) & IO_URING != 0, expected.io_uring);
            assert_eq!(word(AGREED_MORE) & PASSTHROUGH != 0, expected.passthrough);
            assert_eq!(word(STACKED), u32::from(expected.passthrough));
        }
    }

    #[test]
    fn a_reply_that_does_not_agree_is_not_changed() {
        let (request, reply) = texts(EXTENDED, u32::MAX, 5);
        let mut failed = reply.clone();
        failed[4..8].copy_from_slice(&(-71i32).to_ne_bytes());
        let mut other = reply.clone();
        other[REPLY_HEADER] = 8;
        let mut short = reply[..REPLY_HEADER + 24].to_vec();
        short[0] = short.len() as u8;
        for text in [failed, other, short] {
            let mut reply = text.clone();
            assert_eq!(agree(&request, &mut reply, BOTH), None);
            assert_eq!(reply, text);
        }
    }
}
