//! A plan as text, for `--dry-run`.

use std::collections::BTreeMap;
use std::path::Path;

use iodyno_model::printable::on_one_line;
use iodyno_model::{
    Admission, Configuration, Forecast, Observation, Plan, Target, TargetUse, Workload,
};
use iodyno_units::{Nanos, counted, percent};

use crate::json::Schedule;
use crate::style::line;
use crate::{Style, schedule};
use iodyno_model::ordered::entry;

/// The workloads of the most frequent metric are named if they are not more.
const NAMED: usize = 3;

/// Targets with this admission that are listed; further ones are counted.
const LISTED: usize = 8;

/// A plan, and related data.
#[derive(Debug)]
pub struct PlanView<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What a run would do with the targets; `None` if that is unknown.
    pub forecast: Option<&'a Forecast>,
    /// The schedule, if it is printed.
    pub schedule: Option<&'a Schedule>,
    /// The compared sides.
    pub sides: Vec<String>,
    /// The workloads that are compared, each with the metric that decides.
    pub metrics: Vec<(&'a str, String)>,
    /// The targets whose content may be overwritten.
    pub destroyed: Vec<&'a Path>,
    /// The effective options of all jobs of each workload.
    pub options: Vec<Vec<BTreeMap<String, String>>>,
}

/// Configurations, workloads and jobs with all effective options, and what a run would do with the targets.
pub fn text(view: &PlanView<'_>, style: Style) -> String {
    let (plan, schedule) = (view.plan, view.schedule);
    let mut text = line(
        "plan",
        &format!("{}: {}, seed {}", plan.name, trials(plan), plan.seed),
        style,
    );
    if let Some(about) = &plan.about {
        text += &line("about", about, style);
    }
    text += &question(view, style);
    text += &line("metric", &metric(view), style);
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
    let made = |it: &&Configuration| schedule.is_some() && !it.again && it.provision().is_some();
    for configuration in plan.configurations.iter().filter(|it| !made(it)) {
        text += &line("on", &target(configuration), style);
    }
    for device in &view.destroyed {
        let said = format!("the contents of {}", device.display());
        text += &line("destroys", &said, style);
    }
    if let Some(forecast) = view.forecast {
        text += &targets(forecast, style);
        for (path, ns) in &forecast.traces {
            let said = format!("{}: {}", path.display(), Nanos(*ns));
            text += &line("trace", &said, style);
        }
    }
    text += &schedule.map_or(String::new(), |it| schedule::summary(plan, it, style));
    for (workload, options) in plan.workloads.iter().zip(&view.options) {
        text += &self::workload(workload, options, style);
    }
    text + &schedule.map_or(String::new(), |it| schedule::trials(plan, it, style))
}

/// The number of rounds and trials, and of searches, whose trials are not counted.
fn trials(plan: &Plan) -> String {
    let (mut rounds, mut cells, mut trials) = (0, 0, 0);
    let (mut searches, mut most) = (0, 0);
    for (_, workload) in plan.each_cell() {
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
fn metric(view: &PlanView<'_>) -> String {
    let exploratory = match view.plan.question.metrics.as_slice() {
        [] | [_] => String::new(),
        [_, others @ ..] => format!("; exploratory: {}", others.join(", ")),
    };
    deciding_metrics(view) + &exploratory
}

fn deciding_metrics(view: &PlanView<'_>) -> String {
    // Each metric with its workloads.
    let mut metrics: Vec<(&str, Vec<&str>)> = Vec::new();
    for (workload, metric) in &view.metrics {
        entry(&mut metrics, metric.as_str()).push(workload);
    }
    if let [(metric, _)] = metrics.as_slice() {
        return (*metric).to_owned();
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
fn question(view: &PlanView<'_>, style: Style) -> String {
    let (plan, question) = (view.plan, &view.plan.question);
    let names: Vec<&str> = view.sides.iter().map(String::as_str).collect();
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

/// The commands of a workload, in the order in which a trial runs them.
fn commands(workload: &Workload, style: Style) -> String {
    let commands = workload.jobs.iter().filter_map(|job| job.work.command());
    let lines = commands.flat_map(|command| {
        let timeout = command.timeout.map(|it| format!("at most {it}"));
        let run = [Some(command.run.clone()), timeout];
        [
            ("  prepare", command.prepare.clone()),
            (
                "  command",
                Some(run.into_iter().flatten().collect::<Vec<_>>().join("   ")),
            ),
            ("  cleanup", command.cleanup.clone()),
        ]
    });
    let given = lines.filter_map(|(label, text)| Some(line(label, &text?, style)));
    given.collect()
}

fn workload(workload: &Workload, options: &[BTreeMap<String, String>], style: Style) -> String {
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
        return line("workload", &workload.name, style) + &text + &commands(workload, style);
    }
    let jobs = counted(workload.jobs.len() as u64, "job");
    let mut text = line("workload", &format!("{}: {jobs}", workload.name), style);
    for (job, options) in workload.jobs.iter().zip(options) {
        let options: Vec<String> = options
            .iter()
            .map(|(name, value)| match value.is_empty() {
                true => name.clone(),
                false => format!("{name}={value}"),
            })
            .collect();
        text += &line(&format!("  {}", job.name), &options.join(" "), style);
    }
    text
}
