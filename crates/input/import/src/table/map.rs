//! The column map assigns the parts of a table: `--table 'config=head1, workload=row+head2, unit=head3'`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::unit::unit;

/// The meaning of the parts of plain tables.
///
/// Entries `name=source`, separated by commas. A source is one or several of these, joined by `+`: `head1`, `head2`,
/// … (levels of headings above a value, the outermost first), `row` (the cells of the row that are not numbers),
/// `col1`, … (a column's cell), the heading of a column, `section` (the heading above the table), `caption` (the line
/// directly above it), or a literal `'text'`. `config`, `workload`, `unit` and `value` (the columns that contain
/// results) have a fixed meaning; any other name is a dimension.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnMap {
    pub(super) entries: Vec<(String, Vec<Part>)>,
}

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// A level of headings, from 0.
    Head(usize),
    /// The cells of the row that are not numbers.
    Row,
    /// A column, from 0.
    Column(usize),
    /// A column by its heading.
    Named(String),
    Section,
    Caption,
    Text(String),
}

/// All errors in a column map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .faults.join("; "))]
pub struct ColumnMapError {
    /// A message for each error.
    pub faults: Vec<String>,
}

/// The entry for the units of results.
pub(super) const UNIT: &str = "unit";
/// The entry for the columns that contain results.
pub(super) const VALUE: &str = "value";
/// The entry for configurations.
pub(super) const CONFIG: &str = "config";
/// The entry for workloads.
pub(super) const WORKLOAD: &str = "workload";

impl ColumnMap {
    pub(super) fn get(&self, name: &str) -> Option<&[Part]> {
        let entry = self.entries.iter().find(|(known, _)| known == name);
        entry.map(|(_, parts)| parts.as_slice())
    }
}

impl FromStr for ColumnMap {
    type Err = ColumnMapError;

    fn from_str(text: &str) -> Result<ColumnMap, ColumnMapError> {
        let mut map = ColumnMap::default();
        let mut faults = Vec::new();
        for entry in split(text, ',') {
            let entry = entry.trim();
            let Some((name, sources)) = entry.split_once('=') else {
                faults.push(format!("`{entry}` is not of the form `name=source`"));
                continue;
            };
            let name = match name.trim().to_lowercase().as_str() {
                "" => {
                    faults.push(format!("`{entry}`: a name is missing"));
                    continue;
                }
                "configuration" => CONFIG.to_owned(),
                "job" => WORKLOAD.to_owned(),
                name => name.to_owned(),
            };
            if let Some(meant) = misspelt(&name) {
                faults.push(format!("`{name}`: did you mean `{meant}`?"));
                continue;
            }
            if map.get(&name).is_some() {
                faults.push(format!("`{name}` appears more than once"));
                continue;
            }
            let mut parts = Vec::new();
            for source in split(sources, '+') {
                match part(source.trim()) {
                    Ok(part) => parts.push(part),
                    Err(fault) => faults.push(format!("`{entry}`: {fault}")),
                }
            }
            let column = |part: &Part| matches!(part, Part::Column(_) | Part::Named(_));
            if name == VALUE && !parts.iter().all(column) {
                faults.push(format!("`{entry}`: only columns hold values"));
            }
            if let (UNIT, [Part::Text(text)]) = (name.as_str(), parts.as_slice())
                && unit(text).is_none()
            {
                faults.push(format!(
                    "`{text}` is not a unit; MB/s, MiB/s, IOPS, µs are some"
                ));
            }
            map.entries.push((name, parts));
        }
        if faults.is_empty() {
            Ok(map)
        } else {
            Err(ColumnMapError { faults })
        }
    }
}

/// The fixed name that another name was probably meant to be.
///
/// A dimension can have any name; one that differs from a longer fixed name by at most two letters is probably a
/// typing error.
fn misspelt(name: &str) -> Option<&'static str> {
    let ours = [CONFIG, WORKLOAD, UNIT, VALUE];
    if ours.contains(&name) {
        return None;
    }
    let near = |known: &&&str| {
        let most = if known.len() >= 6 { 2 } else { 1 };
        strsim::osa_distance(name, known) <= most
    };
    let known = [CONFIG, "configuration", WORKLOAD, UNIT, VALUE];
    known.iter().find(near).map(|known| match *known {
        "configuration" => CONFIG,
        known => known,
    })
}

