//! All sides of a comparison in one table: rows by columns, dimensions and metrics beside one another, as results are
//! published.
//!
//! The compared dimension forms the outer columns if dimensions are to be printed across and the table fits; otherwise
//! each side has its own line below its row. In narrower terminals, a cell loses the verdict's word, then the ratio,
//! then its footnotes; finally each line becomes a block. A side without a trial is blank.

use std::collections::BTreeSet;

use super::view::{ResultView, RowView, Section, ViewModel};
use crate::style::{Paint, Style, left, right, width};
use crate::table::{Cell, Column, Table};
use iodyno_model::ordered::distinct;

/// Columns between two cells, and between the cells of two sides.
const GAP: usize = 2;
const SIDE_GAP: usize = 4;

/// The part of a cell besides its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// `1.66× FASTER (1)`.
    Words,
    /// `1.66× + (1)`.
    Ratio,
    /// `+ (1)`.
    Sign,
    /// `+`.
    Bare,
}

const DETAILS: [Detail; 4] = [Detail::Words, Detail::Ratio, Detail::Sign, Detail::Bare];

/// The place of the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    Columns,
    Lines,
}

/// A side's figure.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) value: String,
    /// Whether the value is a number with its unit, which can move to the headings.
    pub(super) in_unit: bool,
    pub(super) mark: String,
    pub(super) paint: Option<Paint>,
}

#[derive(Debug)]
pub(super) struct Grid {
    /// Headings of each column of figures, the outermost first.
    pub(super) heads: Vec<Vec<String>>,
    /// The labels and figures of each line.
    pub(super) lines: Vec<(Vec<String>, Vec<Entry>)>,
}

/// A table for each section, and a legend of its signs. Also returns the numbers of the footnotes that cells name.
pub(super) fn pivot(view: &ViewModel, style: Style) -> (String, BTreeSet<usize>) {
    let mut text = String::new();
    let mut signs = false;
    let mut named = BTreeSet::new();
    for section in &view.sections {
        if let Some(title) = section.title {
            text += &style.paragraph(title, 2, Paint::Cyan);
        }
        let (table, detail) = fitting(view, section, style);
        text += &table;
        signs |= detail != Detail::Words;
        if detail != Detail::Bare {
            let results = section.rows.iter().flat_map(|row| &row.results);
            named.extend(results.flatten().flat_map(|result| &result.marks));
        }
    }
    if signs {
        let signs = "+ faster, - slower, = no difference that matters, ? undecided";
        text += &style.paragraph(signs, 2, Paint::Dim);
    }
    let unnamed = (1..=view.footnotes.len()).filter(|mark| !named.contains(mark));
    let omitted = unnamed.count();
    if omitted > 0 {
        let columns = style.columns();
        let line = format!(
            "without footnotes ({omitted}), because {columns} columns have no space for their numbers: `iodyno compare … --format markdown` prints them"
        );
        text += &style.paragraph(&line, 2, Paint::Dim);
    }
    (text, named)
}

/// The table with the most detail that fits, or blocks.
fn fitting(view: &ViewModel, section: &Section, style: Style) -> (String, Detail) {
    let columns = style.columns();
    let forms: &[Sides] = match view.across.is_empty() {
        true => &[Sides::Lines],
        false => &[Sides::Columns, Sides::Lines],
    };
    for sides in forms {
        for detail in DETAILS {
            let drawn = grid(view, section, *sides, detail).draw(*sides, style);
            if let Some((text, _)) = drawn.filter(|(_, width)| *width <= columns) {
                return (text, detail);
            }
        }
    }
    (flat(view, section).draw(columns, style), Detail::Words)
}

/// The same as a table with one line of headings, to paste.
pub(super) fn flat(view: &ViewModel, section: &Section) -> Table {
    let sides = match view.across.is_empty() {
        true => Sides::Lines,
        false => Sides::Columns,
    };
    let grid = grid(view, section, sides, Detail::Words);
    let labels = grid.lines.first().map_or(0, |(labels, _)| labels.len());
    let of_rows = (view.dimensions.iter().enumerate())
        .filter(|(place, _)| !view.across.contains(place))
        .map(|(_, name)| name.as_str());
    let mut names = vec![of_rows.collect::<Vec<_>>().join(" ")];
    names.resize(labels, String::new());
    grid.flat(names)
}

