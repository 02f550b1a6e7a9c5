//! Rows and columns of a series, and a text for their changes.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{SeriesColumn, SeriesRow};

/// The largest number of names in a sentence; the rest is only counted.
const NAMES: usize = 4;

/// Rows and columns at the time of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    pub(crate) rows: Vec<SeriesRow>,
    pub(crate) columns: Vec<SeriesColumn>,
}

impl Layout {
    /// Whether a reading has exactly these rows and columns.
    pub(crate) fn is_of(&self, rows: &[SeriesRow], columns: &[SeriesColumn]) -> bool {
        self.rows == rows && self.columns == columns
    }

    /// The index of the value of each row and column, by their names.
    pub(crate) fn places(&self) -> BTreeMap<(&str, &str), usize> {
        let names = self.each().map(|(row, column)| {
            (
                self.rows[row].name.as_str(),
                self.columns[column].name.as_str(),
            )
        });
        names.zip(0..).collect()
    }

    /// Every row and column, in the order of values.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    /// The differences of a later layout: `CPU1 disappeared, CPU2 and CPU3 appeared`.
    pub(crate) fn change_to(&self, later: &Layout) -> String {
        fn names(layout: &Layout) -> impl Iterator<Item = &str> {
            let rows = layout.rows.iter().map(|row| row.name.as_str());
            rows.chain(layout.columns.iter().map(|column| column.name.as_str()))
        }
        let missing = |from: &Layout, in_: &Layout| -> Vec<String> {
            let there: BTreeSet<&str> = names(in_).collect();
            let missing = names(from).filter(|name| !there.contains(name));
            missing.map(str::to_owned).collect()
        };
        let (gone, come) = (missing(self, later), missing(later, self));
        match (gone.is_empty(), come.is_empty()) {
            (true, true) => "its rows serve other devices or are in another order".to_owned(),
            (false, true) => format!("{} disappeared", listed(&gone)),
            (true, false) => format!("{} appeared", listed(&come)),
            (false, false) => {
                let (gone, come) = (listed(&gone), listed(&come));
                format!("{gone} disappeared, {come} appeared")
            }
        }
    }
}

/// `a`, `a and b`, `a, b, c, d and 12 more`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] if names.len() <= NAMES => format!("{} and {last}", most.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..NAMES].join(", "),
            names.len() - NAMES
        ),
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::PRESSURE;

    use super::*;

    fn layout(rows: &[&str]) -> Layout {
        Layout {
            rows: rows.iter().map(|name| SeriesRow::new(*name)).collect(),
            columns: SeriesColumn::of(PRESSURE),
        }
    }

    #[test]
    fn lists_in_one_sentence_what_appeared_and_disappeared() {
        for (before, after, expected) in [
            (vec!["CPU0", "CPU1"], vec!["CPU0"], "CPU1 disappeared"),
            (vec!["vda"], vec!["vda", "loop7"], "loop7 appeared"),
            (
                vec!["vda"],
                vec!["vda", "loop7", "loop8"],
                "loop7 and loop8 appeared",
            ),
            (vec!["a", "b"], vec!["b", "c"], "a disappeared, c appeared"),
            (
                vec![],
                vec!["a", "b", "c", "d", "e", "f"],
                "a, b, c, d and 2 more appeared",
            ),
            (
                vec!["a", "b"],
                vec!["b", "a"],
                "its rows serve other devices or are in another order",
            ),
        ] {
            assert_eq!(layout(&before).change_to(&layout(&after)), expected);
        }
    }
}
