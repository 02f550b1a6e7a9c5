//! The control groups of this process: their folders, limits and counters.
//!
//! In version 2, one folder has the files of all controllers. In version 1, each controller has a separate hierarchy.

use std::fs;
use std::path::{Path, PathBuf};

use iodyno_model::ControlGroupUse;

use crate::mounts::{self, Mount};
use crate::roots::{Roots, text};

/// Version of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// A group of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// Version of its hierarchy.
    pub version: Version,
    /// The mount point of the hierarchy.
    top: PathBuf,
    /// The group's folder.
    pub folder: PathBuf,
}

impl ControlGroup {
    /// The folders of the group and of those above it, up to the top.
    pub fn with_above(&self) -> Vec<PathBuf> {
        let up = self.folder.ancestors();
        let within = up.take_while(|folder| folder.starts_with(&self.top));
        within.map(Path::to_owned).collect()
    }
}

/// The groups of this process that may have a controller (`cpu`, `memory`, `blkio`), those of version 2 first. In
/// version 2, the controller may be missing in the nearest group.
pub fn groups(roots: &Roots, controller: &str) -> Vec<ControlGroup> {
    let own = fs::read_to_string(roots.proc.join("self/cgroup")).unwrap_or_default();
    let mut groups = parse(&mounts::own(roots), &own, controller);
    for group in &mut groups {
        group.top = below(&roots.root, &group.top);
        group.folder = below(&roots.root, &group.folder);
        // In its own namespace, a process may not see the path of its group.
        if !group.folder.is_dir() {
            group.folder.clone_from(&group.top);
        }
    }
    groups
}

/// The smallest memory limit of this process's groups and those above them, bytes; `None`: no limit below `total`.
pub fn memory_limit(roots: &Roots, total: u64) -> Option<u64> {
    limiting_memory(roots, total).map(|(limit, _)| limit)
}

/// The group with the smallest memory limit.
fn limiting_memory(roots: &Roots, total: u64) -> Option<(u64, PathBuf)> {
    let folders = folders(roots, "memory");
    let limits = folders.into_iter().filter_map(|folder| {
        let files = ["memory.max", "memory.limit_in_bytes"];
        let limit = files.iter().find_map(|name| text(folder.join(name)))?;
        // `max` and the largest number of version 1 mean that there is no limit.
        Some((limit.parse::<u64>().ok()?, folder))
    });
    limits
        .filter(|(limit, _)| *limit < total)
        .min_by_key(|(limit, _)| *limit)
}

fn folders(roots: &Roots, controller: &str) -> Vec<PathBuf> {
    let groups = groups(roots, controller);
    groups.iter().flat_map(ControlGroup::with_above).collect()
}

/// The counters of the groups of this process since the groups were created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By folder: periods, periods in which the quota was used up, time without CPU because of the quota in ns.
    quotas: Vec<(PathBuf, [u64; 3])>,
    /// The folder of the group with the smallest memory limit, and the number of allocations that reached the limit.
    memory: Option<(PathBuf, u64)>,
}

impl Counts {
    /// Reads the counters. `total` is the host's memory, bytes.
    pub(crate) fn read(roots: &Roots, total: u64) -> Counts {
        let quotas = folders(roots, "cpu").into_iter();
        let memory = limiting_memory(roots, total);
        Counts {
            quotas: quotas
                .filter_map(|folder| {
                    let counts = quota(&text(folder.join("cpu.stat"))?)?;
                    Some((folder, counts))
                })
                .collect(),
            memory: memory.and_then(|(_, folder)| {
                let events = text(folder.join("memory.events"));
                let hits = events
                    .and_then(|text| field(&text, "max"))
                    .or_else(|| text(folder.join("memory.failcnt"))?.parse().ok())?;
                Some((folder, hits))
            }),
        }
    }

