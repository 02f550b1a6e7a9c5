//! A table with all that a cell can have.

use iodyno_model::{FilledTable, Metric, TableCell, TableHead, TableLine, Verdict};

use super::{closing_markup, closing_table};
use crate::{Markup, Style};

fn cell(metric: Metric, median: f64, verdict: Option<Verdict>) -> TableCell {
    TableCell {
        metric: Some(metric),
        median: Some(median),
        mean: Some(median * 1.01),
        verdict,
        ..TableCell::default()
    }
}

fn missing(why: &str) -> TableCell {
    TableCell {
        missing: Some(why.to_owned()),
        ..TableCell::default()
    }
}

fn ratio(ratio: f64, verdict: Option<Verdict>) -> TableCell {
    TableCell {
        metric: Some(Metric::iops(Metric::IOPS)),
        ratio: Some(ratio),
        verdict,
        ..TableCell::default()
    }
}

/// Two file systems with two metrics each, a family, and cells without a figure.
fn table() -> FilledTable {
    let iops = || Metric::iops(Metric::IOPS);
    let p99 = || Metric::time("read.p99");
    let head = |fs: &str, metric: &str| TableHead {
        values: vec![fs.to_owned()],
        metric: Some(metric.to_owned()),
    };
    let line = |name: &str, family: bool, cells: Vec<TableCell>| TableLine {
        values: vec![name.to_owned()],
        family,
        cells,
    };
    FilledTable {
        title: "reads".to_owned(),
        baseline: Some("ext4".to_owned()),
        rows: vec!["workload".to_owned()],
        columns: vec!["configuration".to_owned()],
        heads: vec![
            head("ext4", "iops"),
            head("ext4", "read.p99"),
            head("zfs", "iops"),
            head("zfs", "read.p99"),
        ],
        lines: vec![
            line(
                "reads",
                true,
                vec![
                    ratio(1.0, None),
                    TableCell::default(),
                    ratio(0.5, Some(Verdict::Slower)),
                    TableCell::default(),
                ],
            ),
            line(
                "randread",
                false,
                vec![
                    cell(iops(), 12_345.0, None),
                    cell(p99(), 1_190_000.0, None),
                    cell(iops(), 6_000.0, Some(Verdict::Slower)),
                    missing("no read.p99: 40 ops"),
                ],
            ),
            line(
                "read",
                false,
                vec![
                    cell(iops(), 500.0, None),
                    cell(p99(), 2_000_000.0, None),
                    missing("failed"),
                    missing("failed"),
                ],
            ),
        ],
        ..FilledTable::default()
    }
}

fn plain(width: usize) -> Style {
    Style {
        color: false,
        width,
        unicode: true,
    }
}

#[test]
fn a_table_has_signs_ratios_and_reasons() {
    insta::assert_snapshot!(closing_table(&table(), plain(100)));
}

#[test]
fn outer_columns_become_rows_where_the_table_is_too_wide() {
    insta::assert_snapshot!(closing_table(&table(), plain(60)));
    insta::assert_snapshot!(
        "each_line_is_a_block_in_the_end",
        closing_table(&table(), plain(30))
    );
}

#[test]
fn means_are_beside_medians_and_markup_has_one_line_of_headings() {
    let mut table = table();
    table.mean = true;
    insta::assert_snapshot!(closing_markup(&table, Markup::Markdown));
}
