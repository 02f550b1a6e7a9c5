//! The serialized state of a client: the nodes that it knows, their lookup counts, and its open files. A server writes
//! it for another one, which continues from it (DEVICE_STATE of vhost-user).
//!
//! The format is that of the crate `virtiofsd`, whose types are repeated here as far as they are checked. A seal with a
//! checksum follows. `virtiofsd` ignores the seal and writes none, so each server can continue from the state of the
//! other.
//!
//! # Invariants
//!
//! The bytes come from another host through a front end. The crate opens the files that they name, so it gets only what
//! [`checked`] returns: names are single components within folders of the state, opening a file does not change it, and
//! nodes refer to each other without cycles.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Not;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use virtiofsd::filesystem::FsOptions;
use virtiofsd::fuse::ROOT_ID;

/// Bytes of the longest state that is read: that of millions of nodes.
pub const MOST: usize = 128 << 20;
/// Folders within folders. The crate looks at all nodes once for each level at most.
const MAX_LEVELS: u32 = 4096;
/// Bytes of a name.
const MAX_NAME: usize = 255;

/// The magic of the seal, its version, and its length including the checksum of all preceding bytes.
const SEAL: &[u8; 8] = b"iodynofs";
const VERSION: u32 = 1;
const SEALED: usize = SEAL.len() + 8;

/// Which states a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Files may be open for reading only.
    pub read_only: bool,
    /// Nodes may be named by file handles, which reach all files of their file system.
    pub by_handle: bool,
    /// Files that are open with `O_DIRECT` are opened so.
    pub direct_io: bool,
    /// Features that clients may have negotiated.
    pub writeback: bool,
    /// The same, for roots of other file systems.
    pub submounts: bool,
    /// Whether clients may use POSIX ACLs.
    pub posix_acl: bool,
    /// Whether they must.
    pub needs_acl: bool,
}

/// Why a state is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// No state.
    #[error("it is empty: the front end closed the connection before it sent something")]
    Empty,
    /// It is longer than [`MOST`].
    #[error("it has more than {} MiB", MOST >> 20)]
    TooLong,
    /// Its checksum does not match.
    #[error("it is damaged: its checksum does not match")]
    Damaged,
    /// Its seal has another version.
    #[error(
        "it was written by another version of iodyno (its seal has version {0}, not {VERSION})"
    )]
    OtherVersion(u32),
    /// It cannot be read.
    #[error("it is truncated or damaged, or not the state of a virtio-fs server: {0}")]
    Malformed(postcard::Error),
    /// Bytes follow it.
    #[error("it is damaged, or not the state of a virtio-fs server: {0} bytes follow it")]
    Followed(usize),
    /// It contradicts itself.
    #[error("it is damaged: {0}")]
    Inconsistent(String),
    /// Its folders are too deep.
    #[error("node {0} is below more than {MAX_LEVELS} folders, or in itself")]
    TooDeep(u64),
    /// It names something outside of the folder, or would change it.
    #[error("it is not one that a server writes: {0}")]
    Forged(String),
    /// This server has other options than the one that wrote it.
    #[error("it does not fit this server: {0}")]
    Unfit(String),
}

#[derive(Debug, Deserialize, Serialize)]
enum State<'a> {
    V1(#[serde(borrow)] Contents<'a>),
    V2(
        #[serde(borrow)] Contents<'a>,
        #[serde(borrow)] BTreeMap<u64, &'a str>,
    ),
}

#[derive(Debug, Deserialize, Serialize)]
struct Contents<'a> {
    #[serde(borrow)]
    nodes: Vec<Node<'a>>,
    next_node: u64,
    handles: Vec<Handle>,
    next_handle: u64,
    agreed: Agreed,
}

#[derive(Debug, Deserialize, Serialize)]
struct Node<'a> {
    id: u64,
    lookups: u64,
    #[serde(borrow)]
    place: Place<'a>,
    /// The file found at this place must be this one.
    same: Option<FileHandle>,
}