/// Splits at a separator outside quotes.
fn split(text: &str, mark: char) -> Vec<&str> {
    let mut inside = false;
    text.split(move |c| {
        inside ^= c == '\'';
        c == mark && !inside
    })
    .collect()
}

fn part(source: &str) -> Result<Part, String> {
    if let Some(text) = source.strip_prefix('\'') {
        let inner = text.strip_suffix('\'').ok_or("a quote has no partner")?;
        return Ok(Part::Text(inner.to_owned()));
    }
    let numbered = |name: &str| {
        source
            .strip_prefix(name)
            .and_then(|n| n.parse::<usize>().ok())
    };
    for (name, of) in [
        ("head", Part::Head as fn(usize) -> Part),
        ("col", Part::Column),
    ] {
        match numbered(name) {
            Some(0) => return Err(format!("{name}s are counted from 1")),
            Some(number) => return Ok(of(number - 1)),
            None => {}
        }
    }
    match source {
        "" => Err("a source is missing".to_owned()),
        "row" => Ok(Part::Row),
        "section" => Ok(Part::Section),
        "caption" => Ok(Part::Caption),
        name => Ok(Part::Named(name.to_owned())),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Head(level) => write!(f, "head{}", level + 1),
            Part::Row => f.write_str("row"),
            Part::Column(column) => write!(f, "col{}", column + 1),
            Part::Named(name) => f.write_str(name),
            Part::Section => f.write_str("section"),
            Part::Caption => f.write_str("caption"),
            Part::Text(text) => write!(f, "'{text}'"),
        }
    }
}

impl fmt::Display for ColumnMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, parts)) in self.entries.iter().enumerate() {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={}", parts.join("+"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_maps_and_writes_them_again() {
        for (text, again) in [
            (
                "config=head1, workload=row+head2+head3, unit=head4",
                "config=head1, workload=row+head2+head3, unit=head4",
            ),
            (
                "configuration=section,job=caption , node=col1,value=col2",
                "config=section, workload=caption, node=col1, value=col2",
            ),
            (
                "config=fs,unit='MB/s',x='a, b+c'",
                "config=fs, unit='MB/s', x='a, b+c'",
            ),
            ("config=File System", "config=File System"),
        ] {
            let map: ColumnMap = text.parse().unwrap();
            assert_eq!(map.to_string(), again, "{text}");
            assert_eq!(again.parse::<ColumnMap>().unwrap(), map, "{again}");
        }
    }

    #[test]
    fn does_not_read_a_misspelt_name_as_a_dimension() {
        for (name, meant) in [
            ("confg", Some(CONFIG)),
            ("configs", Some(CONFIG)),
            ("cofnig", Some(CONFIG)),
            ("configration", Some(CONFIG)),
            ("workloads", Some(WORKLOAD)),
            ("worklod", Some(WORKLOAD)),
            ("untis", None),
            ("units", Some(UNIT)),
            ("values", Some(VALUE)),
            ("config", None),
            ("configuration", None),
            ("job", None),
            ("node", None),
            ("depth", None),
            ("engine", None),
            ("bs", None),
            ("vm", None),
            ("uuid", None),
        ] {
            let read = format!("{name}=a").parse::<ColumnMap>();
            let hint = meant.map(|meant| format!("`{name}`: did you mean `{meant}`?"));
            let fault = read.err().map(|error| error.to_string());
            assert_eq!(fault, hint, "{name}");
        }
    }

    #[test]
    fn reports_all_errors_of_a_map() {
        for (text, faults) in [
            ("", vec!["`` is not of the form `name=source`"]),
            ("config", vec!["`config` is not of the form `name=source`"]),
            (
                "config=head0, =x",
                vec!["heads are counted from 1", "a name is missing"],
            ),
            (
                "config=a, configuration=b",
                vec!["`config` appears more than once"],
            ),
            ("config=+a", vec!["a source is missing"]),
            ("config='a", vec!["a quote has no partner"]),
            ("unit='furlongs'", vec!["`furlongs` is not a unit"]),
            ("value=head1", vec!["only columns hold values"]),
        ] {
            let error = text.parse::<ColumnMap>().unwrap_err();
            assert_eq!(error.faults.len(), faults.len(), "{text}: {error}");
            for (fault, expected) in error.faults.iter().zip(faults) {
                assert!(fault.contains(expected), "{text}: {fault}");
            }
        }
    }
}
