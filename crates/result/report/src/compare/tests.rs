mod arbitrary;
pub(super) mod samples;
mod shapes;

use iodyno_model::{CandidateResult, Comparison, Metric, Pairing, Verdict};
use serde_json::Value;

use super::figures::limit;
use super::footnotes::Footnotes;
use super::*;
use crate::style::width;
use crate::{Markup, Style};
use samples::{
    bare, cell, comparison, estimated, not_comparable, policies, pools, published, row, side,
    three_engines, two_file_systems,
};

fn text(comparison: &Comparison, style: Style) -> String {
    super::text(comparison, &ComparisonFormat::default(), style)
}

fn markdown(comparison: &Comparison) -> String {
    super::markup(comparison, &ComparisonFormat::default(), Markup::Markdown)
}

fn asciidoc(comparison: &Comparison) -> String {
    super::markup(comparison, &ComparisonFormat::default(), Markup::AsciiDoc)
}

fn plain(columns: usize) -> Style {
    Style {
        color: false,
        width: columns,
        unicode: true,
    }
}

#[test]
fn a_family_is_marked_in_every_format_for_people() {
    let mut comparison = three_engines();
    let row = &mut comparison.rows[1];
    (row.family, row.name) = (true, vec!["writes".to_owned()]);
    assert!(text(&comparison, plain(100)).contains("writes (family)"));
    assert!(markdown(&comparison).contains("writes (family)"));
    assert!(csv(&comparison).contains("\nwrites (family),"));
    let json: Value = serde_json::from_str(&json(&comparison, None)).unwrap();
    let row = &json["rows"][1];
    assert_eq!(row["family"], true);
    assert_eq!(row["dimensions"]["workload"], "writes");
}

#[test]
fn verdicts_are_sentences_and_rows_with_the_same_one_share_it() {
    let undecided = |name: &str| {
        let verdict = Verdict::CannotDecide {
            n: 3,
            smallest_p: 0.1,
            needed_p: 0.01,
            least: 9,
        };
        let cells = vec![cell(side("xfs", None), None, verdict)];
        row(name, Metric::iops(Metric::IOPS), side("ext4", None), cells)
    };
    let mut comparison = two_file_systems();
    comparison.rows.truncate(1);
    comparison.rows.extend([undecided("a"), undecided("b")]);
    insta::assert_snapshot!(sentences(&comparison).join("\n"));
}

#[test]
fn a_row_has_both_medians_the_ratio_and_the_verdict() {
    insta::assert_snapshot!(text(&two_file_systems(), plain(120)));
}

#[test]
fn eighty_columns_omit_less_important_parts() {
    insta::assert_snapshot!(text(&two_file_systems(), plain(80)));
}

#[test]
fn several_candidates_are_side_by_side_if_there_is_room() {
    insta::assert_snapshot!(text(&three_engines(), plain(160)));
}

#[test]
fn what_all_undecided_rows_share_is_said_once() {
    let undecided = |name: &str| {
        let verdict = Verdict::CannotDecide {
            n: 3,
            smallest_p: 0.25,
            needed_p: 0.0012,
            least: 11,
        };
        let cells = ["b", "c"].map(|candidate| {
            let mut cell = cell(side(candidate, None), None, verdict.clone());
            cell.notes = vec![format!("steadiness of a and {candidate} unknown")];
            cell
        });
        row(
            name,
            Metric::iops(Metric::IOPS),
            side("a", None),
            cells.to_vec(),
        )
    };
    let mut comparison = two_file_systems();
    comparison.columns = ["a", "b", "c"].map(str::to_owned).to_vec();
    comparison.rows = ["1", "2", "3", "4"].map(undecided).to_vec();
    assert_eq!(
        sentences(&comparison),
        [
            "all 4: b against a: undecided",
            "all 4: c against a: undecided"
        ]
    );
    let text = markdown(&comparison);
    assert!(!text.contains("(1)"), "{text}");
    for note in [
        "- all verdicts: n=3, smallest possible p is 0.25",
        "- all verdicts: steadiness of a and any other side unknown",
    ] {
        assert_eq!(text.matches(note).count(), 1, "{text}");
    }
}