    /// The increase since an earlier reading; `None`: no group has a quota in use or a memory limit. Of several groups
    /// with a quota, the one whose quota was used up in the most periods counts.
    pub(crate) fn since(&self, earlier: &Counts) -> Option<ControlGroupUse> {
        let grown = self.quotas.iter().filter_map(|(folder, now)| {
            let before = earlier.quotas.iter().find(|quota| quota.0 == *folder)?.1;
            let grown = [0, 1, 2].map(|place: usize| now[place].saturating_sub(before[place]));
            (grown[0] > 0).then_some(grown)
        });
        let quota = grown.max_by_key(|grown| grown[1]);
        let memory = self.memory.as_ref().and_then(|(folder, now)| {
            let before = earlier
                .memory
                .as_ref()
                .filter(|memory| memory.0 == *folder)?;
            Some(now.saturating_sub(before.1))
        });
        if quota.is_none() && memory.is_none() {
            return None;
        }
        let [periods, throttled_periods, throttled_ns] = quota.unwrap_or_default();
        Some(ControlGroupUse {
            periods,
            throttled_periods,
            throttled_ns,
            memory_limit_hits: memory,
        })
    }
}

/// Counts of cpu.stat: version 2 has µs, version 1 ns.
fn quota(text: &str) -> Option<[u64; 3]> {
    let micros = field(text, "throttled_usec").map(|micros| micros.saturating_mul(1000));
    Some([
        field(text, "nr_periods")?,
        field(text, "nr_throttled")?,
        micros.or_else(|| field(text, "throttled_time"))?,
    ])
}

/// The value of a line `NAME VALUE`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .and_then(|value| value.trim().parse().ok())
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The groups of these mounts. `groups`: the text of /proc/self/cgroup.
fn parse(mounts: &[Mount], groups: &str, controller: &str) -> Vec<ControlGroup> {
    let mut found: Vec<ControlGroup> = mounts
        .iter()
        .filter_map(|mount| place(mount, groups, controller))
        .collect();
    found.sort_by_key(|group| group.version == Version::One);
    found
}

