//! The sentences of an explanation.

use iodyno_model::{
    Cause, Certainty, Explained, ExplainedFamily, Limit, Pairing, Quantity, Reasons, SeriesUnit,
    StackOf, TimePart, Unit, Verdict,
};
use iodyno_units::{counted, significant};

use crate::compare::verdict_short;
use crate::series::Scale;

/// Longer values are truncated.
const MAX_VALUE_LEN: usize = 64;

/// Factors closer to 1 are not named.
const SAME: f64 = 0.03;

/// `randread: zfs against ext4 by iops: 0.36× [0.34, 0.38], SLOWER`.
pub(super) fn title(explained: &Explained) -> String {
    let (baseline, candidate) = &explained.columns;
    let text = format!(
        "{candidate} against {baseline} by {}: {}",
        explained.metric.name,
        speed(explained)
    );
    with_row(&explained.row, &text)
}

/// `psync: zfs against ext4 by iops over 5 workloads: 0.36× [0.34, 0.38], SLOWER`.
pub(super) fn family_title(family: &ExplainedFamily) -> String {
    let (baseline, candidate) = &family.columns;
    let text = format!(
        "{candidate} against {baseline} by {} over {}: {}",
        family.metric.name,
        counted(family.members.len() as u64, "workload"),
        outcome(family.ratio, &family.verdict)
    );
    with_row(&family.row, &text)
}

fn with_row(row: &[String], text: &str) -> String {
    let names: Vec<&str> = row
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    match names.is_empty() {
        true => text.to_owned(),
        false => format!("{}: {text}", names.join(" ")),
    }
}

/// `0.36× [0.34, 0.38], SLOWER`.
pub(super) fn speed(explained: &Explained) -> String {
    outcome(explained.ratio, &explained.verdict)
}

fn outcome(ratio: Option<iodyno_model::Estimated>, verdict: &Verdict) -> String {
    let ratio = ratio.map_or("no ratio".to_owned(), |ratio| {
        let interval = ratio.interval.map_or(String::new(), |(low, high)| {
            format!(" [{}, {}]", significant(low), significant(high))
        });
        format!("{}×{interval}", significant(ratio.value))
    });
    // The reasons of a verdict are in the comparison.
    format!("{ratio}, {}", verdict_short(verdict))
}

/// `why: randread: zfs is 0.36×: …`.
pub(super) fn line(explained: &Explained) -> String {
    format!("why: {}", with_row(&explained.row, &headline(explained)))
}

/// The same of a family.
pub(super) fn family_line(family: &ExplainedFamily) -> String {
    format!("why: {}", with_row(&family.row, &of_family(family)))
}

/// Why the candidate differs: ops in flight and the time of an op, where that time is, and candidate causes.
pub fn headline(explained: &Explained) -> String {
    let candidate = &explained.columns.1;
    let reasons = match &explained.reasons {
        Ok(reasons) => reasons,
        Err(why) => return format!("not explained: {why}"),
    };
    let Some(ratio) = explained.ratio.map(|ratio| ratio.value) else {
        return "not explained: there is no ratio".to_owned();
    };
    if !explained.decided() {
        return undecided(explained, ratio);
    }
    let speed = format!("{candidate} is {}×", significant(ratio));
    let mut text = match rate_counts(explained, reasons) {
        true => format!(
            "{speed}{}: {}",
            on_average(explained, reasons, ratio),
            in_flight_and_time(explained, reasons)
        ),
        false => {
            let given = match (reasons.rate_given, is_latency(explained)) {
                (true, true) => "the rate is given, and ",
                (true, false) => "a side misses its given rate; ",
                (false, _) => "",
            };
            let mean = changed(&reasons.time, "as long", "as fast");
            let mean = mean.map_or("hardly differs".to_owned(), |(_, words)| {
                format!("is {words}")
            });
            format!(
                "{speed} by {}: {given}the mean time of an op {mean} ({})",
                explained.metric.name,
                arrow(&reasons.time)
            )
        }
    };
    text += &most(explained, reasons);
    text += &limit(explained, reasons);
    text + &causes(&reasons.causes)
}

/// Few slow rounds change a mean more than the ratio of a typical round: ` in a typical round, 0.25× on average`.
fn on_average(explained: &Explained, reasons: &Reasons, ratio: f64) -> String {
    let average = reasons.rate.sides.1 / reasons.rate.sides.0;
    let far = (average / ratio).max(ratio / average) > 1.25;
    match far && explained.metric.unit == Unit::OpsPerSecond {
        true => format!(" in a typical round, {}× on average", significant(average)),
        false => String::new(),
    }
}

