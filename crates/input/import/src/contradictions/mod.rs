//! Statements of a text that its own figures contradict: counts and times in prose against the results below the same
//! heading, sizes of virtual disks against listed properties, options of a `prepare` command against the
//! result, `balanced` against /proc/interrupts.
//!
//! Invariants: a statement that is not understood completely gives nothing; a rounded number contradicts nothing that
//! it can be rounded from; a statement is compared only with what the text has below the same heading.

mod disks;
mod interrupts;
mod prose;
mod quantity;
mod source;
mod statement;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use iodyno_model::Contradiction;
use iodyno_units::{Bytes, Nanos, counted, grouped};

use super::lines::Lines;
use super::sysbench;
use quantity::{Approximate, SAME_SIZE};
use statement::{Limit, Stated, Statement};

pub(crate) use source::{Checked, Source};

/// The statements of a text that can be checked, from the lines that no reader understood.
pub(crate) fn statements(lines: &Lines<'_>, claimed: &[bool]) -> Vec<Statement> {
    let mut found = Vec::new();
    prose::sentences(lines, claimed, |sentence| {
        found.extend(statement::statements(sentence));
    });
    for (number, text) in lines.iter() {
        if let Some(options) = sysbench::prepare_options(text) {
            found.push(Statement {
                line: number,
                text: text.trim().to_owned(),
                what: Stated::Prepare(options),
            });
        }
    }
    found
}

