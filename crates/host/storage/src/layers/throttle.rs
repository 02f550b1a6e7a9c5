//! Limits of the rate of devices, through control groups.
//!
//! A limit holds for the processes of one group. In version 1, it is set in the group of this process and in the top
//! group, which contains the kernel's threads. In version 2, the top group cannot have limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_host::control_group::{Version, groups};
use iodyno_host::{Roots, text};
use iodyno_model::{Diagnostic, Limits};
use iodyno_units::Bytes;

use super::host::Host;

/// How long each direction is measured.
pub(super) const SPAN: Duration = Duration::from_millis(500);
/// The size of the ops that are measured, bytes: of a device with a limit of bandwidth, and without.
const LARGE: usize = 1 << 20;
const SMALL: usize = 4096;
/// The least and the most data that are written to check limits through the layers above, bytes.
const LEAST: u64 = 1 << 20;
const MOST: u64 = 256 << 20;
/// Ops beyond a limit that a short measurement permits.
const SLACK: u64 = 8;
/// A rate above this multiple of its limit means that the limit does not hold. The kernel lets a group that was idle
/// exceed its limit by a tenth of a second.
const TOLERANCE: f64 = 1.5;

/// The files to write and what to write after the device's number, with one file per kind of limit in version 1.
///
/// # Errors
/// The host has no control group that can limit a device.
pub(super) fn settings(
    roots: &Roots,
    limits: &Limits,
) -> Result<Vec<(PathBuf, String)>, Diagnostic> {
    let kinds = [
        ("read_iops", "riops", limits.read_iops),
        ("write_iops", "wiops", limits.write_iops),
        ("read_bps", "rbps", limits.read_bandwidth),
        ("write_bps", "wbps", limits.write_bandwidth),
    ];
    let set = kinds.iter().filter(|(_, _, limit)| *limit > 0);
    if let Some(group) = groups(roots, "blkio")
        .into_iter()
        .find(|group| group.version == Version::One)
    {
        let mut folders = group.with_above();
        // The groups between have no processes of ours.
        let top = folders.pop();
        folders.truncate(1);
        folders.extend(top);
        let files = set.flat_map(|(name, _, limit)| {
            let name = format!("blkio.throttle.{name}_device");
            let folders = folders.iter();
            let files = folders.map(move |folder| (folder.join(&name), limit.to_string()));
            files.collect::<Vec<_>>()
        });
        return Ok(files.collect());
    }
    let all = groups(roots, "io").into_iter();
    let all = all.filter(|group| group.version == Version::Two);
    let mut files = all.flat_map(|group| group.with_above());
    let file = files.find_map(|folder| {
        let file = folder.join("io.max");
        file.is_file().then_some(file)
    });
    let Some(file) = file else {
        let message = "`throttle` needs a control group with the controller `io` or `blkio`";
        let hint =
            "run iodyno in a group of its own: `systemd-run --scope -p IOAccounting=yes iodyno …`";
        return Err(Diagnostic::error(message).hint(hint));
    };
    let words: Vec<String> = set
        .map(|(_, name, limit)| format!("{name}={limit}"))
        .collect();
    Ok(vec![(file, words.join(" "))])
}

/// The limits of one direction; 0: none.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneWay {
    write: bool,
    iops: u64,
    bandwidth: u64,
}

impl OneWay {
    pub(super) fn reads(limits: &Limits) -> OneWay {
        OneWay {
            write: false,
            iops: limits.read_iops,
            bandwidth: limits.read_bandwidth,
        }
    }

    pub(super) fn writes(limits: &Limits) -> OneWay {
        OneWay {
            write: true,
            iops: limits.write_iops,
            bandwidth: limits.write_bandwidth,
        }
    }

    fn ops(self) -> &'static str {
        if self.write { "writes" } else { "reads" }
    }
}

