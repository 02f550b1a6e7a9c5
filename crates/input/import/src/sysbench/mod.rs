//! sysbench 1.0's fileio output, and iodyno's output in the same form: complete, or from `File operations:` on, as it
//! is often pasted.

mod apart;
mod facts;
mod figures;
mod fsyncs;
mod preamble;
mod result;

use iodyno_model::Contradiction;

use super::extract::Extract;
use super::fsbench::configuration;
use super::lines::Lines;

pub(super) use self::facts::is_mode;
pub(super) use self::preamble::{PrepareOptions, is_run_command, prepare_options};

use self::apart::Apart;
use self::preamble::Preamble;
use self::result::Result;

/// The name of the form in results.
pub(super) const FORM: &str = "sysbench fileio";
/// The largest number of lines between the beginning of a result and its figures if nothing marks the beginning,
/// without progress lines.
const FARTHEST: u32 = 60;

/// All results of this form.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (number, text) in lines.iter() {
        if text.trim() != "File operations:" || number < free_from {
            continue;
        }
        let start = begin(lines, free_from, number);
        let (result, end) = Result::read(lines, number);
        free_from = end;
        if result.values() == 0 {
            let why = "`File operations:` without a figure of sysbench's below it";
            found.push(Extract::unread(number..end, why));
            continue;
        }
        let mut preamble = Preamble::read(lines.range(start..number));
        let (apart, end) = match Apart::read(lines, end) {
            Some((apart, end)) => (Some(apart), end),
            None => (None, end),
        };
        free_from = end;
        preamble.ours |= apart.is_some();
        let mut trial = lines.trial(FORM, start);
        trial.configuration = configuration(&lines.context(start));
        figures::fill(&mut trial, &preamble, &result);
        if let Some(apart) = apart {
            apart.fill(&mut trial);
        }
        if let Some(shown) = facts::other_threads(&preamble, &result) {
            found.push(Extract::contradiction(Contradiction {
                at: lines.at(start),
                statement: format!("{} threads", preamble.threads.unwrap_or_default()),
                against: lines.at(number),
                shown,
            }));
        }
        found.push(Extract::trial(start..end, trial));
    }
    found
}

/// The first line of the output that contains the figures at a line.
fn begin(lines: &Lines<'_>, free_from: u32, figures: u32) -> u32 {
    let mut start = figures;
    let mut steps = 0;
    for number in (free_from..figures).rev() {
        let text = lines.get(number).trim();
        if preamble::begins(text) {
            return command_above(lines, free_from, number);
        }
        if preamble::belongs(text) {
            start = number;
        } else if !preamble::may_stand_between(text) {
            break;
        }
        if !preamble::is_progress(text) {
            steps += 1;
        }
        if steps > FARTHEST {
            break;
        }
    }
    start
}

/// The command line directly above the output, if there is one.
fn command_above(lines: &Lines<'_>, free_from: u32, number: u32) -> u32 {
    let above = (free_from..number).rev().take(3);
    let mut others = above.filter(|&line| !preamble::may_stand_between(lines.get(line).trim()));
    others
        .next()
        .filter(|&line| preamble::is_run_command(lines.get(line)))
        .unwrap_or(number)
}

#[cfg(test)]
mod tests;