fn place(mount: &Mount, groups: &str, controller: &str) -> Option<ControlGroup> {
    let mut options = mount.super_options.split(',');
    let version = match mount.file_system.as_str() {
        "cgroup2" => Version::Two,
        "cgroup" if options.any(|option| option == controller) => Version::One,
        _ => return None,
    };
    // `7:blkio:/a/b`, `0::/a/b`.
    let group = groups.lines().find_map(|line| {
        let mut words = line.splitn(3, ':');
        let (number, controllers) = (words.next()?, words.next()?);
        let fits = match version {
            Version::Two => number == "0" && controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == controller),
        };
        fits.then(|| words.next()).flatten()
    })?;
    // The mounted group can be that of a container, in which the host's path does not exist.
    let within = Path::new(group).strip_prefix(&mount.root);
    let within = within.unwrap_or(Path::new(""));
    let within = within.strip_prefix("/").unwrap_or(within);
    Some(ControlGroup {
        version,
        top: mount.point.clone(),
        // Removes the trailing slash that joining an empty path adds.
        folder: mount.point.join(within).components().collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fake::FakeHost;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";

    fn check(mounts: &str, groups: &str, expected: &[(Version, &str)]) {
        let places = parse(&mounts::parse(mounts.as_bytes()), groups, "blkio");
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
        let blank = "38 31 0:35 / /mnt/a\\040b rw - cgroup2 cgroup2 rw\n";
        check(blank, "0::/c\n", &[(Two, "/mnt/a b/c")]);
        check("", "0::/\n", &[]);
        check(
            "1 2 3 - cgroup2\n38 31 0:35 / - cgroup2 x rw\n",
            "0::/\n",
            &[],
        );
    }

    /// A host whose process is in the groups of these lines of /proc/self/cgroup.
    fn host(mounts: &str, groups: &str) -> FakeHost {
        let host = FakeHost::new();
        host.write("proc/self/mountinfo", mounts);
        host.write("proc/self/cgroup", groups);
        host
    }

    const ALL: &str = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_smallest_memory_limit_of_all_groups_above_applies() {
        let limited = |files: &[(&str, &str)], mounts: &str, groups: &str| {
            let host = host(mounts, groups);
            for (file, text) in files {
                host.write(&format!("sys/fs/cgroup/{file}"), text);
            }
            memory_limit(&host.roots, 1 << 30)
        };
        let two = [
            ("a/b/memory.max", "max\n"),
            ("a/memory.max", "50331648\n"),
            ("memory.max", "100331648\n"),
        ];
        assert_eq!(limited(&two, ALL, "0::/a/b\n"), Some(48 << 20));
        assert_eq!(limited(&two[..1], ALL, "0::/a/b\n"), None);
        assert_eq!(limited(&[], ALL, "0::/a/b\n"), None);
        let larger = [("a/memory.max", "2000000000\n")];
        assert_eq!(limited(&larger, ALL, "0::/a\n"), None, "no limit at all");
        let one = [
            ("memory/x/y/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/x/memory.limit_in_bytes", "4096000\n"),
        ];
        assert_eq!(
            limited(&one, MOUNTS, "4:memory:/x/y\n0::/\n"),
            Some(4_096_000)
        );
    }

    #[test]
    fn quotas_and_memory_limits_are_counted_between_two_readings() {
        let host = host(ALL, "0::/a/b\n");
        let group = |file: &str, text: &str| host.write(&format!("sys/fs/cgroup/a/{file}"), text);
        let read = || Counts::read(&host.roots, 1 << 30);
        let none = read();
        assert_eq!(none.since(&none), None);
        let stat = |[periods, throttled, usec]: [u64; 3]| {
            format!(
                "usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {usec}\n"
            )
        };
        group("b/cpu.stat", &stat([9, 0, 0]));
        group("cpu.stat", &stat([100, 10, 5000]));
        let before = read();
        assert_eq!(before.since(&none), None, "it was made meanwhile");
        assert_eq!(before.since(&before), None, "no period passed");
        group("b/cpu.stat", &stat([120, 0, 0]));
        group("cpu.stat", &stat([211, 65, 905_000]));
        let used = ControlGroupUse {
            periods: 111,
            throttled_periods: 55,
            throttled_ns: 900_000_000,
            memory_limit_hits: None,
        };
        assert_eq!(read().since(&before), Some(used));
        group("b/memory.max", "50331648\n");
        group("b/memory.events", "low 0\nhigh 1\nmax 7\noom 0\n");
        let before = read();
        group("b/memory.events", "low 0\nhigh 1\nmax 30\noom 0\n");
        let hits = ControlGroupUse {
            memory_limit_hits: Some(23),
            ..ControlGroupUse::default()
        };
        assert_eq!(read().since(&before), Some(hits));
    }

    #[test]
    fn version_one_has_its_own_files() {
        let mounts = "40 31 0:39 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let host = host(mounts, "4:memory:/m\n1:cpu:/c\n");
        let stat = |throttled: u64| {
            format!(
                "nr_periods 50\nnr_throttled {throttled}\nthrottled_time {throttled}00\nnr_bursts 0\n"
            )
        };
        let group = |file: &str, text: &str| host.write(&format!("sys/fs/cgroup/{file}"), text);
        group(
            "cpu/c/cpu.stat",
            "nr_periods 40\nnr_throttled 3\nthrottled_time 300\n",
        );
        group("memory/m/memory.limit_in_bytes", "4096\n");
        group("memory/m/memory.failcnt", "5\n");
        let before = Counts::read(&host.roots, 1 << 30);
        group("cpu/c/cpu.stat", &stat(7));
        group("memory/m/memory.failcnt", "9\n");
        let used = ControlGroupUse {
            periods: 10,
            throttled_periods: 4,
            throttled_ns: 400,
            memory_limit_hits: Some(4),
        };
        assert_eq!(
            Counts::read(&host.roots, 1 << 30).since(&before),
            Some(used)
        );
    }

    #[test]
    fn the_groups_above_are_those_within_the_hierarchy() {
        let mounts = mounts::parse(MOUNTS.as_bytes());
        let place = &parse(&mounts, "0::/a/b\n", "blkio")[0];
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
        fn accepts_any_text(mounts in "([a-z0-9:/]{0,6} ){0,9}- cgroup2? \\PC*", groups in "[0-9]:(blkio)?:\\PC*") {
            parse(&mounts::parse(mounts.as_bytes()), &groups, "blkio");
        }
    }
}
