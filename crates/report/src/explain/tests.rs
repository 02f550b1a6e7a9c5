use iodyno_model::{
    Cause, Change, Contrast, Equation, Estimated, Explained, Explanation, Metric, Pairing,
    SeriesUnit, Term, Verdict,
};

use super::{html, json, markdown, reasons, text};
use crate::Style;
use crate::style::width;

fn estimated(value: f64) -> Estimated {
    Estimated {
        value,
        interval: Some((value * 0.95, value * 1.05)),
        level: 0.99,
    }
}

fn contrast(words: &str, medians: (f64, f64)) -> Contrast {
    Contrast {
        name: words.replace(' ', "_"),
        words: words.to_owned(),
        unit: SeriesUnit::Nanos,
        medians,
        change: Some(Change::Ratio(estimated(medians.1 / medians.0))),
        p: Some(0.0005),
        adjusted_p: Some(0.012),
        agreeing: (12, 12),
        within: (Some(-0.82), None),
        differs: true,
    }
}

fn term(words: &str, factor: f64, share: f64) -> Term {
    Term {
        contrast: contrast(words, (80_000.0, 240_000.0)),
        factor: estimated(factor),
        share: Some(share),
        open: false,
        causes: Vec::new(),
    }
}

/// A candidate at 0.36 ×, of which the first term explains 95 %.
fn explanation() -> Explanation {
    let mut first = term("time of a read at the devices", 0.38, 0.95);
    first.causes = vec![
        Cause::Fact {
            name: "delay.read".to_owned(),
            values: ("none".to_owned(), "3.00 ms".to_owned()),
            axis: true,
        },
        Cause::Series(contrast("CPUs used by others", (0.1, 1.9))),
    ];
    let explained = Explained {
        row: vec!["randread".to_owned()],
        columns: ("ext4".to_owned(), "zfs <b>".to_owned()),
        metric: Metric::iops(Metric::IOPS),
        ratio: Some(estimated(0.36)),
        verdict: Verdict::Slower,
        pairing: Pairing::Paired,
        n: 12,
        tested: 25,
        rounds_needed: None,
        terms: vec![first, term("reads at the devices per op", 1.05, -0.05)],
        explained: Some(0.95),
        series: vec![contrast("interrupts per op", (1.0, 3.0))],
        other_facts: Vec::new(),
        identities: vec![Equation {
            words: "ops in flight = rate × latency (Little's law)".to_owned(),
            values: [(1.0, 0.99), (1.0, 0.7)],
            unit: SeriesUnit::Number,
            residual: (-0.01, -0.3),
        }],
        lacking: vec!["time in queue and device apart: `--trace block`".to_owned()],
        without: None,
    };
    Explanation {
        contradictions: Vec::new(),
        name: "test, run 1".to_owned(),
        comparisons: vec![explained],
    }
}

fn style(width: usize) -> Style {
    Style {
        color: false,
        width,
        unicode: true,
    }
}

fn unexplained() -> Explanation {
    let mut all = explanation();
    let it = &mut all.comparisons[0];
    it.terms[0].open = true;
    it.terms[0].causes.clear();
    it.explained = Some(0.0);
    all
}

#[test]
fn the_sentence_names_the_largest_part_its_share_and_candidates() {
    let text = text(&explanation(), style(200));
    for expected in [
        "randread: zfs <b> against ext4 by iops: 0.360× [0.342, 0.378], SLOWER",
        "zfs <b> is 0.360×: time of a read at the devices, 80.0 µs → 240 µs (2.63 of 2.78×); candidate cause: \
         delay.read: none → 3.00 ms; CPUs used by others",
        "0.380×   95 %  time of a read at the devices",
        "−5 %",
        "interrupts per op",
        "−30 %",
        "! not known: time in queue and device apart: `--trace block`",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let line = reasons(&explanation(), style(200));
    assert!(
        line.starts_with("why: randread: zfs <b> is 0.360×: time"),
        "{line}"
    );
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    for columns in [80, 100, 120] {
        for explanation in [explanation(), unexplained()] {
            let text = text(&explanation, style(columns));
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn a_ratio_without_reasons_is_unexplained_in_every_form() {
    let all = unexplained();
    let expected = "zfs <b> is 0.360×: unexplained, nothing that was measured accounts for it; the largest part is time of a \
                    read at the devices";
    assert!(text(&all, style(200)).contains(expected));
    assert!(markdown(&all).contains("unexplained, nothing"));
    let document: serde_json::Value = serde_json::from_str(&json(&all)).unwrap();
    assert_eq!(document["schema"], "iodyno.explanation/1");
    let headline = document["comparisons"][0]["headline"].as_str().unwrap();
    assert!(headline.starts_with(expected), "{headline}");
    assert_eq!(document["comparisons"][0]["unexplained"], 1.0);
}

#[test]
fn names_cannot_become_markup() {
    let page = html(&explanation());
    assert!(
        page.contains("zfs &lt;b&gt;") && !page.contains("<b>"),
        "{page}"
    );
}

#[test]
fn long_values_of_a_cause_begin_where_they_differ() {
    let mut all = explanation();
    let command = |policy: &str| {
        format!(
            "iodyno serve fs {{folder}} --socket {{socket}} --stats {{stats}} --dispatch {policy} --delay 200us"
        )
    };
    let values = (command("inline"), command("pool:16"));
    let name = "virtiofs.command".to_owned();
    let axis = true;
    all.comparisons[0].terms[0].causes = vec![Cause::Fact { name, values, axis }];
    let expected = "virtiofs.command: … inline --delay 200us → … pool:16 --delay 200us";
    let text = text(&all, style(200));
    assert!(text.contains(expected), "{text}");
}
