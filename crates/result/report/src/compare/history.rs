//! The results of a workload over runs.

use iodyno_model::{
    Estimated, Fact, History, HistoryChange, HistoryDifference, HistoryDrift, HistoryPoint, Metric,
    NewestRun, NewestVerdict,
};
use iodyno_units::counted;

use super::ComparisonFormat;
use super::figures::{median, p_is, ratio};
use super::words::{better, unit_name};
use crate::clock;
use crate::json::{list, object, print};
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Cell, Column, Table};

/// Width of the picture next to the values, columns.
const PICTURE: usize = 28;

/// Facts that are named after a change, at most.
const MAX_FACTS: usize = 6;

/// Each history as a table with a row for each run, a line for each change, and a sentence about the newest run.
/// `offset_s`: offset of local time from UTC at an instant. Ends with a newline.
pub fn history(histories: &[History], offset_s: &dyn Fn(u64) -> i32, style: Style) -> String {
    let each = histories.iter().map(|it| one(it, offset_s, style));
    trimmed(&each.collect::<Vec<_>>().join("\n"))
}

fn one(history: &History, offset_s: &dyn Fn(u64) -> i32, style: Style) -> String {
    let mut head = vec![sanitize(&history.workload)];
    if !history.configuration.is_empty() {
        head.push(format!("on {}", sanitize(&history.configuration)));
    }
    let metric = &history.metric;
    let about = [
        counted(history.points.len() as u64, "run"),
        match history.host.is_empty() {
            true => "unknown host".to_owned(),
            false => format!("host {}", sanitize(&history.host)),
        },
        format!(
            "{}, {} is better",
            sanitize(&metric.name),
            better(metric.better)
        ),
        format!("identity {}", history.identity),
    ];
    let head = format!("{}   {}", head.join(" "), about.join(", "));
    let mut text = style.wrap(&style.plain(&head), 2) + "\n";
    if let Some(target) = target_words(history) {
        text += &(style.wrap(&style.plain(&format!("  {target}")), 4) + "\n");
    }
    let shown = ComparisonFormat::default();
    let mut table = Table::new([
        Column::left("run"),
        Column::left("started").drop(2),
        Column::right("trials").drop(3),
        Column::left("median"),
        Column::left("").drop(1),
    ])
    .indent(2);
    let span = span(&history.points);
    for (place, point) in history.points.iter().enumerate() {
        let change = history.changes.iter().find(|it| it.point == place);
        if let Some(change) = change {
            let paint = match change.ratio < 1.0 {
                true => Paint::Red,
                false => Paint::Green,
            };
            table.text(format!("  {}", change_words(history, change)), 4, paint);
        }
        table.row([
            Cell::from(sanitize(&point.run)),
            clock::minute(point.started_unix_ms, offset_s(point.started_unix_ms)).into(),
            point.trials.to_string().into(),
            median(&point.median, &metric.unit, &shown).into(),
            picture(&point.median, span, style).into(),
        ]);
    }
    text += &table.draw(style.width, style);
    for drift in &history.drifts {
        let words = drift_words(history, drift);
        text += &(style.wrap(&style.plain(&format!("  {words}")), 4) + "\n");
    }
    let paint = match history.newest.verdict {
        NewestVerdict::Regression => Paint::Red,
        NewestVerdict::Improvement => Paint::Green,
        NewestVerdict::AsBefore | NewestVerdict::TooFewRuns => Paint::Dim,
    };
    let words = style.wrap(&style.plain(&format!("  {}", newest_words(history))), 4);
    for line in words.lines() {
        text += &(style.paint(paint, line) + "\n");
    }
    text
}

