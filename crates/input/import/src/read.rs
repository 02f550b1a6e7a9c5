//! Runs all readers on the texts: assigns lines, finds duplicates, and lists lines that no reader understood.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use iodyno_model::{
    Duplicate, Imported, ImportedTrial, ImportedTrials, Observation, SourceLine, Unread,
};

use super::command;
use super::contradictions::{self, Checked, Source};
use super::extract::{Extract, ExtractContent};
use super::label::Label;
use super::lines::Lines;
use super::unread::{STATEMENT, why_unread};
use super::{Options, Text, readers};

/// Reads all results in some texts. Never fails: lines that cannot be read are listed in `unread`.
///
/// Results of a source get the configuration and workload of its label, otherwise those in the text, otherwise the
/// name of the source without its folder. The name contains the extension only if sources with the same name have
/// different extensions.
pub fn read(texts: &[Text<'_>], options: &Options) -> Imported {
    let mut imported = Imported::default();
    let mut remarks = HashSet::new();
    let mut seen = Seen::default();
    let names = names(texts);
    for (text, name) in texts.iter().zip(names) {
        let copy_of = seen.same_text(text);
        let mut piece = read_one(text, name, options, |placed, trial| {
            match seen.first(text.source, placed, &trial, copy_of.is_some()) {
                Some(first) => imported.duplicates.push(Duplicate {
                    first,
                    again: trial.at,
                }),
                None => imported.trials.push(trial),
            }
        });
        if let Some(first) = copy_of {
            imported
                .remarks
                .push(format!("{} and {first} are the same text", text.source));
        }
        imported.tables.append(&mut piece.tables);
        imported.claims.append(&mut piece.claims);
        imported.unread.append(&mut piece.unread);
        if copy_of.is_none() {
            imported.contradictions.append(&mut piece.contradictions);
        }
        for remark in piece.remarks {
            if remarks.insert(remark.clone()) {
                imported.remarks.push(remark);
            }
        }
    }
    imported
}

/// A trial's place in the source.
#[derive(Clone)]
struct Placed {
    /// The index of the trial.
    trial: u32,
    lines: Range<u32>,
    /// Results separated only by blank lines are in one block.
    block: u32,
    /// The number of digits in its lines.
    digits: u32,
    /// A hash of its lines, without blanks.
    text: u64,
}

/// The content of one source in the order of its lines; trials go to `take`, one by one. `name`: that of results
/// without a name.
fn read_one(
    text: &Text<'_>,
    name: &str,
    options: &Options,
    mut take: impl FnMut(&Placed, ImportedTrial),
) -> Imported {
    let lines = Lines::new(text.source, text.text);
    let mut imported = Imported::default();
    let label = label(text.source, options, &mut imported.remarks);
    let mut trials = ImportedTrials::default();
    let mut places: Vec<(u32, Placed)> = Vec::new();
    let claimed = scan(&lines, options, |Extract { lines: at, what }| match what {
        ExtractContent::Trial(trial) => {
            // The results of a document have all its lines, which are hashed once.
            let last = places.last().map(|(_, placed)| placed);
            let mut placed = match last.filter(|placed| placed.lines == at) {
                Some(placed) => placed.clone(),
                None => placed(at, &lines),
            };
            placed.trial = trials.len() as u32;
            places.push((trial.at.line, placed));
            trials.push(*trial);
        }
        ExtractContent::Table(table) => imported.tables.push(*table),
        ExtractContent::Claim(claim) => imported.claims.push(*claim),
        ExtractContent::Unread(why) => imported.unread.push(unread(&lines, at.start, why)),
        ExtractContent::Remark(text) => imported.remarks.push(text),
        ExtractContent::Contradiction(found) => imported.contradictions.push(*found),
        ExtractContent::Known => {}
    });
    imported.unread.extend(stretches(&lines, &claimed));
    let statements = contradictions::statements(&lines, &claimed);
    drop(claimed);
    places.sort_by_key(|(line, _)| *line);
    let mut places: Vec<Placed> = places.into_iter().map(|(_, placed)| placed).collect();
    number_blocks(&mut places, &lines);
    imported.tables.sort_by_key(|table| table.at.line);
    imported.claims.sort_by_key(|claim| claim.at.line);
    imported.unread.sort_by_key(|unread| unread.at.line);
    if trials.is_empty() && imported.tables.is_empty() && imported.claims.is_empty() {
        imported
            .remarks
            .push(format!("{}: no result was found in it", text.source));
    }
    let commands = command::commands(&lines);
    let naming = Naming::of(&trials, &places, &lines, &label, name);
    let mut results = Vec::new();
    for placed in &places {
        let Some(mut trial) = trials.get(placed.trial as usize) else {
            continue;
        };
        naming.by_heading(placed, &mut trial);
        command::apply(&commands, &mut trial, &lines);
        if !statements.is_empty() {
            results.push(Checked::of(&trial));
        }
        naming.by_label(&mut trial);
        take(placed, trial);
    }
    let source = Source {
        lines: &lines,
        results,
        tables: &imported.tables,
    };
    imported
        .contradictions
        .extend(source.contradictions(&statements));
    imported.contradictions.sort_by_key(|it| it.at.line);
    imported
}

/// The label of a source; empty if it does not match the pattern, or there is none.
fn label(source: &str, options: &Options, remarks: &mut Vec<String>) -> Label {
    let Some(pattern) = &options.label else {
        return Label::default();
    };
    pattern.label(source).unwrap_or_else(|| {
        remarks.push(format!(
            "{source} does not match the label `{pattern}`; it is taken without one"
        ));
        Label::default()
    })
}

/// The place of the first trial in some lines.
fn placed(at: Range<u32>, lines: &Lines<'_>) -> Placed {
    let mut hasher = DefaultHasher::new();
    let mut digits = 0;
    for (_, text) in lines.range(at.clone()) {
        for word in text.split_whitespace() {
            word.hash(&mut hasher);
            digits += word.bytes().filter(u8::is_ascii_digit).count() as u32;
        }
    }
    Placed {
        trial: 0,
        lines: at,
        block: 0,
        digits,
        text: hasher.finish(),
    }
}

fn number_blocks(places: &mut [Placed], lines: &Lines<'_>) {
    let mut order: Vec<&mut Placed> = places.iter_mut().collect();
    order.sort_by_key(|placed| placed.lines.start);
    let (mut block, mut end) = (0, 0);
    for placed in order {
        let between = lines.range(end..placed.lines.start);
        block += u32::from(between.into_iter().any(|(_, text)| !text.trim().is_empty()));
        placed.block = block;
        end = end.max(placed.lines.end);
    }
}

/// The names of the results of one source.
struct Naming<'t> {
    lines: &'t Lines<'t>,
    label: &'t Label,
    /// The name of the source.
    source: &'t str,
    /// How many headings all unnamed results have in common.
    common: usize,
    /// The source has several configurations or workloads of its own.
    configurations: bool,
    workloads: bool,
}

