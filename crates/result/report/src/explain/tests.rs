use iodyno_model::{
    Cause, Change, CommonReason, Contrast, Equation, Estimated, Explained, ExplainedFamily,
    Explanation, Metric, Pairing, SeriesUnit, Term, TooFew, Verdict,
};

use super::{json, markup, reasons, text};
use crate::Markup::{AsciiDoc, Html, Markdown};
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
        by_numbers: Verdict::Slower,
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
        families: Vec::new(),
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
fn candidate_causes_are_in_the_tables_of_all_forms() {
    let causes = "time of a read at the devices; candidate causes: delay.read: none → 3.00 ms";
    let of_all = explanation();
    for markup in [Markdown, AsciiDoc, Html].map(|it| markup(&of_all, it)) {
        assert!(markup.contains(causes), "{markup}");
    }
    assert!(markup(&of_all, Html).contains(">80.0&nbsp;µs</td>"));
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
    assert!(markup(&all, Markdown).contains("unexplained, nothing"));
    let document: serde_json::Value = serde_json::from_str(&json(&all)).unwrap();
    assert_eq!(document["schema"], "iodyno.explanation/1");
    let headline = document["comparisons"][0]["headline"].as_str().unwrap();
    assert!(headline.starts_with(expected), "{headline}");
    assert_eq!(document["comparisons"][0]["unexplained"], 1.0);
}

