//! A screen as JSON.

use iodyno_model::printable;

use super::WatchView;
use crate::json::object;

/// `schema` = `iodyno.watch/1`: `host`, `kernel`, `unix_ms`, `every_ns`, and `series`, each with `kind`, `columns`
/// (`name`, `unit`), `rows` (`subject`, `values` in the columns' order, null where unknown) and `remarks`. One line
/// with its newline, so that the output is a sequence of lines.
pub fn json(view: &WatchView) -> String {
    // Only a non-string key could fail, and all keys are strings.
    let text = serde_json::to_string(&Document(view));
    debug_assert!(text.is_ok());
    printable::json(&text.unwrap_or_default()).into_owned() + "\n"
}

object!(Document<'a>(view in &'a WatchView<'a>) {
    schema: "iodyno.watch/1",
    host: view.host,
    kernel: view.kernel,
    unix_ms: view.unix_ms,
    every_ns: view.every_ns,
    series: view.tables,
});
