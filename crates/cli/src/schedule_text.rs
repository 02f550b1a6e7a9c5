//! What an experiment will do, for `--dry-run`: the storage that is made, space and time, and every trial in order.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_model::{Fresh, Layer, Plan, Provision, Workload, ZfsOrigin};
use iodyno_report::Style;
use iodyno_units::{Bytes, Nanos, counted};

use crate::duration::longest;
use crate::plan_text::line;
use crate::rounds::alpha;

/// The text after the plan's.
pub(crate) fn schedule_text(plan: &Plan, style: Style) -> String {
    let mut text = made(plan, style);
    text += &space(plan, style);
    text += &time(plan, style);
    text += &decides(plan, style);
    text += &line("trials", "in this order, one after the other:", style);
    let mut number = 0;
    for round in 0..plan.rounds {
        let cells = iodyno_lab::order(plan, round).into_iter().map(|cell| {
            number += 1;
            let (configuration, workload) = plan.cell(cell);
            format!("{number} {} on {}", workload.name, configuration.name)
        });
        let cells: Vec<String> = cells.collect();
        text += &line(&format!("  round {}", round + 1), &cells.join(", "), style);
    }
    text
}

/// The storage that is made, and how often.
fn made(plan: &Plan, style: Style) -> String {
    let mut text = String::new();
    for configuration in &plan.configurations {
        let Some(provision) = configuration.provision() else {
            continue;
        };
        let layers: Vec<String> = provision.layers.iter().map(layer).collect();
        let mut made = layers.join(" on ");
        for (what, value) in settings(provision) {
            made += &format!("; {what} {value}");
        }
        text += &line("makes", &format!("{}: {made}", configuration.name), style);
    }
    if !text.is_empty() {
        let often = match iodyno_lab::fresh(plan) {
            Fresh::Round => "for each round",
            Fresh::Trial => "for each trial",
            Fresh::Experiment => "once",
        };
        let turns = iodyno_lab::turns(plan);
        let often = match turns.as_slice() {
            [] => often.to_owned(),
            pairs => {
                let pairs = pairs
                    .iter()
                    .map(|(one, other)| format!("{} and {}", one.name, other.name));
                let pairs: Vec<String> = pairs.collect();
                format!("{often}: {} use the same storage in turn", pairs.join(", "))
            }
        };
        text += &line("made", &often, style);
    }
    text
}