fn undecided(explained: &Explained, ratio: f64) -> String {
    let by_numbers = match &explained.verdict {
        Verdict::NotComparable { .. } => &explained.by_numbers,
        verdict => verdict,
    };
    match by_numbers {
        Verdict::Equivalent => "no difference to explain".to_owned(),
        _ => format!(
            "undecided after {}: {}× so far",
            trials(explained),
            significant(ratio)
        ),
    }
}

/// `12 rounds`, `5 trials a side`.
fn trials(explained: &Explained) -> String {
    match explained.pairing {
        Pairing::Paired => counted(explained.n.into(), "round"),
        Pairing::Unpaired | Pairing::Runs => {
            format!("{} a side", counted(explained.n.into(), "trial"))
        }
    }
}

/// Whether the compared figure follows from ops in flight and the time of an op.
fn rate_counts(explained: &Explained, reasons: &Reasons) -> bool {
    !reasons.rate_given && !is_latency(explained)
}

fn is_latency(explained: &Explained) -> bool {
    explained.metric.unit == Unit::Nanos
        && explained.metric.name != iodyno_model::Metric::COMPLETION
}

/// Little's law: `15.3 ops in flight instead of 0.99, each taking 5.6 × as long (24.3 → 136 µs)`.
fn in_flight_and_time(explained: &Explained, reasons: &Reasons) -> String {
    let op = match reasons
        .stacks
        .iter()
        .any(|it| matches!(it.of, StackOf::Cycle))
    {
        true => "cycle",
        false => "op",
    };
    let mut parts = reasons.stacks.iter().flat_map(|stack| &stack.parts);
    let syncs = [TimePart::SyncDevice, TimePart::SyncAbove, TimePart::Syncs];
    let with_syncs = parts.any(|(part, _)| syncs.contains(part));
    let with_syncs = if with_syncs { " with its syncs" } else { "" };
    let overlapped = !is_fine(reasons);
    if overlapped && reasons.worker_limited == (true, true) {
        let cpu = reasons.work.iter().find(|it| it.name == "worker_cpu");
        let cpu = cpu.map_or(String::new(), |cpu| {
            format!(", and an {op} costs {} of CPU time", arrow(cpu))
        });
        return format!("{} ({}){cpu}", what_limits(reasons, 1), busy(reasons, 1));
    }
    let time = arrow(&reasons.time);
    let slower = changed(&reasons.time, "as long", "as fast");
    let (one, other) = reasons.in_flight.sides;
    let flight = ((other / one - 1.0).abs() > SAME).then(|| {
        let number = |value: f64| with_unit(value, SeriesUnit::Number);
        format!(
            "{} {op}s in flight instead of {}",
            number(other),
            number(one)
        )
    });
    let text = match (flight, slower) {
        (Some(flight), Some((true, words))) => {
            format!("{flight}, each{with_syncs} taking {words} ({time})")
        }
        (Some(flight), Some((false, words))) => {
            format!("{flight}, each{with_syncs} {words} ({time})")
        }
        (Some(flight), None) => format!("{flight}, each{with_syncs} taking about as long ({time})"),
        (None, Some((true, words))) => format!("each {op}{with_syncs} takes {words} ({time})"),
        (None, Some((false, words))) => format!("each {op}{with_syncs} is {words} ({time})"),
        (None, None) => format!("each {op}{with_syncs} takes about as long ({time})"),
    };
    let bytes = reasons.work.iter().find(|it| it.name == "job_bytes");
    let bytes = bytes.filter(|_| explained.metric.unit == Unit::BytesPerSecond);
    match bytes.filter(|it| (it.sides.1 / it.sides.0 - 1.0).abs() > SAME) {
        Some(bytes) => format!("{text}, for {} of data", arrow(bytes)),
        None => text,
    }
}

/// Whether the CPU time of the worker is part of the time of an op.
pub(super) fn is_fine(reasons: &Reasons) -> bool {
    let mut parts = reasons.stacks.iter().flat_map(|stack| &stack.parts);
    parts.any(|(part, _)| matches!(part, TimePart::Unknown | TimePart::AsleepOrDevice))
}

/// Whether a time is longer, with the factor: `5.6 × as long`; `None`: it hardly differs.
fn changed(time: &Quantity, long: &str, fast: &str) -> Option<(bool, String)> {
    let ratio = time.sides.1 / time.sides.0;
    let longer = ratio > 1.0;
    let (size, words) = if longer {
        (ratio, long)
    } else {
        (ratio.recip(), fast)
    };
    (size > 1.0 + SAME).then(|| (longer, format!("{} × {words}", factor(size))))
}

/// Two significant digits, and two decimals close to 1.
fn factor(size: f64) -> String {
    match size {
        size if size >= 9.95 => format!("{size:.0}"),
        size if size >= 1.95 => format!("{size:.1}"),
        size => format!("{size:.2}"),
    }
}

