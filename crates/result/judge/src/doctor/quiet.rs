//! Checks of other activity: load, I/O, pressure, memory, swap.

use iodyno_model::{Check, CheckState, Environment, SeriesKind, Telemetry};
use iodyno_units::Bytes;

use super::{check, cpus, graded, remedied, scarce, share, unknown};
use crate::series::{Total, sum, totals};
use CheckState::{Fine, Note, Unfit};

/// CPU time used by an idle host, in percent of all CPUs: above the first value repeats vary, above the second
/// means change.
const LOAD_PERCENT: (f64, f64) = (3.0, 10.0);

/// Load average per CPU. It covers past minutes, so it is only a note if CPU time was sampled.
const LOAD_AVERAGE: f64 = 0.5;

/// Bytes per second of other processes on an idle host.
const OTHERS_PER_SECOND: (f64, f64) = (64.0 * 1024.0, 1048576.0);

/// Percentage of the time in which tasks are stalled on an idle host.
const PRESSURE_PERCENT: (f64, f64) = (1.0, 5.0);

/// Available memory in percent of all.
const AVAILABLE_PERCENT: (f64, f64) = (25.0, 10.0);

pub(super) fn checks(environment: &Environment, telemetry: &Telemetry) -> Vec<Check> {
    let mut checks = vec![
        other_load(telemetry),
        load_average(environment, telemetry),
        other_io(telemetry),
    ];
    checks.extend(pressure(telemetry));
    checks.extend([memory(environment), swap(environment, telemetry)]);
    checks
}

fn other_load(telemetry: &Telemetry) -> Check {
    let name = "other load";
    let rule = format!(
        "< {} % of all CPU time in use at rest; unfit from {} % on",
        LOAD_PERCENT.0, LOAD_PERCENT.1
    );
    let cpus = totals(telemetry, SeriesKind::Cpu);
    let Some(busy) = cpus::share(&cpus, &["user", "system", "irq"]) else {
        return unknown(name, "CPU time was not sampled", rule);
    };
    let state = graded(busy, LOAD_PERCENT);
    let found = format!("{busy:.1} % of {} CPUs", cpus.len());
    remedied(
        check(name, state, found, rule),
        "stop other processes: top -o %CPU shows them",
    )
}

fn load_average(environment: &Environment, telemetry: &Telemetry) -> Check {
    let (name, cpus) = ("load average", f64::from(environment.cpu.logical.max(1)));
    let load = f64::from(environment.load_1min_x100) / 100.0;
    let rule = format!("< {LOAD_AVERAGE} for each CPU over the last minute");
    let found = format!("{load:.2} on {cpus:.0} CPUs");
    let high = load >= LOAD_AVERAGE * cpus;
    let sampled = telemetry.of(SeriesKind::Cpu).next().is_some();
    let state = match (high, sampled) {
        (false, _) => Fine,
        // Activity of a minute ago may have ended; current activity is checked above.
        (true, true) => Note,
        (true, false) => Unfit,
    };
    remedied(
        check(name, state, found, rule),
        "wait a minute, or stop other processes: top shows them",
    )
}

fn other_io(telemetry: &Telemetry) -> Check {
    let name = "other I/O";
    let rule = format!(
        "< {}/s by other processes at rest; unfit from {}/s on",
        Bytes(OTHERS_PER_SECOND.0 as u64),
        Bytes(OTHERS_PER_SECOND.1 as u64)
    );
    let others = totals(telemetry, SeriesKind::Others);
    // Sampled without rows: there was no such I/O.
    let sampled = telemetry.of(SeriesKind::Others).next().is_some();
    let mut gaps = telemetry.gaps.iter();
    let gap = gaps.find(|gap| gap.kind == SeriesKind::Others);
    match gap {
        Some(gap) if !sampled => return unknown(name, &gap.reason, rule),
        None if telemetry.samples.is_empty() => {
            return unknown(name, "processes were not sampled", rule);
        }
        _ => {}
    }
    let rate =
        |process: &Total| process.per_second("read_bytes") + process.per_second("written_bytes");
    let all: f64 = others.iter().map(rate).sum();
    let most = others
        .iter()
        .max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let found = match most {
        Some(process) if all > 0.0 => {
            format!("{}/s, the most by {}", Bytes(all as u64), process.subject)
        }
        _ => "none".to_owned(),
    };
    let state = graded(all, OTHERS_PER_SECOND);
    remedied(
        check(name, state, found, rule),
        "end it, or let it use another device: iotop -o shows who does what",
    )
}

fn pressure(telemetry: &Telemetry) -> Vec<Check> {
    let totals = totals(telemetry, SeriesKind::Pressure);
    let each = ["io", "cpu", "memory"].map(|resource| {
        let name = format!("pressure on {resource}");
        let rule = format!("tasks wait < {} % of the time at rest", PRESSURE_PERCENT.0);
        let rule = match resource {
            "cpu" => rule,
            _ => format!("{rule}; unfit from {} % on", PRESSURE_PERCENT.1),
        };
        let Some(found) = totals.iter().find(|total| total.subject == resource) else {
            return unknown(name, "not reported by the kernel (CONFIG_PSI, psi=1)", rule);
        };
        let percent = found.percent_of_span("some").min(100.0);
        let state = match (graded(percent, PRESSURE_PERCENT), resource) {
            // Two tasks that briefly wait for each other on one of many CPUs are harmless.
            (Unfit, "cpu") => Note,
            (state, _) => state,
        };
        let found = format!("{percent:.1} % of the time");
        remedied(
            check(name, state, found, rule),
            "stop other processes: top and iotop -o show them",
        )
    });
    each.into()
}

fn memory(environment: &Environment) -> Check {
    let (name, memory) = ("memory available", &environment.memory);
    let rule = format!(
        "≥ {} % of it, so that nothing is reclaimed meanwhile; unfit below {} %",
        AVAILABLE_PERCENT.0, AVAILABLE_PERCENT.1
    );
    if memory.total == 0 {
        return unknown(name, "not reported by the host", rule);
    }
    let (found, percent) = share(memory.available, memory.total);
    remedied(
        check(name, scarce(percent, AVAILABLE_PERCENT), found, rule),
        "end what uses it (top -o %MEM), or lower the ARC's limit (zfs_arc_max)",
    )
}

fn swap(environment: &Environment, telemetry: &Telemetry) -> Check {
    let (name, rule) = ("swap", "none in use, and nothing swapped at rest");
    let totals = totals(telemetry, SeriesKind::Reclaim);
    let moved = |column: &str| sum(totals.iter().map(|total| total.count(column)));
    let moved = sum(["swapped_in", "swapped_out"].map(moved));
    let (used, available) = (environment.memory.swap_used, environment.memory.available);
    let (state, found) = match (used, moved) {
        (0, 0) => (Fine, "none in use".to_owned()),
        (used, 0) => (Note, format!("{} in use", Bytes(used))),
        (used, moved) => (
            Unfit,
            format!("{} in use, {} swapped just now", Bytes(used), Bytes(moved)),
        ),
    };
    remedied(
        check(name, state, found, rule),
        // Without room for its content, the kernel would kill processes.
        match used.saturating_mul(2) <= available {
            true => "swapoff -a, and swapon -a after measuring",
            false => "end what else uses memory: top -o %MEM shows it",
        },
    )
}