/// A row's place: its label, and the headings below those of its side.
struct Place<'v> {
    label: String,
    below: Vec<&'v str>,
    row: &'v RowView,
}

fn places<'v>(view: &ViewModel, section: &'v Section) -> Vec<Place<'v>> {
    let labels = |row: &'v RowView| {
        let names = row.name.iter().enumerate();
        let own = names.filter(|(place, name)| !view.across.contains(place) && !name.is_empty());
        own.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
    };
    let rows = || section.rows.iter();
    let other_metric = |row: &'v RowView| {
        rows().any(|other| other.metric != row.metric && labels(other) == labels(row))
    };
    // Metrics are headings where a line has several that need their names.
    let metrics = rows().any(|row| row.metric_matters && other_metric(row));
    rows()
        .map(|row| {
            let mut label = labels(row);
            label.extend((!metrics && row.metric_matters).then_some(row.metric.as_str()));
            let across = view.across.iter();
            let mut below: Vec<&str> = across.map(|place| row.name[*place].as_str()).collect();
            below.extend(metrics.then_some(row.metric.as_str()));
            Place {
                label: label.join(" "),
                below,
                row,
            }
        })
        .collect()
}

fn grid(view: &ViewModel, section: &Section, sides: Sides, detail: Detail) -> Grid {
    let places = places(view, section);
    let labels = distinct(places.iter().map(|place| place.label.as_str()));
    let mut below = distinct(places.iter().map(|place| place.below.clone()));
    // Equal headings are adjacent, each level in the order of appearance.
    let depth = below.first().map_or(0, Vec::len);
    let levels: Vec<Vec<&str>> = (0..depth)
        .map(|level| distinct(places.iter().map(|place| place.below[level])))
        .collect();
    below.sort_by_key(|path| {
        let levels = path.iter().zip(&levels);
        let at = levels.map(|(head, known)| known.iter().position(|it| it == head));
        at.collect::<Vec<_>>()
    });
    let candidates = view.candidates.iter().map(|it| it.heading.as_str());
    let names: Vec<&str> = std::iter::once(view.baseline.as_str())
        .chain(candidates)
        .collect();
    let entry_at = |label: &str, side: usize, below: &[&str]| {
        let mut places = places.iter();
        let found = places.find(|place| place.label == label && place.below == below);
        found.map_or(Entry::default(), |place| entry(place.row, side, detail))
    };
    let heads = |side: &[&str], below: &[&str]| -> Vec<String> {
        let heads = side.iter().chain(below).map(|head| (*head).to_owned());
        heads.collect()
    };
    let mut grid = Grid {
        heads: Vec::new(),
        lines: Vec::new(),
    };
    match sides {
        Sides::Columns => {
            let leaves: Vec<(usize, &Vec<&str>)> = (0..names.len())
                .flat_map(|side| below.iter().map(move |path| (side, path)))
                .collect();
            grid.heads = leaves
                .iter()
                .map(|(side, path)| heads(&[names[*side]], path))
                .collect();
            grid.lines = labels
                .iter()
                .map(|label| {
                    let entries = leaves
                        .iter()
                        .map(|(side, path)| entry_at(label, *side, path));
                    (vec![(*label).to_owned()], entries.collect())
                })
                .collect();
        }
        Sides::Lines => {
            grid.heads = below.iter().map(|path| heads(&[], path)).collect();
            for label in &labels {
                let mut shown = *label;
                for (side, name) in names.iter().enumerate() {
                    let entries = below.iter().map(|path| entry_at(label, side, path));
                    let entries: Vec<Entry> = entries.collect();
                    if entries
                        .iter()
                        .all(|entry| entry.value.is_empty() && entry.mark.is_empty())
                    {
                        continue;
                    }
                    grid.lines
                        .push((vec![shown.to_owned(), (*name).to_owned()], entries));
                    shown = "";
                }
            }
        }
    }
    grid
}

/// A row's figure of a side; the baseline is 0.
fn entry(row: &RowView, side: usize, detail: Detail) -> Entry {
    let Some(candidate) = side.checked_sub(1) else {
        return Entry {
            value: value(&row.baseline_value, &row.metric),
            in_unit: true,
            ..Entry::default()
        };
    };
    let Some(result) = row.results.get(candidate).and_then(Option::as_ref) else {
        return Entry::default();
    };
    Entry {
        value: value(&result.value, &row.metric),
        in_unit: true,
        mark: mark(result, detail),
        paint: Some(result.tone.paint()),
    }
}