/// `, mostly at the device (+128 µs)`.
fn most(explained: &Explained, reasons: &Reasons) -> String {
    let whole = reasons.time.difference.value.abs();
    let Some((first, by)) = reasons.most.first() else {
        return match reasons.noise {
            true => format!(
                "; which part takes the time cannot be told from {}",
                trials(explained)
            ),
            false => String::new(),
        };
    };
    let how = if by.abs() >= whole / 2.0 {
        "mostly"
    } else {
        "partly"
    };
    let mut text = format!(
        ", {how} {} ({})",
        where_is(*first),
        signed(*by, SeriesUnit::Nanos)
    );
    if let Some((second, by)) = reasons.most.get(1) {
        text += &format!(
            " and {} ({})",
            where_is(*second),
            signed(*by, SeriesUnit::Nanos)
        );
    }
    text
}

/// The part in a sentence.
fn where_is(part: TimePart) -> &'static str {
    match part {
        TimePart::Device => "at the device",
        TimePart::Queue => "in the device's queue",
        TimePart::Layers => "in layers above the device",
        TimePart::Server => "in the server",
        TimePart::CpuWait => "waiting for a CPU",
        TimePart::Unknown => "asleep for a reason that is not counted",
        TimePart::SyncDevice => "in syncs at the device",
        TimePart::SyncAbove => "in syncs above the device",
        TimePart::Syncs => "in syncs",
        part => part.words(),
    }
}

/// `; in x the worker is the limit (98 % of its time is CPU)`.
fn limit(explained: &Explained, reasons: &Reasons) -> String {
    let (baseline, candidate) = &explained.columns;
    let (side, column) = match reasons.worker_limited {
        (true, true) if is_fine(reasons) && rate_counts(explained, reasons) => (1, "both"),
        (false, true) => (1, candidate.as_str()),
        (true, false) => (0, baseline.as_str()),
        _ => return String::new(),
    };
    format!(
        "; in {column} {} ({})",
        what_limits(reasons, side),
        busy(reasons, side)
    )
}

/// `the worker is the limit`, or what it waits for.
fn what_limits(reasons: &Reasons, side: usize) -> &'static str {
    let (cpu, wait) = cpu_and_wait(reasons, side);
    match wait > cpu {
        true => "the worker mostly waits for a CPU",
        false => "the worker is the limit",
    }
}

/// Percent of the worker's time on a side: on a CPU, and waiting for one.
fn cpu_and_wait(reasons: &Reasons, side: usize) -> (f64, f64) {
    let of = |parts: &[TimePart]| -> f64 {
        let own = reasons
            .worker
            .iter()
            .filter(|(part, _)| parts.contains(part));
        own.map(|(_, it)| [it.sides.0, it.sides.1][side]).sum()
    };
    (
        of(&[TimePart::KernelCpu, TimePart::UserCpu]),
        of(&[TimePart::CpuWait]),
    )
}

/// `98 % of its time is CPU`.
fn busy(reasons: &Reasons, side: usize) -> String {
    let (cpu, wait) = cpu_and_wait(reasons, side);
    match wait >= 5.0 {
        true => format!("{cpu:.0} % of its time is CPU, {wait:.0} % waiting for a CPU"),
        false => format!("{cpu:.0} % of its time is CPU"),
    }
}

/// What limits repeated trials: `the device: 88 % of the 6.9 ms of an op, 7.8 in flight`.
pub(super) fn limited_by(limit: &Limit) -> String {
    let time = with_unit(limit.time_ns, SeriesUnit::Nanos);
    let flight = match limit.in_flight < 1.5 {
        true => "one at a time".to_owned(),
        false => format!(
            "{} in flight",
            with_unit(limit.in_flight, SeriesUnit::Number)
        ),
    };
    if let Some((cpu, wait)) = limit.worker {
        return match wait > cpu {
            true => format!("waiting for a CPU: {wait:.0} % of the worker's time"),
            false => format!("the CPU of the worker: {cpu:.0} % of its time"),
        };
    }
    let part = match limit.part {
        TimePart::Device => "the device",
        TimePart::Queue => "the device's queue",
        TimePart::Server => "the server",
        TimePart::Above => "the kernel above the device",
        TimePart::AsleepOrDevice | TimePart::DeviceAndAbove => "the device or the kernel above it",
        TimePart::Unknown => "a wait that no counter states",
        part => part.words(),
    };
    let given = match limit.rate_given {
        true => "the given rate, if it is reached; else ",
        false => "",
    };
    format!(
        "{given}{part}: {:.0} % of the {time} of an op, {flight}",
        100.0 * limit.share
    )
}

