//! The texts and figures of a comparison that the terminal's table, Markdown and AsciiDoc print.

use iodyno_model::{
    CandidateResult, ComparedRow, Comparison, Difference, FactClass, Metric, Pairing, Side, Unit,
    Verdict,
};

use iodyno_units::percent;

use super::ComparisonFormat;
use super::figures::{limit, median, p, ratio, times, value_in};
use super::footnotes::{Footnotes, MARKED, in_short};
use super::statements::{Claims, claims};
use super::words::{amount, answer, in_words, no_verdict, row_name, short};
use crate::style::{Paint, sanitize};
use iodyno_model::ordered::distinct;

/// All texts, in the order in which they are printed, without control characters.
pub(super) struct ViewModel {
    /// The comparison's name.
    pub(super) name: String,
    /// `10 rounds`, `margin 3 % (A/A 2.1 %)`, `Holm over 7`.
    pub(super) conditions: Vec<String>,
    /// The question of the experiment, in its words.
    pub(super) question: Option<String>,
    /// The baseline's heading.
    pub(super) baseline: String,
    pub(super) candidates: Vec<Candidate>,
    /// The dimensions that distinguish the rows.
    pub(super) dimensions: Vec<String>,
    /// Dimensions printed as columns, by their index in [`ViewModel::dimensions`].
    pub(super) across: Vec<usize>,
    /// Whether all sides of a row belong into one table, however many there are.
    pub(super) pivots: bool,
    /// Primary rows, rows without an expected difference, exploratory rows; empty ones are left out.
    pub(super) sections: Vec<Section>,
    /// Numbered from 1.
    pub(super) footnotes: Vec<String>,
    /// The flags of all trials in short, unless they are footnotes.
    pub(super) flags: String,
    /// Names of facts with the same value on all sides; empty unless verbose.
    pub(super) same: Vec<String>,
    /// Facts known for one side only.
    pub(super) unknown: Vec<String>,
    /// Facts that differ; unless verbose, without the attributes under test, which are marked.
    pub(super) differs: Vec<String>,
    pub(super) claims: Option<Claims>,
    pub(super) notes: Vec<String>,
}

pub(super) struct Candidate {
    /// The heading of its columns.
    pub(super) heading: String,
    /// How it compares with the baseline, in a sentence without its end.
    pub(super) answer: String,
    /// The level of the intervals of its ratios: `95 %`, or `95–99.3 %` if they differ because of Holm's adjustment.
    pub(super) level: String,
}

impl ViewModel {
    /// The candidates whose verdicts are counted. A table with many columns itself shows how they compare.
    pub(super) fn summaries(&self) -> impl Iterator<Item = &Candidate> {
        let shown = !self.pivots || self.candidates.len() + 1 < MANY_COLUMNS;
        self.candidates.iter().filter(move |_| shown)
    }
}

pub(super) struct Section {
    /// `None` for the primary rows.
    pub(super) title: Option<&'static str>,
    pub(super) rows: Vec<RowView>,
}

pub(super) struct RowView {
    /// A value for each of [`ViewModel::dimensions`].
    pub(super) name: Vec<String>,
    /// The metric's name.
    pub(super) metric: String,
    /// Whether the metric is printed: the unit does not identify it, or another row has the same name.
    pub(super) metric_matters: bool,
    /// Median and half-width of its interval, with the mean on request; empty without values.
    pub(super) baseline: String,
    /// The median alone, with the mean on request.
    pub(super) baseline_value: String,
    /// One for each candidate; `None` if it was not compared.
    pub(super) results: Vec<Option<ResultView>>,
}

/// A candidate's result in a row.
pub(super) struct ResultView {
    pub(super) median: String,
    /// The median alone, with the mean on request; empty without values.
    pub(super) value: String,
    /// Empty if the verdict is not based on it.
    pub(super) ratio: String,
    /// The ratio without its interval.
    pub(super) times: String,
    /// Whether one of the sides has no trial here.
    pub(super) absent: bool,
    pub(super) p: String,
    pub(super) verdict: &'static str,
    pub(super) tone: Tone,
    /// Numbers of footnotes, ascending.
    pub(super) marks: Vec<usize>,
}

