//! A screen as JSON.

use iodyno_model::{FigureTable, printable};
use serde::Serialize;

use super::WatchView;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    host: &'a str,
    kernel: &'a str,
    unix_ms: u64,
    every_ns: u64,
    series: &'a [FigureTable],
}

/// `schema` = `iodyno.watch/1`: `host`, `kernel`, `unix_ms`, `every_ns`, and `series`, each with `kind`, `columns`
/// (`name`, `unit`), `rows` (`subject`, `values` in the columns' order, null where unknown) and `remarks`. One line
/// with its newline, so that the output is a sequence of lines.
pub fn json(view: &WatchView) -> String {
    let document = Document {
        schema: "iodyno.watch/1",
        host: view.host,
        kernel: view.kernel,
        unix_ms: view.unix_ms,
        every_ns: view.every_ns,
        series: view.tables,
    };
    // Only a non-string key could fail, and all keys are strings.
    let text = serde_json::to_string(&document);
    debug_assert!(text.is_ok());
    printable::json(&text.unwrap_or_default()).into_owned() + "\n"
}