/// Reads and writes the devices for a short time, all at once, and compares the rates with the limits. Their content is
/// lost.
///
/// # Errors
/// A limit does not hold, or a device cannot be read or written.
pub(super) fn check(
    host: &dyn Host,
    devices: &[PathBuf],
    limits: &Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(&'static str, String)>, Diagnostic> {
    let mut facts = Vec::new();
    for (way, name) in [
        (OneWay::reads(limits), "achieved_read"),
        (OneWay::writes(limits), "achieved_write"),
    ] {
        for (limit, size) in [(way.iops, SMALL), (way.bandwidth, LARGE)] {
            if limit == 0 || stop() {
                continue;
            }
            let measured = host.measure(devices, way.write, size, SPAN);
            let measured = measured.map_err(|error| {
                let message = format!("cannot check the limits of the devices: {error}");
                Diagnostic::error(message)
            })?;
            for (device, (ops, span)) in devices.iter().zip(measured) {
                let amount = match size {
                    SMALL => ops,
                    _ => ops * size as u64,
                };
                let rate = amount as f64 / span.as_secs_f64();
                let text = match size {
                    SMALL => format!("{rate:.0} IOPS"),
                    _ => format!("{}/s", Bytes(rate as u64)),
                };
                if !holds(amount, amount / ops.max(1), limit, span) {
                    let message = format!(
                        "the limit of {limit} per second for {} of `{}` does not hold: {text}",
                        way.ops(),
                        device.display()
                    );
                    return Err(
                        Diagnostic::error(message).hint("use `delay` instead of `throttle`")
                    );
                }
                facts.push((name, text));
            }
        }
    }
    Ok(facts)
}

/// The amount of data that is written and read to check limits through the layers above, bytes: about a second's.
pub(super) fn amount(limits: &Limits, devices: usize, free: u64) -> u64 {
    let rates = [limits.read_bandwidth, limits.write_bandwidth];
    let slowest = rates.into_iter().filter(|rate| *rate > 0).min();
    let wanted = match slowest {
        Some(rate) => rate.saturating_mul(devices as u64),
        None => LEAST << 2,
    };
    wanted.clamp(LEAST, MOST).min(free / 4)
}

/// The counters of devices at an instant: ops and bytes, read and written.
pub(super) struct Counts<'a> {
    devices: &'a [PathBuf],
    counts: Vec<[u64; 4]>,
}

pub(super) fn counts<'a>(host: &dyn Host, devices: &'a [PathBuf]) -> Counts<'a> {
    let count = |device: &PathBuf| {
        let name = device.file_name().unwrap_or_default();
        let file = host.roots().sys.join("class/block").join(name).join("stat");
        let text = text(file).unwrap_or_default();
        let numbers = text
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0));
        let numbers: Vec<u64> = numbers.collect();
        // Documentation/block/stat.rst: sectors have 512 bytes.
        [(0, 1), (2, 512), (4, 1), (6, 512)].map(|(place, unit): (usize, u64)| {
            numbers.get(place).unwrap_or(&0).saturating_mul(unit)
        })
    };
    Counts {
        devices,
        counts: devices.iter().map(count).collect(),
    }
}

/// What was moved while limits were checked through the layers above.
pub(super) struct Moved<'a> {
    /// Through the top layer, bytes.
    bytes: u64,
    span: Duration,
    /// Each device, with ops and bytes, read and written.
    devices: Vec<(&'a Path, [u64; 4])>,
}

impl<'a> Counts<'a> {
    pub(super) fn since(self, host: &dyn Host, bytes: u64, span: Duration) -> Moved<'a> {
        let now = counts(host, self.devices).counts;
        let grown = self.counts.iter().zip(now);
        let grown = grown.map(|(before, now)| {
            [0, 1, 2, 3].map(|place: usize| now[place].saturating_sub(before[place]))
        });
        Moved {
            bytes,
            span,
            devices: self
                .devices
                .iter()
                .map(PathBuf::as_path)
                .zip(grown)
                .collect(),
        }
    }
}

