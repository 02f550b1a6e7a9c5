//! ZFS's ARC, from the kernel's arcstats, or from those of zfs-fuse. A background thread reads the latter, because a
//! daemon provides them.

use std::fs;
use std::path::{Path, PathBuf};

use iodyno_host::{Roots, mounts};
use iodyno_model::{ARC, SeriesKind, SeriesRow};

use super::background::BackgroundSampler;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{Pools, Scope};
use crate::text::Text;

/// The names of its statistics, in the order of [`ARC`].
const NAMES: [&str; 6] = ["hits", "misses", "l2_hits", "l2_misses", "size", "c"];

/// The source of the statistics.
pub(crate) enum Arc {
    /// All in one file.
    File(Text),
    /// zfs-fuse: one file for each, in this folder.
    Folder(PathBuf),
    /// Unavailable, for this reason.
    Missing(String),
}

impl Arc {
    /// `None`: no pools are requested, or this host has no ZFS.
    pub(crate) fn open(roots: &Roots, scope: &Scope) -> Option<Box<dyn Sampler>> {
        if scope.pools == Pools::Named(Vec::new()) {
            return None;
        }
        let file = roots.proc.join("spl/kstat/zfs/arcstats");
        if file.exists() {
            return Some(Box::new(Arc::File(Text::new(file))));
        }
        if has_zfs_fuse(roots) {
            let folder = roots.root.join("zfs-kstat/zfs/arcstats");
            return Some(Box::new(BackgroundSampler::of(Arc::Folder(folder))));
        }
        let reason = match runs_zfs_fuse(roots) {
            true => "start zfs-fuse without `--no-kstat-mount` to see its statistics".to_owned(),
            false if scope.pools == Pools::All => return None,
            false => format!("there is no {}", file.display()),
        };
        Some(Box::new(Arc::Missing(reason)))
    }

    fn values(&mut self) -> Result<[Option<u64>; 6], String> {
        match self {
            Arc::File(text) => text.read_by(parse),
            Arc::Folder(folder) => {
                let read = |name: &str| fs::read_to_string(folder.join(name));
                let hits = read("hits")
                    .map_err(|error| format!("cannot read {}/hits: {error}", folder.display()))?;
                let number = |text: &str| text.trim().parse().ok();
                let mut values = NAMES.map(|name| number(&read(name).ok()?));
                values[0] = number(&hits);
                Ok(values)
            }
            Arc::Missing(reason) => Err(reason.clone()),
        }
    }
}

/// Whether a process of zfs-fuse runs.
pub(super) fn runs_zfs_fuse(roots: &Roots) -> bool {
    let processes = fs::read_dir(&roots.proc).into_iter().flatten().flatten();
    let mut names = processes.filter_map(|process| {
        let number = process.file_name();
        let is_process = number.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        is_process
            .then(|| fs::read_to_string(process.path().join("comm")))?
            .ok()
    });
    names.any(|name| name.trim_end() == "zfs-fuse")
}

/// Whether the statistics of zfs-fuse are mounted. Asks the kernel, because the daemon may not respond.
pub(super) fn has_zfs_fuse(roots: &Roots) -> bool {
    let own = mounts::own(roots);
    own.iter()
        .any(|mount| mount.point == Path::new("/zfs-kstat"))
}

impl Sampler for Arc {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Arc
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let values = self.values()?;
        let mut fill = into.fill(ARC);
        fill.row(|_| true, SeriesRow::default, values);
        fill.done();
        Ok(Read::Fresh)
    }
}

