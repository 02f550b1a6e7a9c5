//! Where the files of this process's control group are.

use std::fs;
use std::path::{Path, PathBuf};

use iodyno_target::Roots;

/// Of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// A group that may count I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    /// Where the hierarchy is mounted.
    pub(super) top: PathBuf,
    pub(super) folder: PathBuf,
}

impl Place {
    /// The group and those above it, up to the top.
    pub(super) fn with_above(&self) -> Vec<PathBuf> {
        let up = self.folder.ancestors();
        let within = up.take_while(|folder| folder.starts_with(&self.top));
        within.map(Path::to_owned).collect()
    }
}

/// Groups of this process, those of version 2 first.
pub(super) fn places(roots: &Roots) -> Vec<Place> {
    let read = |name: &str| fs::read_to_string(roots.proc.join(name)).unwrap_or_default();
    let mut places = parse(&read("self/mountinfo"), &read("self/cgroup"));
    for place in &mut places {
        place.top = below(&roots.root, &place.top);
        place.folder = below(&roots.root, &place.folder);
        // In a name space of its own a process may not see where it is.
        if !place.folder.is_dir() {
            place.folder.clone_from(&place.top);
        }
    }
    places
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Pure: of /proc/self/mountinfo and /proc/self/cgroup.
fn parse(mounts: &str, groups: &str) -> Vec<Place> {
    let mut places: Vec<Place> = mounts
        .lines()
        .filter_map(|mount| place(mount, groups))
        .collect();
    places.sort_by_key(|place| place.version == Version::One);
    places
}

/// `35 23 0:38 ROOT POINT rw,relatime - cgroup SOURCE rw,blkio`.
fn place(mount: &str, groups: &str) -> Option<Place> {
    let (before, after) = mount.split_once(" - ")?;
    let mut words = before.split(' ').skip(3);
    let (root, point) = (words.next()?, words.next()?);
    let mut words = after.split(' ');
    let version = match (words.next()?, words.nth(1)?) {
        ("cgroup2", _) => Version::Two,
        ("cgroup", options) if options.split(',').any(|option| option == "blkio") => Version::One,
        _ => return None,
    };
    // `7:blkio:/a/b`, `0::/a/b`.
    let group = groups.lines().find_map(|line| {
        let mut words = line.splitn(3, ':');
        let (number, controllers) = (words.next()?, words.next()?);
        let fits = match version {
            Version::Two => number == "0" && controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == "blkio"),
        };
        fits.then(|| words.next()).flatten()
    })?;
    // What is mounted may be a group of a container's, in which the host's path leads nowhere.
    let within = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    let within = within.strip_prefix("/").unwrap_or(within);
    Some(Place {
        version,
        top: point.into(),
        // Without the slash that joining nothing leaves.
        folder: Path::new(point).join(within).components().collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";

    fn check(mounts: &str, groups: &str, expected: &[(Version, &str)]) {
        let places = parse(mounts, groups);
        let found: Vec<(Version, &str)> = places
            .iter()
            .map(|place| (place.version, place.folder.to_str().unwrap()))
            .collect();
        assert_eq!(found, expected, "{groups}");
    }

    #[test]
    fn finds_the_group_in_either_version() {
        use Version::{One, Two};
        let (one, two) = ("/sys/fs/cgroup/blkio", "/sys/fs/cgroup/unified");
        check(
            MOUNTS,
            "7:blkio:/\n4:memory:/a\n0::/\n",
            &[(Two, two), (One, one)],
        );
        check(
            MOUNTS,
            "7:blkio,net_cls:/a/b\n0::/system.slice/x.service\n",
            &[
                (Two, "/sys/fs/cgroup/unified/system.slice/x.service"),
                (One, "/sys/fs/cgroup/blkio/a/b"),
            ],
        );
        check(MOUNTS, "4:memory:/a\n", &[]);
        let container = "38 31 0:35 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(
            container,
            "0::/docker/abc/sub\n",
            &[(Two, "/sys/fs/cgroup/sub")],
        );
        check(container, "0::/elsewhere\n", &[(Two, "/sys/fs/cgroup")]);
        check("", "0::/\n", &[]);
        check(
            "1 2 3 - cgroup2\n38 31 0:35 / - cgroup2 x rw\n",
            "0::/\n",
            &[],
        );
    }

    #[test]
    fn the_groups_above_are_those_within_the_hierarchy() {
        let place = &parse(MOUNTS, "0::/a/b\n")[0];
        let above = place.with_above();
        let above: Vec<&str> = above.iter().map(|path| path.to_str().unwrap()).collect();
        let expected = [
            "/sys/fs/cgroup/unified/a/b",
            "/sys/fs/cgroup/unified/a",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(above, expected);
    }

    proptest! {
        #[test]
        fn bears_any_text(mounts in "([a-z0-9:/]{0,6} ){0,9}- cgroup2? \\PC*", groups in "[0-9]:(blkio)?:\\PC*") {
            parse(&mounts, &groups);
        }
    }
}
