//! A case: a job without an option and with it, and the observations of both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::iter;
use std::path::Path;

use libtest_mimic::Failed;

use crate::harness::{Home, skip};
use iodyno_testing::Loop;

use crate::run::{Run, attach};
use crate::strace;

/// Options and their cases.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    /// The supported options.
    pub(crate) options: fn() -> Vec<String>,
    /// The cases by topic.
    pub(crate) topics: &'static [&'static [Case]],
    /// The arguments of iodyno for the words of a row, in this folder.
    pub(crate) arguments: fn(&Path, &Look, &str) -> Vec<String>,
}

/// One option, the same option seen in another way, or several options that are seen in the same runs.
pub(crate) struct Case {
    pub(crate) option: &'static str,
    more: &'static [&'static str],
    look: Look,
    /// The common part of all rows.
    job: &'static str,
    /// The rest of a command, and the expected observation. The first row has the option's default.
    rows: &'static [(&'static str, &'static str)],
    /// Prepares the folder in which the commands run.
    before: fn(&Path),
    /// Number of blank loop devices, to which links `d0`, `d1`, … of the folder lead.
    devices: usize,
    /// Whether it takes too long for `make test`.
    pub(crate) long: bool,
    /// Whether commands may fail.
    fails: bool,
    /// Why the case cannot be run here.
    missing: fn() -> Option<&'static str>,
}

/// The observation of a run.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// In few words, for messages.
    pub(crate) seen: &'static str,
    pub(crate) through: Through,
    pub(crate) of: fn(&Run) -> String,
}

