//! mdtest: rates of file operations over all iterations.

use iodyno_model::{FactClass, Metric};

use super::{add, fact, find};
use crate::extract::Extract;
use crate::lines::Lines;
use crate::number::number;

const FORM: &str = "mdtest";

/// All results of this form.
pub(in super::super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (head, text) in lines.iter() {
        let columns: Vec<&str> = text.split_whitespace().collect();
        let is_head = columns[..] == ["Operation", "Max", "Min", "Mean", "Std", "Dev"];
        let summary = lines
            .get(head.saturating_sub(1))
            .trim_start()
            .starts_with("SUMMARY rate");
        if head < free_from || !is_head || !summary {
            continue;
        }
        let start = (free_from..head)
            .rev()
            .find(|&above| lines.get(above).starts_with("mdtest-"))
            .unwrap_or(head - 1);
        let mut end = head + 1;
        for (line, text) in lines.range(head + 1..lines.count() + 1) {
            if text.trim().is_empty() {
                break;
            }
            end = line + 1;
            if text.trim_start().starts_with("---") {
                continue;
            }
            if text.starts_with("-- finished at") {
                break;
            }
            found.push(match row(text) {
                Some((_, 0.0, _)) => Extract::known(line..line + 1),
                Some(figures) => trial(lines, (start, head, line), figures),
                None => super::not_a_row(line, "the summary of mdtest above it"),
            });
        }
        free_from = end;
        found.push(Extract::known(start..end));
    }
    found
}

/// The operation, its mean rate and the deviation: `File creation   10713.762   5499.573   7320.098   2941.601`.
fn row(text: &str) -> Option<(&str, f64, f64)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name @ .., _, _, mean, deviation] = &words[..] else {
        return None;
    };
    let last = name.last()?;
    let end = text.find(last)? + last.len();
    let mut numbers = text[end..].split_whitespace().map(number);
    numbers.all(|value| value.is_some()).then_some(())?;
    Some((text[..end].trim(), number(mean)?, number(deviation)?))
}

fn trial(
    lines: &Lines<'_>,
    (start, head, line): (u32, u32, u32),
    (name, mean, deviation): (&str, f64, f64),
) -> Extract {
    let mut trial = lines.trial(FORM, line);
    trial.workload = name.to_lowercase();
    add(&mut trial, Metric::iops(Metric::IOPS), Some(mean));
    let iterations = lines
        .get(head - 1)
        .split_once("(of ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok())
        .filter(|iterations| *iterations > 1);
    if let Some(iterations) = iterations {
        trial.remarks.push(format!(
            "the mean of {iterations} iterations with a standard deviation of {:.0} %",
            deviation / mean * 100.0
        ));
    }
    if let Some((program, _)) = lines.get(start).split_once(" was launched with ") {
        let program = program.replace('-', " ");
        fact(&mut trial, FactClass::Program, "program", &program);
    }
    let is_size = |text: &str| text.contains(" tasks, ") || text.contains(" task, ");
    if let Some(at) = find(lines, start, head, is_size)
        && let Some((tasks, files)) = lines.get(at).trim().split_once(", ")
    {
        let tasks = tasks.split(' ').next().unwrap_or_default();
        fact(&mut trial, FactClass::Workload, "jobs", tasks);
        fact(&mut trial, FactClass::Workload, "files", files);
    }
    Extract::trial(line..line + 1, trial)
}
