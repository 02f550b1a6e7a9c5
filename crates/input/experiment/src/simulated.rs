//! Simulated targets: `2 x mirror of sim:hdd x 3`.

use std::ops::Range;

use crate::document::{Located, Report, Table};
use iodyno_mirror::PolicyKind;
use iodyno_model::{
    Diagnostic, Engine, EngineKind, SimDevice, SimDisk, SimOptions, SimRecords, SimTarget, Target,
    Work, Workload,
};

use crate::check::Keyed;

const MAX_LEGS: usize = SimDevice::MAX_DISKS;
const MAX_DEVICES: u32 = SimTarget::MOST;

/// How a target is written.
const FORM: &str = "write `sim:hdd`, `sim:flash`, `mirror of sim:hdd x 3`, `mirror of sim:hdd + sim:hdd*2`, or `2 x mirror of sim:hdd x 3`";

/// Whether the text of a target names a simulated disk.
pub(crate) fn is_simulated(target: &str) -> bool {
    let mut words = target.split([' ', '+']);
    words.any(|word| word.starts_with("sim:"))
}

/// The target with this text. Faults are reported.
pub(crate) fn target(
    text: &Located<String>,
    configuration: &Keyed<'_>,
    report: &mut Report<'_>,
) -> Option<Target> {
    let (count, legs, mirrored) = match parsed(&text.value) {
        Ok(found) => found,
        Err(message) => {
            report.error(text.at.clone(), message, FORM);
            return None;
        }
    };
    let nothing = Table::default();
    let table = |name: &'static str| {
        let empty = || Keyed::within(&nothing, text.at.clone(), name, &[]);
        configuration.inner(name).unwrap_or_else(empty)
    };
    without_effect(configuration, report);
    let mirror = table("mirror");
    if mirrored {
        for key in ["legs", "delay", "cpus", "numa"] {
            let message = format!("`mirror.{key}` has no effect: the mirror is simulated");
            let hint = "leave it out; `x 3` is the number of disks";
            mirror.refuse(key, message, hint, report);
        }
    } else {
        let message = "`mirror` has no effect: `target` is not a mirror";
        let hint = "leave it out, or write `mirror of …`";
        configuration.refuse("mirror", message, hint, report);
    }
    let policy = mirror.word("policy", report);
    let policy = policy.unwrap_or(PolicyKind::Adaptive.name()).to_owned();
    let device = match (mirrored, legs.first()) {
        (false, Some(disk)) => SimDevice::Disk(*disk),
        _ => SimDevice::Mirror { policy, legs },
    };
    let sim = table("sim");
    let record = sim.size("record", report);
    if record.is_none() {
        let message = "`sim.prefetch` has no effect without `sim.record`";
        sim.refuse("prefetch", message, "add `record = \"128KiB\"`", report);
    }
    let stripe = sim.size("stripe", report).unwrap_or(SimTarget::STRIPE);
    if let Some(record) = record.filter(|record| !stripe.is_multiple_of(*record)) {
        let message =
            format!("`sim.stripe` ({stripe} B) is not a multiple of `sim.record` ({record} B)");
        let at = sim.at("stripe").or(sim.at("record")).unwrap_or_default();
        report.error(at, message, "a record lies on one device");
    }
    let prefetch = sim.size("prefetch", report).unwrap_or(0);
    let aggregation = sim.size("aggregation", report);
    Some(Target::Simulated(Box::new(SimTarget {
        count,
        stripe,
        queues: mirror.count("queues", report).unwrap_or(1) as u32,
        aggregation: aggregation.unwrap_or(SimTarget::AGGREGATION),
        records: record.map(|length| SimRecords { length, prefetch }),
        ..SimTarget::new(device)
    })))
}

/// Number of devices, disks of each, whether they are mirrors.
fn parsed(text: &str) -> Result<(u32, Vec<SimDisk>, bool), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (count, words) = match words[..] {
        [times, "x" | "×", ..] if !times.contains(':') => match times.parse() {
            Ok(count @ 1..=MAX_DEVICES) => (count, &words[2..]),
            _ => {
                return Err(format!("`{times}` is not a number from 1 to {MAX_DEVICES}"));
            }
        },
        _ => (1, &words[..]),
    };
    let (mirrored, words) = match words {
        ["mirror", "of", rest @ ..] => (true, rest),
        words => (false, words),
    };
    let mut disks = Vec::new();
    for part in words.join(" ").split('+') {
        let part: Vec<&str> = part.split_whitespace().collect();
        let (disk, times) = match part[..] {
            [disk] => (disk, 1),
            [disk, "x" | "×", times] => match times.parse() {
                Ok(times @ 1..=MAX_LEGS) => (disk, times),
                _ => return Err(format!("`{times}` is not a number from 1 to {MAX_LEGS}")),
            },
            _ => return Err(format!("`{}` is not simulated storage", part.join(" "))),
        };
        let Some(disk) = disk.strip_prefix("sim:") else {
            return Err(format!("`{disk}` is not a simulated disk"));
        };
        disks.extend(std::iter::repeat_n(disk.parse::<SimDisk>()?, times));
    }
    match disks.len() {
        1..=MAX_LEGS if mirrored => Ok((count, disks, true)),
        1 => Ok((count, disks, false)),
        2.. if mirrored => Err(format!("the mirror has more than {MAX_LEGS} disks")),
        _ => Err("several disks are neither a mirror nor a stripe of equal disks".to_owned()),
    }
}