#[derive(Debug, Deserialize, Serialize)]
enum Place<'a> {
    Root,
    Name { folder: u64, name: &'a str },
    Lost,
    Path { path: &'a str },
    Handle { handle: FileHandle },
}

#[derive(Debug, Deserialize, Serialize)]
struct FileHandle {
    mount: u64,
    kind: i32,
    bytes: Vec<u8>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Handle {
    id: u64,
    node: u64,
    source: Source,
}

#[derive(Debug, Deserialize, Serialize)]
enum Source {
    Opened { flags: i32 },
}

/// The features that a client negotiated with its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
struct Agreed {
    writeback: bool,
    submounts: bool,
    posix_acl: bool,
    supplementary_groups: bool,
}

/// A state that can be applied.
#[derive(Debug)]
pub struct Checked {
    bytes: Vec<u8>,
    agreed: Agreed,
    /// All nodes, and the place of each by the name and folder, if it has one.
    nodes: HashMap<u64, Option<(u64, String)>>,
    /// Paths of the mounts that its file handles are of.
    mounts: Vec<String>,
    lost: usize,
}

impl Checked {
    /// The bytes for the crate.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The client's FUSE options. The crate's server learns them only from INIT, and needs them to parse requests.
    pub(crate) fn options(&self) -> u64 {
        let agreed = &self.agreed;
        let acl = FsOptions::POSIX_ACL | FsOptions::DONT_MASK | FsOptions::SETXATTR_EXT;
        let all = [
            (true, FsOptions::INIT_EXT),
            (agreed.writeback, FsOptions::WRITEBACK_CACHE),
            (agreed.submounts, FsOptions::SUBMOUNTS),
            (agreed.posix_acl, acl),
            (agreed.supplementary_groups, FsOptions::CREATE_SUPP_GROUP),
        ];
        let agreed = all.iter().filter(|(agreed, _)| *agreed);
        agreed.fold(0, |bits, (_, option)| bits | option.bits())
    }

    /// Its client has mounted the file system.
    #[must_use]
    pub(crate) fn is_mounted(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The numbers of its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = u64> {
        self.nodes.keys().copied()
    }

    /// Paths within the folder that the crate opens, following symbolic links.
    pub(crate) fn mounts(&self) -> &[String] {
        &self.mounts
    }

    /// The number of nodes whose place was unknown when the state was written.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// The path of a node within the folder, if its name is known.
    #[must_use]
    pub fn path(&self, node: u64) -> Option<String> {
        let mut path = String::new();
        let mut at = node;
        // This ends because the state has no cycles.
        while at != ROOT_ID {
            let (folder, name) = self.nodes.get(&at)?.as_ref()?;
            path = match path.is_empty() {
                true => name.clone(),
                false => format!("{name}/{path}"),
            };
            at = *folder;
        }
        Some(path)
    }
}

/// A state of the crate with its seal.
#[must_use]
pub fn sealed(mut state: Vec<u8>) -> Vec<u8> {
    state.extend(SEAL);
    state.extend(VERSION.to_le_bytes());
    let sum = crc32c::crc32c(&state);
    state.extend(sum.to_le_bytes());
    state
}

/// The state without its seal, if it has one.
fn unsealed(bytes: &[u8]) -> Result<&[u8], Refused> {
    let Some((state, seal)) = (bytes.len().checked_sub(SEALED)).map(|at| bytes.split_at(at)) else {
        return Ok(bytes);
    };
    let Some(seal) = seal.strip_prefix(SEAL) else {
        return Ok(bytes);
    };
    let word = |at: usize| u32::from_le_bytes([seal[at], seal[at + 1], seal[at + 2], seal[at + 3]]);
    if crc32c::crc32c(&bytes[..bytes.len() - 4]) != word(4) {
        return Err(Refused::Damaged);
    }
    match word(0) {
        VERSION => Ok(state),
        version => Err(Refused::OtherVersion(version)),
    }
}

/// Reads a state and checks all that it says.
///
/// # Errors
/// It is refused.
pub fn checked(bytes: &[u8], accepted: Accepted) -> Result<Checked, Refused> {
    if bytes.is_empty() {
        return Err(Refused::Empty);
    }
    if bytes.len() > MOST {
        return Err(Refused::TooLong);
    }
    let (mut state, rest): (State<'_>, _) =
        postcard::take_from_bytes(unsealed(bytes)?).map_err(Refused::Malformed)?;
    if !rest.is_empty() {
        return Err(Refused::Followed(rest.len()));
    }
    let mut named = Vec::new();
    let contents = match &mut state {
        State::V1(contents) => contents,
        State::V2(contents, mounts) => {
            check_mounts(mounts)?;
            if !accepted.by_handle {
                // Nothing else needs the mounts, and the crate would open all of them.
                mounts.clear();
            }
            named.extend(mounts.values().map(|path| (*path).to_owned()));
            contents
        }
    };
    check_nodes(contents, accepted)?;
    // A client that has not mounted has not agreed on anything.
    if !contents.nodes.is_empty() {
        check_agreed(contents.agreed, accepted)?;
    }
    check_handles(contents, accepted)?;
    let place = |node: &Node<'_>| match node.place {
        Place::Name { folder, name } => Some((folder, name.to_owned())),
        _ => None,
    };
    let nodes = contents.nodes.iter().map(|node| (node.id, place(node)));
    let lost = (contents.nodes.iter()).filter(|node| matches!(node.place, Place::Lost));
    Ok(Checked {
        agreed: contents.agreed,
        nodes: nodes.collect(),
        lost: lost.count(),
        mounts: named,
        bytes: postcard::to_stdvec(&state).map_err(Refused::Malformed)?,
    })
}

/// A name that leads nowhere but into the folder that it is in.
fn is_name(name: &str) -> bool {
    let refused = name.is_empty() || name == "." || name == ".." || name.len() > MAX_NAME;
    refused.not() && !name.contains(['/', '\0'])
}

fn check_mounts(mounts: &BTreeMap<u64, &str>) -> Result<(), Refused> {
    let leads_out = |path: &str| path != "." && !path.split('/').all(is_name);
    match mounts.values().find(|path| leads_out(path)) {
        Some(path) => Err(Refused::Forged(format!(
            "the mount `{path}` is not in the folder"
        ))),
        None => Ok(()),
    }
}

fn check_nodes(contents: &Contents<'_>, accepted: Accepted) -> Result<(), Refused> {
    let wrong = |text: String| Err(Refused::Inconsistent(text));
    // The folder of each, and how often it is referred to by nodes within it.
    let mut folders: HashMap<u64, Option<u64>> = HashMap::with_capacity(contents.nodes.len());
    let mut within: HashMap<u64, u64> = HashMap::new();
    for node in &contents.nodes {
        let id = node.id;
        let folder = match &node.place {
            Place::Root => None,
            Place::Lost => None,
            Place::Name { folder, name } => {
                if !is_name(name) {
                    return Err(Refused::Forged(format!("`{name}` is not a name")));
                }
                *within.entry(*folder).or_default() += 1;
                Some(*folder)
            }
            // `virtiofsd` 1.14 reads these but does not write them. Symbolic links in the path would lead out of the
            // folder.
            Place::Path { path } => {
                return Err(Refused::Forged(format!("it has the path `{path}`")));
            }
            Place::Handle { .. } if accepted.by_handle => None,
            Place::Handle { .. } => {
                return Err(Refused::Unfit(
                    "it names files by file handles, which this server takes with `--migration-mode file-handles` only".to_owned(),
                ));
            }
        };
        if (id == ROOT_ID) != matches!(node.place, Place::Root) {
            return wrong(format!(
                "node {id} is the root, or is stored as the root, but not both"
            ));
        }
        if folders.insert(id, folder).is_some() {
            return wrong(format!("duplicate node {id}"));
        }
        if id >= contents.next_node {
            return wrong(format!("node {id} is not below `next_node`"));
        }
    }
    if !contents.nodes.is_empty() && !folders.contains_key(&ROOT_ID) {
        return wrong("the root is missing".to_owned());
    }
    for node in &contents.nodes {
        // The crate takes one reference for each.
        let needed = within.get(&node.id).copied().unwrap_or(0).max(1);
        if node.lookups < needed {
            let text = format!("node {} was looked up {} times", node.id, node.lookups);
            return wrong(text);
        }
    }
    check_levels(&folders)
}

/// Checks that each node is in an existing folder, and that each chain of folders ends.
fn check_levels(folders: &HashMap<u64, Option<u64>>) -> Result<(), Refused> {
    let mut levels: HashMap<u64, u32> = HashMap::with_capacity(folders.len());
    let mut way = Vec::new();
    for start in folders.keys() {
        let mut at = *start;
        let above = loop {
            if let Some(level) = levels.get(&at) {
                break *level;
            }
            way.push(at);
            if way.len() > MAX_LEVELS as usize {
                break MAX_LEVELS;
            }
            match folders.get(&at) {
                None => {
                    let text = format!("the folder {at} of node {start} is missing");
                    return Err(Refused::Inconsistent(text));
                }
                Some(None) => break 0,
                Some(Some(folder)) => at = *folder,
            }
        };
        let level = above.saturating_add(way.len() as u32);
        if level > MAX_LEVELS {
            return Err(Refused::TooDeep(*start));
        }
        for (nth, node) in way.drain(..).rev().enumerate() {
            levels.insert(node, above + nth as u32 + 1);
        }
    }
    Ok(())
}

fn check_agreed(agreed: Agreed, accepted: Accepted) -> Result<(), Refused> {
    let missing = [
        (agreed.writeback && !accepted.writeback, "--writeback"),
        (agreed.posix_acl && !accepted.posix_acl, "--posix-acl"),
    ];
    let unfit = |text: String| Err(Refused::Unfit(text));
    if let Some((_, option)) = missing.iter().find(|(missing, _)| *missing) {
        return unfit(format!("its client uses what `{option}` offers"));
    }
    if agreed.submounts && !accepted.submounts {
        let text = "its client learns the roots of other file systems, which `--no-announce-submounts` prevents";
        return unfit(text.to_owned());
    }
    if accepted.needs_acl && !agreed.posix_acl {
        let text = "its client does not use POSIX ACLs, which `--posix-acl` demands";
        return unfit(text.to_owned());
    }
    Ok(())
}

/// Checks open files, and sets the flags with which the old server opened them: the crate keeps the client's flags.
fn check_handles(contents: &mut Contents<'_>, accepted: Accepted) -> Result<(), Refused> {
    let nodes: HashSet<u64> = contents.nodes.iter().map(|node| node.id).collect();
    let mut known = HashSet::with_capacity(contents.handles.len());
    for handle in &mut contents.handles {
        let id = handle.id;
        let wrong = match () {
            () if !known.insert(id) => Some("is a duplicate"),
            () if id >= contents.next_handle => Some("is not below `next_handle`"),
            () if !nodes.contains(&handle.node) => Some("belongs to a node that is missing"),
            () => None,
        };
        if let Some(wrong) = wrong {
            return Err(Refused::Inconsistent(format!("handle {id} {wrong}")));
        }
        let Source::Opened { flags } = &mut handle.source;
        let unnamed = libc::O_TMPFILE & !libc::O_DIRECTORY;
        if *flags & (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | unnamed) != 0 {
            return Err(Refused::Forged(format!(
                "to open handle {id} would change the folder (flags {flags:#o})"
            )));
        }
        if accepted.read_only && *flags & libc::O_ACCMODE != libc::O_RDONLY {
            return Err(Refused::Unfit(format!(
                "handle {id} is open for writing, which `--readonly` prevents"
            )));
        }
        *flags = opened_with(*flags, contents.agreed.writeback, accepted.direct_io);
    }
    Ok(())
}

/// The flags with which a server opens a file that the client opens with `flags`.
fn opened_with(mut flags: i32, writeback: bool, direct_io: bool) -> i32 {
    if writeback {
        // A write-back client reads the data around partial writes, and keeps track of the end of the file.
        if flags & libc::O_ACCMODE == libc::O_WRONLY {
            flags = flags & !libc::O_ACCMODE | libc::O_RDWR;
        }
        flags &= !libc::O_APPEND;
    }
    if !direct_io {
        flags &= !libc::O_DIRECT;
    }
    flags & !libc::O_NOATIME | libc::O_CLOEXEC
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: Accepted = Accepted {
        read_only: false,
        by_handle: false,
        direct_io: true,
        writeback: false,
        submounts: true,
        posix_acl: false,
        needs_acl: false,
    };

    fn node(id: u64, folder: u64, name: &str) -> Node<'_> {
        Node {
            id,
            lookups: 3,
            place: Place::Name { folder, name },
            same: None,
        }
    }

    fn handle(id: u64, node: u64, flags: i32) -> Handle {
        let source = Source::Opened { flags };
        Handle { id, node, source }
    }

    /// The root, the folder 2, the file 3 in it, which is open.
    fn contents() -> Contents<'static> {
        let root = Node {
            id: ROOT_ID,
            lookups: 4,
            place: Place::Root,
            same: None,
        };
        Contents {
            nodes: vec![node(3, 2, "file"), root, node(2, 1, "folder")],
            next_node: 4,
            handles: vec![handle(0, 3, libc::O_RDWR)],
            next_handle: 1,
            agreed: Agreed {
                writeback: false,
                submounts: true,
                posix_acl: false,
                supplementary_groups: true,
            },
        }
    }

    /// The same, with the flags with which a server opens its file.
    fn contents_as_opened() -> Contents<'static> {
        let mut contents = contents();
        contents.handles[0] = handle(0, 3, libc::O_RDWR | libc::O_CLOEXEC);
        contents
    }

    fn bytes(contents: Contents<'_>) -> Vec<u8> {
        postcard::to_stdvec(&State::V2(contents, BTreeMap::new())).unwrap()
    }

    fn refused(change: impl FnOnce(&mut Contents<'static>)) -> Refused {
        let mut contents = contents();
        change(&mut contents);
        checked(&bytes(contents), ACCEPTED).unwrap_err()
    }

    #[test]
    fn a_state_is_read_with_its_seal_and_without() {
        let state = bytes(contents());
        for bytes in [state.clone(), sealed(state)] {
            let checked = checked(&bytes, ACCEPTED).unwrap();
            assert_eq!(checked.path(3).unwrap(), "folder/file");
            assert_eq!(checked.path(ROOT_ID).unwrap(), "");
            assert_eq!((checked.path(9), checked.lost()), (None, 0));
            let options = FsOptions::from_bits_truncate(checked.options());
            assert!(options.contains(FsOptions::CREATE_SUPP_GROUP | FsOptions::SUBMOUNTS));
            assert!(!options.contains(FsOptions::SETXATTR_EXT));
        }
    }

    #[test]
    fn no_part_of_a_sealed_state_is_taken_for_it_and_no_byte_can_differ() {
        let whole = sealed(bytes(contents()));
        for length in 0..whole.len() {
            // The state without its seal is valid.
            let fits = length == whole.len() - SEALED;
            let part = checked(&whole[..length], ACCEPTED);
            assert_eq!(part.is_ok(), fits, "{length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert!(checked(&damaged, ACCEPTED).is_err(), "{at} {bit}");
            }
        }
        let mut newer = whole[..whole.len() - 8].to_vec();
        newer.extend(2u32.to_le_bytes());
        newer.extend(crc32c::crc32c(&newer).to_le_bytes());
        let refused = checked(&newer, ACCEPTED).unwrap_err();
        assert_eq!(refused, Refused::OtherVersion(2));
        assert_eq!(checked(&[], ACCEPTED).unwrap_err(), Refused::Empty);
    }

    #[test]
    fn nothing_outside_of_the_folder_is_named() {
        for name in ["..", ".", "", "a/b", "/etc", "a\0b", &"x".repeat(256)] {
            let mut contents = contents();
            contents.nodes[0].place = Place::Name { folder: 2, name };
            let refused = checked(&bytes(contents), ACCEPTED).unwrap_err();
            assert!(matches!(refused, Refused::Forged(_)), "{name}: {refused}");
        }
        let path = Place::Path {
            path: "folder/file",
        };
        let path = refused(|it| it.nodes[0].place = path);
        assert!(matches!(path, Refused::Forged(_)), "{path}");
        let by_handle = || {
            let mut contents = contents();
            let bytes = vec![1; 8];
            let handle = FileHandle {
                mount: 7,
                kind: 1,
                bytes,
            };
            contents.nodes[0].place = Place::Handle { handle };
            contents
        };
        let refused = checked(&bytes(by_handle()), ACCEPTED).unwrap_err();
        assert!(
            refused.to_string().contains("--migration-mode"),
            "{refused}"
        );
        let accepted = Accepted {
            by_handle: true,
            ..ACCEPTED
        };
        for (mount, fits) in [
            (".", true),
            ("a/b", true),
            ("..", false),
            ("/", false),
            ("a/../..", false),
        ] {
            let mounts = BTreeMap::from([(7, mount)]);
            let state = postcard::to_stdvec(&State::V2(by_handle(), mounts)).unwrap();
            assert_eq!(checked(&state, accepted).is_ok(), fits, "{mount}");
        }
        // The crate gets none where it needs none.
        let mounts = BTreeMap::from([(7, "a/b")]);
        let state = postcard::to_stdvec(&State::V2(contents(), mounts)).unwrap();
        let checked = checked(&state, ACCEPTED).unwrap();
        assert_eq!(checked.bytes(), bytes(contents_as_opened()));
        assert!(checked.mounts().is_empty());
    }

    #[test]
    fn nodes_and_handles_that_contradict_each_other_are_refused() {
        let changes: [fn(&mut Contents<'static>); 14] = [
            |it| it.nodes[0].place = Place::Root,
            |it| it.nodes[1].place = Place::Lost,
            |it| it.nodes.truncate(1),
            |it| it.nodes[0].id = 2,
            |it| it.next_node = 3,
            |it| it.nodes[0].lookups = 0,
            |it| (it.nodes[2].lookups, it.nodes[0].lookups) = (0, 1),
            |it| {
                it.nodes[0].place = Place::Name {
                    folder: 9,
                    name: "x",
                }
            },
            |it| {
                it.nodes[2].place = Place::Name {
                    folder: 3,
                    name: "x",
                }
            },
            |it| {
                it.nodes[2].place = Place::Name {
                    folder: 2,
                    name: "x",
                }
            },
            |it| it.handles.push(handle(0, 3, 0)),
            |it| it.handles[0].node = 9,
            |it| it.next_handle = 0,
            |it| it.nodes.clear(),
        ];
        for (nth, change) in changes.into_iter().enumerate() {
            let refused = refused(change);
            let expected = matches!(refused, Refused::Inconsistent(_) | Refused::TooDeep(_));
            assert!(expected, "{nth}: {refused}");
        }
        // A folder whose references are all those of files in it.
        let mut shared = contents();
        shared.nodes.push(node(4, 2, "other"));
        (shared.next_node, shared.nodes[2].lookups) = (5, 2);
        assert!(checked(&bytes(shared), ACCEPTED).is_ok());
    }

    #[test]
    fn folders_may_be_deep_but_not_without_end() {
        for (levels, fits) in [(4000, true), (5000, false)] {
            let mut deep = contents();
            // The deepest ones come first.
            let nodes = (4..levels).map(|id| node(id, id - 1, "x")).rev();
            deep.nodes = nodes.chain(deep.nodes).collect();
            deep.next_node = levels;
            assert_eq!(checked(&bytes(deep), ACCEPTED).is_ok(), fits, "{levels}");
        }
    }

    #[test]
    fn files_are_opened_as_before_and_nothing_is_changed_by_that() {
        for flags in [
            libc::O_TRUNC,
            libc::O_CREAT,
            libc::O_EXCL,
            libc::O_TMPFILE | libc::O_WRONLY,
        ] {
            let refused = refused(|it| it.handles[0] = handle(0, 3, flags));
            assert!(matches!(refused, Refused::Forged(_)), "{flags}: {refused}");
        }
        let read_only = Accepted {
            read_only: true,
            ..ACCEPTED
        };
        for (flags, fits) in [
            (libc::O_RDONLY, true),
            (libc::O_WRONLY, false),
            (libc::O_RDWR, false),
        ] {
            let mut contents = contents();
            contents.handles[0] = handle(0, 3, flags | libc::O_DIRECTORY);
            assert_eq!(checked(&bytes(contents), read_only).is_ok(), fits);
        }
        let (direct, append, write) = (libc::O_DIRECT, libc::O_APPEND, libc::O_WRONLY);
        let opened = |flags, writeback, direct_io| {
            opened_with(flags, writeback, direct_io) & !libc::O_CLOEXEC
        };
        assert_eq!(
            opened(write | append | direct, false, true),
            write | append | direct
        );
        assert_eq!(
            opened(write | append | direct, false, false),
            write | append
        );
        assert_eq!(opened(write | append, true, true), libc::O_RDWR);
        assert_eq!(opened(libc::O_NOATIME, false, true), 0);
    }

    #[test]
    fn options_that_a_client_uses_have_to_be_there() {
        let with = |agreed, accepted| {
            let mut contents = contents();
            contents.agreed = agreed;
            checked(&bytes(contents), accepted).map(|_| ())
        };
        let agreed = contents().agreed;
        let none = Accepted {
            submounts: false,
            ..ACCEPTED
        };
        let acl = Accepted {
            posix_acl: true,
            needs_acl: true,
            ..ACCEPTED
        };
        for (agreed, accepted, named) in [
            (
                Agreed {
                    writeback: true,
                    ..agreed
                },
                ACCEPTED,
                "`--writeback`",
            ),
            (
                Agreed {
                    posix_acl: true,
                    ..agreed
                },
                ACCEPTED,
                "`--posix-acl`",
            ),
            (agreed, none, "`--no-announce-submounts`"),
            (agreed, acl, "`--posix-acl` demands"),
        ] {
            let refused = with(agreed, accepted).unwrap_err();
            assert!(matches!(refused, Refused::Unfit(_)));
            assert!(refused.to_string().contains(named), "{refused}");
        }
        assert_eq!(
            with(
                Agreed {
                    posix_acl: true,
                    ..agreed
                },
                acl
            ),
            Ok(())
        );
    }
}
