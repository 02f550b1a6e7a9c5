//! Diagnostic messages for debugging iodyno, on standard error: disabled by default, enabled by `-v` or `IODYNO_LOG`.
//!
//! The libraries emit `tracing` events; only this module decides where they go. Nothing is emitted per op: the hot loop
//! has no events.

use std::fmt;
use std::io;

use iodyno_model::Diagnostic;
use iodyno_model::printable::on_one_line;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;

/// The environment variable with directives, such as `debug` or `iodyno_runner=trace,iodyno_store=debug`.
const VARIABLE: &str = "IODYNO_LOG";

/// Starts logging if `-v` was given or `IODYNO_LOG` is set; `-v` takes precedence. Returns whether it did.
///
/// A node inherits the variable and receives `-v` through [`node_flags`].
///
/// # Errors
/// `IODYNO_LOG` is not a list of directives.
pub(crate) fn start(verbose: u8, process: &'static str) -> Result<bool, Failure> {
    let variable = std::env::var(VARIABLE).unwrap_or_default();
    let directives = match verbose {
        0 => variable.trim(),
        1 => "iodyno=info",
        2 => "iodyno=debug",
        _ => "iodyno=trace",
    };
    if directives.is_empty() {
        return Ok(false);
    }
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        let fault = Diagnostic::error(format!("cannot read `{VARIABLE}={directives}`: {error}"));
        Failure::one(fault.hint(
            "set a level (error, warn, info, debug, trace), or `CRATE=LEVEL` pairs after commas",
        ))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .log_internal_errors(false)
        .event_format(Line { process })
        .init();
    Ok(true)
}

/// The flags that give a node the same level.
pub(crate) fn node_flags(verbose: u8) -> Option<String> {
    (verbose > 0).then(|| format!("-{}", "v".repeat(usize::from(verbose.min(3)))))
}

/// `2026-03-01T12:00:00.000000Z DEBUG node 4711 iodyno_runner::node: prepared jobs=2`.
struct Line {
    process: &'static str,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut writer)?;
        let (about, process) = (event.metadata(), self.process);
        write!(
            writer,
            " {:5} {process} {} {}: ",
            about.level(),
            std::process::id(),
            about.target()
        )?;
        let mut fields = String::new();
        context
            .field_format()
            .format_fields(Writer::new(&mut fields), event)?;
        writeln!(writer, "{}", on_one_line(&fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_the_level_of_its_parent() {
        let flags = [0, 1, 2, 3, 9].map(node_flags);
        let expected = [None, Some("-v"), Some("-vv"), Some("-vvv"), Some("-vvv")];
        assert_eq!(flags.each_ref().map(Option::as_deref), expected);
    }
}
