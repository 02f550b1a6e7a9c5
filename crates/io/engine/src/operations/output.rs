//! Values in the output of a command.

use iodyno_model::{OutputMetric, OutputSource};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::shell::Ended;

fn regex(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).multi_line(true).build();
    built.map_err(|error| error.to_string())
}

/// Reads one value.
pub(super) struct OutputReader {
    name: String,
    factor: f64,
    source: Source,
}

enum Source {
    Regex(Regex),
    Json(String),
}

impl OutputReader {
    /// # Errors
    /// Its regular expression is not valid.
    pub(super) fn new(metric: &OutputMetric) -> Result<OutputReader, String> {
        let source = match &metric.source {
            OutputSource::Regex(pattern) => Source::Regex(regex(pattern)?),
            OutputSource::Json(pointer) => Source::Json(pointer.clone()),
        };
        Ok(OutputReader {
            name: metric.metric.name.clone(),
            factor: metric.factor as f64,
            source,
        })
    }

    /// The value, in the metric's unit.
    ///
    /// # Errors
    /// Why the output does not have one.
    pub(super) fn read(&self, ended: &Ended) -> Result<f64, String> {
        let found = match &self.source {
            Source::Regex(regex) => of_regex(regex, ended),
            Source::Json(pointer) => of_json(pointer, ended),
        };
        match found {
            Ok(number) => Ok(number * self.factor),
            Err(why) => Err(format!("metric `{}`: {why}", self.name)),
        }
    }
}

fn of_regex(regex: &Regex, ended: &Ended) -> Result<f64, String> {
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let captures = regex.captures_iter(&text).last()?;
        let group = captures.get(1).or_else(|| captures.get(0))?;
        Some(group.as_str().trim().to_owned())
    };
    let found = last(&ended.output).or_else(|| last(&ended.errors));
    let found = found.ok_or_else(|| format!("the output does not match `{regex}`"))?;
    finite(found.parse().ok())
        .ok_or_else(|| format!("`{regex}` matches {found:?}, which is not a number"))
}

fn of_json(pointer: &str, ended: &Ended) -> Result<f64, String> {
    let value: Value = serde_json::from_slice(&ended.output)
        .map_err(|error| format!("standard output is not JSON: {error}"))?;
    let Some(found) = value.pointer(pointer) else {
        return Err(format!("standard output has nothing at `{pointer}`"));
    };
    let number = match found {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    finite(number).ok_or_else(|| format!("the value at `{pointer}` is not a number"))
}

fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use iodyno_model::{Better, Metric, Unit};
    use iodyno_sys::thread::Usage;

    use super::*;

    fn read(source: OutputSource, output: &str, errors: &str) -> Result<f64, String> {
        let metric = OutputMetric {
            metric: Metric {
                name: "tps".to_owned(),
                unit: Unit::Other("/s".to_owned()),
                better: Better::Higher,
            },
            factor: 1,
            source,
        };
        OutputReader::new(&metric)?.read(&Ended {
            status: ExitStatus::from_raw(0),
            span: (0, 1),
            usage: Usage::default(),
            output: output.as_bytes().to_vec(),
            errors: errors.as_bytes().to_vec(),
        })
    }

    #[test]
    fn the_last_match_counts_and_standard_output_comes_first() {
        let regex = |pattern: &str, output, errors| {
            read(OutputSource::Regex(pattern.to_owned()), output, errors)
        };
        let both = "progress: tps = 5.0\ntps = 1234.5 (without)\n";
        assert_eq!(regex("tps = ([0-9.]+)", both, "tps = 7"), Ok(1234.5));
        assert_eq!(regex("^tps = (\\S+)", "x", "tps = 7\n"), Ok(7.0));
        assert_eq!(regex("[0-9]+", "12 or 13", ""), Ok(13.0));
        let none = regex("tps", "nothing", "").unwrap_err();
        assert_eq!(none, "metric `tps`: the output does not match `tps`");
        let text = regex("tps = (.*)", "tps = many", "").unwrap_err();
        assert!(text.contains("\"many\", which is not a number"), "{text}");
        assert!(regex("(", "", "").unwrap_err().contains("unclosed"));
    }

    #[test]
    fn a_pointer_names_a_number_or_its_text() {
        let json = |pointer: &str, output| read(OutputSource::Json(pointer.to_owned()), output, "");
        let text = r#"{"jobs": [{"iops": 12.5, "n": "7", "name": "x"}]}"#;
        assert_eq!(json("/jobs/0/iops", text), Ok(12.5));
        assert_eq!(json("/jobs/0/n", text), Ok(7.0));
        for (pointer, output, why) in [
            ("/jobs/1/iops", text, "has nothing at `/jobs/1/iops`"),
            ("/jobs/0/name", text, "is not a number"),
            ("/jobs", "jobs: 1", "is not JSON"),
        ] {
            let fault = json(pointer, output).unwrap_err();
            assert!(fault.contains(why), "{fault}");
        }
    }
}
