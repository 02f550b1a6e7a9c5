//! A file of procfs or sysfs that is read repeatedly.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::fstat;

/// Initial size of the buffer, bytes; sufficient for most files.
const ROOM: usize = 4096;

/// A text file that stays open between readings: the kernel generates its text each time it is read from the start.
pub(crate) struct Text {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Text {
    /// The file of this path; opened by the first reading.
    pub(crate) fn new(path: PathBuf) -> Text {
        Text {
            path,
            file: None,
            buffer: Vec::new(),
        }
    }

    /// Reads the file and parses it.
    ///
    /// # Errors
    /// The file cannot be read, or `parse` failed.
    pub(crate) fn read_by<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        self.try_read()
            .map_err(|error| format!("cannot read {}: {error}", self.path.display()))?;
        let text = std::str::from_utf8(&self.buffer).map_err(|_| "it is not UTF-8 text".to_owned());
        text.and_then(parse)
            .map_err(|what| format!("{} has an unexpected form: {what}", self.path.display()))
    }

    /// Reads into the buffer.
    fn try_read(&mut self) -> io::Result<()> {
        // A descriptor of a replaced file would return its old content. Files of the kernel have a link count above 0
        // as long as they exist.
        let file = match self.file.take() {
            Some(file) if fstat(&file)?.st_nlink > 0 => file,
            _ => File::open(&self.path)?,
        };
        fill(&file, &mut self.buffer)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Reads a whole file. The kernel returns about a page at a time, whatever the size of the buffer.
fn fill(file: &File, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut length = 0;
    buffer.resize(buffer.capacity().max(ROOM), 0);
    loop {
        if length == buffer.len() {
            buffer.resize(length * 2, 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn reads_the_current_content_after_any_kind_of_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stat");
        let mut text = Text::new(path.clone());
        let mut read = || text.read_by(|text| Ok(text.to_owned()));
        assert!(read().unwrap_err().contains("No such file"));
        for content in ["one\n", "", "two, and longer\n", &"long ".repeat(10_000)] {
            fs::write(&path, content).unwrap();
            assert_eq!(read().unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        assert!(read().unwrap_err().contains("stat: No such file"));
        fs::write(&path, "back").unwrap();
        assert_eq!(read().unwrap(), "back");
        let other = folder.path().join("other");
        fs::write(&other, "moved over it").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(read().unwrap(), "moved over it");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read().unwrap_err().contains("it is not UTF-8 text"));
        fs::write(&path, "0 0").unwrap();
        let refused: Result<(), String> = text.read_by(|text| Err(format!("`{text}`")));
        assert!(
            refused
                .unwrap_err()
                .ends_with("stat has an unexpected form: `0 0`")
        );
    }
}