#[test]
fn several_candidates_have_separate_tables_otherwise() {
    insta::assert_snapshot!(text(&three_engines(), plain(120)));
}

#[test]
fn too_wide_tables_become_one_block_per_row() {
    insta::assert_snapshot!(text(&three_engines(), plain(44)));
}

#[test]
fn a_published_table_is_checked_against_its_own_trials() {
    insta::assert_snapshot!(text(&published(), plain(120)));
    insta::assert_snapshot!("the_same_in_eighty_columns", text(&published(), plain(80)));
}

/// Runs by their names, bandwidths in MB/s.
fn named() -> ComparisonFormat {
    let headings = [("run 1", "Pristine"), ("run 2", "With 1461")];
    ComparisonFormat {
        bandwidth: BandwidthUnit::Decimal,
        headings: headings
            .map(|(run, name)| (run.to_owned(), name.to_owned()))
            .into(),
        ..ComparisonFormat::default()
    }
}

#[test]
fn dimensions_across_are_columns_below_each_side() {
    for columns in [80, 120, 200] {
        let text = super::text(&policies(), &named(), plain(columns));
        insta::assert_snapshot!(format!("policies_at_{columns}"), text);
    }
    let text = super::markup(&policies(), &named(), Markup::Markdown);
    insta::assert_snapshot!("policies_to_paste", text);
}

#[test]
fn several_metrics_are_beside_one_another_with_a_line_for_each_side() {
    for columns in [60, 80, 120] {
        let text = text(&pools(), plain(columns));
        insta::assert_snapshot!(format!("pools_at_{columns}"), text);
    }
}

#[test]
fn a_footnote_says_why_an_extension_needs_more_rounds() {
    let mut comparison = two_file_systems();
    comparison.rows.truncate(1);
    let after = ", because a verdict after an extension has a fifth of this";
    for (looks, needed_p, least, spent, extended) in [
        (None, 0.02, 7, "", ""),
        (Some(0), 0.02, 9, "", after),
        (
            Some(1),
            0.008,
            8,
            ", because an earlier verdict of this run spent a part of α",
            "",
        ),
    ] {
        comparison.question.looks = looks;
        let mut cell = comparison.rows[0].cells[0].clone();
        cell.pairing = Pairing::Paired;
        cell.verdict = Verdict::CannotDecide {
            n: 6,
            smallest_p: 0.031,
            needed_p,
            least,
        };
        let mut notes = Footnotes::default();
        notes.of_cell(&comparison, &comparison.rows[0], &cell, (false, false));
        let expected = format!(
            "n=6, smallest possible p is 0.031, and it has to be below {}{spent}: at least {least} rounds{extended}",
            limit(needed_p)
        );
        assert_eq!(notes.texts()[0], expected);
    }
}

#[test]
fn a_footnote_of_all_cells_is_a_note_below_the_table() {
    let names: Vec<String> = (1..=7).map(|run| format!("run {run}")).collect();
    let verdict = || Verdict::CannotDecide {
        n: 3,
        smallest_p: 0.1,
        needed_p: 0.01,
        least: 8,
    };
    let cells = (1..7).map(|run| {
        let mut cell = cell(side(&names[run], bare(2000.0)), bare(2.0), verdict());
        cell.notes = vec![format!(
            "1 file of run 1 and 1 of run {} are too few",
            run + 1
        )];
        cell.notes
            .extend((run == 3).then(|| "only here".to_owned()));
        cell
    });
    let iops = Metric::iops(Metric::IOPS);
    let row = row("a", iops, side("run 1", bare(1000.0)), cells.collect());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(&comparison("seven", &names, vec![row]), plain(120));
    assert!(
        text.contains("all verdicts: 1 file of run 1 and 1 of any other side are too few"),
        "{text}"
    );
    assert!(
        text.contains("all verdicts: n=3, smallest possible p"),
        "{text}"
    );
    assert_eq!(text.matches("CANNOT DECIDE (1)").count(), 1, "{text}");
    assert_eq!(text.matches("CANNOT DECIDE").count(), 6, "{text}");
    assert!(
        text.contains("(1) only here") && !text.contains("(2)"),
        "{text}"
    );
}

