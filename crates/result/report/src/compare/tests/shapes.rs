//! For any comparison, tables keep their form, and CSV and JSON can be parsed.

use iodyno_model::Comparison;
use proptest::prelude::*;
use serde_json::Value;

use super::{arbitrary, asciidoc, markdown, text};
use crate::Style;
use crate::compare::{csv, json, progress_line, verdict_words};
use crate::style::width;

/// Pipes that separate cells: those that are not escaped by a backslash.
fn dividers(line: &str) -> usize {
    let mut count = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '|' => count += 1,
            _ => {}
        }
    }
    count
}

fn check_csv(comparison: &Comparison) {
    let records = crate::csv::parse(&csv(comparison));
    let (head, records) = records.split_first().unwrap();
    let cells: Vec<_> = comparison
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
        .collect();
    assert_eq!(records.len(), cells.len());
    let column = |name: &str| {
        let skipped = comparison.question.rows.len();
        skipped
            + head[skipped..]
                .iter()
                .position(|known| known == name)
                .unwrap()
    };
    for (record, (row, cell)) in records.iter().zip(cells) {
        assert_eq!(record.len(), head.len());
        assert_eq!(
            record[column("candidate")],
            crate::csv::text(&cell.side.column)
        );
        assert_eq!(record[column("metric")], crate::csv::text(&row.metric.name));
        let values: Vec<f64> = record[column("candidate_values")]
            .split(';')
            .filter_map(|value| value.parse().ok())
            .collect();
        let finite = cell
            .side
            .values
            .iter()
            .copied()
            .filter(|value| value.is_finite());
        assert_eq!(values, finite.collect::<Vec<f64>>());
    }
}

fn check_tables(comparison: &Comparison) {
    let mut expected = None;
    for line in markdown(comparison).lines() {
        if !line.starts_with("| ") {
            expected = None;
            continue;
        }
        let found = dividers(line);
        assert_eq!(*expected.get_or_insert(found), found, "{line}");
    }
    let mut columns = 0;
    let mut cells = 0;
    for line in asciidoc(comparison).lines() {
        if let Some(specification) = line.strip_prefix("[cols=\"") {
            columns = specification.split(['<', '>']).count() - 1;
        } else if line == "|===" {
            assert_eq!(cells % columns.max(1), 0, "{line}");
            cells = 0;
        } else if line.starts_with('|') {
            assert_eq!(line.matches('|').count(), 1, "{line}");
            cells += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_format_is_valid_for_any_comparison(
        comparison in arbitrary::comparison(),
        columns in 0usize..200,
        unicode: bool,
    ) {
        let drawn = text(&comparison, Style { color: true, width: columns, unicode });
        prop_assert!(drawn.ends_with('\n'));
        prop_assert!(!drawn.contains("NaN") && !drawn.contains("inf×"), "{drawn}");
        check_csv(&comparison);
        check_tables(&comparison);
        let document: Value = serde_json::from_str(&json(&comparison, None)).unwrap();
        prop_assert_eq!(document["rows"].as_array().unwrap().len(), comparison.rows.len());
        prop_assert!(width(&progress_line(&comparison)) <= 100);
        prop_assert!(!progress_line(&comparison).contains('\n'));
        for cell in comparison.rows.iter().flat_map(|row| &row.cells) {
            prop_assert!(!verdict_words(cell).is_empty());
        }
    }
}
