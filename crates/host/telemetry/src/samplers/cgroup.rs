//! The control group of iodyno's process: its I/O by device, and its limits.
//!
//! In version 2, I/O is counted and limited in the nearest group that has the controller; limits of its parents apply
//! as well. In version 1, only a group's own limits apply.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_host::Roots;
use iodyno_host::control_group::{ControlGroup, Version, groups};
use iodyno_model::{CGROUP, Reading, SeriesColumn, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Devices;
use crate::text::Text;

/// major:minor.
type Number = (u32, u32);
/// In the order of [`CGROUP`]; the first four are counts.
type Values = [Option<u64>; 8];

const COUNTS: usize = 4;
/// Version 1: limits on reads, writes, and bytes read and written per second.
const LIMITS: [&str; 4] = [
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];

/// The files of the group.
struct Files {
    /// The counts, and the index in [`Values`] of a file's numbers of reads and writes.
    counts: Vec<(Text, Counts)>,
    limits: Vec<(Text, Limits)>,
}

#[derive(Debug, Clone, Copy)]
enum Counts {
    /// Version 2: all in one file.
    All,
    /// Version 1: reads; the index of writes is the next one.
    From(usize),
}

#[derive(Debug, Clone, Copy)]
enum Limits {
    /// Version 2: all in one file.
    All,
    /// Version 1: only this limit.
    Of(usize),
}

/// The control group of iodyno's process.
pub(crate) struct Cgroup {
    files: Files,
    devices: Devices,
    /// Links from device numbers to devices.
    numbers: PathBuf,
    values: BTreeMap<Number, Values>,
}

impl Cgroup {
    /// `None`: no group counts I/O, or no devices are in the scope.
    pub(crate) fn open(roots: &Roots, devices: &Devices) -> Option<Cgroup> {
        if *devices == Devices::Named(Vec::new()) {
            return None;
        }
        let files = groups(roots, "blkio").iter().find_map(files)?;
        Some(Cgroup {
            files,
            devices: devices.clone(),
            numbers: roots.sys.join("dev/block"),
            values: BTreeMap::new(),
        })
    }

    /// The kernel name of a device; `None`: it is not in the scope.
    fn name(&self, number: Number) -> Option<String> {
        let link = self.numbers.join(format!("{}:{}", number.0, number.1));
        let target = fs::read_link(link).ok()?;
        let name = target.file_name()?.to_str()?;
        let requested = match &self.devices {
            Devices::All => true,
            Devices::Named(names) => names.iter().any(|requested| requested == name),
        };
        requested.then(|| name.to_owned())
    }
}

impl Sampler for Cgroup {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Cgroup
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let values = &mut self.values;
        values.clear();
        for (text, counts) in &mut self.files.counts {
            text.read_by(|text| {
                count(text, *counts, values);
                Ok(())
            })?;
        }
        for (text, limits) in &mut self.files.limits {
            // The group may have lost its controller meanwhile; its counts would then be missing from those of its
            // parent.
            let _ = text.read_by(|text| {
                limit(text, *limits, values);
                Ok(())
            });
        }
        let mut fill = into.fill(CGROUP);
        for (number, values) in &self.values {
            if let Some(name) = self.name(*number) {
                let new = || SeriesRow::new(name.as_str());
                fill.row(|row| row.name == name, new, *values);
            }
        }
        fill.done();
        Ok(Read::Fresh)
    }

    /// A device is counted from the group's first I/O on it.
    fn began_at(&self, _row: &SeriesRow, column: &SeriesColumn) -> Option<u64> {
        (column.reading == Reading::Count).then_some(0)
    }
}

/// The files of a group, if it counts I/O.
fn files(group: &ControlGroup) -> Option<Files> {
    let text = |folder: &Path, name: &str| {
        let path = folder.join(name);
        path.exists().then(|| Text::new(path))
    };
    match group.version {
        Version::Two => {
            let above = group.with_above();
            let counting = above
                .iter()
                .position(|folder| folder.join("io.stat").exists())?;
            // The root group of a host counts the I/O of all processes.
            if !above[counting].join("cgroup.type").exists() {
                return None;
            }
            let limits = above[counting..].iter();
            let limits = limits.filter_map(|folder| Some((text(folder, "io.max")?, Limits::All)));
            Some(Files {
                counts: vec![(text(&above[counting], "io.stat")?, Counts::All)],
                limits: limits.collect(),
            })
        }
        Version::One => {
            let counts = |name: &str, from| Some((text(&group.folder, name)?, Counts::From(from)));
            let limits = LIMITS.iter().enumerate().filter_map(|(number, name)| {
                Some((text(&group.folder, name)?, Limits::Of(COUNTS + number)))
            });
            Some(Files {
                counts: vec![
                    counts("blkio.throttle.io_serviced", 0)?,
                    counts("blkio.throttle.io_service_bytes", 2)?,
                ],
                limits: limits.collect(),
            })
        }
    }
}

/// The values of a device before anything was counted.
fn entry(values: &mut BTreeMap<Number, Values>, number: Number) -> &mut Values {
    values.entry(number).or_insert_with(|| {
        let mut none = [None; 8];
        none[..COUNTS].fill(Some(0));
        none
    })
}

/// Parses `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`, or `8:0 Read 1` and `8:0 Write 2`.
fn count(text: &str, counts: Counts, values: &mut BTreeMap<Number, Values>) {
    for (number, rest) in text.lines().filter_map(device) {
        let mut words = rest.split_ascii_whitespace();
        match counts {
            Counts::All => {
                for (name, value) in words.filter_map(|word| word.split_once('=')) {
                    let names = ["rios", "wios", "rbytes", "wbytes"];
                    let place = names.iter().position(|known| *known == name);
                    if let (Some(place), Ok(value)) = (place, value.parse()) {
                        entry(values, number)[place] = Some(value);
                    }
                }
            }
            Counts::From(from) => {
                let place = match words.next() {
                    Some("Read") => from,
                    Some("Write") => from + 1,
                    _ => continue,
                };
                if let Some(Ok(value)) = words.next().map(str::parse) {
                    entry(values, number)[place] = Some(value);
                }
            }
        }
    }
}

/// Parses `8:0 rbps=max wbps=1048576 riops=max wiops=max`, or `8:0 1048576`. The lowest limit applies.
fn limit(text: &str, limits: Limits, values: &mut BTreeMap<Number, Values>) {
    for (number, rest) in text.lines().filter_map(device) {
        let mut hold = |place: usize, limit: &str| {
            if let Ok(limit) = limit.parse::<u64>() {
                let held = &mut entry(values, number)[place];
                *held = Some(held.map_or(limit, |held| held.min(limit)));
            }
        };
        match limits {
            Limits::All => {
                for (name, limit) in rest
                    .split_ascii_whitespace()
                    .filter_map(|word| word.split_once('='))
                {
                    let names = ["riops", "wiops", "rbps", "wbps"];
                    if let Some(place) = names.iter().position(|known| *known == name) {
                        hold(COUNTS + place, limit);
                    }
                }
            }
            Limits::Of(place) => hold(place, rest.trim()),
        }
    }
}

/// Splits a line into the device and the rest.
fn device(line: &str) -> Option<(Number, &str)> {
    let (number, rest) = line.split_once(' ')?;
    let (major, minor) = number.split_once(':')?;
    Some(((major.parse().ok()?, minor.parse().ok()?), rest))
}

#[cfg(test)]
mod tests;