impl ResultView {
    /// The verdict with the numbers of its footnotes: `SLOWER (1,2)`, `FASTER (1–4,6)`.
    pub(super) fn verdict(&self) -> String {
        match self.marks.as_slice() {
            [] => self.verdict.to_owned(),
            marks => {
                let runs = marks.chunk_by(|one, next| one + 1 == *next);
                let runs = runs.map(|run| match run {
                    [first, _, .., last] => format!("{first}–{last}"),
                    few => few
                        .iter()
                        .map(usize::to_string)
                        .collect::<Vec<_>>()
                        .join(","),
                });
                format!("{} ({})", self.verdict, runs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// The kind of a verdict that decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Settled,
    Open,
}

impl Tone {
    pub(crate) fn of(verdict: &Verdict) -> Tone {
        match verdict {
            Verdict::Faster => Tone::Good,
            Verdict::Slower => Tone::Bad,
            Verdict::Equivalent | Verdict::DifferentButSmall => Tone::Settled,
            _ => Tone::Open,
        }
    }

    /// `+` for a verdict in favour of the candidate.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Tone::Good => "+",
            Tone::Bad => "-",
            Tone::Settled => "=",
            Tone::Open => "?",
        }
    }

    pub(super) fn paint(self) -> Paint {
        match self {
            Tone::Good => Paint::Green,
            Tone::Bad => Paint::Red,
            Tone::Settled => Paint::Cyan,
            Tone::Open => Paint::Yellow,
        }
    }
}

const FLOOR: &str = "no difference expected: these rows give the noise floor";
const EXPLORATORY: &str = "exploratory (Benjamini–Hochberg): confirm in a separate run";

/// From this number of columns on, all sides of a row are printed in one table.
const MANY_COLUMNS: usize = 6;

/// Whether all sides of a row belong into one table: dimensions or metrics are to be printed side by side, or there are
/// too many sides for a table each.
fn pivots(comparison: &Comparison) -> bool {
    let question = &comparison.question;
    !question.across.is_empty()
        || question.primary_metrics > 1
        || comparison.columns.len() >= MANY_COLUMNS
}

pub(super) fn view(comparison: &Comparison, shown: &ComparisonFormat) -> ViewModel {
    let mut footnotes = Footnotes::default();
    let candidates = comparison.columns.get(1..).unwrap_or_default();
    let question = &comparison.question;
    let heading = |column: &str| {
        let heading = shown.headings.get(column);
        sanitize(heading.map_or(column, String::as_str))
    };
    // `after (run 5)`: footnotes have the second name.
    let full_name = |column: &str| match heading(column) {
        heading if heading == column => heading,
        heading => format!("{heading} ({})", sanitize(column)),
    };
    let kind = |row: &ComparedRow| match () {
        () if row.no_difference => Some(FLOOR),
        () if row.exploratory => Some(EXPLORATORY),
        () => None,
    };
    let sections: Vec<Section> = [None, Some(FLOOR), Some(EXPLORATORY)]
        .map(|title| {
            let rows = comparison.rows.iter().filter(|row| kind(row) == title);
            let mut rows: Vec<RowView> = rows
                .map(|row| row_view(comparison, row, shown, &mut footnotes))
                .collect();
            mark_metrics(&mut rows, title == Some(EXPLORATORY));
            Section { title, rows }
        })
        .into_iter()
        .filter(|section| !section.rows.is_empty())
        .collect();
    let footnotes = named(&sections, footnotes.texts(), candidates);
    let (sections, footnotes, of_all) = without_common(sections, footnotes);
    let notes = comparison.notes.iter().map(|note| sanitize(note));
    ViewModel {
        name: sanitize(&comparison.name),
        conditions: conditions(comparison),
        question: question.words.as_deref().map(sanitize),
        baseline: heading(comparison.columns.first().map_or("", String::as_str)),
        candidates: candidates
            .iter()
            .map(|candidate| Candidate {
                heading: heading(candidate),
                answer: answer(comparison, candidate, &full_name),
                level: levels(comparison, candidate),
            })
            .collect(),
        dimensions: question.rows.iter().map(|name| sanitize(name)).collect(),
        across: (question.across.iter())
            .filter_map(|name| question.rows.iter().position(|row| row == name))
            .collect(),
        pivots: pivots(comparison),
        sections,
        footnotes,
        flags: match shown.verbose {
            true => String::new(),
            false => in_short(comparison),
        },
        same: match shown.verbose {
            true => shared(comparison),
            false => Vec::new(),
        },
        differs: differing(&comparison.differs, shown.verbose),
        unknown: unknown(&comparison.unknown),
        claims: claims(&comparison.claims),
        notes: of_all.into_iter().chain(notes).collect(),
    }
}

/// Footnotes with the name of the marked side, where all results with the footnote have the same one.
fn named(sections: &[Section], footnotes: Vec<String>, candidates: &[String]) -> Vec<String> {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let of_one = |(mark, text): (usize, String)| {
        let has = |candidate: &usize| {
            let mut results = rows().filter_map(|row| row.results[*candidate].as_ref());
            results.any(|it| it.marks.contains(&(mark + 1)))
        };
        let having: Vec<usize> = (0..candidates.len()).filter(has).collect();
        match having.as_slice() {
            [one] if text.contains(MARKED) => text.replace(MARKED, &sanitize(&candidates[*one])),
            _ => text,
        }
    };
    footnotes.into_iter().enumerate().map(of_one).collect()
}

/// Turns footnotes that all results share into notes below the table: their numbers in many cells would be redundant.
/// Also returns the other footnotes, and the notes.
fn without_common(
    mut sections: Vec<Section>,
    footnotes: Vec<String>,
) -> (Vec<Section>, Vec<String>, Vec<String>) {
    let rows = sections.iter_mut().flat_map(|section| &mut section.rows);
    let results = rows.flat_map(|row| row.results.iter_mut().flatten());
    let mut results: Vec<&mut ResultView> = results.filter(|result| !result.absent).collect();
    let of_all = |mark: &usize| {
        results.len() > 2 && results.iter().all(|result| result.marks.contains(mark))
    };
    let (common, own): (Vec<usize>, Vec<usize>) = (1..=footnotes.len()).partition(of_all);
    for result in &mut results {
        let place = |mark: &usize| own.iter().position(|own| own == mark);
        result.marks = result
            .marks
            .iter()
            .filter_map(place)
            .map(|at| at + 1)
            .collect();
    }
    let text = |mark: &usize| footnotes[mark - 1].clone();
    let notes = common.iter().map(text);
    let notes =
        notes.map(|note| format!("all verdicts: {}", note.replace(MARKED, "any other side")));
    let (notes, own) = (notes.collect(), own.iter().map(text).collect());
    (sections, own, notes)
}

fn conditions(comparison: &Comparison) -> Vec<String> {
    // The unit (rounds, trials or runs) of the cell with the largest number.
    let cells = comparison.rows.iter().flat_map(|row| &row.cells);
    let most = cells.into_iter().find(|cell| cell.n == comparison.rounds);
    let pairing = match comparison.paired {
        true => Pairing::Paired,
        false => most.map_or(Pairing::Unpaired, |cell| cell.pairing),
    };
    let question = &comparison.question;
    let made_by = if question.floor.is_empty() {
        "A/A"
    } else {
        "noise floor"
    };
    let floor = comparison.floor;
    let floor = floor.map_or(String::new(), |floor| {
        format!(" ({made_by} {})", percent(floor))
    });
    let unpaired = if comparison.paired { "" } else { ", unpaired" };
    let made = (comparison.rounds > 0).then(|| amount(pairing, comparison.rounds) + unpaired);
    let mut conditions: Vec<String> = made.into_iter().collect();
    conditions.push(format!("margin {}{floor}", percent(question.margin)));
    if question.alpha != iodyno_model::Question::ALPHA {
        conditions.push(format!("alpha {}", limit(question.alpha)));
    }
    if comparison.primaries > 1 {
        conditions.push(format!("Holm over {}", comparison.primaries));
    }
    conditions
}

/// The levels of a candidate's intervals, from the lowest to the highest.
fn levels(comparison: &Comparison, candidate: &str) -> String {
    let cells = comparison.rows.iter().flat_map(|row| &row.cells);
    let levels: Vec<f64> = cells
        .filter(|cell| cell.side.column == candidate)
        .filter_map(|cell| cell.ratio.as_ref())
        .filter(|ratio| ratio.interval.is_some() && ratio.level.is_finite())
        .map(|ratio| ratio.level)
        .collect();
    let low = levels.iter().copied().fold(f64::INFINITY, f64::min);
    let high = levels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [low, high] = match levels.is_empty() {
        true => [1.0 - comparison.question.alpha_at_look(); 2],
        false => [low, high],
    }
    .map(percent);
    match low == high {
        true => high,
        false => format!("{}–{high}", low.trim_end_matches(" %")),
    }
}

fn row_view(
    comparison: &Comparison,
    row: &ComparedRow,
    shown: &ComparisonFormat,
    footnotes: &mut Footnotes,
) -> RowView {
    let candidates = comparison.columns.iter().skip(1);
    let results = candidates.map(|candidate| {
        let cell = row
            .cells
            .iter()
            .find(|cell| cell.side.column == *candidate)?;
        Some(result_view(comparison, row, cell, shown, footnotes))
    });
    let name = row_name(row, &comparison.question).into_iter();
    let name: Vec<String> = name.map(|name| sanitize(&name)).collect();
    let [baseline, baseline_value] = medians(&row.baseline, &row.metric.unit, shown);
    RowView {
        name,
        metric: sanitize(&row.metric.name),
        metric_matters: false,
        baseline,
        baseline_value,
        results: results.collect(),
    }
}

/// The median of a side with its interval and without it, each with the mean if requested.
fn medians(side: &Side, unit: &Unit, shown: &ComparisonFormat) -> [String; 2] {
    let Some(it) = &side.median else {
        return [String::new(), String::new()];
    };
    let mean = shown.mean_of(&side.values);
    let mean = mean.map(|mean| format!(" (mean {})", value_in(mean, unit, shown)));
    let mean = mean.unwrap_or_default();
    let texts = [median(it, unit, shown), value_in(it.value, unit, shown)];
    texts.map(|text| sanitize(&(text + &mean)))
}

fn result_view(
    comparison: &Comparison,
    row: &ComparedRow,
    cell: &CandidateResult,
    shown: &ComparisonFormat,
    footnotes: &mut Footnotes,
) -> ResultView {
    // The ratio would be mistaken for the result of such a verdict; it is in the footnote.
    let told = match cell.verdict {
        Verdict::NotComparable { .. } | Verdict::NoData { .. } => false,
        _ => !no_verdict(cell),
    };
    let ratio = cell.ratio.as_ref().filter(|_| told);
    let adjusted = cell.adjusted_p.filter(|_| told).map(p);
    let [median, value] = match (&cell.side.median, cell.members.len()) {
        (None, 1) => ["1 workload", ""].map(str::to_owned),
        (None, several) if several > 0 => [format!("{several} workloads"), String::new()],
        _ => medians(&cell.side, &row.metric.unit, shown),
    };
    let absent = match &cell.verdict {
        Verdict::NoData { why } => why.ends_with(Verdict::NO_TRIAL),
        _ => false,
    };
    ResultView {
        median,
        value,
        times: ratio.map(times).unwrap_or_default(),
        ratio: ratio.map(self::ratio).unwrap_or_default(),
        absent,
        p: adjusted.unwrap_or_default(),
        verdict: short(&cell.verdict),
        tone: Tone::of(&cell.verdict),
        // A table of all sides leaves a blank there.
        marks: match absent && pivots(comparison) {
            true => Vec::new(),
            false => {
                let alike = comparison.columns.len() > 2;
                let how = (alike, shown.verbose);
                footnotes.of_cell(comparison, row, cell, how)
            }
        },
    }
}

/// Metrics that are not named: they are identified by the unit or, for completion, by a footnote.
pub(super) const TOLD_BY_UNIT: [&str; 3] = [Metric::IOPS, Metric::BANDWIDTH, Metric::COMPLETION];

/// Decides which rows print their metric: rows whose unit does not identify it, rows with the same name as another one,
/// and exploratory rows.
fn mark_metrics(rows: &mut [RowView], always: bool) {
    for index in 0..rows.len() {
        let row = &rows[index];
        let namesakes = rows.iter().filter(|other| other.name == row.name).count();
        rows[index].metric_matters = always
            || namesakes > 1
            || row.name.iter().all(String::is_empty)
            || !TOLD_BY_UNIT.contains(&row.metric.as_str());
    }
}

/// The name of the group of all facts about the workload.
const WORKLOAD: &str = "workload";

/// Groups of facts that are printed under one name if all of them are the same; JSON lists each fact.
const TOGETHER: [(&str, &[&str]); 2] = [
    (
        "queue settings",
        &[
            "max_sectors_kb",
            "nr_requests",
            "read_ahead_kb",
            "rotational",
        ],
    ),
    (WORKLOAD, &["bs", "depth", "direct", "engine", "jobs", "rw"]),
];

/// Minor facts, omitted if a group above is printed.
const MINOR: [&str; 6] = [
    "wbt_lat_usec",
    "content",
    "rate",
    "ramp",
    "sync",
    "time_based",
];

/// Names of facts that cannot be compared; of many, only the first ones.
fn unknown(names: &[String]) -> Vec<String> {
    const MOST: usize = 12;
    let mut shown: Vec<String> = names.iter().take(MOST).map(|name| sanitize(name)).collect();
    if names.len() > MOST {
        shown.push(format!("{} more", names.len() - MOST));
    }
    shown
}

/// Names of the facts with the same value on all sides; a group of facts has one name. The workload is listed only if
/// all of its options are the same.
fn shared(comparison: &Comparison) -> Vec<String> {
    let mut names: Vec<String> = comparison.same.iter().map(|name| sanitize(name)).collect();
    let before = names.len();
    let differs = comparison
        .differs
        .iter()
        .any(|difference| difference.class == FactClass::Workload);
    let groups = TOGETHER
        .iter()
        .filter(|(together, _)| *together != WORKLOAD || !differs && comparison.unknown.is_empty());
    for (together, parts) in groups {
        if parts
            .iter()
            .all(|part| names.iter().any(|name| name == part))
        {
            names.retain(|name| !parts.contains(&name.as_str()));
            names.push((*together).to_owned());
        }
    }
    if names.len() < before {
        names.retain(|name| !MINOR.contains(&name.as_str()));
        names.sort();
    }
    names
}

/// `file system (the axis)`, `mount options (noatime against relatime)`, each name once. `axis`: with those under test.
fn differing(differs: &[Difference], axis: bool) -> Vec<String> {
    let shown = differs.iter().filter(|difference| axis || !difference.axis);
    distinct(shown.map(|difference| {
        let text = match difference.axis {
            true => format!("{} (the axis)", difference.name),
            false => in_words(&difference.name, &difference.values),
        };
        sanitize(&text)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_group_have_one_name() {
        let mut comparison = crate::compare::tests::samples::two_file_systems();
        let mut shared = |names: &str, differs: Vec<Difference>, unknown: &[&str]| {
            comparison.same = names.split(' ').map(str::to_owned).collect();
            comparison.differs = differs;
            comparison.unknown = unknown.iter().map(|name| (*name).to_owned()).collect();
            super::shared(&comparison).join(" ")
        };
        let all = "bs depth direct engine jobs rw";
        let mut rwmixread = crate::compare::tests::samples::file_system_axis();
        assert_eq!(shared(all, vec![rwmixread.clone()], &[]), "workload");
        rwmixread.class = FactClass::Workload;
        assert_eq!(
            shared(all, vec![rwmixread], &[]),
            all,
            "another option differs"
        );
        assert_eq!(shared(all, Vec::new(), &["rwmixread"]), all);
        let mut shared = |names: &str| shared(names, Vec::new(), &[]);
        assert_eq!(
            shared("bs depth direct engine jobs kernel ramp rw"),
            "kernel workload"
        );
        assert_eq!(shared("bs depth kernel ramp"), "bs depth kernel ramp");
        assert_eq!(
            shared("device max_sectors_kb nr_requests read_ahead_kb rotational"),
            "device queue settings"
        );
    }
}
