//! Writes an initramfs: a cpio archive in the `newc` format (the kernel's `Documentation/driver-api/early-userspace`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A folder.
    Folder,
    /// A program or other file with this content.
    Bytes(Vec<u8>),
    /// A copy of this file.
    Copy(PathBuf),
    /// A symbolic link to this path.
    Link(String),
}

/// The files of an archive by their paths without a leading slash. A folder comes before what it contains.
pub(crate) type Entries = BTreeMap<String, Entry>;

/// Adds the folders that contain these files.
pub(crate) fn with_folders(mut entries: Entries) -> Entries {
    let paths: Vec<String> = entries.keys().cloned().collect();
    for path in paths {
        let places = path.match_indices('/');
        for folder in places.map(|(at, _)| &path[..at]) {
            entries.entry(folder.to_owned()).or_insert(Entry::Folder);
        }
    }
    entries
}

/// Writes the archive. The result depends on the entries only.
///
/// # Errors
/// A file cannot be read or changes while it is read, or the archive cannot be written.
pub(crate) fn write(entries: &Entries, to: &mut impl Write) -> io::Result<()> {
    for (number, (path, entry)) in entries.iter().enumerate() {
        let number = number as u64 + 1;
        match entry {
            Entry::Folder => member(to, number, path, 0o040_755, 0, &mut io::empty())?,
            Entry::Bytes(bytes) => {
                let length = bytes.len() as u64;
                member(to, number, path, 0o100_755, length, &mut bytes.as_slice())?;
            }
            Entry::Copy(from) => {
                let mut file = File::open(from)?;
                let length = file.metadata()?.len();
                member(to, number, path, 0o100_755, length, &mut file)?;
            }
            Entry::Link(target) => {
                let length = target.len() as u64;
                member(to, number, path, 0o120_777, length, &mut target.as_bytes())?;
            }
        }
    }
    member(to, 0, "TRAILER!!!", 0, 0, &mut io::empty())
}

fn member(
    to: &mut impl Write,
    number: u64,
    path: &str,
    mode: u32,
    length: u64,
    content: &mut impl Read,
) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "a file of 4 GiB or more");
    let size = u32::try_from(length).map_err(|_| too_long())?;
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    let name = path.len() as u32 + 1;
    // Inode, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
    let fields = [
        number as u32,
        mode,
        0,
        0,
        links,
        0,
        size,
        0,
        0,
        0,
        0,
        name,
        0,
    ];
    to.write_all(b"070701")?;
    for field in fields {
        write!(to, "{field:08x}")?;
    }
    to.write_all(path.as_bytes())?;
    to.write_all(&[0])?;
    pad(to, 110 + u64::from(name))?;
    let copied = io::copy(&mut content.take(length), to)?;
    if copied != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    pad(to, length)
}

/// Fills up to a multiple of four bytes.
fn pad(to: &mut impl Write, written: u64) -> io::Result<()> {
    let missing = (4 - written % 4) % 4;
    to.write_all(&[0; 3][..missing as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_contains_folders_before_their_files_with_all_fields_aligned() {
        let mut entries = Entries::new();
        entries.insert("bin/tool".to_owned(), Entry::Bytes(b"abcde".to_vec()));
        entries.insert("init".to_owned(), Entry::Link("bin/tool".to_owned()));
        let mut archive = Vec::new();
        write(&with_folders(entries), &mut archive).unwrap();
        assert_eq!(archive.len() % 4, 0);
        let mut found = Vec::new();
        let mut rest = archive.as_slice();
        while !rest.is_empty() {
            assert_eq!(&rest[..6], b"070701");
            let field = |index: usize| {
                let text = str::from_utf8(&rest[6 + 8 * index..14 + 8 * index]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name) = (field(1), field(6), field(11));
            let content = (110 + name).next_multiple_of(4);
            let path = str::from_utf8(&rest[110..110 + name - 1])
                .unwrap()
                .to_owned();
            found.push((path, mode, rest[content..content + size].to_vec()));
            rest = &rest[(content + size).next_multiple_of(4)..];
        }
        let expected = [
            ("bin", 0o040_755, &b""[..]),
            ("bin/tool", 0o100_755, b"abcde"),
            ("init", 0o120_777, b"bin/tool"),
            ("TRAILER!!!", 0, b""),
        ];
        let expected =
            expected.map(|(path, mode, content)| (path.to_owned(), mode, content.to_vec()));
        assert_eq!(found, expected);
    }
}
