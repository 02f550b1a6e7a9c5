//! The little that is needed of 64-bit little-endian ELF files: a section by its name, and a program without what is
//! not loaded.

/// Whether the file begins as a 64-bit little-endian ELF file.
fn is_elf(file: &[u8]) -> bool {
    file.starts_with(b"\x7fELF\x02\x01")
}

/// Removes what is not loaded when the program is executed, from the end of the file: debug information and symbols,
/// which can be most of it. Any other file remains as it is.
pub(crate) fn strip(file: &mut Vec<u8>) {
    if let Some(end) = end_of_segments(file).filter(|end| *end <= file.len()) {
        file.truncate(end);
        // There are no section headers any more: their offset, number, and the index of their names.
        file[0x28..0x30].fill(0);
        file[0x3c..0x40].fill(0);
    }
}

/// The end of the last segment in the file.
fn end_of_segments(file: &[u8]) -> Option<usize> {
    if !is_elf(file) {
        return None;
    }
    let headers = number(file, 0x20, 8)?;
    let size = number(file, 0x36, 2)?;
    let count = number(file, 0x38, 2)?;
    let end_of_headers = headers.checked_add(size * count)?;
    let mut end = end_of_headers.max(64);
    for index in 0..count {
        let header = headers.checked_add(index * size)?;
        let at = number(file, header.checked_add(0x8)?, 8)?;
        let length = number(file, header.checked_add(0x20)?, 8)?;
        end = end.max(at.checked_add(length)?);
    }
    (count > 0).then(|| usize::try_from(end).ok()).flatten()
}

/// The content of a section; `None` if the file is not such an ELF file, is truncated, or has no section of this name.
pub(crate) fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    if !is_elf(file) {
        return None;
    }
    let headers = number(file, 0x28, 8)?;
    let size = number(file, 0x3a, 2)?;
    let count = number(file, 0x3c, 2)?;
    let names = number(file, 0x3e, 2)?;
    let header = |index: u64| headers.checked_add(index.checked_mul(size)?);
    let content = |header: u64| {
        let at = usize::try_from(number(file, header.checked_add(0x18)?, 8)?).ok()?;
        let length = usize::try_from(number(file, header.checked_add(0x20)?, 8)?).ok()?;
        file.get(at..at.checked_add(length)?)
    };
    let names = content(header(names)?)?;
    (0..count).find_map(|index| {
        let header = header(index)?;
        let start = usize::try_from(number(file, header, 4)?).ok()?;
        let found = names.get(start..)?.split(|byte| *byte == 0).next()?;
        (found == name.as_bytes())
            .then(|| content(header))
            .flatten()
    })
}

/// An unsigned little-endian number of at most 8 bytes.
fn number(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = file.get(at..at.checked_add(bytes)?)?;
    let digits = field.iter().rev();
    Some(digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// A file with these sections, for tests.
#[cfg(test)]
pub(crate) fn file_of(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut names = Vec::new();
    let mut headers = Vec::new();
    let mut header = |name: usize, at: usize, length: usize| {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&(name as u32).to_le_bytes());
        header[0x18..0x20].copy_from_slice(&(at as u64).to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
        headers.push(header);
    };
    for (name, content) in sections {
        header(names.len(), file.len(), content.len());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        file.extend_from_slice(content);
    }
    let own = names.len();
    names.extend_from_slice(b".shstrtab\0");
    header(own, file.len(), names.len());
    file.extend_from_slice(&names);
    let at = file.len() as u64;
    file.extend(headers.iter().flatten());
    file[0x28..0x30].copy_from_slice(&at.to_le_bytes());
    file[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
    let count = headers.len() as u16;
    file[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
    file[0x3e..0x40].copy_from_slice(&(count - 1).to_le_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_section_by_its_name() {
        let file = file_of(&[(".text", b"code"), (".modinfo", b"depends=\0")]);
        assert_eq!(section(&file, ".modinfo"), Some(&b"depends=\0"[..]));
        assert_eq!(section(&file, ".text"), Some(&b"code"[..]));
        assert_eq!(section(&file, ".data"), None);
    }

    #[test]
    fn a_program_runs_without_what_is_not_loaded() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut file = own.clone();
        strip(&mut file);
        assert!(file.len() < own.len());
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("program");
        std::fs::write(&path, &file).unwrap();
        // The dynamic linker starts it: to execute the new file itself can fail while another thread forks.
        let listed = std::process::Command::new("/lib64/ld-linux-x86-64.so.2")
            .arg(&path)
            .arg("--list")
            .output();
        if let Ok(listed) = listed {
            let text = String::from_utf8_lossy(&listed.stdout);
            assert!(text.contains("a_program_runs_without"), "{listed:?}");
        }
        let mut text = b"not a program".to_vec();
        strip(&mut text);
        assert_eq!(text, b"not a program");
    }

    proptest::proptest! {
        #[test]
        fn damaged_programs_are_stripped_or_remain(at in 0usize..0x40, value: u8, cut in 0usize..300) {
            let mut file = file_of(&[(".text", b"code")]);
            file[at] = value;
            file.truncate(cut);
            let length = file.len();
            strip(&mut file);
            proptest::prop_assert!(file.len() <= length);
        }

        #[test]
        fn damaged_files_have_no_section_or_one_within_the_file(at in 0usize..200, value: u8, cut in 0usize..300) {
            let mut file = file_of(&[(".text", b"code"), (".modinfo", b"depends=\0")]);
            let at = at % file.len();
            file[at] = value;
            file.truncate(cut);
            if let Some(found) = section(&file, ".modinfo") {
                proptest::prop_assert!(found.len() <= file.len());
            }
        }
    }
}
