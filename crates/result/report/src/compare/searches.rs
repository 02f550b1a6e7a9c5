//! The answers of searches: the highest load that keeps a bound, and the knee.

use iodyno_model::{Bound, Estimated, SearchAnswer, SearchAxis, SearchPoint};
use iodyno_units::{Nanos, Rate};

use super::estimated::EstimatedView;
use crate::csv::{estimated, number};
use crate::json::{list, object, print};
use crate::style::{Style, sanitize, trimmed};
use crate::table::{Column, Markup, Table};

/// A line for each cell, with its remarks below; empty without any.
pub fn searches(answers: &[SearchAnswer], style: Style) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let notes = style.warnings(&notes(answers));
    let found = answers.iter().filter_map(found);
    let found: String = found
        .map(|found| style.paragraph(&found, 2, None))
        .collect();
    trimmed(&(table(answers).draw(style.columns(), style) + &style.plain(&(found + &notes))))
}

/// The same as a table with its remarks as a list. Ends with a newline.
pub fn searches_markup(name: &str, answers: &[SearchAnswer], markup: Markup) -> String {
    let title = markup.strong(&markup.escape(name));
    let blocks = [markup.paragraph(&[title])].into_iter();
    let blocks = blocks.chain(in_markup(answers, markup));
    blocks.collect::<Vec<_>>().join("\n")
}

/// The blocks of a document: a table and its remarks; none without any search.
pub(super) fn in_markup(answers: &[SearchAnswer], markup: Markup) -> Vec<String> {
    if answers.is_empty() {
        return Vec::new();
    }
    let notes = answers.iter().filter_map(found).chain(notes(answers));
    let mut blocks = vec![table(answers).markup(markup)];
    blocks.extend(markup.list(notes));
    blocks
}

/// A header line, then one line for each cell, quoted as in RFC 4180. Loads are in the axis's unit, the limit is in
/// that of its metric (ns for times), and missing values are empty.
pub fn searches_csv(answers: &[SearchAnswer]) -> String {
    let heads = "workload,configuration,axis,metric,below,limit,highest,highest_low,highest_high,knee,knee_low,\
                 knee_high,level,trials,complete,notes";
    let mut table = Table::new(heads.split(',').map(Column::left));
    for answer in answers {
        let until = &answer.search.until;
        let level = answer.highest.or(answer.knee).map(|load| load.level);
        let names = [
            answer.workload.clone(),
            answer.configuration.clone(),
            answer.search.axis.name().to_owned(),
            until.metric.clone(),
            until.below.to_string(),
            number(Some(until.limit)),
        ];
        let rest = [
            number(level),
            answer.trials.to_string(),
            answer.complete.to_string(),
            answer.notes.join("; "),
        ];
        let highest = estimated(answer.highest.as_ref());
        let knee = estimated(answer.knee.as_ref());
        table.row(names.into_iter().chain(highest).chain(knee).chain(rest));
    }
    table.csv()
}

fn table(answers: &[SearchAnswer]) -> Table {
    let columns = ["workload", "configuration", "bound"].map(Column::left);
    let figures = ["highest load", "knee", "trials"].map(Column::right);
    let mut table = Table::new(columns.into_iter().chain(figures));
    for answer in answers {
        table.row([
            sanitize(&answer.workload),
            sanitize(&answer.configuration),
            bound_words(&answer.search.until),
            load(answer, answer.highest.as_ref()),
            load(answer, answer.knee.as_ref()),
            answer.trials.to_string(),
        ]);
    }
    table
}

/// The remarks of all answers, each with its cell.
fn notes(answers: &[SearchAnswer]) -> Vec<String> {
    let of_answer = |answer: &SearchAnswer| {
        let unfinished = (!answer.complete).then(|| "the search is not complete".to_owned());
        let notes = answer.notes.iter().cloned().chain(unfinished);
        let cell = format!("{} on {}", answer.workload, answer.configuration);
        let notes = notes.map(|note| sanitize(&format!("{cell}: {note}")));
        notes.collect::<Vec<_>>()
    };
    answers.iter().flat_map(of_answer).collect()
}