impl<'t> Naming<'t> {
    fn of(
        trials: &'t ImportedTrials,
        places: &[Placed],
        lines: &'t Lines<'t>,
        label: &'t Label,
        source: &'t str,
    ) -> Naming<'t> {
        let own = |placed: &Placed| trials.names(placed.trial as usize).unwrap_or_default();
        let unnamed = |placed: &&Placed| own(placed).0.is_empty();
        let mut over = places.iter().filter(unnamed).map(|it| headings(it, lines));
        let first = over.next().unwrap_or_default();
        let common = over.fold(first.len(), |common, names| {
            let pairs = first.iter().zip(&names).take(common);
            pairs.take_while(|(one, other)| one == other).count()
        });
        let named = |placed: &Placed| match own(placed) {
            ("", workload) => {
                let headings = headings(placed, lines);
                (headings.get(common).copied().unwrap_or_default(), workload)
            }
            own => own,
        };
        let mut naming = Naming {
            lines,
            label,
            source,
            common,
            configurations: false,
            workloads: false,
        };
        for pair in places.windows(2) {
            let (one, next) = (named(&pair[0]), named(&pair[1]));
            naming.configurations |= one.0 != next.0;
            naming.workloads |= one.1 != next.1;
        }
        naming
    }

    /// Uses the headings above a result as the name of its configuration if the text has no other name.
    ///
    /// Of nested headings, the widest that differs between results is the configuration, and narrower ones are the
    /// dimension `section`. A heading that numbers a run or is a command is not used.
    fn by_heading(&self, placed: &Placed, trial: &mut ImportedTrial) {
        if !trial.configuration.is_empty() {
            return;
        }
        let names = headings(placed, self.lines);
        let Some((name, narrower)) = names.get(self.common..).and_then(|it| it.split_first())
        else {
            return;
        };
        trial.configuration = (*name).to_owned();
        if !narrower.is_empty() {
            let section = narrower.join(" / ");
            trial.dimensions.insert("section".to_owned(), section);
        }
    }

    /// Fills in the name from the label or from the source.
    ///
    /// If a source contains several configurations or workloads, the label's name is put in front of each, so that
    /// different ones do not become one.
    fn by_label(&self, trial: &mut ImportedTrial) {
        let label = self.label;
        for name in SHADOWED {
            if let Some(value) = trial.dimensions.remove(name) {
                trial.dimensions.insert(format!("imported {name}"), value);
            }
        }
        for (name, value) in label.dimensions() {
            trial.dimensions.insert(name.to_owned(), value.to_owned());
        }
        trial.configuration = named(
            label.configuration(),
            &trial.configuration,
            self.configurations,
            self.source,
        );
        trial.workload = named(
            label.workload(),
            &trial.workload,
            self.workloads,
            self.source,
        );
    }
}