/// How a run is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// By its output and the files it leaves.
    Output,
    /// By its record of ops.
    Ops,
    /// By its system calls.
    Calls,
    /// By its system calls, including those on folders and the names of threads, with the data written.
    Folders,
    /// By a script that is run in the folder during a trial, which is then stopped.
    During(&'static str),
    /// The same while storage is made, once the script prints something.
    Starting(&'static str),
    /// Like [`Through::During`], with its own ZFS.
    Apart(&'static str),
    /// By its threads while it runs.
    Threads,
    /// By those that read and write, with placeholders for addresses.
    Addresses,
}

impl Look {
    pub(crate) const fn output(seen: &'static str, of: fn(&Run) -> String) -> Look {
        let through = Through::Output;
        Look { seen, through, of }
    }

    pub(crate) const fn ops(seen: &'static str, of: fn(&Run) -> String) -> Look {
        let through = Through::Ops;
        Look { seen, through, of }
    }

    pub(crate) const fn calls(seen: &'static str, of: fn(&Run) -> String) -> Look {
        let through = Through::Calls;
        Look { seen, through, of }
    }
}

/// A case. In a row, `;` separates commands that run one after the other in the same folder; the last one is observed.
/// `cp FROM TO` copies a file.
pub(crate) const fn case(
    option: &'static str,
    look: Look,
    job: &'static str,
    rows: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        option,
        more: &[],
        look,
        job,
        rows,
        before: |_| {},
        devices: 0,
        long: false,
        fails: false,
        missing: || None,
    }
}

impl Case {
    /// With files that are there before.
    pub(crate) const fn after(self, before: fn(&Path)) -> Case {
        Case { before, ..self }
    }

    /// With blank loop devices `d0`, `d1`, ….
    pub(crate) const fn with_devices(self, devices: usize) -> Case {
        Case { devices, ..self }
    }

    /// Seen in the same runs as these options. A row has a word for each, in this order.
    pub(crate) const fn and(self, more: &'static [&'static str]) -> Case {
        Case { more, ..self }
    }

    /// Only in `make test-long`.
    pub(crate) const fn long(self) -> Case {
        Case { long: true, ..self }
    }

    /// Even if a command fails: the kernel or the device may not support the option.
    pub(crate) const fn or_fails(self) -> Case {
        Case {
            fails: true,
            ..self
        }
    }

    /// Only where nothing is missing.
    pub(crate) const fn unless(self, missing: fn() -> Option<&'static str>) -> Case {
        Case { missing, ..self }
    }

    pub(crate) fn check(&self, language: &Language) -> Result<(), Failed> {
        let kinds = [Through::Calls, Through::Addresses, Through::Folders];
        let traced = kinds.contains(&self.look.through);
        let missing = (self.missing)().or_else(|| traced.then(strace::missing).flatten());
        if let Some(why) = missing {
            skip(format!("{}: {why}", self.option));
            return Ok(());
        }
        let mut wrong = String::new();
        for (row, expected) in self.rows {
            let seen = words(&self.seen(language, row));
            if seen != words(expected) {
                let _ = write!(
                    wrong,
                    "\n{} with `{row}` of `{}`\n  expected: {}\n  seen:     {seen}",
                    self.look.seen,
                    self.job,
                    words(expected)
                );
            }
        }
        match wrong.is_empty() {
            true => self.meaningful(),
            false => Err(wrong.into()),
        }
    }

    /// A case has a row without its option, and another row with a different observation.
    fn meaningful(&self) -> Result<(), Failed> {
        for (place, option) in self.options().enumerate() {
            // `keep` of `cycle.keep`, `threads` of `--set threads`; `axis.bs` has `axis`.
            let last = option.rsplit(['.', ' ']).next();
            let with = |row: &str| {
                let words = row.split(|c: char| c.is_whitespace() || "{[,".contains(c));
                let mut names = words.filter_map(|word| word.split('=').next());
                names.any(|name| name.split('.').any(|part| Some(part) == last))
            };
            let own = |seen: &str| match self.more {
                [] => Some(words(seen)),
                _ => seen.split_whitespace().nth(place).map(str::to_owned),
            };
            let first = self.rows.first().and_then(|(_, seen)| own(seen));
            let differs = |(row, seen): &(&str, &str)| with(row) && own(seen) != first;
            if !self.rows.iter().any(differs) {
                let message =
                    format!("no row has `{option}` and shows something else than the first");
                return Err(message.into());
            }
        }
        Ok(())
    }

    fn options(&self) -> impl Iterator<Item = &'static str> {
        iter::once(self.option).chain(self.more.iter().copied())
    }

    fn seen(&self, language: &Language, row: &str) -> String {
        let home = Home::new();
        (self.before)(&home.work());
        let attach = |number| attach(&home.work(), number);
        let _devices: Vec<Loop> = (0..self.devices).map(attach).collect();
        // The last command has the common part of all rows.
        let mut commands: Vec<&str> = row.split(';').collect();
        let last = format!("{}\n{}", self.job, commands.pop().unwrap_or_default());
        for command in commands.into_iter().map(str::trim) {
            if let Some((from, to)) = command
                .strip_prefix("cp ")
                .and_then(|it| it.split_once(' '))
            {
                std::fs::copy(home.work().join(from), home.work().join(to)).unwrap();
                continue;
            }
            let arguments =
                (language.arguments)(&home.work(), &Look::output("", |_| String::new()), command);
            home.iodyno(&arguments);
        }
        let arguments = (language.arguments)(&home.work(), &self.look, &last);
        let run = Run::of(home, self.look.through, &arguments);
        let ends = !matches!(
            self.look.through,
            Through::Output | Through::During(_) | Through::Starting(_) | Through::Apart(_)
        );
        let must_succeed = ends && !self.fails;
        match must_succeed && run.done.code != 0 {
            true => run.fault(),
            false => (self.look.of)(&run),
        }
    }
}

impl Language {
    /// The cases with their names.
    pub(crate) fn cases(&'static self) -> impl Iterator<Item = (String, &'static Case)> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        self.topics.iter().copied().flatten().map(move |case| {
            let number = seen.entry(case.option).or_default();
            *number += 1;
            let name = match number {
                1 => case.option.to_owned(),
                number => format!("{}_{number}", case.option),
            };
            (name, case)
        })
    }

    /// Each supported option has a case, and each case an option.
    pub(crate) fn check(&'static self) -> Result<(), Failed> {
        let cases = self.topics.iter().copied().flatten();
        let seen: BTreeSet<&str> = cases.flat_map(Case::options).collect();
        let options = (self.options)();
        let options: BTreeSet<&str> = options.iter().map(String::as_str).collect();
        let without: Vec<_> = options.difference(&seen).collect();
        let unknown: Vec<_> = seen.difference(&options).collect();
        match without.is_empty() && unknown.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "{} supported options without a case: {without:?}\ncases of no supported option: {unknown:?}",
                without.len()
            )
            .into()),
        }
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