/// The end of a sentence with the candidates for the cause.
fn causes(causes: &[Cause]) -> String {
    let all: Vec<String> = causes.iter().map(cause).collect();
    match all.as_slice() {
        [] => String::new(),
        [one] => format!(". Candidate cause: {one}"),
        several => format!(". Candidate causes: {}", several.join("; ")),
    }
}

/// `depth: 1 → 16`.
pub(super) fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Fact { name, values, .. } => {
            let [one, other] = short([&values.0, &values.1]);
            format!("{name}: {one} → {other}")
        }
        Cause::Series(quantity) => {
            let likely = match quantity.certainty {
                Certainty::Likely => " (likely)",
                _ => "",
            };
            format!("{}: {}{likely}", quantity.words, arrow(quantity))
        }
    }
}

/// Why a family differs, in a sentence.
pub(super) fn of_family(family: &ExplainedFamily) -> String {
    let Some(ratio) = family.ratio else {
        return "not explained: there is no ratio".to_owned();
    };
    let undecided = if family.decided() {
        ""
    } else {
        "undecided; so far "
    };
    let speed = format!(
        "{undecided}{} is {}× (geometric mean)",
        family.columns.1,
        significant(ratio.value)
    );
    match family.most {
        None => format!("{speed}; its workloads have no part of their time in common that differs"),
        Some((part, count)) => format!(
            "{speed}; in {count} of {} the difference is mostly {}{}",
            counted(family.members.len() as u64, "workload"),
            where_is(part),
            causes(&family.causes)
        ),
    }
}

/// The name of a member of a family: the values of its row that are not those of the family.
pub(super) fn member(family: &ExplainedFamily, member: &Explained) -> String {
    let both = member.row.iter().zip(&family.row);
    let own: Vec<&str> = both
        .filter(|(own, of_family)| own != of_family)
        .map(|(own, _)| own.as_str())
        .collect();
    own.join(" ")
}

/// Two values that differ, short enough for a sentence: of long ones, the words with which both begin are left out.
fn short(values: [&str; 2]) -> [String; 2] {
    let is_long = |value: &str| value.chars().nth(MAX_VALUE_LEN).is_some();
    let common = match values.into_iter().any(is_long) {
        true => {
            let pairs = values[0]
                .split_inclusive(' ')
                .zip(values[1].split_inclusive(' '));
            let equal = pairs.take_while(|(one, other)| one == other);
            equal.map(|(word, _)| word.len()).sum()
        }
        false => 0,
    };
    values.map(|value| {
        let rest = &value[common..];
        let begin = if common > 0 { "… " } else { "" };
        match rest.char_indices().nth(MAX_VALUE_LEN) {
            None => format!("{begin}{rest}"),
            Some((end, _)) => format!("{begin}{}…", &rest[..end]),
        }
    })
}

/// `certain`.
pub(super) fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Certain => "certain",
        Certainty::Likely => "likely",
        Certainty::NotDecided => "not decided",
    }
}

/// `12.3 µs`.
pub(super) fn with_unit(value: f64, unit: SeriesUnit) -> String {
    let scale = Scale::of(unit, value);
    let text = match (unit, value != 0.0 && value.abs() < 0.1) {
        // No column is so narrow that it cuts it.
        (SeriesUnit::Number, true) if value.abs() < 0.001 => format!("{value:.1e}"),
        (SeriesUnit::Number, true) => significant(value).to_string(),
        _ => scale.draw(Some(value)),
    };
    match scale.unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// `24.3 → 136 µs`: the unit once if both have the same.
fn arrow(quantity: &Quantity) -> String {
    let (one, other) = quantity.sides;
    let (first, second) = (
        with_unit(one, quantity.unit),
        with_unit(other, quantity.unit),
    );
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    match (unit(&first), unit(&second)) {
        (Some(same), Some(other)) if same == other => {
            format!("{} → {second}", first.trim_end_matches(&same).trim_end())
        }
        _ => format!("{first} → {second}"),
    }
}

/// `+128 µs`.
fn signed(value: f64, unit: SeriesUnit) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", with_unit(value.abs(), unit))
}

/// `+128 µs [119, 137]`.
pub(super) fn difference(quantity: &Quantity) -> String {
    let value = quantity.difference.value;
    let text = signed(value, quantity.unit);
    let Some((low, high)) = quantity.difference.interval else {
        return text;
    };
    // The ends are in the unit of the value.
    let scale = Scale::of(quantity.unit, value);
    let end = |value: f64| {
        let text = match quantity.unit {
            SeriesUnit::Number => with_unit(value, SeriesUnit::Number),
            _ => scale.draw(Some(value)),
        };
        text.strip_prefix('-')
            .map_or(text.clone(), |size| format!("−{size}"))
    };
    format!("{text} [{}, {}]", end(low), end(high))
}
