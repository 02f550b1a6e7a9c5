//! File names, built in a preallocated buffer.

use std::ffi::CStr;
use std::fmt::{self, Write};

/// Maximum length of a file name on Linux, bytes.
pub(super) const LONGEST: usize = 255;

/// A name in the kernel's format.
pub(super) struct Name {
    bytes: [u8; LONGEST + 1],
    length: usize,
}

impl Name {
    pub(super) fn new() -> Name {
        Name {
            bytes: [0; LONGEST + 1],
            length: 0,
        }
    }

    /// Sets the name to these parts. Parts that could be too long, or contain a NUL, are refused with the plan.
    #[inline]
    pub(super) fn set(&mut self, words: fmt::Arguments<'_>) {
        self.length = 0;
        let _ = self.write_fmt(words);
        self.bytes[self.length] = 0;
    }

    #[inline]
    pub(super) fn as_c(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Name {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes[..LONGEST].get_mut(self.length..end);
        place.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_one_set_and_never_exceeds_the_kernel_limit() {
        let mut name = Name::new();
        name.set(format_args!("{}{:09}", "c7.", 42));
        assert_eq!(name.as_c(), c"c7.000000042");
        name.set(format_args!("x"));
        assert_eq!(name.as_c(), c"x");
        let longest = "n".repeat(LONGEST);
        name.set(format_args!("{longest}"));
        assert_eq!(name.as_c().to_bytes(), longest.as_bytes());
        name.set(format_args!("{longest}{}", 1));
        assert_eq!(name.as_c().to_bytes(), longest.as_bytes());
    }
}
