//! zlib streams that are written and read piece by piece.

use std::io::{self, Read, Write};

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Writes a zlib stream behind the bytes of a vector.
pub(crate) struct Deflater {
    state: Box<CompressorOxide>,
    out: Vec<u8>,
}

impl Deflater {
    /// A stream with the given level of compression.
    pub(crate) fn new(out: Vec<u8>, level: u8) -> Deflater {
        let flags = create_comp_flags_from_zip_params(level.into(), 1, 0);
        Deflater {
            state: Box::new(CompressorOxide::new(flags)),
            out,
        }
    }

    fn put(&mut self, bytes: &[u8], flush: TDEFLFlush) -> io::Result<usize> {
        let out = &mut self.out;
        let (status, taken) = compress_to_output(&mut self.state, bytes, flush, |deflated| {
            out.extend_from_slice(deflated);
            true
        });
        match status {
            TDEFLStatus::Okay | TDEFLStatus::Done => Ok(taken),
            _ => Err(io::Error::other("the data could not be compressed")),
        }
    }

    /// Ends the stream, and returns all bytes.
    pub(crate) fn finish(mut self) -> io::Result<Vec<u8>> {
        self.put(&[], TDEFLFlush::Finish)?;
        Ok(self.out)
    }
}

impl Write for Deflater {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes, TDEFLFlush::None)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a zlib stream. A stream that ends early or has a wrong checksum is an error.
pub(crate) struct Inflater<'b> {
    state: Box<InflateState>,
    rest: &'b [u8],
    ended: bool,
}

impl<'b> Inflater<'b> {
    /// Reads from the beginning of a stream.
    pub(crate) fn new(stream: &'b [u8]) -> Inflater<'b> {
        Inflater {
            state: InflateState::new_boxed(DataFormat::Zlib),
            rest: stream,
            ended: false,
        }
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let done = inflate(&mut self.state, self.rest, buffer, MZFlush::None);
            self.rest = &self.rest[done.bytes_consumed..];
            match done.status {
                Ok(MZStatus::StreamEnd) => self.ended = true,
                Ok(_) if done.bytes_consumed + done.bytes_written > 0 => {}
                Ok(_) | Err(MZError::Buf) => {
                    return Err(io::Error::other("the stream ends early"));
                }
                Err(error) => return Err(io::Error::other(format!("damaged: {error:?}"))),
            }
            if done.bytes_written > 0 {
                return Ok(done.bytes_written);
            }
        }
        Ok(0)
    }
}
