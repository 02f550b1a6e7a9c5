//! Mounts in this namespace, and in those of all visible processes.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

use crate::block::{DeviceNumber, number_of};
use crate::roots::{Roots, names};

/// A line of mountinfo, proc(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of the mount.
    pub id: u64,
    /// `st_dev` of its files, except on btrfs subvolumes.
    pub number: DeviceNumber,
    /// The root of the mount within the file system.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// `ext4`, …
    pub file_system: String,
    /// The device, or a name.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

impl Mount {
    /// The block devices that the mount table lists for it.
    pub fn devices(&self, roots: &Roots) -> Vec<DeviceNumber> {
        if !self.number.anonymous() {
            return vec![self.number];
        }
        // bcachefs names all its devices: `/dev/sda:/dev/sdb`.
        let sources: Vec<&str> = match self.file_system.as_str() {
            "bcachefs" => self.source.split(':').collect(),
            _ => vec![&self.source],
        };
        sources
            .into_iter()
            .filter(|source| source.starts_with('/'))
            .filter_map(|source| number_of(roots, Path::new(source)))
            .collect()
    }
}

/// A mount, with a process or thread that sees it if this process does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMount {
    /// The mount.
    pub mount: Mount,
    /// The process or thread.
    pub process: Option<u32>,
}

/// The mounts of this namespace, in the order of mounting.
pub fn own(roots: &Roots) -> Vec<Mount> {
    fs::read(roots.proc.join("self/mountinfo"))
        .map(|text| parse(&text))
        .unwrap_or_default()
}

/// The mounts of the namespaces of all processes and threads, ours first; each pair of file system and mount point
/// once. A namespace without a process is not visible: only the kernel's exclusive claim reveals it.
pub fn everywhere(roots: &Roots) -> Vec<SeenMount> {
    let mut views: HashSet<View> = View::of(roots, "self").into_iter().collect();
    let mut known: HashSet<(DeviceNumber, PathBuf)> = HashSet::new();
    let mut ids: HashSet<(DeviceNumber, u64)> = HashSet::new();
    let mut seen: Vec<SeenMount> = Vec::new();
    for mount in own(roots) {
        known.insert((mount.number, mount.point.clone()));
        ids.insert((mount.number, mount.id));
        seen.push(SeenMount {
            mount,
            process: None,
        });
    }
    for process in names(&roots.proc) {
        if process.parse::<u32>().is_err() {
            continue;
        }
        let threads = names(roots.proc.join(&process).join("task")).into_iter();
        let threads = threads.filter(|thread| *thread != process);
        for task in std::iter::once(process.clone()).chain(threads) {
            let is_new = match View::of(roots, &task) {
                Some(view) => views.insert(view),
                // Namespaces of other users cannot be compared without privilege, but their mounts can be read.
                None => task == process,
            };
            let text = is_new.then(|| fs::read(roots.proc.join(&task).join("mountinfo")).ok());
            for mount in parse(&text.flatten().unwrap_or_default()) {
                // Another root in a namespace shows the same mounts at other points.
                let other = ids.insert((mount.number, mount.id));
                if other && known.insert((mount.number, mount.point.clone())) {
                    seen.push(SeenMount {
                        mount,
                        process: task.parse().ok(),
                    });
                }
            }
        }
    }
    seen
}

/// What decides which mounts a process sees: its namespace and its root.
#[derive(Debug, PartialEq, Eq, Hash)]
struct View {
    namespace: PathBuf,
    /// Mount, device and inode of the root; `None` if it is not known.
    root: Option<(u64, u32, u32, u64)>,
}

impl View {
    /// The view of a process or thread; `None` if its namespace is not known.
    fn of(roots: &Roots, task: &str) -> Option<View> {
        let folder = roots.proc.join(task);
        let wanted = StatxFlags::MNT_ID | StatxFlags::INO;
        // The server of a network file system is not asked: it may be stuck.
        let root = statx(CWD, folder.join("root"), AtFlags::STATX_DONT_SYNC, wanted);
        let number = |of: &Statx| {
            (
                of.stx_mnt_id,
                of.stx_dev_major,
                of.stx_dev_minor,
                of.stx_ino,
            )
        };
        Some(View {
            namespace: fs::read_link(folder.join("ns/mnt")).ok()?,
            root: root.ok().as_ref().map(number),
        })
    }
}