/// Reports keys of a configuration that are for real storage.
fn without_effect(configuration: &Keyed<'_>, report: &mut Report<'_>) {
    let keys = [
        "fill",
        "precondition",
        "host",
        "env",
        "setup",
        "ready",
        "teardown",
        "sample",
    ];
    for key in keys {
        let message = format!("`{key}` has no effect: the target is simulated");
        configuration.refuse(key, message, "leave it out", report);
    }
}

/// Replaces the engines of a workload by the simulated one. Faults are reported at `at`.
pub(crate) fn simulate(workload: &mut Workload, at: &Range<usize>, report: &mut Report<'_>) {
    let mut faults: Vec<(String, &str)> = Vec::new();
    for job in &mut workload.jobs {
        let Work::Blocks(blocks) = &mut job.work else {
            let hint = "only reads and writes of fio's jobs can be simulated";
            faults.push((
                format!("`{}` cannot run on a simulated target", job.name),
                hint,
            ));
            continue;
        };
        if blocks.verify.is_some() {
            let hint = "leave `verify` out";
            faults.push((
                "simulated storage keeps no data that could be verified".to_owned(),
                hint,
            ));
        }
        let own = blocks.engine.sim.take().unwrap_or_default();
        let law = SimOptions {
            clock: own.clock,
            ..SimOptions::default()
        };
        if own != law {
            let hint = "leave out the options of `sim`, except `sim_clock`";
            faults.push((
                format!(
                    "the simulated device of `{}` has no effect: the target is simulated",
                    job.name
                ),
                hint,
            ));
        }
        blocks.engine = Engine {
            direct: blocks.engine.direct,
            depth_low: blocks.engine.depth_low,
            sim: Some(law),
            ..Engine::new(EngineKind::Sim, blocks.engine.depth)
        };
    }
    for (message, hint) in faults {
        report.add(at.clone(), Diagnostic::error(message).hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_target_is_printed_as_it_was_written() {
        for text in [
            "sim:hdd",
            "sim:flash*2",
            "2 x sim:hdd",
            "mirror of sim:hdd x 3",
            "mirror of sim:hdd",
            "2 x mirror of sim:hdd x 2 + sim:hdd*2 + sim:flash",
        ] {
            assert!(is_simulated(text));
            let (count, legs, mirrored) = parsed(text).unwrap();
            let policy = "modulo".to_owned();
            let device = match mirrored {
                true => SimDevice::Mirror { policy, legs },
                false => SimDevice::Disk(legs[0]),
            };
            let target = SimTarget {
                count,
                ..SimTarget::new(device)
            };
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn a_wrong_part_of_a_target_is_named() {
        for (text, expected) in [
            (
                "mirror of sim:ssd x 2",
                "`ssd` is not a simulated disk: `hdd` or `flash`",
            ),
            (
                "mirror of sim:hdd x 17",
                "`17` is not a number from 1 to 16",
            ),
            (
                "mirror of sim:hdd x 9 + sim:hdd x 9",
                "the mirror has more than 16 disks",
            ),
            ("0 x sim:hdd", "`0` is not a number from 1 to 64"),
            ("many x sim:hdd", "`many` is not a number from 1 to 64"),
            (
                "sim:hdd x 2",
                "several disks are neither a mirror nor a stripe of equal disks",
            ),
            ("mirror of hdd + sim:hdd", "`hdd` is not a simulated disk"),
            (
                "ext4 on sim:hdd",
                "`ext4 on sim:hdd` is not simulated storage",
            ),
            ("sim:hdd*0", "`0` is not a factor from 0.001 to 1000"),
            ("mirror of sim:hdd +", "`` is not simulated storage"),
        ] {
            assert!(is_simulated(text), "{text}");
            assert_eq!(parsed(text).unwrap_err(), expected, "{text}");
        }
        assert!(!is_simulated("mirror on file on /sim"));
    }
}