/// The names of the headings above a result, the widest first.
fn headings<'l>(placed: &Placed, lines: &'l Lines<'_>) -> Vec<&'l str> {
    let context = lines.context(placed.lines.start);
    context.headings.iter().filter_map(|it| it.name()).collect()
}

/// Runs every reader, and gives lines that several understood to the first of them. Returns which lines were
/// understood.
fn scan(lines: &Lines<'_>, options: &Options, mut take: impl FnMut(Extract)) -> Vec<bool> {
    let mut claimed = vec![false; lines.count() as usize + 2];
    for (form, reader) in readers(options) {
        if options.form.is_some_and(|wanted| wanted != form) {
            continue;
        }
        // Prefix counts of the claimed lines, and the ranges of this reader's results: with 1000 results on 1000
        // lines, the cost must not grow with the product.
        let mut before = vec![0_u32; claimed.len() + 1];
        for (index, &is) in claimed.iter().enumerate() {
            before[index + 1] = before[index] + u32::from(is);
        }
        let mut edges = vec![0_i32; claimed.len() + 1];
        for found in reader(lines) {
            let start = (found.lines.start as usize).min(claimed.len());
            let end = (found.lines.end as usize).clamp(start, claimed.len());
            if before[end] > before[start] {
                continue;
            }
            edges[start] += 1;
            edges[end] -= 1;
            take(found);
        }
        let mut depth = 0;
        for (is, edge) in claimed.iter_mut().zip(edges) {
            depth += edge;
            *is |= depth > 0;
        }
    }
    claimed
}

/// Ranges of lines that no reader understood and that look like results.
fn stretches(lines: &Lines<'_>, claimed: &[bool]) -> Vec<Unread> {
    let mut found = Vec::new();
    let mut within = false;
    for (number, text) in lines.iter() {
        if claimed[number as usize] || text.trim().is_empty() {
            within = false;
            continue;
        }
        // Each statement is reported separately; of other lines, the first represents all up to the next blank line.
        match why_unread(text) {
            Some(STATEMENT) => found.push(unread(lines, number, STATEMENT.to_owned())),
            Some(why) if !within => {
                found.push(unread(lines, number, why.to_owned()));
                within = true;
            }
            _ => {}
        }
    }
    found
}

/// The largest number of characters of an unread line that are kept.
const SHOWN: usize = 160;

fn unread(lines: &Lines<'_>, line: u32, why: String) -> Unread {
    Unread {
        at: lines.at(line),
        text: lines.get(line).trim().chars().take(SHOWN).collect(),
        why,
    }
}

/// Dimensions that every observation has: an imported dimension of the same name would be hidden.
const SHADOWED: [&str; 4] = [
    Observation::RUN,
    Observation::CONFIGURATION,
    Observation::WORKLOAD,
    "config",
];

fn named(label: Option<&str>, own: &str, several: bool, stem: &str) -> String {
    match (label, own) {
        (Some(label), own) if several && !own.is_empty() => format!("{label}/{own}"),
        (Some(label), _) => label.to_owned(),
        (None, "") => stem.to_owned(),
        (None, own) => own.to_owned(),
    }
}

