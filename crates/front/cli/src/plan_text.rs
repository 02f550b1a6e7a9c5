//! A plan as text, for `--dry-run`.

use std::path::{Path, PathBuf};

use iodyno_fio::resolved_options;
use iodyno_model::printable::on_one_line;
use iodyno_model::{
    Admission, Configuration, Forecast, Job, Observation, Plan, Target, TargetUse, Workload,
};
use iodyno_report::Style;
use iodyno_runner::placed_names;
use iodyno_units::{Nanos, counted, percent};

use crate::experiment::destroys;
use crate::rounds::{primary, sides};
use crate::targets::FoundPaths;

/// Width of the labels, columns.
const LABEL: usize = 11;

/// The workloads of the most frequent metric are named if they are not more.
const NAMED: usize = 3;

/// Targets with this admission that are listed; further ones are counted.
const LISTED: usize = 8;

/// Configurations, workloads and jobs with all effective options, and what a run would do with the targets. `found`:
/// what the targets are; `forecast`: `None` if that is unknown; `summary`: lines before the workloads.
pub(crate) fn plan_text(
    plan: &Plan,
    found: &FoundPaths,
    forecast: Option<&Forecast>,
    summary: &str,
    style: Style,
) -> String {
    let mut text = line(
        "plan",
        &format!("{}: {}, seed {}", plan.name, trials(plan), plan.seed),
        style,
    );
    if let Some(about) = &plan.about {
        text += &line("about", about, style);
    }
    text += &question(plan, style);
    text += &line("metric", &metric(plan), style);
    for node in &plan.nodes {
        let root = if node.sudo { ", by sudo" } else { "" };
        let sampled = if node.only_sampled {
            ", only sampled"
        } else {
            ""
        };
        let said = format!("{}: {}{root}{sampled}", node.name, node.at);
        text += &line("node", &said, style);
    }
    // The summary has a line for storage that is made.
    let made = |it: &&Configuration| !summary.is_empty() && !it.again && it.provision().is_some();
    for configuration in plan.configurations.iter().filter(|it| !made(it)) {
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
    if let Some(forecast) = forecast {
        text += &targets(forecast, style);
        for (path, ns) in &forecast.traces {
            let said = format!("{}: {}", path.display(), Nanos(*ns));
            text += &line("trace", &said, style);
        }
    }
    text += summary;
    for workload in &plan.workloads {
        text += &self::workload(workload, &plan.configurations, found, style);
    }
    text
}

/// The number of rounds and trials, and of searches, whose trials are not counted.
fn trials(plan: &Plan) -> String {
    let (mut rounds, mut cells, mut trials) = (0, 0, 0);
    let (mut searches, mut most) = (0, 0);
    for cell in 0..plan.cells() {
        let (_, workload) = plan.cell(cell);
        let own = workload.rounds.unwrap_or(plan.rounds).min(plan.rounds);
        match workload.search {
            None => {
                (cells, trials) = (cells + 1, trials + u64::from(own));
                rounds = own.max(rounds);
            }
            Some(_) => (searches, most) = (searches + 1, own.max(most)),
        }
    }
    let compared = match rounds {
        0 => None,
        1 => Some(counted(trials, "trial")),
        _ => Some(format!(
            "{rounds} rounds of {}, {}",
            counted(cells, "cell"),
            counted(trials, "trial")
        )),
    };
    let searched = (searches > 0).then(|| {
        let (searches, most) = (counted(searches, "search"), counted(most.into(), "trial"));
        format!("{searches} of at most {most}")
    });
    let both: Vec<String> = compared.into_iter().chain(searched).collect();
    both.join(", and ")
}

/// The guard's answer for each target: first those that would be refused.
fn targets(forecast: &Forecast, style: Style) -> String {
    let (refused, granted): (Vec<_>, Vec<_>) =
        (forecast.targets.iter()).partition(|(_, admission)| admission.refusal().is_some());
    let mut text = String::new();
    for some in [refused, granted] {
        for (path, admission) in some.iter().take(LISTED) {
            let path = path.display();
            text += &line("target", &format!("{path}: {}", answer(admission)), style);
        }
        if let Some(more @ 1..) = some.len().checked_sub(LISTED) {
            let all = match some[0].1.refusal() {
                Some(_) => "would be refused",
                None => "ok",
            };
            text += &line("target", &format!("{more} more: {all}"), style);
        }
    }
    text
}

fn answer(admission: &Admission) -> String {
    match admission {
        Admission::Granted(TargetUse::Read) => "ok, read".to_owned(),
        Admission::Granted(TargetUse::Create) => "ok, created".to_owned(),
        Admission::Granted(TargetUse::CreateIn) => "ok, files are created in it".to_owned(),
        Admission::Granted(TargetUse::Overwrite) => "ok, overwritten".to_owned(),
        Admission::NeedsDestroy(_) => "needs --destroy".to_owned(),
        Admission::Refused(why) => {
            let reason = why.message.lines().next().unwrap_or_default();
            format!("would be refused: {reason}")
        }
    }
}

/// The metric that decides the comparison.
fn metric(plan: &Plan) -> String {
    let exploratory = match plan.question.metrics.as_slice() {
        [] | [_] => String::new(),
        [_, others @ ..] => format!("; exploratory: {}", others.join(", ")),
    };
    deciding_metrics(plan) + &exploratory
}

fn deciding_metrics(plan: &Plan) -> String {
    let of_all = plan.question.metrics.first();
    let has_own = !plan.question.metric_where.is_empty();
    if let (Some(decides), false) = (of_all, has_own) {
        return decides.clone();
    }
    // Each metric with its workloads.
    let mut metrics: Vec<(String, Vec<&str>)> = Vec::new();
    for workload in plan.workloads.iter().filter(|workload| !workload.again) {
        let metric = match (primary(plan, workload), of_all) {
            (Some(own), _) => own.to_owned(),
            (_, Some(of_all)) => of_all.clone(),
            _ => iodyno_judge::expected_metrics(workload).join(" or "),
        };
        match metrics.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, names)) => names.push(&workload.name),
            None => metrics.push((metric, vec![&workload.name])),
        }
    }
    if let [(metric, _)] = metrics.as_slice() {
        return metric.clone();
    }
    let most = metrics.iter().map(|(_, names)| names.len()).max();
    let most = most.filter(|most| *most > NAMED);
    // The metric of most workloads is the last one.
    metrics.sort_by_key(|(_, names)| Some(names.len()) == most);
    let last = metrics.len().saturating_sub(1);
    let each = metrics.iter().enumerate();
    let each = each.map(|(place, (metric, names))| match (place == last, most) {
        (true, Some(_)) => format!("{metric} of the others"),
        _ => format!("{metric} of {}", names.join(", ")),
    });
    each.collect::<Vec<String>>().join("; ")
}

