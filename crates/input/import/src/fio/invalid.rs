//! Values of fio's JSON that are not numbers where a number is expected.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::extract::Extract;
use crate::lines::Lines;

/// Fields that become figures, and the nested objects of a direction that contain some.
const READ: [&str; 9] = [
    "iops",
    "bw",
    "bw_bytes",
    "io_bytes",
    "io_kbytes",
    "total_ios",
    "runtime",
    "mean",
    "max",
];
const WITHIN: [&str; 5] = ["lat", "lat_ns", "clat", "clat_ns", "percentile"];

/// Finds values that are not numbers where a number is expected. A value that fio could not compute (`null`) counts
/// as absent.
pub(super) fn faults(direction: &'static str, object: &Map<String, Value>) -> Vec<InvalidField> {
    let mut found = Vec::new();
    for (name, value) in object {
        match value {
            Value::Object(inner) if WITHIN.contains(&name.as_str()) => {
                found.extend(faults(direction, inner));
            }
            Value::Null => {}
            value => {
                let is_read = READ.contains(&name.as_str()) || name.parse::<f64>().is_ok();
                if is_read && number(object, name).is_none() {
                    found.push(InvalidField {
                        direction,
                        name: name.clone(),
                        value: value.to_string(),
                    });
                }
            }
        }
    }
    found
}

/// A field with an invalid value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InvalidField {
    direction: &'static str,
    name: String,
    value: String,
}

impl InvalidField {
    /// Its line: the first line with this field and value, from the direction's own line on.
    pub(super) fn found(&self, lines: &Lines<'_>, within: Range<u32>) -> Extract {
        let quoted = |name: &str| format!("\"{name}\"");
        let has = |text: &str| {
            let rest = text.split_once(&quoted(&self.name)).map(|pair| pair.1);
            rest.is_some_and(|rest| rest.contains(&self.value))
        };
        let from = lines
            .range(within.clone())
            .skip_while(|(_, text)| !text.contains(&quoted(self.direction)));
        let line = from
            .into_iter()
            .find_map(|(line, text)| has(text).then_some(line))
            .unwrap_or(within.start);
        let InvalidField {
            direction,
            name,
            value,
        } = self;
        let why = format!("`{name}` of {direction} is {value}, no number of at least 0");
        Extract::unread(line..line + 1, why)
    }
}

pub(super) fn number(object: &Map<String, Value>, name: &str) -> Option<f64> {
    object
        .get(name)?
        .as_f64()
        .filter(|value| value.is_finite() && *value >= 0.0)
}