/// `0.80× from run 8 on (p<0.001); differs from run 7: kernel 6.1 → 6.2`.
pub fn change_words(history: &History, change: &HistoryChange) -> String {
    let point = |place: usize| history.points.get(place).map_or("", |point| &point.run);
    let times = Estimated {
        value: change.ratio,
        interval: None,
        level: 0.0,
    };
    let before = sanitize(point(change.point.saturating_sub(1)));
    let differs: Vec<String> = (change.differs.iter().take(MAX_FACTS))
        .map(|it| {
            let or_none = |text: &str| match text.is_empty() {
                true => "none".to_owned(),
                false => sanitize(text),
            };
            let (before, after) = (or_none(&it.before), or_none(&it.after));
            format!("{} {before} → {after}", sanitize(&it.name))
        })
        .collect();
    let more = match change.differs.len().saturating_sub(MAX_FACTS) {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    let facts = match differs.is_empty() {
        true => format!("the recorded environment is that of {before}"),
        false => format!("differs from {before}: {}{more}", differs.join("; ")),
    };
    format!(
        "{} speed from {} on ({}); {facts}",
        ratio(&times),
        sanitize(point(change.point)),
        p_is(change.p)
    )
}

/// `unlike other histories: file system tmpfs; stack tmpfs`: the facts in which its target differs from those of
/// others.
fn target_words(history: &History) -> Option<String> {
    let facts = history.target.iter().take(MAX_FACTS);
    let facts: Vec<String> = facts
        .map(|fact| format!("{} {}", sanitize(&fact.name), sanitize(&fact.value)))
        .collect();
    let more = match history.target.len().saturating_sub(MAX_FACTS) {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    (!facts.is_empty()).then(|| format!("target unlike that of others: {}{more}", facts.join("; ")))
}

/// `drift to 0.80× speed from run 1 to run 30 (p=0.001)`.
pub fn drift_words(history: &History, drift: &HistoryDrift) -> String {
    let run = |place: usize| history.points.get(place).map_or("", |point| &point.run);
    let times = Estimated {
        value: drift.ratio,
        interval: None,
        level: 0.0,
    };
    format!(
        "drift to {} speed from {} to {} ({})",
        ratio(&times),
        sanitize(run(drift.first)),
        sanitize(run(drift.last)),
        p_is(drift.p)
    )
}

/// A sentence about the newest run.
pub fn newest_words(history: &History) -> String {
    let point = |place: usize| history.points.get(place).map_or("", |point| &point.run);
    let last = sanitize(point(history.points.len().saturating_sub(1)));
    let newest = &history.newest;
    let Some(expected) = &newest.expected else {
        return format!(
            "{}: {last} cannot be judged: that needs at least {} runs of one level before it",
            newest.verdict.name(),
            History::STEADY_RUNS
        );
    };
    let (first, end) = newest.steady;
    let Some((low, high)) = expected.interval else {
        return format!(
            "{}: {last} is on a drift to {:.3}× the speed since {}",
            newest.verdict.name(),
            expected.value,
            sanitize(point(first))
        );
    };
    format!(
        "{}: {last} has {:.3}× the speed of {} to {}; a further run of that level has {low:.3}× to {high:.3}× with probability {:.0} %",
        newest.verdict.name(),
        expected.value,
        sanitize(point(first)),
        sanitize(point(end.saturating_sub(1))),
        expected.level * 100.0
    )
}

/// The smallest and the largest value of all intervals.
fn span(points: &[HistoryPoint]) -> (f64, f64) {
    let ends = points.iter().map(|point| {
        let value = point.median.value;
        point.median.interval.unwrap_or((value, value))
    });
    ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, end| {
        (all.0.min(end.0), all.1.max(end.1))
    })
}

/// A line with the median as a dot on its interval. All runs share the scale, which does not begin at zero.
fn picture(median: &Estimated, (low, high): (f64, f64), style: Style) -> String {
    if !(high > low && median.value.is_finite()) {
        return String::new();
    }
    let column = |value: f64| {
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        (share * (PICTURE - 1) as f64).round() as usize
    };
    let (dot, dash) = if style.unicode {
        ('●', '─')
    } else {
        ('o', '-')
    };
    let (from, to) = median.interval.unwrap_or((median.value, median.value));
    let (from, to, at) = (column(from), column(to), column(median.value));
    let mark = |place: usize| match place {
        place if place == at => dot,
        place if (from..=to).contains(&place) => dash,
        _ => ' ',
    };
    let drawn: String = (0..PICTURE).map(mark).collect();
    drawn.trim_end().to_owned()
}

/// `schema` = `iodyno.history/1`. Values are in `metric.unit`; a ratio is a speed, above one the later runs are faster.
/// Ends with a newline.
pub fn history_json(histories: &[History]) -> String {
    print(&HistoryDocument(histories))
}

object!(HistoryDocument<'a>(all in &'a [History]) {
    schema: "iodyno.history/1",
    histories: list(all.iter(), HistoryView),
});

object!(HistoryView<'a>(it in &'a History) {
    workload: it.workload,
    // Empty with `--any-target` where each run has a single configuration.
    configuration: it.configuration,
    host: it.host,
    identity: it.identity,
    // Facts in which it differs from the other histories.
    target: list(&it.target, TargetView),
    metric: MetricOfHistory(&it.metric),
    runs: list(&it.points, PointView),
    changes: list(&it.changes, ChangeView),
    drifts: list(&it.drifts, DriftView),
    newest: NewestView(&it.newest),
});

object!(MetricOfHistory<'a>(metric in &'a Metric) {
    name: metric.name,
    unit: unit_name(&metric.unit),
    better: better(metric.better),
});

object!(PointView<'a>(it in &'a HistoryPoint) {
    run: it.run,
    started_unix_ms: it.started_unix_ms,
    trials: it.trials,
    median: it.median.value,
    low: it.median.interval.map(|ends| ends.0),
    high: it.median.interval.map(|ends| ends.1),
    level: it.median.level,
});