/// The compared sides, and the conditions for an early end of the run.
fn question(plan: &Plan, style: Style) -> String {
    let question = &plan.question;
    let names = sides(plan, &question.columns);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut text = String::new();
    if names.len() > 1 {
        let baseline = question.baseline.as_deref().unwrap_or(names[0]);
        let others: Vec<&str> = names.iter().copied().filter(|n| *n != baseline).collect();
        let margin = percent(question.margin);
        let what = match question.columns.as_str() {
            Observation::WORKLOAD | Observation::CONFIGURATION => String::new(),
            axis => format!("{axis} "),
        };
        let compared = format!(
            "{what}{} with {baseline}, margin {margin}",
            others.join(", ")
        );
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
        Target::Made(provision) => format!("{}: {}", configuration.name, provision.words()),
        Target::Simulated(simulated) => format!("{}: {simulated}", configuration.name),
    }
}

fn workload(
    workload: &Workload,
    configurations: &[Configuration],
    found: &FoundPaths,
    style: Style,
) -> String {
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
        for (name, value) in paths(job, configurations, found) {
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
fn paths(
    job: &Job,
    configurations: &[Configuration],
    found: &FoundPaths,
) -> Vec<(&'static str, String)> {
    let Some(blocks) = job.work.blocks() else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    for (option, own) in [
        ("directory", &blocks.files.directories),
        ("filename", &blocks.files.names),
    ] {
        let placed = configurations.iter().filter_map(|configuration| {
            let folder = |path: &Path| found.may_be_folder(path);
            let names = placed_names(&configuration.target, &blocks.files, folder)?;
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
pub(crate) fn line(label: &str, text: &str, style: Style) -> String {
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