/// Parses lines `hits    4    123`: name, type, value.
fn parse(text: &str) -> Result<[Option<u64>; 6], String> {
    let mut values = [None; 6];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let place = words
            .next()
            .and_then(|name| NAMES.iter().position(|wanted| *wanted == name));
        if let Some(place) = place {
            values[place] = words.nth(1).and_then(|word| word.parse().ok());
        }
    }
    match values[0] {
        Some(_) => Ok(values),
        None => Err("it has no hits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::scope::Devices;

    /// From OpenZFS, shortened.
    const ARCSTATS: &str = "\
9 1 0x01 147 39984 5160427209 8723518239
name                            type data
hits                            4    1530284
iohits                          4    512
misses                          4    8814
c                               4    8321499136
c_min                           4    520093696
size                            4    1207959552
l2_hits                         4    17
l2_misses                       4    8797
";

    fn open(folder: &std::path::Path, pools: Pools) -> Option<Box<dyn Sampler>> {
        let scope = Scope {
            block_trace: false,
            every: Duration::from_secs(1),
            devices: Devices::All,
            pools,
            processes: Vec::new(),
            servers: Vec::new(),
            stats: Vec::new(),
            own: Vec::new(),
        };
        Arc::open(&Roots::below(folder), &scope)
    }

    /// Reads again if a busy host delays a reading so long that it becomes a gap.
    fn answer(arc: &mut dyn Sampler, into: &mut Readings) -> Result<Read, String> {
        let begun = Instant::now();
        loop {
            match arc.read(into) {
                Ok(Read::Nothing) => {}
                Err(error) if error == "does not respond" => {}
                answer => return answer,
            }
            assert!(begun.elapsed().as_secs() < 120, "it never answers");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    const EXPECTED: [Option<u64>; 6] = [
        Some(1_530_284),
        Some(8814),
        Some(17),
        Some(8797),
        Some(1_207_959_552),
        Some(8_321_499_136),
    ];

    #[test]
    fn reads_the_kernels_statistics_and_those_of_zfs_fuse() {
        let kernel = tempfile::tempdir().unwrap();
        let path = kernel.path().join("proc/spl/kstat/zfs");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("arcstats"), ARCSTATS).unwrap();
        let fuse = tempfile::tempdir().unwrap();
        let path = fuse.path().join("zfs-kstat/zfs/arcstats");
        fs::create_dir_all(&path).unwrap();
        for (name, value) in NAMES.iter().zip(EXPECTED) {
            fs::write(path.join(name), format!("{}\n", value.unwrap())).unwrap();
        }
        assert!(open(fuse.path(), Pools::All).is_none(), "it is not mounted");
        fs::create_dir_all(fuse.path().join("proc/self")).unwrap();
        let mount = "31 23 0:28 / /zfs-kstat rw,nosuid - fuse kstat rw\n";
        fs::write(fuse.path().join("proc/self/mountinfo"), mount).unwrap();
        for folder in [&kernel, &fuse] {
            let mut arc = open(folder.path(), Pools::All).unwrap();
            let mut readings = Readings::default();
            assert_eq!(answer(&mut *arc, &mut readings), Ok(Read::Fresh));
            assert_eq!(readings.values, EXPECTED);
            assert_eq!(readings.rows, [SeriesRow::default()]);
            assert!(open(folder.path(), Pools::Named(Vec::new())).is_none());
        }
        let mut arc = open(fuse.path(), Pools::All).unwrap();
        fs::remove_dir_all(fuse.path().join("zfs-kstat")).unwrap();
        let error = answer(&mut *arc, &mut Readings::default()).unwrap_err();
        assert!(error.contains("arcstats/hits: No such file"), "{error}");
    }

    #[test]
    fn statistics_that_are_not_available_are_reported_where_pools_are_requested() {
        let host = tempfile::tempdir().unwrap();
        let message = |pools| {
            let mut arc = open(host.path(), pools)?;
            Some(arc.read(&mut Readings::default()).unwrap_err())
        };
        let tank = || Pools::Named(vec!["tank".to_owned()]);
        assert_eq!(message(Pools::All), None, "there is no ZFS");
        assert!(message(tank()).unwrap().ends_with("arcstats"));
        for (process, name) in [
            ("self", "zfs-fuse"),
            ("417", "zfs-fuse-x"),
            ("418", "zfs-fuse"),
        ] {
            let expected = (process == "418").then_some("`--no-kstat-mount`");
            fs::create_dir_all(host.path().join("proc").join(process)).unwrap();
            fs::write(
                host.path().join("proc").join(process).join("comm"),
                format!("{name}\n"),
            )
            .unwrap();
            for pools in [Pools::All, tank()] {
                let message =
                    message(pools).filter(|message| message.starts_with("start zfs-fuse"));
                assert_eq!(message.is_some(), expected.is_some(), "{process}");
                assert!(message.is_none_or(|message| message.contains(expected.unwrap())));
            }
        }
        assert!(open(host.path(), Pools::Named(Vec::new())).is_none());
    }

    #[test]
    fn missing_statistics_are_unknown() {
        let values = parse("hits 4 1\nmisses 4 x\nsize 4\n").unwrap();
        assert_eq!(values, [Some(1), None, None, None, None, None]);
        for text in ["", "misses 4 1\n", "hits 4\n", "hits 4 -1\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_text(text in "((hits|misses|size|c|x) [0-9]{1,2} [0-9-]{0,21}\n){0,9}\\PC*") {
            let _ = parse(&text);
        }
    }
}
