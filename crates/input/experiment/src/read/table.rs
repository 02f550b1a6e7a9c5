//! The table that closes a run: a section of an experiment, or a file of its own.

use iodyno_model::{BandwidthUnit, ClosingTable, Diagnostic, Metric};

use crate::check::Keyed;
use crate::document::{Report, Table, instead, parse};
use crate::keys::TABLE;

/// The section of an experiment.
pub(super) fn of_experiment<'d>(file: &'d Table) -> Option<Keyed<'d>> {
    let node = file.get("table")?;
    let table = node.as_table()?;
    Some(Keyed::within(table, node.at.clone(), "table", TABLE))
}

/// Reports rows and columns that `known` refuses; `names`: those to suggest.
pub(super) fn check_dimensions(
    keyed: &Keyed<'_>,
    names: &[&str],
    known: impl Fn(&str) -> bool,
    report: &mut Report<'_>,
) {
    for key in ["rows", "columns"] {
        for text in keyed.texts(key, report) {
            let name = text.value.as_str();
            if !known(name) {
                let hint = instead(name, names, "the dimensions are");
                let message = format!("`{name}` is not a dimension of the trials");
                report.error(text.at, message, hint);
            }
        }
    }
}

/// The layout in a section or a file.
pub(super) fn layout(keyed: &Keyed<'_>, report: &mut Report<'_>) -> ClosingTable {
    let title = keyed.text("title", report).map(|text| text.value);
    ClosingTable {
        title: title.unwrap_or_default(),
        rows: texts(keyed, "rows", report),
        columns: texts(keyed, "columns", report),
        metrics: texts(keyed, "metric", report),
        unit: match keyed.word("unit", report) {
            Some("MB/s") => BandwidthUnit::Decimal,
            Some("MiB/s") => BandwidthUnit::Binary,
            _ => BandwidthUnit::Scaled,
        },
        digits: keyed.count("digits", report).map(|digits| digits as u32),
        mean: keyed.switch("mean", report).unwrap_or_default(),
        regret: keyed.switch("regret", report).unwrap_or_default(),
    }
}

/// Reads a file with the keys of `[table]`, or with that section, such as an experiment. `dimensions` and `metrics` are
/// those of the trials.
///
/// # Errors
/// All diagnostics, in the order of the text.
pub fn table_file(
    text: &str,
    source: &str,
    dimensions: &[&str],
    metrics: &[&str],
) -> Result<ClosingTable, Vec<Diagnostic>> {
    let mut report = Report::new(source, text);
    let file = parse(text, &mut report);
    let own = of_experiment(&file);
    let keyed = own.unwrap_or_else(|| Keyed::new(&file, 0..0, "a table", TABLE));
    keyed.check(&mut report);
    check_dimensions(
        &keyed,
        dimensions,
        |name| dimensions.contains(&name),
        &mut report,
    );
    for metric in keyed.texts("metric", &mut report) {
        let name = metric.value.as_str();
        let of_op = |known: &&str| known.split_once('.').is_some_and(|(_, own)| own == name);
        let known = name == Metric::EVERY || metrics.iter().any(|it| *it == name || of_op(it));
        if !known {
            let message = format!("no trial has the metric `{name}`");
            let hint = instead(name, metrics, "the metrics are");
            report.error(metric.at, message, hint);
        }
    }
    let found = layout(&keyed, &mut report);
    match report.errors() {
        0 => Ok(found),
        _ => Err(report.into_diagnostics()),
    }
}

/// The texts of a key, without their places.
pub(super) fn texts(keyed: &Keyed<'_>, name: &str, report: &mut Report<'_>) -> Vec<String> {
    let found = keyed.texts(name, report).into_iter();
    found.map(|text| text.value).collect()
}
