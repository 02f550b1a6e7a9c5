//! Compressed logs: zlib streams, one after another, each with whole lines. Other tools read them, too: `pigz -dc FILE`
//! or Python's `zlib`.

use std::io::{self, Read, Write};

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// The fastest level that still searches for repetitions well.
const LEVEL: u8 = 3;

/// Writes each buffer as one stream in one call, so that several writers can append to the same file.
#[derive(Debug)]
pub(crate) struct Compressed<T: Write>(pub(crate) T);

impl<T: Write> Write for Compressed<T> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.write_all(&compress_to_vec_zlib(lines, LEVEL))?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Decompresses a log of `log_store_compressed`.
///
/// # Errors
/// Those of both sides; `InvalidData` if it is not such a log, or is damaged or truncated.
pub fn inflate_log(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut input = Vec::new();
    let mut output = vec![0; 1 << 16];
    let mut state = InflateState::new_boxed(DataFormat::Zlib);
    let (mut used, mut inside, mut any, mut more) = (0, false, false, false);
    loop {
        if used == input.len() && !more {
            used = 0;
            input.resize(1 << 16, 0);
            let read = from.read(&mut input)?;
            input.truncate(read);
            match (read, inside) {
                (0, false) => return Ok(()),
                (0, true) => return Err(damaged("it is cut short")),
                _ => {}
            }
        }
        let result = inflate(&mut state, &input[used..], &mut output, MZFlush::None);
        used += result.bytes_consumed;
        more = result.bytes_written == output.len();
        let lines = &output[..result.bytes_written];
        // The logs of fio itself hold structures of its version.
        if !any && lines.first().is_some_and(|byte| !byte.is_ascii_digit()) {
            return Err(damaged("it is not a log of iodyno"));
        }
        any |= !lines.is_empty();
        to.write_all(lines)?;
        match result.status {
            Ok(MZStatus::StreamEnd) => {
                state.reset(DataFormat::Zlib);
                inside = false;
            }
            // It needs more input.
            Ok(_) | Err(MZError::Buf) => inside = true,
            Err(_) => return Err(damaged("it is not a compressed log, or damaged")),
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_in_parts_is_decompressed_as_one() {
        let part = |from: u32| -> String {
            let lines = (from..from + 20_000).map(|n| format!("{n}, {}, 0, 4096, 0\n", n * 7));
            lines.collect()
        };
        let parts = [part(0), part(20_000), "1, 2, 3, 4, 5\n".to_owned()];
        let mut file = Vec::new();
        for part in &parts {
            let mut to = Compressed(&mut file);
            assert_eq!(to.write(part.as_bytes()).unwrap(), part.len());
        }
        assert!(file.len() < parts.concat().len() / 3, "{}", file.len());
        let mut found = Vec::new();
        inflate_log(file.as_slice(), &mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), parts.concat());
        for cut in [1, file.len() / 2, file.len() - 1] {
            let error = inflate_log(&file[..cut], io::sink()).unwrap_err();
            assert_eq!(error.to_string(), "it is cut short", "{cut}");
        }
        inflate_log(io::empty(), io::sink()).unwrap();
    }

    #[test]
    fn says_what_is_not_its_own() {
        let binary = compress_to_vec_zlib(&[0; 64], LEVEL);
        for (content, words) in [
            (b"1, 2, 3".as_slice(), "not a compressed log"),
            (&binary, "not a log of iodyno"),
        ] {
            let error = inflate_log(content, io::sink()).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