impl Source<'_> {
    /// The contradicted ones of some statements, in the order of their lines.
    pub(crate) fn contradictions(&self, statements: &[Statement]) -> Vec<Contradiction> {
        let mut found: Vec<Contradiction> = statements
            .iter()
            .filter_map(|statement| {
                let (against, shown) = match &statement.what {
                    Stated::Count(count, verb) => self.count(statement, *count, verb),
                    Stated::Time {
                        limit,
                        ns,
                        count,
                        verb,
                    } => self.time(statement, (*limit, *ns), *count, verb),
                    Stated::Product { files, each, total } => {
                        Some((statement.line, product(*files, *each, *total)?))
                    }
                    Stated::DiskSize(bytes) => disks::against(self, statement.line, *bytes),
                    Stated::Balanced => interrupts::against(self, statement.line),
                    Stated::Prepare(options) => self.prepared(statement.line, options),
                }?;
                Some(Contradiction {
                    at: self.lines.at(statement.line),
                    statement: statement.text.clone(),
                    against: self.lines.at(against),
                    shown,
                })
            })
            .collect();
        found.sort_by_key(|it| it.at.line);
        found
    }

    /// The results that a clause is about: those below the same heading or, if it names a configuration, those of this
    /// one in the narrowest section that has some. Empty: it names several.
    fn results_of(&self, statement: &Statement, verb: &[&str]) -> Vec<&Checked> {
        let context = self.lines.context(statement.line);
        let nearest = context.headings.last().map(|heading| heading.line);
        let words: Vec<String> = prose::words(&statement.text)
            .map(str::to_lowercase)
            .collect();
        let mut named: Vec<&str> = Vec::new();
        for result in &self.results {
            let name = result.configuration.as_str();
            let is_named = words.contains(&name.to_lowercase());
            if is_named && !named.contains(&name) {
                named.push(name);
            }
        }
        let does = |result: &&Checked| verb.iter().any(|stem| result.workload.contains(stem));
        let results = self.results.iter().filter(does);
        match named.as_slice() {
            [] => results
                .filter(|it| self.is_below(it.line, nearest))
                .collect(),
            [name] => {
                let own: Vec<&Checked> = results.filter(|it| it.configuration == *name).collect();
                // The narrowest section that has some of it.
                let sections = context.headings.iter().rev().map(|it| Some(it.line));
                sections
                    .chain([None])
                    .map(|section| {
                        let results = own.iter().copied();
                        let below = results.filter(|it| self.is_below(it.line, section));
                        below.collect::<Vec<_>>()
                    })
                    .find(|below| !below.is_empty())
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn count(
        &self,
        statement: &Statement,
        stated: Approximate,
        verb: &[&str],
    ) -> Option<(u32, String)> {
        let results = self.results_of(statement, verb);
        let known = results.iter().filter_map(|it| Some((it.line, it.ops?)));
        let known: Vec<(u32, f64)> = known.collect();
        let range = range(known.iter().map(|(_, ops)| *ops))?;
        if known.len() < results.len() || stated.can_be_in(&range) {
            return None;
        }
        let (low, high) = (range.start(), range.end());
        let ops = match low == high {
            true => format!("{} ops", whole(*low)),
            false => format!("{} to {} ops", whole(*low), whole(*high)),
        };
        Some((known[0].0, format!("{ops} in {}", places(&known))))
    }

    fn time(
        &self,
        statement: &Statement,
        (limit, ns): (Limit, f64),
        count: Option<Approximate>,
        verb: &[&str],
    ) -> Option<(u32, String)> {
        let results = self.results_of(statement, verb);
        let has_count = |it: &&&Checked| {
            count.is_none_or(|count| it.ops.is_some_and(|ops| count.can_be_in(&(ops..=ops))))
        };
        let known = results.iter().filter(has_count);
        let known: Vec<(u32, f64)> = known
            .filter_map(|it| Some((it.line, it.completion?)))
            .collect();
        let breaks = |(_, time): &&(u32, f64)| limit.is_broken(*time, ns);
        let breaking: Vec<(u32, f64)> = known.iter().filter(breaks).copied().collect();
        let times: Vec<String> = breaking
            .iter()
            .take(MAX_PLACES)
            .map(|(_, time)| Nanos(*time as u64).to_string())
            .collect();
        let (line, _) = breaking.first()?;
        let shown = format!(
            "{} in {} of {}: {}",
            limit.broken_in_words(),
            breaking.len(),
            counted(known.len() as u64, "trial"),
            times.join(", ")
        );
        Some((*line, shown))
    }

    /// The next result below a `prepare` command, if it has no command of its own.
    fn prepared(&self, line: u32, options: &sysbench::PrepareOptions) -> Option<(u32, String)> {
        let next = self
            .results
            .iter()
            .filter(|it| it.line > line && it.form == sysbench::FORM)
            .min_by_key(|it| it.line)?;
        if sysbench::is_run_command(self.lines.get(next.line)) {
            return None;
        }
        let fact = |name: &str| {
            let mut facts = next.facts.iter();
            facts.find(|(own, _)| own == name).map(|(_, value)| value)
        };
        let mut differing = Vec::new();
        if let (Some(threads), Some(jobs)) = (options.threads, fact("jobs"))
            && threads.to_string() != *jobs
        {
            differing.push(match jobs.as_str() {
                "1" => "1 thread".to_owned(),
                jobs => format!("{jobs} threads"),
            });
        }
        if let (Some(mode), own) = (&options.mode, &next.workload)
            && sysbench::is_mode(own)
            && mode != own
        {
            differing.push(format!("mode {own}"));
        }
        if let (Some(bytes), Some(bs)) = (options.block_bytes, fact("bs"))
            && bs.parse::<Bytes>().is_ok_and(|own| own.0 != bytes)
        {
            differing.push(format!("blocks of {bs}"));
        }
        let shown = format!(
            "the result has {}: it was not measured with the options of this command",
            differing.join(", ")
        );
        (!differing.is_empty()).then_some((next.line, shown))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<RangeInclusive<f64>> {
    values.fold(None, |range, value| match range {
        None => Some(value..=value),
        Some(range) => Some(range.start().min(value)..=range.end().max(value)),
    })
}

/// Lines that are named, at most.
const MAX_PLACES: usize = 5;

/// `3 trials, lines 15, 18 and 21`.
fn places(trials: &[(u32, f64)]) -> String {
    let shown: Vec<String> = trials
        .iter()
        .take(MAX_PLACES)
        .map(|(line, _)| line.to_string())
        .collect();
    let more = match trials.len() > MAX_PLACES {
        true => ", …",
        false => "",
    };
    let trials = counted(trials.len() as u64, "trial");
    format!("{trials}, lines {}{more}", shown.join(", "))
}

fn whole(count: f64) -> String {
    grouped(count.round() as u64)
}

/// `2000 × 2 MB = 4 GB`, if this is not the total.
fn product(files: Approximate, each: f64, total: Approximate) -> Option<String> {
    let product = files.value * each;
    let spread = 1.0 + files.tolerance / files.value + total.tolerance / total.value;
    let ratio = (product / total.value).max(total.value / product);
    let shown = || {
        format!(
            "{} × {} is {}",
            whole(files.value),
            Bytes(each as u64),
            Bytes(product as u64)
        )
    };
    (ratio > SAME_SIZE * spread).then(shown)
}
