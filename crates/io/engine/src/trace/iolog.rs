//! fio's iolog, versions 2 and 3: a header, then a line per action.
//!
//! Version 3: `TIME NAME add|open|close`, and `TIME NAME read|write|trim|sync|datasync OFFSET LENGTH`, with the time in
//! µs. Version 2 is the same without times, and has `NAME wait TIME LENGTH` in their place.

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{
    Builder, Elapsed, ParsedOp, Trace, TraceError, TracedKind, TracedName, at, unreadable,
};

/// The longest line, bytes. fio's own buffer has this length.
const MAX_LINE_LEN: usize = 4096;
const LINE: &str = "line";
const CORRECT: &str = "correct the trace";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// A line of a log, without its time.
#[derive(Debug, PartialEq, Eq)]
enum Action<'a> {
    Add(&'a [u8]),
    /// Opened or closed: all files are open during a trial.
    Opened,
    Wait(u64),
    Op(TracedKind, &'a [u8], u64, u64),
}

pub(super) fn read(mut input: impl BufRead, mut builder: Builder<'_>) -> Result<Trace, TraceError> {
    let mut line = Vec::with_capacity(256);
    let version = match next(&mut input, &mut line, 1)? {
        true => version(&line),
        false => None,
    };
    let Some(version) = version else {
        let what = "it is neither a log of fio (`fio version 2 iolog`, `fio version 3 iolog`) nor of blktrace";
        let hint = "make it with `write_iolog`, or with `blkparse -d`; version 1 is not supported";
        return Err(at(LINE, 1, what, hint));
    };
    let mut elapsed = Elapsed::default();
    // The time of the last `wait`, until an op has it.
    let mut waited = None;
    let mut waits = 0u64;
    let mut number = 1;
    while next(&mut input, &mut line, number + 1)? {
        number += 1;
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if text.starts_with(b"fio version") {
            let what = "another log begins here: fio appends to a log that exists";
            let hint = "keep one of the logs";
            return Err(at(LINE, number, what, hint));
        }
        let fault = |(message, hint): (String, &'static str)| at(LINE, number, message, hint);
        let (time_us, rest) = match version {
            Version::Two => (None, text),
            Version::Three => {
                let (time, rest) = timed(text).ok_or_else(|| {
                    fault(("it does not begin with a time in µs".to_owned(), CORRECT))
                })?;
                (Some(time), rest)
            }
        };
        match action(rest).map_err(|message| fault((message, CORRECT)))? {
            Action::Opened => {}
            Action::Add(name) => {
                builder.name(named(name)).map_err(fault)?;
            }
            Action::Wait(_) if version == Version::Three => {
                let what = "version 3 has times and no `wait`";
                return Err(at(LINE, number, what, CORRECT));
            }
            Action::Wait(ms) => {
                let ns = ms
                    .checked_mul(1_000_000)
                    .ok_or_else(|| fault(("the wait is too long".to_owned(), CORRECT)))?;
                waited = Some(ns);
                waits += 1;
            }
            Action::Op(kind, name, offset, length) => {
                let name = named(name);
                let Some(file) = builder.known.get(&name).copied() else {
                    let what = "its file was not added before (`NAME add`)";
                    return Err(at(LINE, number, what, CORRECT));
                };
                let due_ns =
                    match time_us {
                        Some(time) => {
                            let due = elapsed.at(time).checked_mul(1000);
                            Some(due.ok_or_else(|| {
                                fault(("its time is too large".to_owned(), CORRECT))
                            })?)
                        }
                        None => waited.take(),
                    };
                let op = ParsedOp {
                    kind,
                    file,
                    offset,
                    length,
                    due_ns,
                };
                builder.add(&op, number).map_err(fault)?;
            }
        }
    }
    if waits > 0 && !builder.replay.no_stall {
        builder.trace.notes.push(
            "`wait` is taken as fio takes it: in ms since the start, not in µs since the last `wait` as its manual says"
                .to_owned(),
        );
    }
    Ok(builder.finish(LINE))
}

/// The next line; `false` at the end.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>, number: u64) -> Result<bool, TraceError> {
    line.clear();
    std::io::Read::take(&mut *input, MAX_LINE_LEN as u64 + 1)
        .read_until(b'\n', line)
        .map_err(|error| unreadable(format!("{LINE} {number}: "), &error))?;
    if line.len() > MAX_LINE_LEN {
        let what = format!("it is longer than {MAX_LINE_LEN} bytes");
        return Err(at(LINE, number, what, CORRECT));
    }
    Ok(!line.is_empty())
}

fn version(line: &[u8]) -> Option<Version> {
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Some(Version::Two),
        b"fio version 3 iolog" => Some(Version::Three),
        _ => None,
    }
}