#[test]
fn names_cannot_become_markup() {
    let page = markup(&explanation(), Html);
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

/// A family of three workloads, two of which have the same first reason.
fn family() -> Explanation {
    let mut all = explanation();
    let first = all.comparisons.remove(0);
    let member = |name: &str| Explained {
        row: vec![name.to_owned()],
        ..first.clone()
    };
    let mut other = member("three");
    other.terms.swap(0, 1);
    other.terms[0].share = Some(0.9);
    let rows = |names: &[&str]| -> Vec<Vec<String>> {
        names.iter().map(|name| vec![(*name).to_owned()]).collect()
    };
    all.families = vec![ExplainedFamily {
        row: vec!["psync".to_owned()],
        columns: first.columns.clone(),
        metric: first.metric.clone(),
        ratio: Some(estimated(0.4)),
        verdict: Verdict::Slower,
        by_numbers: Verdict::Slower,
        members: rows(&["one", "two", "three"]),
        common: Some(CommonReason {
            words: "time of a read at the devices".to_owned(),
            rows: rows(&["one", "two"]),
            factor: 0.38,
            causes: first.terms[0].causes[..1].to_vec(),
            too_few: None,
        }),
    }];
    all.comparisons = vec![member("one"), member("two"), other];
    all
}

#[test]
fn a_family_has_one_section_and_members_with_another_reason_their_own() {
    let text = text(&family(), style(200));
    let sentence = "zfs <b> is 0.400× (geometric mean): time of a read at the devices is the first reason in 2 of 3 workloads, \
                    where it alone gives 0.380× (geometric mean); candidate cause: delay.read: none → 3.00 ms";
    assert!(text.contains(sentence), "{text}");
    let titles: Vec<&str> = (text.lines())
        .filter(|line| line.contains(" against "))
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(titles, ["psync", "three"]);
    for member in ["one", "two", "three"] {
        assert!(text.contains(&format!("\n{member} ")), "{text}");
    }
    let mut equal = family();
    equal.comparisons[2].explained = None;
    equal.families[0].verdict = Verdict::inconclusive(None);
    let told = super::text(&equal, style(200));
    assert_eq!(told.matches(" against ").count(), 1, "{told}");
    assert!(
        told.contains("undecided; so far zfs <b> is 0.400×"),
        "{told}"
    );
    assert!(told.contains("no difference to explain"), "{told}");
    equal.comparisons[2].verdict = Verdict::inconclusive(None);
    let told = super::text(&equal, style(200));
    assert!(!told.contains("no difference to explain"), "{told}");
    let why = reasons(&family(), style(400));
    assert_eq!(why.lines().count(), 2, "{why}");
    assert!(why.starts_with(&format!("why: psync: {sentence}")), "{why}");
    for markup in [Markdown, Html].map(|it| markup(&family(), it)) {
        assert!(
            markup.contains("is the first reason in 2 of 3 workloads"),
            "{markup}"
        );
    }
    let document: serde_json::Value = serde_json::from_str(&json(&family())).unwrap();
    assert_eq!(document["comparisons"].as_array().unwrap().len(), 3);
    assert_eq!(document["families"][0]["common"]["rows"][1][0], "two");
}

#[test]
fn what_several_comparisons_have_in_common_is_told_once() {
    let mut all = explanation();
    for (name, lacking) in [("write", "also this"), ("third", "")] {
        let mut other = all.comparisons[0].clone();
        other.row = vec![name.to_owned()];
        if !lacking.is_empty() {
            other.other_facts = vec![Cause::Fact {
                name: "fullness".to_owned(),
                values: ("1 %".to_owned(), "2 %".to_owned()),
                axis: false,
            }];
        }
        all.comparisons.push(other);
    }
    let text = text(&all, style(200));
    let once = "! all 3 comparisons: not known: time in queue and device apart: `--trace block`";
    assert!(text.ends_with(&format!("{once}\n")), "{text}");
    assert_eq!(text.matches("not known").count(), 1);
    assert_eq!(text.matches("fullness").count(), 1);
}

#[test]
fn imported_comparisons_have_one_line_with_the_reason() {
    let mut all = explanation();
    all.comparisons[0].without = Some("the trials of a and b were imported".to_owned());
    all.comparisons[0].lacking.clear();
    let mut other = all.comparisons[0].clone();
    other.row = vec!["write".to_owned()];
    all.comparisons.push(other);
    assert_eq!(
        text(&all, style(200)),
        "test, run 1\n\n! 2 comparisons are not explained: the trials of a and b were imported\n"
    );
}

#[test]
fn an_undecided_comparison_is_not_told_as_a_result() {
    let mut all = explanation();
    let it = &mut all.comparisons[0];
    it.verdict = Verdict::inconclusive(None);
    let line = text(&all, style(300));
    let expected = "undecided; after 12 rounds, zfs <b> is 0.360×: time of a read";
    assert!(line.contains(expected), "{line}");
    assert_eq!(reasons(&all, style(200)), "");
}

#[test]
fn a_small_figure_is_not_cut() {
    let mut all = explanation();
    let it = &mut all.comparisons[0].series[0];
    it.unit = SeriesUnit::Number;
    it.medians = (0.000_040_2, 2.0);
    let text = text(&all, style(80));
    assert!(text.contains("4.0e-5"), "{text}");
}

#[test]
fn what_is_not_comparable_is_a_result_only_if_its_numbers_decide() {
    let mut all = explanation();
    let it = &mut all.comparisons[0];
    it.verdict = Verdict::NotComparable {
        reasons: vec!["differing cpus_allowed".to_owned()],
    };
    let decided = "zfs <b> is 0.360×: time of a read";
    let told = text(&all, style(300));
    assert!(told.contains(&format!("\n{decided}")), "{told}");
    assert!(reasons(&all, style(300)).contains(decided));
    all.comparisons[0].by_numbers = Verdict::inconclusive(None);
    let told = text(&all, style(300));
    let expected = format!("\nundecided; after 12 rounds, {decided}");
    assert!(told.contains(&expected), "{told}");
    assert_eq!(reasons(&all, style(300)), "");
}

#[test]
fn an_undecided_comparison_without_a_difference_is_told_apart_from_equal_sides() {
    let mut all = explanation();
    all.comparisons[0].explained = None;
    all.comparisons[0].series.clear();
    let undecided = "undecided; after 12 rounds, no difference is shown\n";
    let not_comparable = || Verdict::NotComparable {
        reasons: Vec::new(),
    };
    for (verdict, by_numbers, expected) in [
        (
            Verdict::Equivalent,
            Verdict::Equivalent,
            "no difference to explain\n",
        ),
        (
            not_comparable(),
            Verdict::Equivalent,
            "no difference to explain\n",
        ),
        (not_comparable(), Verdict::inconclusive(None), undecided),
        (Verdict::inconclusive(None), Verdict::Equivalent, undecided),
    ] {
        let it = &mut all.comparisons[0];
        (it.verdict, it.by_numbers) = (verdict, by_numbers);
        let told = text(&all, style(200));
        assert!(told.contains(&format!("\n{expected}")), "{told}");
    }
}

#[test]
fn the_reason_of_a_family_with_too_few_rounds_is_a_hint() {
    let mut all = family();
    let common = all.families[0].common.as_mut().unwrap();
    common.too_few = Some(TooFew {
        pairing: Pairing::Paired,
        n: 5,
        needed: 9,
    });
    let expected = "delay.read: none → 3.00 ms (a hint: 5 rounds cannot show it, 9 can)";
    let told = [
        text(&all, style(300)),
        reasons(&all, style(400)),
        json(&all),
    ];
    assert!(told.iter().all(|told| told.contains(expected)), "{told:?}");
}

#[test]
fn the_sides_of_an_equation_have_headings_on_a_narrow_terminal() {
    let mut all = explanation();
    all.comparisons[0].identities[0].words = "in flight = rate × latency".to_owned();
    let told = text(&all, style(80));
    let lines = told
        .lines()
        .skip_while(|line| !line.starts_with("equation"));
    let lines: Vec<Vec<&str>> = lines
        .take(3)
        .map(|line| {
            let cells = line.split("  ").map(str::trim);
            cells.filter(|cell| !cell.is_empty()).collect()
        })
        .collect();
    let expected = [
        &["equation", "of", "left side", "right side", "off by"][..],
        &["in flight = rate × latency", "ext4", "1", "0.99", "−1 %"],
        &["zfs <b>", "1", "0.70", "−30 %"],
    ];
    assert_eq!(lines, expected, "{told}");
}
