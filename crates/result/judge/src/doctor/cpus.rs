//! Checks of the CPUs: frequency, stolen time, interrupts, and the clock source.

use iodyno_model::{Check, CheckState, Environment, SeriesKind, Telemetry, Weight};

use super::{check, remedied, unknown};
use crate::devices;
use crate::findings::{FAST_SOURCES, STEAL_PERCENT, on_one_cpu};
use crate::series::{DISJOINT, Total, balance, sum, totals};
use CheckState::{Fine, Note, Unfit, Unknown};
use iodyno_model::ordered::entry;

/// Below this rate per second the distribution of interrupts is random.
const MIN_INTERRUPTS: f64 = 1000.0;

pub(super) fn checks(environment: &Environment, telemetry: &Telemetry) -> Vec<Check> {
    vec![
        governor(environment),
        turbo(environment),
        clock_source(environment),
        virtualisation(environment),
        steal(telemetry),
        interrupts(environment, telemetry),
    ]
}

fn governor(environment: &Environment) -> Check {
    let (name, rule) = (
        "governor",
        "performance on every CPU: others change the clock rate with the load, which storage sets",
    );
    let governor = environment.cpu.governor.name.as_str();
    match (governor, environment.virtualisation.as_str()) {
        ("", "") => unknown(name, "not reported by the host", rule),
        ("", _) => unknown(
            name,
            "set by the hypervisor, which does not report it",
            rule,
        ),
        ("performance", _) => check(name, Fine, governor, rule),
        _ => remedied(
            check(name, Unfit, governor, rule),
            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
    }
}

fn turbo(environment: &Environment) -> Check {
    let (name, rule) = (
        "turbo",
        "off: how long and how far it goes depends on heat and on the other cores",
    );
    match environment.cpu.governor.boost {
        None => unknown(name, "not reported by the host", rule),
        Some(false) => check(name, Fine, "off", rule),
        Some(true) => remedied(
            check(name, Note, "on", rule),
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        ),
    }
}

fn clock_source(environment: &Environment) -> Check {
    let name = "clock source";
    let rule = format!(
        "one that is read without entering the kernel: {}",
        FAST_SOURCES.join(", ")
    );
    let source = environment.clock_source.as_str();
    let found = format!("{source}, {} ns a reading", environment.clock_read_ns);
    match source {
        "" => unknown(name, "not reported by the host", rule),
        source if FAST_SOURCES.contains(&source) => check(name, Fine, found, rule),
        _ => remedied(
            check(name, Unfit, found, rule),
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if \
             available_clocksource in the same folder lists it",
        ),
    }
}

fn virtualisation(environment: &Environment) -> Check {
    let (name, rule) = (
        "virtualisation",
        "none: other guests and the caches of the physical host affect the results",
    );
    match environment.virtualisation.as_str() {
        "" => check(name, Fine, "none seen", rule),
        kind => remedied(
            check(name, Note, kind, rule),
            "repeat in rounds (--rounds 10), and say where it was measured",
        ),
    }
}

fn steal(telemetry: &Telemetry) -> Check {
    let name = "steal";
    let rule = format!("< {STEAL_PERCENT} % of CPU time taken by the hypervisor");
    let Some(percent) = share(&totals(telemetry, SeriesKind::Cpu), &["steal"]) else {
        return unknown(name, "CPU time was not sampled", rule);
    };
    let state = if percent >= STEAL_PERCENT {
        Unfit
    } else {
        Fine
    };
    remedied(
        check(name, state, format!("{percent:.1} %"), rule),
        "measure on a host of your own, or wait until its neighbours are quiet",
    )
}

/// The given kinds of CPU time in percent of all CPU time, over all CPUs.
pub(super) fn share(cpus: &[Total], sorts: &[&str]) -> Option<f64> {
    let all = sum(cpus
        .iter()
        .flat_map(|cpu| DISJOINT.map(|sort| cpu.count(sort))));
    let of = |cpu: &Total| sum(sorts.iter().map(|sort| cpu.count(sort)));
    let of = sum(cpus.iter().map(of));
    (all > 0).then(|| of as f64 * 100.0 / all as f64)
}

/// On an idle host few interrupts occur; the check reports what is unusual, and the findings of trials cover the
/// rest.
fn interrupts(environment: &Environment, telemetry: &Telemetry) -> Check {
    let name = "interrupt balance";
    let rule = "no device's interrupts on one CPU while another idles";
    let targets = environment.targets.iter();
    let below: Vec<&str> = targets.flat_map(devices::names_below).collect();
    if let Some(finding) = on_one_cpu(telemetry, &below).into_iter().next() {
        let state = match finding.weight {
            Weight::Note => Note,
            _ => Unfit,
        };
        let found = check(name, state, finding.text, finding.threshold);
        return remedied(found, finding.remedy.unwrap_or_default());
    }
    let mut by_cpu: Vec<(&str, u64)> = Vec::new();
    let sources = totals(telemetry, SeriesKind::Interrupts);
    for (cpu, count) in sources.iter().flat_map(Total::counts) {
        let sum = entry(&mut by_cpu, cpu);
        *sum = sum.saturating_add(count);
    }
    let counts: Vec<f64> = by_cpu.iter().map(|(_, count)| *count as f64).collect();
    let span_ns = sources
        .iter()
        .map(|source| source.span_ns)
        .max()
        .unwrap_or(0);
    let rate = counts.iter().sum::<f64>() * 1e9 / span_ns.max(1) as f64;
    match (counts.len(), balance(&counts)) {
        (0, _) | (_, None) => unknown(
            name,
            "interrupts were not sampled, or there were none",
            rule,
        ),
        (1, _) => check(name, Fine, "one CPU", rule),
        (cpus, Some(_)) if rate < MIN_INTERRUPTS => check(
            name,
            Unknown,
            format!(
                "{rate:.0} interrupts/s on {cpus} CPUs at rest: too few to judge; see the findings of a trial"
            ),
            rule,
        ),
        (cpus, Some(balance)) => check(
            name,
            Fine,
            format!("{rate:.0} interrupts/s on {cpus} CPUs, balance {balance:.2} (1: even)"),
            rule,
        ),
    }
}
