//! The identity of a target, which distinguishes it from anything else that may appear at its path.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its inode.
        inode: Inode,
        /// Bytes.
        length: u64,
    },
    /// A folder.
    Folder(Inode),
    /// A block device.
    Device {
        /// The best name that the kernel knows for it, and its length.
        name: String,
        /// The boot that the name is valid for; `None`: for ever.
        boot: Option<String>,
        /// When the backing file of a loop device was made; `None` if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        made: Option<String>,
    },
}

/// An inode of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Its number, which the file system may give to another file once this one is removed. 0: the file system's
    /// numbers are not stable.
    pub number: u64,
    /// When it was made, ns since 1970; `None` where the file system does not say.
    pub made_ns: Option<i64>,
}

/// A path, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownTarget {
    /// The node that it is on; empty if the plan names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The path.
    pub path: PathBuf,
    /// What it leads to.
    pub identity: Identity,
}

impl Identity {
    /// Whether `now` is another target, or a file that was shortened: the target of the run was removed or replaced.
    ///
    /// A removed file is created again, an empty one holds nothing, and a folder or device that appeared is judged
    /// when it is opened.
    pub fn differs_from(&self, now: &Identity) -> bool {
        match (self, now) {
            (Identity::Absent, Identity::File { length, .. }) => *length > 0,
            (Identity::Absent, _) | (Identity::File { .. }, Identity::Absent) => false,
            (
                Identity::File { inode, length },
                Identity::File {
                    inode: now,
                    length: length_now,
                },
            ) => inode.differs_from(*now) || length_now < length,
            (Identity::Folder(inode), Identity::Folder(now)) => inode.differs_from(*now),
            (
                Identity::Device { name, boot, made },
                Identity::Device {
                    name: name_now,
                    boot: boot_now,
                    made: made_now,
                },
            ) => {
                let remade = matches!((made, made_now), (Some(made), Some(now)) if made != now);
                boot == boot_now && (name != name_now || remade)
            }
            _ => true,
        }
    }
}

impl Inode {
    fn differs_from(self, now: Inode) -> bool {
        let remade = matches!((self.made_ns, now.made_ns), (Some(made), Some(now)) if made != now);
        self.number != now.number || remade
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Absent => f.write_str("absent"),
            Identity::File { inode, length } => write!(f, "a file of {length} bytes, {inode}"),
            Identity::Folder(inode) => write!(f, "a folder, {inode}"),
            Identity::Device {
                name,
                made: Some(made),
                ..
            } => write!(f, "device {name}, whose file was made at Unix time {made}"),
            Identity::Device { name, .. } => write!(f, "device {name}"),
        }
    }
}

impl fmt::Display for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => f.write_str("unknown inode")?,
            number => write!(f, "inode {number}")?,
        }
        match self.made_ns {
            Some(made_ns) => write!(f, ", made at Unix time {:.3}", made_ns as f64 / 1e9),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INODE: Inode = Inode {
        number: 7,
        made_ns: Some(5),
    };

    fn file(length: u64) -> Identity {
        Identity::File {
            inode: INODE,
            length,
        }
    }

    fn device(name: &str, boot: Option<&str>) -> Identity {
        Identity::Device {
            name: name.to_owned(),
            boot: boot.map(str::to_owned),
            made: None,
        }
    }

    fn looped(made: &str) -> Identity {
        Identity::Device {
            name: "a".to_owned(),
            boot: None,
            made: Some(made.to_owned()),
        }
    }

    #[test]
    fn a_target_is_another_where_its_content_may_be_anothers() {
        let other = |inode| Identity::File { inode, length: 9 };
        let unknown = Inode {
            made_ns: None,
            ..INODE
        };
        let remade = Inode {
            made_ns: Some(6),
            ..INODE
        };
        let number = Inode { number: 8, ..INODE };
        for (before, now, differs) in [
            (Identity::Absent, Identity::Absent, false),
            (Identity::Absent, file(0), false),
            (Identity::Absent, file(1), true),
            (Identity::Absent, Identity::Folder(INODE), false),
            (file(9), Identity::Absent, false),
            (file(9), file(9), false),
            (file(9), file(10), false),
            (file(9), file(8), true),
            (file(9), other(unknown), false),
            (file(9), other(remade), true),
            (file(9), other(number), true),
            (file(9), Identity::Folder(INODE), true),
            (Identity::Folder(INODE), Identity::Folder(INODE), false),
            (Identity::Folder(INODE), Identity::Folder(remade), true),
            (Identity::Folder(INODE), Identity::Absent, true),
            (device("a", None), device("a", None), false),
            (device("a", None), device("b", None), true),
            (device("a", None), looped("1"), false),
            (looped("1"), looped("1"), false),
            (looped("1"), looped("2"), true),
            (device("a", None), Identity::Absent, true),
            (device("a", Some("x")), device("b", Some("x")), true),
            (device("a", Some("x")), device("b", Some("y")), false),
        ] {
            assert_eq!(before.differs_from(&now), differs, "{before} {now}");
        }
    }

    #[test]
    fn an_identity_survives_its_stored_form() {
        for identity in [
            Identity::Absent,
            file(9),
            Identity::Folder(INODE),
            device("a", Some("x")),
            looped("1"),
        ] {
            let text = serde_json::to_string(&identity).unwrap();
            assert_eq!(serde_json::from_str::<Identity>(&text).unwrap(), identity);
        }
    }
}