fn named(name: &[u8]) -> TracedName {
    TracedName::Path(PathBuf::from(OsStr::from_bytes(name)))
}

/// The time at the beginning of a line, and the rest of it.
fn timed(line: &[u8]) -> Option<(u64, &[u8])> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    Some((number(&line[..end])?, line[end..].trim_ascii_start()))
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

/// The last word of a text, and the text before it.
fn last(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    match text.iter().rposition(u8::is_ascii_whitespace) {
        Some(space) => (text[..space].trim_ascii_end(), &text[space + 1..]),
        None => (b"", text),
    }
}

/// Read from the end, because a name may contain spaces.
fn action(line: &[u8]) -> Result<Action<'_>, String> {
    let (before, word) = last(line);
    match word {
        b"add" if !before.is_empty() => return Ok(Action::Add(before)),
        b"open" | b"close" if !before.is_empty() => return Ok(Action::Opened),
        _ => {}
    }
    let length = word;
    let (before, offset) = last(before);
    let (name, word) = last(before);
    let kind = match word {
        b"read" => Some(TracedKind::Read),
        b"write" => Some(TracedKind::Write),
        b"trim" => Some(TracedKind::Trim),
        b"sync" => Some(TracedKind::Sync),
        b"datasync" => Some(TracedKind::DataSync),
        b"wait" => None,
        _ => {
            let line = String::from_utf8_lossy(line);
            return Err(format!("`{}` is not an action of a log", shortened(&line)));
        }
    };
    if name.is_empty() {
        return Err("it has no file name".to_owned());
    }
    let bytes = |text: &[u8], what: &str| {
        let shown = String::from_utf8_lossy(text);
        number(text).ok_or_else(|| format!("its {what} `{}` is not a number", shortened(&shown)))
    };
    let (offset, length) = (bytes(offset, "offset")?, bytes(length, "length")?);
    Ok(match kind {
        None => Action::Wait(offset),
        Some(kind) => Action::Op(kind, name, offset, length),
    })
}

/// For a message.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_from_its_end() {
        use TracedKind::{DataSync, Read, Trim, Write};
        for (line, expected) in [
            ("/a add", Action::Add(b"/a")),
            ("/my files/a b add", Action::Add(b"/my files/a b")),
            ("/a open", Action::Opened),
            ("/a close", Action::Opened),
            ("/a read 0 4096", Action::Op(Read, b"/a", 0, 4096)),
            ("/a b  write\t7  8", Action::Op(Write, b"/a b", 7, 8)),
            ("read read 1 2", Action::Op(Read, b"read", 1, 2)),
            (
                "/a trim 0 4294967295",
                Action::Op(Trim, b"/a", 0, 4_294_967_295),
            ),
            ("/a datasync 0 0", Action::Op(DataSync, b"/a", 0, 0)),
            ("/a wait 100 0", Action::Wait(100)),
        ] {
            assert_eq!(action(line.as_bytes()), Ok(expected), "{line}");
        }
        for (line, fault) in [
            ("add", "`add` is not an action of a log"),
            ("/a unlink", "`/a unlink` is not an action of a log"),
            ("read 0 4096", "it has no file name"),
            ("/a read -1 4096", "its offset `-1` is not a number"),
            ("/a read 0 4k", "its length `4k` is not a number"),
            ("/a read 0 +4", "its length `+4` is not a number"),
            (
                "/a read 99999999999999999999 4",
                "its offset `99999999999999999999` is not a number",
            ),
            ("/a sync", "`/a sync` is not an action of a log"),
        ] {
            assert_eq!(action(line.as_bytes()), Err(fault.to_owned()), "{line}");
        }
    }
}