#[test]
fn twelve_columns_are_one_table_without_cells_for_what_was_not_run() {
    let names: Vec<String> = (1..=12).map(|run| format!("run {run}")).collect();
    let rows = [0, 6].map(|first| {
        let column = |run: usize| match (first..first + 6).contains(&run) {
            true => side(&names[run], bare(1000.0 * (run + 1) as f64)),
            false => side(&names[run], None),
        };
        let no_trial = |run: usize| Verdict::NoData {
            why: format!("run {run} {}", Verdict::NO_TRIAL),
        };
        let cells = (1..12).map(|run| match (first, run) {
            (0, 1..=5) => cell(column(run), bare(run as f64 + 1.0), Verdict::Faster),
            _ => cell(column(run), None, no_trial(run)),
        });
        let name = format!("workload-{first}");
        row(
            &name,
            Metric::iops(Metric::IOPS),
            column(0),
            cells.collect(),
        )
    });
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(&comparison("twelve", &names, rows.into()), plain(80));
    assert!(
        !text.contains("NO DATA") && !text.contains("no trial"),
        "{text}"
    );
    assert_eq!(
        text.lines().filter(|line| line.contains("  run ")).count(),
        12
    );
}

#[test]
fn the_mean_is_beside_the_median_on_request() {
    let shown = ComparisonFormat {
        mean: true,
        ..ComparisonFormat::default()
    };
    let mean = "671/s ±3% (mean 672/s)";
    assert!(!text(&two_file_systems(), plain(200)).contains("mean"));
    let text = super::text(&two_file_systems(), &shown, plain(200));
    assert!(text.contains(mean), "{text}");
    assert!(super::markup(&two_file_systems(), &shown, Markup::Markdown).contains(mean));
    // (655 + 671 + 691) / 3
    let row = &two_file_systems().rows[0].baseline;
    assert_eq!(shown.mean_of(&row.values), Some(2017.0 / 3.0));
    assert_eq!(shown.mean_of(&[]), None);
}

#[test]
fn each_footnote_of_a_table_of_all_sides_is_named_in_it() {
    let mut omitted = 0;
    for comparison in [policies(), pools()] {
        for columns in 40..200 {
            let text = text(&comparison, plain(columns));
            omitted += usize::from(text.contains("without footnotes ("));
            for (at, line) in text.lines().enumerate() {
                let number = line
                    .strip_prefix('(')
                    .and_then(|line| line.split_once(") "));
                let Some((number, _)) = number.filter(|(it, _)| it.parse::<u32>().is_ok()) else {
                    continue;
                };
                let ends = [(" (", ")"), (" (", ","), (",", ")"), (",", ",")];
                let marks = ends.map(|(before, after)| format!("{before}{number}{after}"));
                let mut table = text.lines().take(at);
                let named = table.any(|line| marks.iter().any(|mark| line.contains(mark)));
                assert!(named, "{columns} columns: {line}\n{text}");
            }
        }
    }
    assert!(omitted > 0);
}

#[test]
fn markdown_is_a_pivot_to_paste() {
    let documents = [two_file_systems(), three_engines(), published()];
    insta::assert_snapshot!(documents.each_ref().map(markdown).join("\n"));
}

#[test]
fn asciidoc_is_the_same_pivot() {
    let documents = [three_engines(), published()];
    insta::assert_snapshot!(documents.each_ref().map(asciidoc).join("\n"));
}

