//! elbencho: a block of lines for each phase, with a column of figures for the first and one for the last worker.
//!
//! The column of the last worker is read: it is over all the work.

use iodyno_model::{ImportedTrial, Kind, Metric};

use super::{MIB, add};
use crate::extract::Extract;
use crate::lines::Lines;
use crate::number::{number, seconds};

const FORM: &str = "elbencho";

/// All results of this form.
pub(in super::super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (line, text) in lines.iter() {
        if line < free_from {
            continue;
        }
        if text.starts_with("ISO Date,Label,Phase,RuntimeMS") {
            let rows = lines.range(line + 1..lines.count() + 1);
            let end = rows.take_while(|(_, text)| text.contains(',')).last();
            free_from = end.map_or(line, |(line, _)| line) + 1;
            found.push(Extract::unread(
                line..free_from,
                "elbencho's live CSV has figures of single workers while they work; import what elbencho prints at the end",
            ));
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words[..]
            == [
                "OPERATION",
                "RESULT",
                "TYPE",
                "FIRST",
                "DONE",
                "LAST",
                "DONE",
            ]
        {
            free_from = blocks(lines, line, &mut found);
        }
    }
    found
}

/// Reads the blocks below a head; returns the line after the last one.
fn blocks(lines: &Lines<'_>, head: u32, found: &mut Vec<Extract>) -> u32 {
    found.push(Extract::known(head..head + 1));
    let mut end = head + 1;
    let mut open: Option<(u32, ImportedTrial)> = None;
    let close = |open: &mut Option<(u32, ImportedTrial)>, end: u32, found: &mut Vec<Extract>| {
        if let Some((start, trial)) = open.take() {
            found.push(match trial.figures.is_empty() {
                true => Extract::unread(start..end, "a phase of elbencho without a figure"),
                false => Extract::trial(start..end, trial),
            });
        }
    };
    for (line, text) in lines.range(head + 1..lines.count() + 1) {
        let trimmed = text.trim();
        let rule = !trimmed.is_empty() && trimmed.chars().all(|c| matches!(c, '-' | '=' | ' '));
        if rule {
            close(&mut open, end, found);
            found.push(Extract::known(line..line + 1));
            end = line + 1;
            continue;
        }
        let Some((label, values)) = setting_of(text) else {
            break;
        };
        if let Some(phase) = text.split(' ').next().filter(|phase| !phase.is_empty()) {
            close(&mut open, line, found);
            let mut trial = lines.trial(FORM, line);
            trial.workload = phase.to_lowercase();
            trial.kind = Kind::Finite;
            open = Some((line, trial));
        }
        let Some((_, trial)) = &mut open else { break };
        take(label, values, trial);
        end = line + 1;
    }
    close(&mut open, end, found);
    end
}

/// The kind of result and the values of a line: `WRITE       Elapsed time     :      6.123s      6.456s`.
fn setting_of(text: &str) -> Option<(&str, &str)> {
    let (label, values) = text.split_once(':')?;
    // The first 12 characters are the phase.
    let label = label.get(11..)?.trim();
    (!label.is_empty()).then_some((label, values.trim()))
}

/// Takes a line of a block. Totals and CPU are no rates and are left out.
fn take(label: &str, values: &str, trial: &mut ImportedTrial) {
    let last = values.split_whitespace().next_back().and_then(number);
    match label {
        "Throughput MiB/s" | "MiB/s total" => {
            let bytes = last.map(|mib| mib * MIB);
            add(trial, Metric::bandwidth(Metric::BANDWIDTH), bytes);
        }
        "Throughput MB/s" | "MB/s total" => {
            add(
                trial,
                Metric::bandwidth(Metric::BANDWIDTH),
                last.map(|mb| mb * 1e6),
            );
        }
        "MiB/s read" | "MiB/s write" => {
            let name = format!("{}.bandwidth", &label[6..]);
            add(trial, Metric::bandwidth(name), last.map(|mib| mib * MIB));
        }
        "IOPS" | "IOPS total" => add(trial, Metric::iops(Metric::IOPS), last),
        "IOPS read" | "IOPS write" => {
            add(trial, Metric::iops(format!("{}.iops", &label[5..])), last)
        }
        "Elapsed time" => {
            let span = values.split_whitespace().next_back().and_then(span_ns);
            add(trial, Metric::time(Metric::COMPLETION), span);
        }
        "IO latency" => latency(values, trial),
        "IO lat % us" => percentiles(values, trial),
        label => {
            if let Some(of) = label.strip_suffix("/s") {
                // `Files/s`, `Dirs/s`, `Objects/s`: the only rate of a phase that transfers nothing.
                add(trial, Metric::iops(of.to_lowercase()), last);
            }
        }
    }
    let rate = [Metric::BANDWIDTH, Metric::IOPS, "files", "dirs", "objects"];
    let has = |name: &&&str| {
        trial
            .figures
            .iter()
            .any(|figure| figure.metric.name == **name)
    };
    trial.primary = rate
        .iter()
        .find(has)
        .map(|name| (*name).to_owned())
        .or(trial.primary.take());
}

/// `6.456s`, `1m2.345s`, `2h3m4s`, `12ms`; ns.
fn span_ns(text: &str) -> Option<f64> {
    match text.strip_suffix("ms") {
        Some(ms) => Some(number(ms)? * 1e6),
        None => Some(seconds(text)? * 1e9),
    }
}

/// `[ min=12us avg=3.45ms max=1.2s ]`
fn latency(values: &str, trial: &mut ImportedTrial) {
    for word in values.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            continue;
        };
        let name = match name {
            "avg" => "op.mean",
            "min" => "op.min",
            "max" => "op.max",
            _ => continue,
        };
        let end = value
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(value.len());
        let scale = match &value[end..] {
            "us" | "" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => continue,
        };
        add(
            trial,
            Metric::time(name),
            number(&value[..end]).map(|value| value * scale),
        );
    }
}

/// `[ 1%<=8 50%<=16 75%<=32 99%<=64 ]`, µs: upper limits of the bins of a histogram.
fn percentiles(values: &str, trial: &mut ImportedTrial) {
    let mut any = false;
    for word in values.split_whitespace() {
        let pair = word
            .split_once("%<=")
            .and_then(|(percent, us)| Some((number(percent)?, number(us)?)));
        if let Some((percent, us)) = pair.filter(|(percent, _)| *percent >= 50.0) {
            add(
                trial,
                Metric::time(format!("op.p{percent}")),
                Some(us * 1e3),
            );
            any = true;
        }
    }
    if any {
        trial
            .remarks
            .push("percentiles are upper limits of the bins of elbencho's histogram".to_owned());
    }
}
