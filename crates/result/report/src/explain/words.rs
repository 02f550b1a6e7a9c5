//! The sentences of an explanation.

use iodyno_model::{
    Cause, Certainty, ComparedSides, Explained, ExplainedFamily, Pairing, Quantity, Reasons,
    SeriesUnit, StackOf, TimePart, Unit, Verdict,
};
use iodyno_units::{counted, significant};

use crate::compare::verdict_short;
use crate::series::{Scale, with_unit};

/// Longer values are truncated.
const MAX_VALUE_LEN: usize = 64;

/// Factors closer to 1 are not named.
const SAME: f64 = 0.03;

/// `randread: zfs against ext4 by iops: 0.36× [0.34, 0.38], SLOWER`; of a family with this number of members, `… by iops
/// over 5 workloads: …`.
pub(super) fn title(of: &ComparedSides, members: usize) -> String {
    let (baseline, candidate) = &of.columns;
    let over = match members {
        0 => String::new(),
        count => format!(" over {}", counted(count as u64, "workload")),
    };
    let metric = &of.metric.name;
    let text = format!(
        "{candidate} against {baseline} by {metric}{over}: {}",
        outcome(of)
    );
    with_row(&of.row, &text)
}

/// The text after the names of its row.
pub(super) fn with_row(row: &[String], text: &str) -> String {
    let names = row.iter().map(String::as_str).filter(|it| !it.is_empty());
    match names.collect::<Vec<&str>>().join(" ") {
        none if none.is_empty() => text.to_owned(),
        names => format!("{names}: {text}"),
    }
}

/// `0.36× [0.34, 0.38], SLOWER`.
pub(super) fn outcome(of: &ComparedSides) -> String {
    let ratio = of.ratio.map_or("no ratio".to_owned(), |ratio| {
        let interval = ratio.interval.map_or(String::new(), |(low, high)| {
            format!(" [{}, {}]", significant(low), significant(high))
        });
        format!("{}×{interval}", significant(ratio.value))
    });
    // The reasons of a verdict are in the comparison.
    format!("{ratio}, {}", verdict_short(&of.verdict))
}

/// Why the candidate differs: ops in flight and the time of an op, where that time is, and candidate causes.
pub fn headline(explained: &Explained) -> String {
    let of = &explained.of;
    let (reasons, ratio) = match (&explained.reasons, of.ratio) {
        (Err(why), _) => return format!("not explained: {why}"),
        (_, None) => return "not explained: there is no ratio".to_owned(),
        (Ok(reasons), Some(ratio)) => (reasons, ratio.value),
    };
    if !of.decided() {
        return match of.of_numbers() {
            Verdict::Equivalent => "no difference to explain".to_owned(),
            _ => format!(
                "undecided after {}: {}× so far",
                trials(explained),
                significant(ratio)
            ),
        };
    }
    let speed = format!("{} is {}×", of.columns.1, significant(ratio));
    if reasons.contradict(of) {
        let is = changed(&reasons.time).map_or("hardly differs".to_owned(), |(_, words)| {
            format!("is {words}")
        });
        return format!(
            "{speed} by {}, and not by the mean time of {}, which {is} ({})",
            of.metric.name,
            the_op(reasons),
            arrow(&reasons.time)
        );
    }
    let text = match rate_counts(of, reasons) {
        true => {
            let average = on_average(of, reasons, ratio);
            format!("{speed}{average}: {}", in_flight_and_time(of, reasons))
        }
        false => {
            let given = match (reasons.rate_given, of.by_latency()) {
                (true, true) => "the rate is given, and ",
                (true, false) => "a side misses its given rate; ",
                (false, _) => "",
            };
            let mean = changed(&reasons.time);
            let mean = mean.map_or("hardly differs".to_owned(), |(_, words)| {
                format!("is {words}")
            });
            let (metric, time) = (&of.metric.name, arrow(&reasons.time));
            format!("{speed} by {metric}: {given}the mean time of an op {mean} ({time})")
        }
    };
    text + &most(explained, reasons) + &limit(of, reasons) + &causes(&reasons.causes)
}

