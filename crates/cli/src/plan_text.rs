//! A plan as text, for `--dry-run`.

use std::path::PathBuf;

use iodyno_fio::resolved_options;
use iodyno_model::printable::on_one_line;
use iodyno_model::{Configuration, Job, Observation, Plan, Target, Workload};
use iodyno_report::Style;
use iodyno_runner::placed_names;
use iodyno_units::{Nanos, counted, percent};

use crate::experiment::destroys;

/// Width of the labels, columns.
const LABEL: usize = 11;

/// Configurations, workloads and jobs with all effective options.
pub(crate) fn plan_text(plan: &Plan, style: Style) -> String {
    let trials = counted(u64::from(plan.cells()) * u64::from(plan.rounds), "trial");
    let trials = match plan.rounds {
        1 => trials,
        rounds => format!(
            "{rounds} rounds of {}, {trials}",
            counted(plan.cells().into(), "cell")
        ),
    };
    let mut text = line(
        "plan",
        &format!("{}: {trials}, seed {}", plan.name, plan.seed),
        style,
    );
    text += &question(plan, style);
    for configuration in &plan.configurations {
        text += &line("on", &target(configuration), style);
    }
    let destroyed = plan.destroy.iter();
    for device in destroyed.filter(|device| destroys(plan, device)) {
        text += &line(
            "destroys",
            &format!("the contents of {}", device.display()),
            style,
        );
    }
    for workload in &plan.workloads {
        text += &self::workload(workload, &plan.configurations, style);
    }
    text
}

/// The compared sides, and the conditions for an early end of the run.
fn question(plan: &Plan, style: Style) -> String {
    let question = &plan.question;
    let names: Vec<&str> = match question.columns.as_str() {
        Observation::WORKLOAD => plan.workloads.iter().map(|w| w.name.as_str()).collect(),
        _ => {
            let configurations = plan.configurations.iter();
            configurations.map(|c| c.name.as_str()).collect()
        }
    };
    let mut text = String::new();
    if names.len() > 1 {
        let baseline = question.baseline.as_deref().unwrap_or(names[0]);
        let others: Vec<&str> = names.iter().copied().filter(|n| *n != baseline).collect();
        let margin = percent(question.margin);
        let compared = format!("{} with {baseline}, margin {margin}", others.join(", "));
        text += &line("compares", &compared, style);
    }
    let mut ends = Vec::new();
    if let Some(width) = plan.stopping.width {
        let least = plan.stopping.least_rounds;
        let width = percent(width);
        ends.push(format!(
            "when the intervals are at most {width} wide, after at least {}",
            counted(least.into(), "round")
        ));
    }
    if let Some(time) = plan.stopping.max_time_ns {
        ends.push(format!("before a round that would exceed {}", Nanos(time)));
    }
    if !ends.is_empty() {
        text += &line("ends", &ends.join("; or "), style);
    }
    text
}

fn target(configuration: &Configuration) -> String {
    match &configuration.target {
        Target::AsWritten { folder } => {
            format!("the jobs' own paths, relative to {}", folder.display())
        }
        Target::Path(path) => format!("{}: {}", configuration.name, path.display()),
    }
}

fn workload(workload: &Workload, configurations: &[Configuration], style: Style) -> String {
    // File operations and shared files have their own description.
    if workload
        .jobs
        .iter()
        .any(|job| job.work.file_operations().is_some())
    {
        let sources = workload.sources.iter().map(|source| source.text.trim_end());
        let text: String = sources
            .flat_map(str::lines)
            .map(|text| format!("  {}\n", on_one_line(text)))
            .collect();
        return line("workload", &workload.name, style) + &text;
    }
    let jobs = counted(workload.jobs.len() as u64, "job");
    let mut text = line("workload", &format!("{}: {jobs}", workload.name), style);
    for job in &workload.jobs {
        let mut options = resolved_options(job);
        for (name, value) in paths(job, configurations) {
            match value.is_empty() {
                true => options.remove(name),
                false => options.insert(name.to_owned(), value),
            };
        }
        let options: Vec<String> = options
            .into_iter()
            .map(|(name, value)| match value.is_empty() {
                true => name,
                false => format!("{name}={value}"),
            })
            .collect();
        text += &line(&format!("  {}", job.name), &options.join(" "), style);
    }
    text
}

/// The values of `directory` and `filename` that the targets change, with the configurations if these differ; an empty
/// value if none remains.
fn paths(job: &Job, configurations: &[Configuration]) -> Vec<(&'static str, String)> {
    let Some(blocks) = job.work.blocks() else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    for (option, own) in [
        ("directory", &blocks.files.directories),
        ("filename", &blocks.files.names),
    ] {
        let placed = configurations.iter().filter_map(|configuration| {
            let names = placed_names(&configuration.target, &blocks.files)?;
            let names = match option {
                "directory" => names.directories,
                _ => names.files,
            };
            (names != *own).then(|| (configuration.name.as_str(), joined(&names)))
        });
        let placed: Vec<(&str, String)> = placed.collect();
        let Some((_, first)) = placed.first() else {
            continue;
        };
        let value = match placed.iter().all(|(_, names)| names == first) {
            true => first.clone(),
            false => {
                let each = placed
                    .iter()
                    .map(|(name, names)| format!("{names} on {name}"));
                each.collect::<Vec<String>>().join(", ")
            }
        };
        changed.push((option, value));
    }
    changed
}

/// Paths as in a job file.
fn joined(paths: &[PathBuf]) -> String {
    let paths = paths
        .iter()
        .map(|path| path.to_string_lossy().replace(':', r"\:"));
    paths.collect::<Vec<String>>().join(":")
}

/// A label and a text, wrapped at the terminal's width.
fn line(label: &str, text: &str, style: Style) -> String {
    let room = style.width.max(40) - LABEL;
    let mut lines = vec![String::new()];
    for word in on_one_line(text).split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        match last.chars().count() + 1 + word.chars().count() > room && !last.is_empty() {
            true => lines.push(word.to_owned()),
            false if last.is_empty() => last.push_str(word),
            false => {
                last.push(' ');
                last.push_str(word);
            }
        }
    }
    let indent = " ".repeat(LABEL);
    let label = on_one_line(label);
    let label = match label.chars().count() >= LABEL {
        true => format!("{label}\n{indent}"),
        false => format!("{label:LABEL$}"),
    };
    label + &lines.join(&format!("\n{indent}")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_under_their_text() {
        let style = Style {
            width: 40,
            ..Style::default()
        };
        assert_eq!(
            line("on", "one two three four five six seven", style),
            "on         one two three four five six\n           seven\n"
        );
        assert_eq!(
            line("  a-long-name", "x", style),
            "  a-long-name\n           x\n"
        );
    }
}