/// The names of sources, without their folders. Extensions remain where they alone distinguish names.
fn names<'t>(texts: &[Text<'t>]) -> Vec<&'t str> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut several: HashSet<&str> = HashSet::new();
    let files: Vec<&str> = texts.iter().map(|text| file_name(text.source)).collect();
    for file in &files {
        if first.entry(stem(file)).or_insert(file) != file {
            several.insert(stem(file));
        }
    }
    let name = |file: &'t str| match several.contains(stem(file)) {
        true => file,
        false => stem(file),
    };
    files.into_iter().map(name).collect()
}

/// A source's name without its folder.
fn file_name(source: &str) -> &str {
    let name = source.trim_end_matches('/');
    name.rsplit('/').next().unwrap_or(name)
}

/// A name without its extension.
fn stem(name: &str) -> &str {
    match name.rfind('.') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// The results read so far, to detect duplicates.
#[derive(Default)]
struct Seen<'t> {
    texts: HashMap<&'t str, &'t str>,
    /// By a hash of text and identity of a result: its source, line and block.
    trials: HashMap<u64, (u32, u32, u32)>,
    sources: Vec<&'t str>,
}

/// Equal texts with fewer digits than this can be a coincidence.
const MIN_DISTINCTIVE_DIGITS: u32 = 12;
/// From this number of digits on, as in a complete report with its dates, equal neighbours are copies.
const MIN_COPY_DIGITS: u32 = 100;