fn settings(provision: &Provision) -> Vec<(&'static str, String)> {
    let pairs = |map: &BTreeMap<String, String>| {
        let pairs: Vec<String> = map
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(" ")
    };
    let fill = match provision.fill {
        0 => String::new(),
        bytes => Bytes(bytes).to_string(),
    };
    let command = |command: &Option<String>| match command {
        Some(command) => format!("`{command}`"),
        None => String::new(),
    };
    let all = [
        ("filled with", fill),
        ("sysctl", pairs(&provision.sysctl)),
        ("queue", pairs(&provision.queue)),
        ("setup", command(&provision.setup)),
        ("ready", command(&provision.ready)),
        ("teardown", command(&provision.teardown)),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// A layer with its options.
fn layer(layer: &Layer) -> String {
    let with = |name: String, options: Vec<String>| {
        let options: Vec<String> = options.into_iter().filter(|it| !it.is_empty()).collect();
        match options.is_empty() {
            true => name,
            false => format!("{name} ({})", options.join(", ")),
        }
    };
    match layer {
        Layer::File {
            size,
            count,
            allocate,
        } => {
            let reserved = if *allocate { "reserved" } else { "" };
            let what = format!("{} of {}", counted(u64::from(*count), "file"), Bytes(*size));
            with(what, vec![reserved.to_owned()])
        }
        Layer::Loop { direct, sector } => {
            let direct = if *direct { "direct I/O" } else { "cached" };
            let sector = sector.map(|bytes| format!("sectors of {bytes} B"));
            with(
                "loop".to_owned(),
                vec![direct.to_owned(), sector.unwrap_or_default()],
            )
        }
        Layer::Zram {
            size,
            count,
            algorithm,
        } => with(
            format!(
                "{} of {}",
                counted(u64::from(*count), "zram device"),
                Bytes(*size)
            ),
            vec![algorithm.clone().unwrap_or_default()],
        ),
        Layer::Tmpfs { size } => with("tmpfs".to_owned(), vec![Bytes(*size).to_string()]),
        Layer::FileSystem { mkfs, mount, .. } => {
            let mount = match mount.is_empty() {
                true => String::new(),
                false => format!("mount -o {}", mount.join(",")),
            };
            let mkfs = match mkfs.is_empty() {
                true => String::new(),
                false => format!("mkfs {}", mkfs.join(" ")),
            };
            with(layer.words(), vec![mkfs, mount])
        }
        Layer::Zfs(zfs) => {
            let groups = zfs.layout.iter().map(|group| {
                let kind = group.redundancy.as_deref().unwrap_or("stripe");
                format!("{kind} {}", group.devices)
            });
            let groups: Vec<String> = groups.collect();
            let mut options = vec![groups.join(" + ")];
            let pairs = zfs.pool.iter().chain(&zfs.properties);
            options.extend(pairs.map(|(name, value)| format!("{name}={value}")));
            options.extend(
                zfs.volume
                    .map(|bytes| format!("volume of {}", Bytes(bytes))),
            );
            options.push(match zfs.origin {
                ZfsOrigin::New => String::new(),
                ZfsOrigin::Clone => "clone".to_owned(),
                ZfsOrigin::Copy => "copy".to_owned(),
            });
            with("zfs".to_owned(), options)
        }
        Layer::Throttle(limits) => {
            let rates = [
                ("reads", limits.read_iops, "/s"),
                ("writes", limits.write_iops, "/s"),
            ];
            let bandwidths = [
                ("read", limits.read_bandwidth),
                ("written", limits.write_bandwidth),
            ];
            let rates = rates.iter().filter(|(_, limit, _)| *limit > 0);
            let mut options: Vec<String> = rates
                .map(|(what, limit, per)| format!("{limit} {what}{per}"))
                .collect();
            let bandwidths = bandwidths.iter().filter(|(_, limit)| *limit > 0);
            options.extend(bandwidths.map(|(what, limit)| format!("{} {what}/s", Bytes(*limit))));
            with("throttle".to_owned(), options)
        }
        Layer::Delay { read_ns, write_ns } => with(
            "delay".to_owned(),
            vec![
                format!("reads {}", Nanos(*read_ns)),
                format!("writes {}", Nanos(*write_ns)),
            ],
        ),
        other => other.words(),
    }
}

/// The space that image files need in each folder. Configurations that are made at the same time need it together.
fn space(plan: &Plan, style: Style) -> String {
    let mut needed: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for configuration in &plan.configurations {
        let Some(provision) = configuration.provision() else {
            continue;
        };
        let files = provision.layers.iter().map(|layer| match layer {
            Layer::File { size, count, .. } => size.saturating_mul(u64::from(*count)),
            _ => 0,
        });
        let bytes = files.fold(0u64, u64::saturating_add);
        let folder = provision.layers.iter().find_map(|layer| match layer {
            Layer::Directory { path } => Some(path.clone()),
            _ => None,
        });
        if let (Some(folder), 1..) = (folder, bytes) {
            let sum = needed.entry(folder).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    let lines = needed.iter().map(|(folder, bytes)| {
        let text = format!("{} of image files in {}", Bytes(*bytes), folder.display());
        line("space", &text, style)
    });
    lines.collect()
}

/// The duration of the measurements of a round; `None` if a workload has no time limit. Also the number of those without.
fn measured(plan: &Plan) -> (u64, usize) {
    let mut sum = 0u64;
    let mut endless: Vec<&str> = Vec::new();
    for cell in 0..plan.cells() {
        let (_, workload): (_, &Workload) = plan.cell(cell);
        match longest(workload) {
            Some(time) => sum = sum.saturating_add(time.0),
            None if !endless.contains(&workload.name.as_str()) => endless.push(&workload.name),
            None => {}
        }
    }
    (sum, endless.len())
}

fn time(plan: &Plan, style: Style) -> String {
    let (round, endless) = measured(plan);
    let all = round.saturating_mul(u64::from(plan.rounds));
    let mut text = format!(
        "a round takes at least {}, and {} {}",
        Nanos(round),
        counted(plan.rounds.into(), "round"),
        Nanos(all)
    );
    text += match endless {
        0 => ", besides making storage and files",
        _ => ", besides making storage and files, and workloads without a time limit",
    };
    if let Some(max_time) = plan.stopping.max_time_ns {
        let fit = u32::try_from(max_time / round.max(1)).unwrap_or(u32::MAX);
        text += &format!(
            "; {} allows at most {}",
            Nanos(max_time),
            counted(fit.min(plan.rounds).into(), "round")
        );
    }
    line("time", &text, style)
}

/// Whether the rounds can decide.
fn decides(plan: &Plan, style: Style) -> String {
    let primaries = iodyno_judge::primaries(plan);
    if primaries == 0 {
        return String::new();
    }
    let (round, _) = measured(plan);
    let fit = plan.stopping.max_time_ns.map(|time| time / round.max(1));
    let fit = fit.map_or(u32::MAX, |fit| u32::try_from(fit).unwrap_or(u32::MAX));
    let rounds = plan.rounds.min(fit);
    let comparisons = counted(u64::from(primaries), "primary comparison");
    let text = match iodyno_judge::can_decide(rounds, primaries, alpha(plan)) {
        Ok(()) => format!(
            "{} can decide {comparisons}: the smallest possible p is {:.2e}",
            counted(rounds.into(), "round"),
            // Of the signed-rank test, two-sided: all differences have one sign.
            2f64.powi(1 - i32::try_from(rounds.min(1000)).unwrap_or(1000))
        ),
        Err(why) => format!(
            "{why}; at least {} are needed",
            counted(why.least.into(), "round")
        ),
    };
    line("decides", &text, style)
}