/// The mount that contains a path. `path` is absolute and without symlinks; `id` is the mount id from the
/// kernel, if known; `number` is the `st_dev` of the path.
pub fn containing<'a>(
    mounts: &'a [Mount],
    path: &Path,
    number: DeviceNumber,
    id: Option<u64>,
) -> Option<&'a Mount> {
    let above = || mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let longest = |mount: &&Mount| mount.point.as_os_str().len();
    // Of several mounts on one point, the last hides the others; max_by_key returns the last.
    above()
        .find(|mount| Some(mount.id) == id)
        .or_else(|| {
            above()
                .filter(|mount| mount.number == number)
                .max_by_key(longest)
        })
        .or_else(|| above().max_by_key(longest))
}

/// Parses mountinfo; invalid lines are skipped.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next();
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let id = std::str::from_utf8(next()?).ok()?.parse().ok()?;
    next()?;
    let number = DeviceNumber::parse(std::str::from_utf8(next()?).ok()?)?;
    let root = path_of(next()?);
    let point = path_of(next()?);
    let options = lossy(next()?);
    while next()? != b"-" {}
    Some(Mount {
        id,
        number,
        root,
        point,
        options,
        file_system: lossy(next()?),
        source: path_of(next()?).to_string_lossy().into_owned(),
        super_options: lossy(next().unwrap_or_default()),
    })
}

/// Decodes a path in procfs, where blanks, newlines and backslashes are octal escapes.
pub fn path_of(escaped: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|digits| {
            *first == b'\\'
                && (b'0'..=b'3').contains(&digits[0])
                && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        });
        if let Some(digits) = octal {
            let value = digits
                .iter()
                .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            bytes.push(value as u8);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The bytes of a path, for comparison with procfs.
pub fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        27 1 254:0 / / rw shared:1 master:2 - ext4 /dev/vda rw,discard\n\
        31 27 0:40 /@home /home\\040dir rw - btrfs /dev/my\\134disk rw,subvol=/@home\n\
        nonsense\n\
        40 27 0:50 / /nothing rw - tmpfs  rw\n";

    #[test]
    fn mountinfo_is_parsed_with_and_without_optional_fields() {
        let mounts = parse(TEXT);
        let points: Vec<&str> = mounts.iter().filter_map(|m| m.point.to_str()).collect();
        assert_eq!(points, ["/proc", "/", "/home dir", "/nothing"]);
        assert_eq!(mounts[1].source, "/dev/vda");
        assert_eq!(mounts[1].super_options, "rw,discard");
        assert_eq!(mounts[2].root, Path::new("/@home"));
        assert_eq!(mounts[2].source, "/dev/my\\disk");
        assert_eq!((mounts[3].source.as_str(), mounts[3].id), ("", 40));
    }

    #[test]
    fn escapes_are_decoded_and_other_backslashes_kept() {
        for (escaped, expected) in [
            ("/a\\040b", "/a b"),
            ("/a\\134040", "/a\\040"),
            ("/a\\", "/a\\"),
            ("/a\\04", "/a\\04"),
            ("/a\\999", "/a\\999"),
            ("/a\\400", "/a\\400"),
            ("", ""),
        ] {
            assert_eq!(
                path_of(escaped.as_bytes()),
                Path::new(expected),
                "{escaped}"
            );
        }
        assert_eq!(bytes_of(&path_of(b"\\377\xfe")), b"\xff\xfe");
    }

    #[test]
    fn mounts_are_found_by_mount_id_then_device_number_then_longest_path() {
        let mounts = parse(
            b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m rw - ext4 b rw\n\
              3 2 8:3 / /m/n rw - ext4 c rw\n4 1 8:4 / /m rw - ext4 d rw\n",
        );
        let path = Path::new("/m/n/file");
        let number = |minor| DeviceNumber { major: 8, minor };
        let found = |minor, id| containing(&mounts, path, number(minor), id).map(|m| m.id);
        // /m was mounted over: /m/n of the older mount is hidden, which only the number and the id show.
        assert_eq!(found(4, Some(4)), Some(4));
        assert_eq!(found(4, None), Some(4));
        assert_eq!(found(3, None), Some(3));
        assert_eq!(found(9, None), Some(3));
        assert_eq!(found(9, Some(77)), Some(3));
        assert_eq!(
            containing(&mounts, Path::new("/mm"), number(9), None)
                .unwrap()
                .id,
            1
        );
        assert_eq!(containing(&[], path, number(1), None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse(&bytes), path_of(&bytes));
        }

        #[test]
        fn any_words_are_read_without_harm(
            words in prop::collection::vec("[0-9:/\\\\ -]{0,6}", 0..14),
        ) {
            let _ = parse(words.join(" ").as_bytes());
        }
    }
}
