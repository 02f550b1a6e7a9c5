//! The lines that iodyno prints below the last row of its own tables.

use iodyno_model::{Figure, ImportedTrial, Metric};
use iodyno_units::Nanos;

/// Width of the label at the beginning of a line.
const COLUMN: usize = 9;
const LABELS: [&str; 5] = ["op", "set-up", "done", "rates", "errors"];

/// The lines, by label.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Below {
    lines: Vec<(&'static str, String)>,
}

impl Below {
    /// Takes a line, or the continuation of the previous one; `false` if it is neither.
    pub(super) fn takes(&mut self, text: &str) -> bool {
        let Some((label, rest)) = text.split_at_checked(COLUMN) else {
            return false;
        };
        if rest.is_empty() || rest.starts_with(' ') {
            return false;
        }
        let label = label.trim_end();
        if let Some(known) = LABELS.into_iter().find(|known| *known == label) {
            self.lines.push((known, rest.to_owned()));
            return true;
        }
        match self.lines.last_mut().filter(|_| label.is_empty()) {
            Some((_, line)) => {
                *line += " ";
                *line += rest;
                true
            }
            None => false,
        }
    }

    /// Whether the table is from iodyno.
    pub(super) fn is_ours(&self) -> bool {
        !self.lines.is_empty()
    }

    fn line(&self, label: &str) -> Option<&str> {
        let mut lines = self.lines.iter();
        lines
            .find(|(known, _)| *known == label)
            .map(|(_, text)| text.as_str())
    }

    /// From the first cycle until all data was on the storage, ns; only if the work was completed.
    pub(super) fn completion_ns(&self) -> Option<u64> {
        span(self.line("done")?.strip_prefix("in ")?)
    }

    /// Adds the times of the phases before and after the cycles.
    pub(super) fn fill(&self, trial: &mut ImportedTrial) {
        let set_up = self.line("set-up").and_then(|line| line.split_once(" in "));
        let drain = self.line("done").and_then(|line| {
            let (_, after) = line
                .split_once("of which drain ")
                .or_else(|| line.split_once("drained in "))?;
            Some(after)
        });
        for (name, text) in [("setup", set_up.map(|(_, after)| after)), ("drain", drain)] {
            trial.figures.extend(text.and_then(span).map(|ns| Figure {
                metric: Metric::time(name),
                value: ns as f64,
                derived: None,
            }));
        }
        let errors = self.line("errors");
        trial
            .remarks
            .extend(errors.map(|errors| format!("errors: {errors}")));
    }
}

/// Parses a time at the beginning of a text: `24.5 s, of which …`, `1 h 02 min`; ns.
fn span(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let mut total = None;
    while let (Some(number), Some(unit)) = (words.next(), words.next()) {
        let ends = unit.ends_with([',', ';', ')']);
        let unit = unit.trim_end_matches([',', ';', ')']);
        let Ok(Nanos(ns)) = format!("{number}{unit}").parse() else {
            break;
        };
        total = Some(total.unwrap_or(0u64).saturating_add(ns));
        if ends {
            break;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_as_they_are_printed() {
        for (text, ns) in [
            ("24.5 s, of which drain 10.5 s", Some(24_500_000_000)),
            ("3.21 s (31.2k files/s, 62305 MiB/s)", Some(3_210_000_000)),
            ("12 min 34 s; torn down in 9 s", Some(754_000_000_000)),
            ("1 h 02 min", Some(3_720_000_000_000)),
            ("346 ns", Some(346)),
            ("1.19 us", Some(1_190)),
            ("1.19 µs", Some(1_190)),
            ("", None),
            ("s 1", None),
            ("99999999999 h 99999999999 h", None),
        ] {
            assert_eq!(span(text), ns, "{text}");
        }
    }

    #[test]
    fn takes_its_own_lines_and_no_others() {
        let mut below = Below::default();
        assert!(!below.takes("         the rest of nothing"));
        assert!(below.takes("done     in 24.5 s, of which drain"));
        assert!(below.takes("         10.5 s"));
        for text in [
            "",
            "done",
            "donehere in 2 s",
            "done      in 2 s",
            "prose",
            "dönekebab",
        ] {
            assert!(!below.takes(text), "{text}");
        }
        assert_eq!(below.completion_ns(), Some(24_500_000_000));
    }
}
