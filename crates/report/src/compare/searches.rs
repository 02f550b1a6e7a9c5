//! The answers of searches: the highest load that keeps a bound, and the knee.

use iodyno_model::{Estimated, SearchAnswer, SearchAxis, SearchPoint};
use iodyno_units::{Nanos, Rate};

use crate::json::{list, object, print};
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Column, Table};

/// A line for each cell, with its remarks below; empty without any.
pub fn searches(answers: &[SearchAnswer], style: Style) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let columns = ["workload", "configuration", "bound"].map(Column::left);
    let figures = ["highest load", "knee", "trials"].map(Column::right);
    let mut table = Table::new(columns.into_iter().chain(figures));
    let mut notes = String::new();
    for answer in answers {
        table.row([
            sanitize(&answer.workload),
            sanitize(&answer.configuration),
            bound(answer),
            load(answer, answer.highest.as_ref()),
            load(answer, answer.knee.as_ref()),
            answer.trials.to_string(),
        ]);
        let unfinished = (!answer.complete).then(|| "the search is not complete".to_owned());
        for note in answer.notes.iter().cloned().chain(unfinished) {
            let cell = format!("{} on {}", answer.workload, answer.configuration);
            notes += &style.paragraph(&sanitize(&format!("! {cell}: {note}")), 2, Paint::Yellow);
        }
    }
    trimmed(&(table.draw(style.columns(), style) + &style.plain(&notes)))
}

/// `p99 < 2.00 ms`.
fn bound(answer: &SearchAnswer) -> String {
    let until = &answer.search.until;
    let rate = ["iops", "bandwidth"]
        .iter()
        .any(|rate| until.metric.ends_with(rate));
    let limit = match rate {
        true => Rate(until.limit).to_string(),
        false => Nanos(until.limit as u64).to_string(),
    };
    let sign = if until.below { "<" } else { ">" };
    sanitize(&format!("{} {sign} {limit}", until.metric))
}

/// `rate_iops 7.73k [7.66k, 7.81k]`.
fn load(answer: &SearchAnswer, load: Option<&Estimated>) -> String {
    let Some(load) = load else {
        return "none".to_owned();
    };
    let number = |load: f64| match load.is_finite() {
        true if answer.search.axis == SearchAxis::Rate => Rate(load).to_string(),
        true => format!("{load:.0}"),
        false => "…".to_owned(),
    };
    let interval = load.interval.map_or(String::new(), |(low, high)| {
        format!(" [{}, {}]", number(low), number(high))
    });
    format!(
        "{} {}{interval}",
        answer.search.axis.name(),
        number(load.value)
    )
}

/// `schema` = `iodyno.searches/1`: the answers of a run that has nothing to compare. Ends with a newline.
pub fn searches_json(name: &str, answers: &[SearchAnswer]) -> String {
    print(&SearchesView((name, answers)))
}

object!(SearchesView<'a>((name, answers) in (&'a str, &'a [SearchAnswer])) {
    schema: "iodyno.searches/1",
    name: name,
    searches: list(answers, AnswerView),
});

object!(AnswerView<'a>(answer in &'a SearchAnswer) {
    workload: answer.workload,
    configuration: answer.configuration,
    // `rate_iops`: ops per second of each clone in each direction; `iodepth`; `numjobs`.
    axis: answer.search.axis.name(),
    metric: answer.search.until.metric,
    below: answer.search.until.below,
    // In the metric's unit; ns for times.
    limit: answer.search.until.limit,
    highest: answer.highest.as_ref().map(LoadView),
    knee: answer.knee.as_ref().map(LoadView),
    trials: answer.trials,
    complete: answer.complete,
    curve: list(&answer.curve, PointView),
    notes: answer.notes,
});

object!(LoadView<'a>(load in &'a Estimated) {
    value: load.value,
    low: load.interval.map(|interval| interval.0),
    high: load.interval.map(|interval| interval.1),
    level: load.level,
});

object!(PointView<'a>(point in &'a SearchPoint) {
    load: point.load,
    kept: point.kept,
    lost: point.lost,
    value: point.value,
    attained: point.attained,
});

#[cfg(test)]
mod tests {
    use iodyno_model::{Bound, Search};

    use super::*;

    fn answer() -> SearchAnswer {
        let estimated = |value, low, high| {
            Some(Estimated {
                value,
                interval: Some((low, high)),
                level: 0.9,
            })
        };
        SearchAnswer {
            configuration: "ext4".to_owned(),
            workload: "oltp".to_owned(),
            search: Search {
                axis: SearchAxis::Rate,
                until: Bound::parse("p99 < 2ms").unwrap(),
            },
            highest: estimated(7734.0, 7656.0, 7812.0),
            knee: estimated(5000.0, 3750.0, f64::INFINITY),
            trials: 19,
            complete: false,
            curve: vec![SearchPoint {
                load: 1250.0,
                kept: 1,
                lost: 0,
                value: Some(5.3e5),
                attained: Some(1250.0),
            }],
            notes: vec!["above it, the requested rate is not sustained".to_owned()],
        }
    }

    #[test]
    fn an_answer_has_its_loads_with_intervals_and_its_remarks() {
        let style = Style {
            color: false,
            width: 120,
            unicode: true,
        };
        let text = searches(&[answer()], style);
        for part in [
            "oltp",
            "p99 < 2.00 ms",
            "rate_iops 7.73k [7.66k, 7.81k]",
            "rate_iops 5.00k [3.75k, …]",
            "! oltp on ext4: above it, the requested rate is not sustained",
            "! oltp on ext4: the search is not complete",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(searches(&[], style), "");
    }

    #[test]
    fn an_answer_is_complete_in_json() {
        let json: serde_json::Value =
            serde_json::from_str(&searches_json("p", &[answer()])).unwrap();
        let answer = &json["searches"][0];
        assert_eq!(answer["highest"]["low"], 7656.0);
        assert_eq!(answer["knee"]["high"], serde_json::Value::Null);
        assert_eq!(answer["curve"][0]["kept"], 1);
        assert_eq!(
            (&answer["axis"], &answer["limit"]),
            (&"rate_iops".into(), &2e6.into())
        );
    }
}