/// `138.4k/s` of a rate of ops is `138.4k IOPS`.
pub(super) fn value(text: &str, metric: &str) -> String {
    match text.strip_suffix("/s") {
        Some(rate) if metric.ends_with("iops") && !rate.contains(' ') => format!("{rate} IOPS"),
        _ => text.to_owned(),
    }
}

fn mark(result: &ResultView, detail: Detail) -> String {
    if result.absent {
        return String::new();
    }
    let sign = result.tone.sign();
    let verdict = result.verdict();
    let notes = verdict.strip_prefix(result.verdict).unwrap_or_default();
    let parts = match detail {
        Detail::Words => [result.times.clone(), verdict],
        Detail::Ratio => [result.times.clone(), format!("{sign}{notes}")],
        Detail::Sign => [String::new(), format!("{sign}{notes}")],
        Detail::Bare => [String::new(), sign.to_owned()],
    };
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The number and the unit of a value that has one number: `226.0 MB/s`.
fn number_and_unit(value: &str) -> Option<(&str, &str)> {
    let (number, unit) = match value.rsplit_once(' ') {
        Some(parts) => parts,
        None => value.split_at(value.strip_suffix("/s")?.len()),
    };
    let digits = number
        .trim_start_matches('−')
        .trim_end_matches(['k', 'M', 'G', 'T']);
    digits.parse::<f64>().is_ok().then_some((number, unit))
}

impl Grid {
    /// Moves a unit that all values of a column have into its headings.
    fn with_units_as_heads(mut self) -> Grid {
        for column in 0..self.heads.len() {
            let values = self.lines.iter().map(|(_, entries)| &entries[column]);
            let units = values
                .filter(|entry| entry.in_unit && !entry.value.is_empty())
                .map(|entry| number_and_unit(&entry.value).map(|(_, unit)| unit.to_owned()));
            let unit = match distinct(units).as_slice() {
                [Some(unit)] => unit.clone(),
                _ => String::new(),
            };
            if !unit.is_empty() {
                let entries = self
                    .lines
                    .iter_mut()
                    .map(|(_, entries)| &mut entries[column]);
                for entry in entries.filter(|entry| entry.in_unit) {
                    let value = &mut entry.value;
                    *value = number_and_unit(value).map_or(String::new(), |(it, _)| it.to_owned());
                }
            }
            self.heads[column].push(unit);
        }
        self
    }

    /// The columns to draw: none that is empty, and texts as the terminal can show them.
    fn shown(mut self, style: Style) -> Grid {
        let filled = |column: usize| {
            let mut lines = self.lines.iter().map(|(_, entries)| &entries[column]);
            lines.any(|entry| !entry.value.is_empty() || !entry.mark.is_empty())
        };
        let kept: Vec<usize> = (0..self.heads.len())
            .filter(|column| filled(*column))
            .collect();
        let plain = |text: &String| style.plain(text);
        self.heads = kept
            .iter()
            .map(|column| self.heads[*column].iter().map(plain).collect())
            .collect();
        for (labels, entries) in &mut self.lines {
            *labels = labels.iter().map(plain).collect();
            let entry = |column: &usize| Entry {
                value: plain(&entries[*column].value),
                in_unit: entries[*column].in_unit,
                mark: plain(&entries[*column].mark),
                paint: entries[*column].paint,
            };
            *entries = kept.iter().map(entry).collect();
        }
        self
    }

    /// The same with one line of headings, those of the labels being `names`.
    pub(super) fn flat(self, names: Vec<String>) -> Table {
        let heads = self.heads.iter().map(|path| {
            let path = path.iter().filter(|head| !head.is_empty());
            Column::right(path.map(String::as_str).collect::<Vec<_>>().join(" "))
        });
        let mut table = Table::new(names.into_iter().map(Column::left).chain(heads));
        for (labels, entries) in self.lines {
            let labels = labels.into_iter().map(Cell::from);
            let entries = entries.into_iter().map(|entry| {
                let parts = [entry.value, entry.mark];
                let parts: Vec<String> =
                    parts.into_iter().filter(|part| !part.is_empty()).collect();
                Cell::painted(parts.join(" · "), entry.paint)
            });
            table.row(labels.chain(entries));
        }
        table
    }

    /// The text, and its width; `None` if nothing is drawn.
    pub(super) fn draw(self, sides: Sides, style: Style) -> Option<(String, usize)> {
        let grid = self.with_units_as_heads().shown(style);
        let labels = grid.lines.first()?.0.len();
        let widest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|it| width(it)).max();
        let label_widths: Vec<usize> = (0..labels)
            .map(|place| {
                let mut texts = grid.lines.iter().map(|(labels, _)| &labels[place]);
                widest(&mut texts).unwrap_or(0)
            })
            .collect();
        let of_entries = |column: usize, text: fn(&Entry) -> &String| {
            let mut texts = grid.lines.iter().map(|(_, entries)| text(&entries[column]));
            widest(&mut texts).unwrap_or(0)
        };
        let columns = 0..grid.heads.len();
        let values: Vec<usize> = columns
            .clone()
            .map(|it| of_entries(it, |e| &e.value))
            .collect();
        let mut widths: Vec<usize> = columns
            .clone()
            .map(|column| match of_entries(column, |entry| &entry.mark) {
                0 => values[column],
                mark => values[column] + 1 + mark,
            })
            .collect();
        let gap = |column: usize| match column.checked_sub(1) {
            Some(before) if sides == Sides::Columns => {
                match grid.heads[before].first() == grid.heads[column].first() {
                    true => GAP,
                    false => SIDE_GAP,
                }
            }
            _ => GAP,
        };
        let levels = grid.heads.first().map_or(0, Vec::len);
        for level in 0..levels {
            for group in grid.groups(level) {
                let room: usize = widths[group.clone()].iter().sum();
                let gaps: usize = group.clone().skip(1).map(gap).sum();
                let head = width(&grid.heads[group.start][level]);
                widths[group.end - 1] += head.saturating_sub(room + gaps);
            }
        }
        let lead: usize = label_widths.iter().map(|width| width + GAP).sum();
        let whole = lead + widths.iter().sum::<usize>() + columns.skip(1).map(gap).sum::<usize>();
        let mut text = String::new();
        for level in 0..levels {
            let mut line = " ".repeat(lead);
            let mut empty = true;
            for group in grid.groups(level) {
                let head = &grid.heads[group.start][level];
                empty &= head.is_empty();
                let room: usize = widths[group.clone()].iter().sum();
                let room = room + group.clone().skip(1).map(gap).sum::<usize>();
                let before = if group.start == 0 {
                    0
                } else {
                    gap(group.start)
                };
                let aligned = match group.len() {
                    // Above its numbers.
                    1 => right(head, values[group.start]),
                    _ => head.clone(),
                };
                let blanks = aligned.len() - head.len();
                line += &" ".repeat(before + blanks);
                line += &style.paint(Paint::Dim, head);
                line += &" ".repeat(room.saturating_sub(width(&aligned)));
            }
            if !empty {
                text += &(line + "\n");
            }
        }
        for (labels, entries) in &grid.lines {
            let mut line = String::new();
            for (label, width) in labels.iter().zip(&label_widths) {
                line += &left(label, width + GAP);
            }
            for (column, entry) in entries.iter().enumerate() {
                let before = if column == 0 { 0 } else { gap(column) };
                let value = right(&entry.value, values[column]);
                let room = widths[column].saturating_sub(values[column] + 1);
                line += &(" ".repeat(before) + &value);
                if widths[column] > values[column] {
                    line += " ";
                    line += &style.maybe_paint(entry.paint, &entry.mark);
                    line += &" ".repeat(room.saturating_sub(width(&entry.mark)));
                }
            }
            text += &(line + "\n");
        }
        Some((text, whole))
    }

    /// Neighbouring columns with the same headings down to a level.
    fn groups(&self, level: usize) -> Vec<std::ops::Range<usize>> {
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        let last = self.heads.first().map_or(0, Vec::len).saturating_sub(1);
        for column in 0..self.heads.len() {
            let same = |group: &std::ops::Range<usize>| {
                level < last && self.heads[group.start][..=level] == self.heads[column][..=level]
            };
            match groups.last_mut() {
                Some(group) if same(group) => group.end = column + 1,
                _ => groups.push(column..column + 1),
            }
        }
        groups
    }
}
