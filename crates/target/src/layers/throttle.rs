//! Limits of the rate of devices, through control groups.
//!
//! A limit holds for the processes of one group. In version 1, it is set in the group of this process and in the top
//! group, which contains the kernel's threads. In version 2, the top group cannot have limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{Diagnostic, Limits};
use iodyno_units::Bytes;

use crate::control_group::{Version, groups};
use crate::roots::Roots;

use super::host::Host;

/// How long each direction is measured.
const SPAN: Duration = Duration::from_millis(500);
/// The size of the ops that are measured, bytes: of a device with a limit of bandwidth, and without.
const LARGE: usize = 1 << 20;
const SMALL: usize = 4096;
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

/// Reads and writes the device for a short time, and compares the rates with the limits. Its content is lost.
///
/// # Errors
/// A limit does not hold, or the device cannot be read or written.
pub(super) fn check(
    host: &dyn Host,
    device: &Path,
    limits: &Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(&'static str, String)>, Diagnostic> {
    let mut facts = Vec::new();
    let directions = [
        (
            false,
            "achieved_read",
            limits.read_iops,
            limits.read_bandwidth,
        ),
        (
            true,
            "achieved_write",
            limits.write_iops,
            limits.write_bandwidth,
        ),
    ];
    for (write, name, iops, bandwidth) in directions {
        for (limit, size) in [(iops, SMALL), (bandwidth, LARGE)] {
            if limit == 0 || stop() {
                continue;
            }
            let (ops, span) = host.measure(device, write, size, SPAN).map_err(|error| {
                let message = format!("cannot check the limit of `{}`: {error}", device.display());
                Diagnostic::error(message)
            })?;
            let amount = match size {
                SMALL => ops,
                _ => ops * size as u64,
            };
            let rate = amount as f64 / span.as_secs_f64();
            let text = match size {
                SMALL => format!("{rate:.0} IOPS"),
                _ => format!("{}/s", Bytes(rate as u64)),
            };
            let one = amount / ops.max(1);
            if !holds(amount, one, limit, span) {
                let what = if write { "writes" } else { "reads" };
                let message = format!(
                    "the limit of {limit} per second for {what} of `{}` does not hold: {text}",
                    device.display()
                );
                return Err(Diagnostic::error(message).hint("use `delay` instead of `throttle`"));
            }
            facts.push((name, text));
        }
    }
    Ok(facts)
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
    use crate::fake::FakeHost;

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