#[test]
fn ci_systems_get_the_primary_verdicts() {
    let documents = [two_file_systems(), published()];
    let texts = documents.each_ref().map(|it| junit(it) + &annotations(it));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn csv_has_one_line_per_candidate_result() {
    insta::assert_snapshot!(csv(&two_file_systems()));
}

#[test]
fn json_contains_everything() {
    insta::assert_snapshot!(json(&published(), None));
}

#[test]
fn ascii_terminals_get_ascii() {
    let ascii = Style {
        unicode: false,
        ..plain(120)
    };
    for comparison in [two_file_systems(), three_engines()] {
        let text = text(&comparison, ascii);
        assert!(text.is_ascii(), "{text}");
        assert!(
            text.contains("+-3%") && text.contains("1.66x [1.58, 1.75]") || text.contains("1.31x")
        );
    }
    // Columns are as wide as the displayed text: the verdicts are aligned.
    let text = text(&two_file_systems(), ascii);
    let begins = |word: &str| {
        let mut lines = text.lines().skip(2);
        lines.find_map(|line| line.find(word)).unwrap()
    };
    assert_eq!(begins("FASTER"), begins("SLOWER"));
    assert_eq!(begins("FASTER"), begins("NOT COMPARABLE"));
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    for comparison in [
        two_file_systems(),
        three_engines(),
        published(),
        policies(),
        pools(),
    ] {
        for columns in [40, 60, 72, 80, 100, 120, 200] {
            for line in text(&comparison, plain(columns)).lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn colours_do_not_change_the_text() {
    for columns in [50, 100, 160] {
        for comparison in [
            two_file_systems(),
            three_engines(),
            published(),
            policies(),
            pools(),
        ] {
            let colored = text(
                &comparison,
                Style {
                    color: true,
                    ..plain(columns)
                },
            );
            assert!(colored.contains("\x1b[3"));
            let mut bare = String::new();
            for (index, piece) in colored.split("\x1b[").enumerate() {
                bare += if index == 0 {
                    piece
                } else {
                    piece.split_once('m').unwrap().1
                };
            }
            let bare: Vec<&str> = bare.lines().map(str::trim_end).collect();
            assert_eq!(bare.join("\n") + "\n", text(&comparison, plain(columns)));
        }
    }
}

fn decided(verdict: Verdict) -> CandidateResult {
    let ratio = estimated(1.664, 1.452, 1.904);
    CandidateResult {
        adjusted_p: Some(0.002),
        ..cell(side("zfs", bare(2.0)), ratio, verdict)
    }
}

#[test]
fn verdicts_have_their_texts() {
    let unpaired = |verdict: Verdict, n: u32| CandidateResult {
        pairing: Pairing::Unpaired,
        n,
        ..decided(verdict)
    };
    let between = |low: f64, high: f64, cell: CandidateResult| CandidateResult {
        ratio: estimated(1.02, low, high),
        ..cell
    };
    let inconclusive = Verdict::inconclusive;
    let three = Verdict::CannotDecide {
        n: 3,
        smallest_p: 0.1,
        needed_p: 0.05,
        least: 4,
    };
    for (cell, words) in [
        (
            decided(Verdict::Faster),
            "FASTER 1.66× [1.45, 1.90], 10 rounds, p=0.002",
        ),
        (
            decided(Verdict::Slower),
            "SLOWER 1.66× [1.45, 1.90], 10 rounds, p=0.002",
        ),
        (
            CandidateResult {
                adjusted_p: None,
                p: Some(0.0001),
                ratio: bare(1.5),
                ..unpaired(Verdict::Faster, 6)
            },
            "FASTER 1.50×, 6 trials a side, p<0.001",
        ),
        (decided(Verdict::Equivalent), "EQUIVALENT within ±3 %"),
        (
            CandidateResult {
                margin: 0.0525,
                ..decided(Verdict::Equivalent)
            },
            "EQUIVALENT within ±5.2 %",
        ),
        (
            between(1.011, 1.026, decided(Verdict::DifferentButSmall)),
            "DIFFERENT BUT SMALL 1.02× [1.01, 1.03], 10 rounds, p=0.002",
        ),
        (
            between(0.96, 1.09, decided(inconclusive(Some(14)))),
            "INCONCLUSIVE [−4 %, +9 %]: about 14 more rounds",
        ),
        (
            between(0.96, 1.09, unpaired(inconclusive(Some(1)), 7)),
            "INCONCLUSIVE [−4 %, +9 %]: about 1 more trial a side",
        ),
        (
            CandidateResult {
                ratio: bare(1.0),
                ..decided(inconclusive(None))
            },
            "INCONCLUSIVE: more rounds, number unknown",
        ),
        (
            unpaired(three, 3),
            "CANNOT DECIDE: n=3, smallest possible p is 0.10",
        ),
        (
            decided(Verdict::NotComparable {
                reasons: vec!["not steady".to_owned(), "differing mounts".to_owned()],
            }),
            "NOT COMPARABLE: not steady; differing mounts",
        ),
        (
            decided(Verdict::NotComparable {
                reasons: Vec::new(),
            }),
            "NOT COMPARABLE",
        ),
        (
            decided(Verdict::NoData {
                why: "zfs has no trials".to_owned(),
            }),
            "NO DATA: zfs has no trials",
        ),
    ] {
        assert_eq!(verdict_words(&cell), words);
    }
}

#[test]
fn the_verdict_by_the_numbers_alone_is_printed_if_sides_are_not_comparable() {
    let mut comparison = two_file_systems();
    for (by_numbers, expected) in [
        (
            Verdict::Slower,
            "both capped; by the numbers alone SLOWER 0.88× [0.86, 0.90], 10 rounds, p=0.014",
        ),
        (
            Verdict::Equivalent,
            "both capped; by the numbers alone 0.88× [0.86, 0.90] and EQUIVALENT within ±3 %",
        ),
        (not_comparable("both capped"), "both capped\n"),
    ] {
        let cell = &mut comparison.rows[5].cells[0];
        cell.verdict = not_comparable("both capped");
        cell.by_numbers = by_numbers;
        let text = text(&comparison, plain(200));
        assert!(text.contains(expected), "{text}");
        let line = text
            .lines()
            .find(|line| line.starts_with("write_sync"))
            .unwrap();
        assert!(!line.contains('×'), "{line}");
    }
}

#[test]
fn every_kind_of_verdict_is_counted_once() {
    let counts = two_file_systems().verdicts(Some("zfs"));
    assert_eq!(
        counts.to_string(),
        "1 faster, 1 slower, 1 equivalent, 2 undecided, 1 not comparable, 1 without data"
    );
    assert_eq!(counts.all(), 7);
    assert_eq!(
        two_file_systems().verdicts(Some("xfs")).to_string(),
        "nothing compared"
    );
    // Neither the noise floor nor exploratory rows count.
    assert_eq!(
        three_engines().verdicts(Some("io_uring")).to_string(),
        "2 faster"
    );
}

#[test]
fn the_interim_verdict_fits_on_a_line() {
    let one = comparison(
        "engines",
        &["psync", "io_uring", "libaio"],
        three_engines().rows.into_iter().take(1).collect(),
    );
    assert_eq!(
        progress_line(&one),
        "provisional: io_uring 1.31× [1.24, 1.39] FASTER; libaio 1.02× [0.97, 1.08] DIFFERENT BUT SMALL"
    );
    assert_eq!(
        progress_line(&three_engines()),
        "provisional: io_uring 2 faster; libaio 1 different but small, 1 undecided"
    );
    assert_eq!(progress_line(&comparison("none", &["a"], Vec::new())), "");
    let mut long = one;
    long.rows[0].cells[0].side.column = "x".repeat(300);
    assert_eq!(width(&progress_line(&long)), 100);
}

#[test]
fn an_empty_comparison_is_reported() {
    let none = comparison("none", &["ext4"], Vec::new());
    assert_eq!(
        text(&none, plain(80)),
        "none   10 rounds, margin 3 %\nnothing to compare\n"
    );
    assert_eq!(csv(&none).lines().count(), 1);
}

#[test]
fn the_noise_floor_and_differing_levels_are_printed() {
    let mut comparison = two_file_systems();
    comparison.question.alpha = 0.01;
    comparison.rows[0].cells[0].ratio.as_mut().unwrap().level = 0.99286;
    comparison.rows[1].cells[0].n = 9;
    let text = text(&comparison, plain(140));
    for expected in ["alpha 0.01", "zfs/ext4 speed [95–99.3 %]", "9 rounds"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn a_metric_that_does_not_follow_from_its_unit_is_named() {
    let mut comparison = two_file_systems();
    comparison.rows[0].metric.name = "write.p99".to_owned();
    let text = text(&comparison, plain(120));
    assert!(text.contains("create_empty write.p99"), "{text}");
    assert!(
        !text.contains(" completion ") && !text.contains("iops"),
        "{text}"
    );
    assert!(markdown(&comparison).contains("| workload | metric | ext4 | zfs |"));
}

#[test]
fn differences_other_than_the_axis_are_printed_with_their_values() {
    let mut comparison = two_file_systems();
    let mounts = iodyno_model::Difference {
        class: iodyno_model::FactClass::Target,
        name: "mount options".to_owned(),
        values: ("noatime".to_owned(), String::new()),
        axis: false,
    };
    comparison.rows[0].cells[0].differs = vec![mounts.clone()];
    let expected = "mount options (noatime against unknown)";
    let of_the_cell = text(&comparison, plain(140));
    assert!(
        of_the_cell.contains(&format!("(1) differs: {expected}")),
        "{of_the_cell}"
    );
    comparison.differs.push(mounts);
    let of_all = text(&comparison, plain(140));
    assert!(
        of_all.contains(&format!("\ndiffers: {expected}\n")),
        "{of_all}"
    );
    assert_eq!(of_all.matches(expected).count(), 1);
}

/// The comparison of samples, with flags and a remark.
fn flagged() -> Comparison {
    let mut comparison = two_file_systems();
    let flag = |words: &str, trials| iodyno_model::SideFlag {
        words: words.to_owned(),
        trials,
        of: 10,
    };
    let rows = &mut comparison.rows;
    rows[0].baseline.flags = vec![flag("not steady", 2)];
    rows[0].cells[0].side.flags = vec![flag("not steady", 7), flag("paused", 10)];
    rows[1].cells[0].side.flags = vec![flag("not steady", 3)];
    rows[0].cells[0].remarks = vec!["the ratio of the medians is 2×".to_owned()];
    comparison
}

#[test]
fn flags_are_counted_over_all_trials_unless_every_note_is_printed() {
    let comparison = flagged();
    let short = text(&comparison, plain(140));
    let line = "\nnotes: not steady in 12 trials (create_empty, zfs: 7 of 10), paused in 10 trials (create_empty, zfs: 10 of 10); \
                -v prints 1 more note\n";
    assert!(short.contains(line), "{short}");
    assert!(
        short.contains("1.66× [1.58, 1.75]     0.014  FASTER\n"),
        "{short}"
    );
    let verbose = ComparisonFormat {
        verbose: true,
        ..ComparisonFormat::default()
    };
    let all = super::text(&comparison, &verbose, plain(140));
    for line in [
        "0.014  FASTER (1–4)\n",
        "(1) ext4: not steady in 2 of 10 trials\n",
        "(3) zfs: paused\n",
        "(4) the ratio of the medians is 2×\n",
        "differs: file system (the axis)",
    ] {
        assert!(all.contains(line), "{line} in {all}");
    }
    assert!(!all.contains("notes:") && !short.contains("(the axis)"));
}

#[test]
fn the_answer_is_above_the_table() {
    let mut comparison = two_file_systems();
    comparison.question.words = Some("Which file system is faster?".to_owned());
    let several = text(&comparison, plain(140));
    let expected =
        "Which file system is faster?\nzfs against ext4: faster in 1 of 7, slower in 1, ";
    assert!(several.contains(expected), "{several}");
    comparison.rows.truncate(1);
    let one = text(&comparison, plain(140));
    let expected = "\nzfs is faster than ext4: 1.66× [1.58, 1.75].\n";
    assert!(one.contains(expected), "{one}");
}

#[test]
fn regressions_and_open_questions_are_those_of_primary_rows() {
    let only = |verdict: Verdict, exploratory: bool| {
        let metric = iodyno_model::Metric::iops("iops");
        let mut row = row("w", metric, side("a", bare(1.0)), vec![decided(verdict)]);
        row.exploratory = exploratory;
        let it = comparison("it", &["a", "zfs"], vec![row]);
        (it.regressed(), it.inconclusive())
    };
    assert_eq!(only(Verdict::Slower, false), (true, false));
    assert_eq!(only(Verdict::Equivalent, false), (false, false));
    assert_eq!(only(Verdict::DifferentButSmall, false), (false, false));
    assert_eq!(only(not_comparable("capped"), false), (false, true));
    assert_eq!(only(Verdict::inconclusive(None), false), (false, true));
    // Exploratory rows do not count, neither as a regression nor as the absence of one.
    assert_eq!(only(Verdict::Slower, true), (false, true));
}

#[test]
fn json_has_null_for_missing_numbers() {
    let mut comparison = two_file_systems();
    comparison.rows[0].baseline.values = vec![f64::NAN, f64::INFINITY, 1.5];
    let document: Value = serde_json::from_str(&json(&comparison, None)).unwrap();
    assert_eq!(document["schema"], "iodyno.comparison/1");
    let row = &document["rows"][0];
    assert_eq!(
        row["baseline"]["values"],
        serde_json::json!([null, null, 1.5])
    );
    assert_eq!(row["dimensions"]["workload"], "create_empty");
    assert_eq!(row["cells"][0]["verdict"], "faster");
    assert_eq!(row["cells"][0]["ratio"]["low"], 1.578);
    let cannot = &document["rows"][4]["cells"][0];
    assert_eq!(
        (
            &cannot["verdict"],
            &cannot["least_n"],
            &cannot["smallest_p"]
        ),
        (&"cannot_decide".into(), &9.into(), &0.25.into())
    );
    assert!(cannot["ratio"]["low"].is_null());
}

#[test]
fn a_ratio_of_separate_runs_is_not_printed_as_the_result() {
    let mut comparison = two_file_systems();
    let cell = &mut comparison.rows[0].cells[0];
    let expected = super::figures::ratio(&cell.ratio.unwrap());
    cell.by_numbers = Verdict::Faster;
    cell.verdict = Verdict::Inconclusive {
        more: None,
        reasons: vec!["separate runs: 1 run of ext4 and 1 of zfs".to_owned()],
    };
    let words = verdict_words(cell);
    assert_eq!(
        words,
        "INCONCLUSIVE: separate runs: 1 run of ext4 and 1 of zfs"
    );
    let row = |comparison: &Comparison| {
        let text = text(comparison, plain(200));
        let lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
        let place = lines
            .iter()
            .position(|line| line.contains("INCONCLUSIVE"))
            .unwrap();
        (lines[place].clone(), text)
    };
    let (line, all) = row(&comparison);
    assert!(!line.contains(&expected), "{line}");
    let footnote = format!("1 of zfs; by the numbers alone FASTER {expected}");
    assert!(all.contains(&footnote), "{all}");
    comparison.rows[0].cells[0].by_numbers = Verdict::inconclusive(Some(3));
    let (_, all) = row(&comparison);
    assert!(
        all.contains(&format!("1 of zfs; by the numbers alone {expected}\n")),
        "{all}"
    );
}