/// Few slow rounds change a mean more than the ratio of a typical round: ` in a typical round, 0.25× on average`.
fn on_average(of: &ComparedSides, reasons: &Reasons, ratio: f64) -> String {
    let average = reasons.rate.sides.1 / reasons.rate.sides.0;
    let far = (average / ratio).max(ratio / average) > 1.25;
    match far && of.metric.unit == Unit::OpsPerSecond {
        true => format!(" in a typical round, {}× on average", significant(average)),
        false => String::new(),
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
fn rate_counts(of: &ComparedSides, reasons: &Reasons) -> bool {
    !reasons.rate_given && !of.by_latency()
}

/// `an op`, or `a cycle` of file operations with all its steps.
fn the_op(reasons: &Reasons) -> &'static str {
    match reasons.stacks.iter().any(|it| it.of == StackOf::Cycle) {
        true => "a whole cycle",
        false => "an op",
    }
}

/// Little's law: `15.3 ops in flight instead of 0.99, each taking 5.6 × as long (24.3 → 136 µs)`.
fn in_flight_and_time(of: &ComparedSides, reasons: &Reasons) -> String {
    let is_cycle = reasons.stacks.iter().any(|it| it.of == StackOf::Cycle);
    let op = if is_cycle { "cycle" } else { "op" };
    let syncs = [TimePart::SyncDevice, TimePart::SyncAbove, TimePart::Syncs];
    let with_syncs = match parts(reasons).any(|part| syncs.contains(&part)) {
        true => " with its syncs",
        false => "",
    };
    let work = |name: &str| reasons.work.iter().find(|it| it.name == name);
    if !is_fine(reasons) && reasons.worker_limited == (true, true) {
        let cpu = work("worker_cpu").map_or(String::new(), |cpu| {
            format!(", and an {op} costs {} of CPU time", arrow(cpu))
        });
        return busy_worker(reasons, |it| it.sides.1) + &cpu;
    }
    let (flying, alone, words) = match changed(&reasons.time) {
        Some((true, words)) => (" taking", " takes", words),
        Some((false, words)) => ("", " is", words),
        None => (" taking", " takes", "about as long".to_owned()),
    };
    let time = arrow(&reasons.time);
    let (one, other) = reasons.in_flight.sides;
    let text = match (other / one - 1.0).abs() > SAME {
        true => {
            let number = |value: f64| with_unit(value, SeriesUnit::Number);
            let flight = format!(
                "{} {op}s in flight instead of {}",
                number(other),
                number(one)
            );
            format!("{flight}, each{with_syncs}{flying} {words} ({time})")
        }
        false => format!("each {op}{with_syncs}{alone} {words} ({time})"),
    };
    let bytes = work("job_bytes").filter(|_| of.metric.unit == Unit::BytesPerSecond);
    match bytes.filter(|it| (it.sides.1 / it.sides.0 - 1.0).abs() > SAME) {
        Some(bytes) => format!("{text}, for {} of data", arrow(bytes)),
        None => text,
    }
}

fn parts(reasons: &Reasons) -> impl Iterator<Item = TimePart> {
    let all = reasons.stacks.iter().flat_map(|stack| &stack.parts);
    all.map(|(part, _)| *part)
}

/// Whether the CPU time of the worker is part of the time of an op.
pub(super) fn is_fine(reasons: &Reasons) -> bool {
    use TimePart::{AsleepOrDevice, CpuWait, KernelCpu, Unknown, UserCpu};
    parts(reasons).any(|it| matches!(it, Unknown | AsleepOrDevice | KernelCpu | UserCpu | CpuWait))
}

/// Whether a time is longer, with the factor: `5.6 × as long`; `None`: it hardly differs.
fn changed(time: &Quantity) -> Option<(bool, String)> {
    let ratio = time.sides.1 / time.sides.0;
    let (size, words) = match ratio > 1.0 {
        true => (ratio, "as long"),
        false => (ratio.recip(), "as fast"),
    };
    (size > 1.0 + SAME).then(|| (ratio > 1.0, format!("{} × {words}", factor(size))))
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
    let named = reasons.most.iter();
    let named = named.map(|(part, by)| {
        let by = signed(*by, SeriesUnit::Nanos);
        format!("{} ({by})", part.place())
    });
    let mut named = named.collect::<Vec<String>>().join(" and ");
    if let Some((step, by)) = reasons.step.filter(|_| !named.is_empty()) {
        named = format!(
            "in {} ({}): {named}",
            step.name(),
            signed(by, SeriesUnit::Nanos)
        );
    }
    let whole = reasons.time.difference.value.abs();
    match reasons.most.first() {
        Some((_, by)) if by.abs() >= whole / 2.0 => format!(", mostly {named}"),
        Some(_) => format!(", partly {named}"),
        None if reasons.noise => format!(
            "; which part takes the time cannot be told from {}",
            trials(explained)
        ),
        None => String::new(),
    }
}

/// `; in x the worker is the limit (98 % of its time is CPU)`.
fn limit(of: &ComparedSides, reasons: &Reasons) -> String {
    let by_law = rate_counts(of, reasons);
    let (column, side): (&str, fn(&Quantity) -> f64) = match reasons.worker_limited {
        (true, true) if is_fine(reasons) && by_law => ("both", |it| it.sides.1),
        (false, true) => (&of.columns.1, |it| it.sides.1),
        (true, false) => (&of.columns.0, |it| it.sides.0),
        _ => return String::new(),
    };
    format!("; in {column} {}", busy_worker(reasons, side))
}

/// `the worker is the limit (98 % of its time is CPU)`, or what it waits for, on a side.
fn busy_worker(reasons: &Reasons, side: fn(&Quantity) -> f64) -> String {
    let share = |part: TimePart| {
        let mut own = reasons.worker.iter();
        own.find(|(own, _)| *own == part)
            .map_or(0.0, |(_, it)| side(it))
    };
    let cpu = share(TimePart::KernelCpu) + share(TimePart::UserCpu);
    let wait = share(TimePart::CpuWait);
    let what = match wait > cpu {
        true => "the worker mostly waits for a CPU",
        false => "the worker is the limit",
    };
    let waiting = match wait >= 5.0 {
        true => format!(", {wait:.0} % waiting for a CPU"),
        false => String::new(),
    };
    format!("{what} ({cpu:.0} % of its time is CPU{waiting})")
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
fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Fact(fact) => {
            let [one, other] = short([&fact.values.0, &fact.values.1]);
            format!("{}: {one} → {other}", fact.name)
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
    let Some(ratio) = family.of.ratio else {
        return "not explained: there is no ratio".to_owned();
    };
    let undecided = match family.of.decided() {
        true => "",
        false => "undecided; so far ",
    };
    let (candidate, ratio) = (&family.of.columns.1, significant(ratio.value));
    let speed = format!("{undecided}{candidate} is {ratio}× (geometric mean)");
    match (family.most, family.largest) {
        (None, None) => format!("{speed}; no part of the time differs in several workloads"),
        (None, Some((part, by))) => format!(
            "{speed}; over all workloads, the time of an op differs most {} ({})",
            part.place(),
            signed(by, SeriesUnit::Nanos)
        ),
        (Some((part, count)), _) => format!(
            "{speed}; in {count} of {} the difference is mostly {}{}",
            counted(family.members.len() as u64, "workload"),
            part.place(),
            causes(&family.causes)
        ),
    }
}

/// The name of a member of a family: the values of its row that are not those of the family.
pub(super) fn member(family: &ExplainedFamily, member: &Explained) -> String {
    let both = member.of.row.iter().zip(&family.of.row);
    let own = both.filter(|(own, of_family)| own != of_family);
    let own = own.map(|(own, _)| own.as_str());
    own.collect::<Vec<&str>>().join(" ")
}

/// Two values that differ, short enough for a sentence: of long ones, only the words that differ, with the flag before
/// them.
fn short(values: [&str; 2]) -> [String; 2] {
    if values
        .iter()
        .all(|value| value.chars().count() <= MAX_VALUE_LEN)
    {
        return values.map(str::to_owned);
    }
    let [one, other] = values.map(|value| value.split(' ').collect::<Vec<&str>>());
    let pairs = one.iter().zip(&other);
    let begin = pairs.take_while(|(one, other)| one == other).count();
    let pairs = one[begin..].iter().rev().zip(other[begin..].iter().rev());
    let end = pairs.take_while(|(one, other)| one == other).count();
    let flag = begin > 0 && one[begin - 1].starts_with('-');
    let begin = begin - usize::from(flag);
    [one, other].map(|words| {
        let own = words[begin..words.len() - end].join(" ");
        let before = if begin > 0 { "… " } else { "" };
        let after = if end > 0 { " …" } else { "" };
        match own.char_indices().nth(MAX_VALUE_LEN) {
            None => format!("{before}{own}{after}"),
            Some((cut, _)) => format!("{before}{}…", &own[..cut]),
        }
    })
}

/// `24.3 → 136 µs`: the unit once if both have the same.
fn arrow(quantity: &Quantity) -> String {
    let (one, other) = quantity.sides;
    let (one, other) = (
        with_unit(one, quantity.unit),
        with_unit(other, quantity.unit),
    );
    match (one.split_once(' '), other.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} → {other}"),
        _ => format!("{one} → {other}"),
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