object!(ChangeView<'a>(it in &'a HistoryChange) {
    // Index of the first run after the change.
    first_after: it.point,
    ratio: it.ratio,
    p: it.p,
    differs: list(&it.differs, FactView),
});

object!(TargetView<'a>(it in &'a Fact) {
    name: it.name,
    value: it.value,
});

object!(DriftView<'a>(it in &'a HistoryDrift) {
    // Indices of runs.
    first: it.first,
    last: it.last,
    ratio: it.ratio,
    p: it.p,
});

object!(FactView<'a>(it in &'a HistoryDifference) {
    name: it.name,
    before: it.before,
    after: it.after,
});

object!(NewestView<'a>(it in &'a NewestRun) {
    verdict: it.verdict,
    // Indices of the first run of the level that it is compared with, and after the last one; the drift that it is part
    // of has no `expected_low`.
    steady: it.steady,
    ratio: it.expected.map(|it| it.value),
    expected_low: it.expected.and_then(|it| it.interval).map(|ends| ends.0),
    expected_high: it.expected.and_then(|it| it.interval).map(|ends| ends.1),
    level: it.expected.map(|it| it.level),
});

#[cfg(test)]
mod tests {
    use iodyno_model::FactClass;

    use super::*;

    fn sample() -> Vec<History> {
        let point = |place: usize, value: f64| HistoryPoint {
            run: format!("run {}", place + 1),
            started_unix_ms: 1_700_000_000_000 + place as u64 * 86_400_000,
            trials: 9,
            median: Estimated {
                value,
                interval: Some((value * 0.98, value * 1.01)),
                level: 0.95,
            },
        };
        let levels = [1000.0, 1010.0, 990.0, 1005.0, 1000.0, 800.0, 805.0];
        vec![History {
            workload: "rand\u{1b}read".to_owned(),
            configuration: "xfs".to_owned(),
            host: "ada".to_owned(),
            identity: "0123456789abcdef".to_owned(),
            target: vec![Fact {
                class: FactClass::Target,
                name: "file system".to_owned(),
                value: "xfs".to_owned(),
            }],
            metric: Metric::iops("iops"),
            points: levels
                .iter()
                .enumerate()
                .map(|(place, it)| point(place, *it))
                .collect(),
            changes: vec![HistoryChange {
                point: 5,
                ratio: 0.8,
                p: 1e-6,
                differs: vec![HistoryDifference {
                    name: "kernel".to_owned(),
                    before: "6.1".to_owned(),
                    after: String::new(),
                }],
            }],
            drifts: Vec::new(),
            newest: NewestRun {
                verdict: NewestVerdict::Regression,
                steady: (0, 5),
                expected: Some(Estimated {
                    value: 0.804,
                    interval: Some((0.961, 1.04)),
                    level: 0.99,
                }),
            },
        }]
    }

    #[test]
    fn text_has_a_line_for_each_run_change_and_the_newest_run() {
        let style = Style {
            color: false,
            width: 130,
            unicode: true,
        };
        let text = history(&sample(), &|_| 0, style);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 1 + 1 + 7 + 1 + 1, "{text}");
        assert!(lines[1].contains("target unlike that of others: file system xfs"));
        assert!(
            lines[8].contains(
                "0.80× speed from run 6 on (p<0.001); differs from run 5: kernel 6.1 → none"
            ),
            "{text}"
        );
        assert!(lines[9].contains("2023-11-19"), "{text}");
        assert!(
            lines[11].contains("REGRESSION: run 7 has 0.804× the speed of run 1 to run 5"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        let mut drifting = sample();
        drifting[0].changes.clear();
        drifting[0].drifts.push(HistoryDrift {
            first: 0,
            last: 6,
            ratio: 0.8,
            p: 0.002,
        });
        drifting[0].newest.steady = (0, 6);
        if let Some(expected) = &mut drifting[0].newest.expected {
            expected.interval = None;
        }
        let text = self::history(&drifting, &|_| 0, style);
        for part in [
            "drift to 0.80× speed from run 1 to run 7 (p=0.002)",
            "REGRESSION: run 7 is on a drift to 0.804× the speed since run 1",
        ] {
            assert!(text.contains(part), "{text}");
        }
        for width in [40, 80] {
            let narrow = history(&sample(), &|_| 0, Style { width, ..style });
            let longest = narrow.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|it| it <= width), "{narrow}");
        }
    }

    #[test]
    fn json_has_every_run() {
        let document: serde_json::Value = serde_json::from_str(&history_json(&sample())).unwrap();
        assert_eq!(document["schema"], "iodyno.history/1");
        let history = &document["histories"][0];
        assert_eq!(history["runs"].as_array().unwrap().len(), 7);
        assert_eq!(history["newest"]["verdict"], "regression");
        assert_eq!(history["changes"][0]["first_after"], 5);
        assert_eq!(history["runs"][5]["low"], 784.0);
    }
}