/// Whether limits held for what was done through the top layer, of this kind: a server or a thread of the kernel that
/// is not in the control group is not limited. Returns the achieved rate.
///
/// # Errors
/// They did not hold.
pub(super) fn holds_through(
    kind: &str,
    way: OneWay,
    moved: &Moved<'_>,
) -> Result<Option<(&'static str, String)>, Diagnostic> {
    let (place, name) = match way.write {
        false => (0, "achieved_read_through"),
        true => (2, "achieved_write_through"),
    };
    let span = moved.span;
    let rate = |amount: u64| (amount as f64 / span.as_secs_f64().max(1e-9)) as u64;
    let total = way.bandwidth.saturating_mul(moved.devices.len() as u64);
    let mut escaped = None;
    if total > 0 && !holds(moved.bytes, LARGE as u64, total, span) {
        escaped = Some(format!("{}/s through it", Bytes(rate(moved.bytes))));
    }
    for (device, counts) in &moved.devices {
        let shown = device.display();
        if way.iops > 0 && !holds(counts[place], SLACK, way.iops, span) {
            escaped = Some(format!("{} IOPS of `{shown}`", rate(counts[place])));
        }
        if way.bandwidth > 0 && !holds(counts[place + 1], LARGE as u64, way.bandwidth, span) {
            escaped = Some(format!("{}/s of `{shown}`", Bytes(rate(counts[place + 1]))));
        }
    }
    if let Some(escaped) = escaped {
        let message = format!(
            "the limits for {} do not hold through `{kind}`: {escaped}",
            way.ops()
        );
        let hint = "a server or a thread of the kernel outside the control group does the I/O: end a zfs-fuse \
                    that iodyno did not start, or use `delay`";
        return Err(Diagnostic::error(message).hint(hint));
    }
    let shown = format!("{}/s", Bytes(rate(moved.bytes)));
    Ok((total > 0 && moved.bytes > 0).then_some((name, shown)))
}

/// Whether a limit held: what was done in this time, and one op's part of it, in ops or bytes.
fn holds(amount: u64, one: u64, limit: u64, span: Duration) -> bool {
    let permitted = limit as f64 * span.as_secs_f64() * TOLERANCE;
    // The first op is not delayed.
    amount as f64 <= permitted + one as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_host::fake::FakeHost;

    const LIMITS: Limits = Limits {
        read_iops: 100,
        write_iops: 0,
        read_bandwidth: 0,
        write_bandwidth: 5 << 20,
    };

    fn written(host: &FakeHost) -> Vec<String> {
        let settings = settings(&host.roots, &LIMITS).unwrap().into_iter();
        let text = |(path, value): (PathBuf, String)| {
            let path = path.strip_prefix(&host.roots.root).unwrap().to_owned();
            format!("{}: {value}", path.display())
        };
        settings.map(text).collect()
    }

    #[test]
    fn version_one_limits_the_own_group_and_that_of_the_kernel() {
        let host = FakeHost::new();
        let mount = "35 31 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
        host.write("proc/self/mountinfo", mount);
        host.write("proc/self/cgroup", "7:blkio:/a/b\n");
        host.write("sys/fs/cgroup/blkio/a/b/tasks", "");
        assert_eq!(
            written(&host),
            [
                "sys/fs/cgroup/blkio/a/b/blkio.throttle.read_iops_device: 100",
                "sys/fs/cgroup/blkio/blkio.throttle.read_iops_device: 100",
                "sys/fs/cgroup/blkio/a/b/blkio.throttle.write_bps_device: 5242880",
                "sys/fs/cgroup/blkio/blkio.throttle.write_bps_device: 5242880",
            ]
        );
        host.write("proc/self/cgroup", "7:blkio:/\n");
        assert_eq!(written(&host).len(), 2, "the own group is the top one");
    }

    #[test]
    fn version_two_limits_the_nearest_group_that_can() {
        let host = FakeHost::new();
        let mount = "42 31 0:39 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        host.write("proc/self/mountinfo", mount);
        host.write("proc/self/cgroup", "0::/a/b\n");
        host.write("sys/fs/cgroup/a/b/cgroup.procs", "");
        let fault = settings(&host.roots, &LIMITS).unwrap_err();
        assert!(fault.message.contains("control group"), "{}", fault.message);
        host.write("sys/fs/cgroup/a/io.max", "");
        assert_eq!(
            written(&host),
            ["sys/fs/cgroup/a/io.max: riops=100 wbps=5242880"]
        );
    }

    #[test]
    fn a_limit_holds_if_the_rate_is_not_much_higher() {
        let second = Duration::from_secs(1);
        assert!(holds(100, 1, 100, second));
        assert!(holds(140, 1, 100, second));
        assert!(!holds(200, 1, 100, second));
        assert!(holds(1, 1, 1, Duration::from_millis(1)));
        // A single large op takes longer than the measurement.
        assert!(holds(1 << 20, 1 << 20, 1 << 10, second));
        assert!(!holds(100 << 20, 1 << 20, 5 << 20, second));
    }
}