impl<'t> Seen<'t> {
    /// The source that had exactly this text before.
    fn same_text(&mut self, text: &Text<'t>) -> Option<&'t str> {
        if text.text.trim().is_empty() {
            return None;
        }
        match self.texts.get(text.text) {
            Some(first) => Some(first),
            None => {
                self.texts.insert(text.text, text.source);
                None
            }
        }
    }

    /// The place of an earlier result with the same text. In a copy of a whole text, a few digits are sufficient.
    ///
    /// Short results in one block are repetitions, even if they are equal.
    fn first(
        &mut self,
        source: &'t str,
        placed: &Placed,
        trial: &ImportedTrial,
        copy: bool,
    ) -> Option<SourceLine> {
        if self.sources.last() != Some(&source) {
            self.sources.push(source);
        }
        let latest = self.sources.len() as u32 - 1;
        let distinctive =
            copy || placed.digits >= MIN_DISTINCTIVE_DIGITS || !trial.series.is_empty();
        match self.trials.entry(identity(placed.text, trial)) {
            Entry::Occupied(first) => {
                let &(source, line, block) = first.get();
                let source = self.sources[source as usize];
                let neighbours = source == trial.at.source && block == placed.block;
                let repetition = neighbours && !copy && placed.digits < MIN_COPY_DIGITS;
                (distinctive && !repetition).then(|| SourceLine {
                    source: source.to_owned(),
                    line,
                })
            }
            Entry::Vacant(place) => {
                place.insert((latest, trial.at.line, placed.block));
                None
            }
        }
    }
}

/// A hash of a result's text and of all that identifies it but its place.
fn identity(text: u64, trial: &ImportedTrial) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (&trial.configuration, &trial.workload, &trial.dimensions).hash(&mut hasher);
    for figure in &trial.figures {
        (&figure.metric.name, figure.value.to_bits()).hash(&mut hasher);
    }
    for point in &trial.series {
        (point.start_ns, point.end_ns, point.rate.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "  read: IOPS=12.3k, BW=48.1MiB/s (50.4MB/s)(2887MiB/60001msec)\n";
    const OTHER: &str = "  read: IOPS=12.4k, BW=48.4MiB/s (50.8MB/s)(2906MiB/60001msec)\n";

    fn named(sources: &[(&str, &str)], label: Option<&str>) -> Imported {
        let texts: Vec<Text<'_>> = sources
            .iter()
            .map(|&(source, text)| Text { source, text })
            .collect();
        let options = Options {
            label: label.map(|label| label.parse().unwrap()),
            ..Options::default()
        };
        read(&texts, &options)
    }

    fn names(imported: &Imported) -> Vec<String> {
        let trials = imported.trials.iter();
        trials
            .map(|trial| {
                let further: Vec<&str> = trial.dimensions.values().map(String::as_str).collect();
                format!(
                    "{} {} {}",
                    trial.configuration,
                    trial.workload,
                    further.join(",")
                )
            })
            .collect()
    }

    #[test]
    fn names_come_from_the_label_or_the_file() {
        let label = Some("{config}/{job}-{host}.{loop}.txt");
        for (source, label, expected) in [
            ("/a/ext4.txt", None, "ext4 ext4 "),
            ("ext4", None, "ext4 ext4 "),
            (".hidden", None, ".hidden .hidden "),
            ("/a/ext4/rr-n1.3.txt", label, "ext4 rr n1"),
            ("elsewhere.txt", label, "elsewhere elsewhere "),
        ] {
            let imported = named(&[(source, RESULT)], label);
            assert_eq!(names(&imported), [expected], "{source}");
            let missed = imported
                .remarks
                .iter()
                .any(|r| r.contains("does not match"));
            assert_eq!(missed, expected.starts_with("elsewhere"));
        }
    }

    #[test]
    fn several_workloads_of_one_file_stay_separate_under_a_label() {
        let table = "| test | MB/s |\n|-|-|\n| a | 1 |\n| b | 2 |\n";
        let text = format!("# ext4\n\n{table}");
        let imported = named(&[("x/all.md", &text)], Some("{config}/{job}.md"));
        assert_eq!(names(&imported), ["x all/a ", "x all/b "]);
    }

    #[test]
    fn a_result_that_appears_twice_counts_once() {
        let label = Some("{config}/{job}.{loop}.txt");
        let (a, b) = ("e/j.1.txt", "e/j.2.txt");
        // The same text under the number of another run is a copy.
        let imported = named(&[(a, RESULT), (b, RESULT)], label);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (1, 1));
        let duplicate = &imported.duplicates[0];
        assert_eq!(duplicate.first.source, a);
        assert_eq!(duplicate.again.source, b);
        assert_eq!(
            imported.remarks,
            ["e/j.2.txt and e/j.1.txt are the same text"]
        );
        // Under another configuration there is only a remark.
        let imported = named(&[(a, RESULT), ("z/j.1.txt", RESULT)], label);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (2, 0));
        assert_eq!(imported.remarks.len(), 1);
        let imported = named(&[(a, RESULT), (b, OTHER)], label);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (2, 0));
        // Within one text.
        let twice = format!("{RESULT}\nand once more\n{RESULT}");
        let imported = named(&[(a, &twice)], label);
        assert_eq!(imported.duplicates[0].again.line, 4);
    }

    #[test]
    fn equal_neighbours_are_repetitions() {
        let lines = "BenchmarkX-8 1000000 5.123 ns/op 12.34 MB/s\n\
                     BenchmarkX-8 2000000 5.123 ns/op 12.34 MB/s\n\
                     BenchmarkX-8 1000000 5.123 ns/op 12.34 MB/s\n\n\
                     BenchmarkX-8 1000000 5.123 ns/op 12.34 MB/s\n";
        let imported = named(&[("b.txt", lines)], None);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (4, 0));
        // The same text further down is a copy; other iterations with the same figures are another trial.
        let again = format!(
            "{lines}and again:\nBenchmarkX-8 1000000 5.123 ns/op 12.34 MB/s\n\
             BenchmarkX-8 3000000 5.123 ns/op 12.34 MB/s\n"
        );
        let imported = named(&[("b.txt", &again)], None);
        assert_eq!(imported.trials.len(), 5);
        let places = |it: &Duplicate| (it.first.line, it.again.line);
        let duplicates: Vec<(u32, u32)> = imported.duplicates.iter().map(places).collect();
        assert_eq!(duplicates, [(1, 7)]);
    }

    #[test]
    fn headings_name_configurations_for_every_form() {
        let sysbench = "sysbench 1.0.20\n\nFile operations:\n    reads/s:                      10.00\n    \
                        writes/s:                     5.00\n    fsyncs/s:                     1.00\n\n\
                        Throughput:\n    read, MiB/s:                  1.00\n    written, MiB/s:               0.50\n";
        for (what, result) in [
            ("fio", RESULT),
            ("sysbench", sysbench),
            ("benchmark", "BenchmarkX 1 5.5 ns/op\n"),
        ] {
            let text = format!(
                "# Test\n\n## ext4\n\n{result}\n### Run 2\n\n{result} \n\n## zfs results:\n\n{result}\n## zfs\n\n### lz4\n\n{result}"
            );
            let imported = named(&[("t.md", &text)], None);
            let found: Vec<(String, Option<String>)> = imported
                .trials
                .iter()
                .map(|trial| {
                    let section = trial.dimensions.get("section").cloned();
                    (trial.configuration, section)
                })
                .collect();
            let result =
                |name: &str, section: Option<&str>| (name.to_owned(), section.map(str::to_owned));
            let ext4 = result("ext4", None);
            let mut all = vec![
                ext4.clone(),
                ext4,
                result("zfs", None),
                result("zfs", Some("lz4")),
            ];
            // The text has enough digits, so its repetition below "Run 2" is a copy.
            if imported.trials.len() == 3 {
                all.remove(1);
            }
            assert_eq!(found, all, "{what}");
            let labelled = named(&[("h1.md", &text)], Some("{config}.md"));
            assert_eq!(
                labelled.trials.get(0).unwrap().configuration,
                "h1/ext4",
                "{what}"
            );
        }
        // A heading above all results and commands after a prompt name nothing.
        for over in ["# Results", "# fio job.fio", "## Run 1"] {
            let text = format!("{over}\n\n{RESULT}\n## Run 2\n\n{OTHER}");
            let imported = named(&[("t.md", &text)], None);
            assert_eq!(names(&imported), ["t t ", "t t "], "{over}");
        }
    }

    #[test]
    fn one_equal_figure_is_not_a_duplicate() {
        let table = "| fs | run | MB/s |\n|-|-|-|\n| x | 1 | 5 |\n| x | 2 | 5 |\n";
        let imported = named(&[("t.md", table)], None);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (2, 0));
        // In a copy of the whole text it is a duplicate.
        let imported = named(&[("t.md", table), ("t.md", table)], None);
        assert_eq!((imported.trials.len(), imported.duplicates.len()), (2, 2));
    }

    #[test]
    fn imported_names_are_not_hidden_by_the_dimensions_of_every_result() {
        for (text, expected) in [
            (
                "run: 42\nconfig: old\nBenchmarkX/config=zfs 1 5 ns/op\n",
                "zfs X imported config=old imported run=42",
            ),
            (
                "configuration: old\nBenchmarkX/config=zfs 1 5 ns/op\n",
                "zfs X imported configuration=old",
            ),
            ("config: zfs\nBenchmarkX/config=zfs 1 5 ns/op\n", "zfs X "),
            ("config: zfs\nBenchmarkX 1 5 ns/op\n", "zfs X "),
            (
                "BenchmarkX/config=zfs/configuration=b 1 5 ns/op\n",
                "zfs X imported configuration=b",
            ),
            ("bs: 4k\nBenchmarkX/bs=8k 1 5 ns/op\n", "b X /bs=8k bs=4k"),
            ("bs: 4k\nBenchmarkX/bs=4k 1 5 ns/op\n", "b X bs=4k"),
            (
                "workload: w\nBenchmarkX 1 5 ns/op\n",
                "b X imported workload=w",
            ),
            ("workload: w\nBenchmark_ 1 5 ns/op\n", "b w "),
        ] {
            let imported = named(&[("b.txt", text)], None);
            let trial = imported.trials.get(0).unwrap();
            let further: Vec<String> = trial
                .dimensions
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let read = format!(
                "{} {} {}",
                trial.configuration,
                trial.workload,
                further.join(" ")
            );
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_figure_that_no_reader_understands_is_listed() {
        let imported = named(&[("n.txt", "hello\nit gave 5 MB/s\nor so\n\nbye\n")], None);
        assert_eq!(imported.unread.len(), 1);
        assert_eq!(imported.unread[0].at.line, 2);
        assert_eq!(imported.unread[0].text, "it gave 5 MB/s");
        assert_eq!(imported.remarks, ["n.txt: no result was found in it"]);
    }
}

#[cfg(test)]
mod name_tests {
    use super::{Text, names};

    #[test]
    fn extensions_are_kept_where_they_alone_distinguish_sources() {
        let names = |sources: &[&str]| {
            let texts: Vec<Text<'_>> = sources
                .iter()
                .map(|source| Text { source, text: "" })
                .collect();
            names(&texts).join(" ")
        };
        assert_eq!(
            names(&["fio.json", "b/fio.txt", "x.txt"]),
            "fio.json fio.txt x"
        );
        assert_eq!(names(&["a/fio.json", "b/fio.json"]), "fio fio");
        assert_eq!(names(&["ext4.json", "zfs.json"]), "ext4 zfs");
    }
}