/// The measurements at the loads of an answer: `oltp on ext4: at rate_iops 7.73k: p99 1.90 ms, 7.70k IOPS of each
/// stream`.
fn found(answer: &SearchAnswer) -> Option<String> {
    let loads = [answer.highest.as_ref(), answer.knee.as_ref()];
    let mut told: Vec<String> = Vec::new();
    for load in loads.into_iter().flatten() {
        let point = answer.curve.iter().find(|point| point.load == load.value);
        let Some(point) = point else { continue };
        let value = point.value.map(|value| {
            let metric = &answer.search.until.metric;
            format!("{metric} {}", in_unit(metric, value))
        });
        let streams = match answer.search.axis {
            SearchAxis::Rate => " of each stream",
            _ => "",
        };
        let rate = point
            .attained
            .map(|rate| format!("{} IOPS{streams}", Rate(rate)));
        let figures: Vec<String> = value.into_iter().chain(rate).collect();
        let at = load_words(answer.search.axis, load.value);
        let text = format!("at {at}: {}", figures.join(", "));
        if !figures.is_empty() && !told.contains(&text) {
            told.push(text);
        }
    }
    let cell = format!("{} on {}", answer.workload, answer.configuration);
    (!told.is_empty()).then(|| sanitize(&format!("{cell}: {}", told.join("; "))))
}

/// `p99 < 2.00 ms`.
pub fn bound_words(until: &Bound) -> String {
    let limit = in_unit(&until.metric, until.limit);
    let sign = if until.below { "<" } else { ">" };
    sanitize(&format!("{} {sign} {limit}", until.metric))
}

/// A value of a metric: a rate, or a time.
fn in_unit(metric: &str, value: f64) -> String {
    match ["iops", "bandwidth"]
        .iter()
        .any(|rate| metric.ends_with(rate))
    {
        true => Rate(value).to_string(),
        false => Nanos(value as u64).to_string(),
    }
}

/// A load with the name of its axis: `rate_iops 7.73k`. A load of 0 is a trial without a requested rate.
pub fn load_words(axis: SearchAxis, load: f64) -> String {
    match load > 0.0 {
        true => format!("{} {}", axis.name(), single(axis, load)),
        false => format!("{} unlimited", axis.name()),
    }
}

/// A load in the unit of the axis.
fn single(axis: SearchAxis, load: f64) -> String {
    match load.is_finite() {
        true if axis == SearchAxis::Rate => Rate(load).to_string(),
        true => format!("{load:.0}"),
        false => "…".to_owned(),
    }
}

/// `rate_iops 7.73k [7.66k, 7.81k]`.
fn load(answer: &SearchAnswer, load: Option<&Estimated>) -> String {
    let Some(load) = load else {
        return "none".to_owned();
    };
    let number = |load: f64| single(answer.search.axis, load);
    let interval = load.interval.map_or(String::new(), |(low, high)| {
        format!(" [{}, {}]", number(low), number(high))
    });
    format!(
        "{} {}{interval}",
        answer.search.axis.name(),
        number(load.value)
    )
}

/// `schema` = `iodyno.searches/1`: the answers of a run without a comparison. Ends with a newline.
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
    highest: answer.highest.as_ref().map(EstimatedView),
    knee: answer.knee.as_ref().map(EstimatedView),
    trials: answer.trials,
    complete: answer.complete,
    curve: list(&answer.curve, PointView),
    notes: answer.notes,
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
            curve: [(1250.0, 5.3e5), (5000.0, 9e5), (7734.0, 1.9e6)]
                .map(|(load, value)| SearchPoint {
                    load,
                    kept: 1,
                    lost: 0,
                    value: Some(value),
                    attained: Some(load),
                })
                .to_vec(),
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
            "oltp on ext4: at rate_iops 7.73k: p99 1.90 ms, 7.73k IOPS of each stream;",
            "! oltp on ext4: above it, the requested rate is not sustained",
            "! oltp on ext4: the search is not complete",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(searches(&[], style), "");
    }

    #[test]
    fn an_answer_is_a_row_of_a_table_in_markup_and_csv() {
        let markdown = searches_markup("laws", &[answer()], Markup::Markdown);
        for part in [
            "**laws**",
            "| workload | configuration | bound | highest load | knee | trials |",
            "rate_iops 7.73k [7.66k, 7.81k]",
            "- oltp on ext4: the search is not complete",
        ] {
            assert!(markdown.contains(part), "{part}: {markdown}");
        }
        let ascii_doc = searches_markup("laws", &[answer()], Markup::AsciiDoc);
        assert!(ascii_doc.contains("|===\n|workload\n"), "{ascii_doc}");
        let csv = searches_csv(&[answer()]);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(
            lines[1],
            "oltp,ext4,rate_iops,p99,true,2000000,7734,7656,7812,5000,3750,,0.9,19,false,\
             \"above it, the requested rate is not sustained\""
        );
        assert_eq!(
            (lines.len(), in_markup(&[], Markup::Markdown).len()),
            (2, 0)
        );
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
