//! Number of rounds, stop rules and the question of a run.

use std::collections::BTreeSet;

use iodyno_judge::TooFewRounds;
use iodyno_model::{
    Configuration, Diagnostic, Direction, Metric, Observation, Order, Place, Plan, Question,
    Settling, Stopping, Work, Workload,
};
use iodyno_units::{Nanos, counted};

use crate::args::ExperimentArgs;
use crate::capacity::too_large;
use crate::duration::{longest, of_round};
use crate::targets::{FoundPaths, path_of};

/// Maximum number of rounds with `--stop-width` and without `--rounds`.
const ROUNDS_TO_STOP_IN: u32 = 100;

/// The longest wait for idle devices before a trial.
const IDLE: Nanos = Nanos::from_secs(10);

/// A setting in messages: a flag, or a key of an experiment with its place.
struct Setting {
    name: String,
    place: Option<Place>,
}

impl Setting {
    fn of(args: &ExperimentArgs, flag: &str, key: &str) -> Setting {
        let place = args.places.get(key).cloned();
        let own = key.split('.').next().unwrap_or(key);
        let name = if place.is_some() { own } else { flag };
        Setting {
            name: name.to_owned(),
            place,
        }
    }

    fn error(&self, message: String) -> Diagnostic {
        Diagnostic {
            place: self.place.clone(),
            ..Diagnostic::error(message)
        }
    }
}

/// Fixes the primary metric of each workload, so that it does not depend on what its trials measure.
pub(crate) fn with_metrics(mut plan: Plan) -> Plan {
    for workload in &mut plan.workloads {
        workload.metric = iodyno_judge::planned_metric(workload);
    }
    plan
}

/// Applies the flags to a plan. Fails with every error found.
pub(crate) fn with_rounds(plan: Plan, args: &ExperimentArgs) -> Result<Plan, Vec<Diagnostic>> {
    let plan = with_metrics(plan);
    let (columns, rows) = (&plan.question.columns, &plan.question.rows);
    let usual = Question::default();
    // An experiment may name its comparison.
    let named = (columns, rows) != (&usual.columns, &usual.rows);
    let unlike = !named && unlike(&plan, args);
    let (columns, rows) = match (plan.configurations.len(), plan.workloads.len()) {
        _ if named => (columns.clone(), rows.clone()),
        (1, 2..) if !unlike => (
            Observation::WORKLOAD.to_owned(),
            vec![Observation::CONFIGURATION.to_owned()],
        ),
        _ => (usual.columns, usual.rows),
    };
    let sides = sides(&plan, &columns);
    let metric = Setting::of(args, "--metric", "metric");
    let metrics = args.metric.iter();
    let faults: Vec<Diagnostic> = metrics
        .filter_map(|name| unknown_metric(&metric, name, &plan))
        .chain(unknown_baseline(&sides, &columns, args))
        .chain(nothing_to_compare(&plan, args))
        .chain(not_repeatable(&columns, args))
        .collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let is_axis = ![Observation::CONFIGURATION, Observation::WORKLOAD].contains(&columns.as_str());
    let first = sides.first().filter(|_| is_axis).cloned();
    let question = Question {
        baseline: args.baseline.clone().or(first),
        words: plan.question.words.clone(),
        defines: plan.question.defines,
        columns,
        rows,
        metrics: args.metric.clone(),
        margin: args.margin.map_or(Question::MARGIN, |margin| margin.share),
        only: plan.question.only.clone(),
        metric_where: plan.question.metric_where.clone(),
        ..Question::default()
    };
    let mut plan = Plan { question, ..plan };
    if args.aa {
        plan = iodyno_lab::with_again(plan);
    }
    let default = match plan.cells() {
        1 => 1,
        // The configurations cannot be compared with each other.
        _ if unlike && !args.aa => 1,
        _ => iodyno_judge::default_rounds(iodyno_judge::primaries(&plan), alpha(&plan)),
    };
    // A single workload may have its own number.
    let own = plan.workloads.iter().filter_map(|it| it.rounds).max();
    plan.rounds = match (args.rounds, args.stop_width) {
        (Some(rounds), _) => rounds,
        (None, Some(_)) => ROUNDS_TO_STOP_IN,
        (None, None) if plan.cells() == 1 => own.unwrap_or(default),
        (None, None) => default,
    };
    plan.stopping = Stopping {
        least_rounds: default.min(plan.rounds),
        width: args.stop_width.map(|width| width.share),
        max_time_ns: args.max_time.map(|time| time.0),
    };
    let mut plan = iodyno_lab::with_searches(plan);
    if !args.no_settle && (plan.cells() > 1 || plan.rounds > 1) {
        plan.settling = Settling {
            drop_caches: true,
            idle_ns: IDLE.0,
        };
    }
    Ok(plan)
}

/// Whether one target's workloads are a suite: they are members of families, do different kinds of work or have
/// different metrics, so they are not compared with each other. Flags that need a comparison request one.
fn unlike(plan: &Plan, args: &ExperimentArgs) -> bool {
    let metrics = || {
        plan.workloads.iter().map(|workload| {
            let planned = workload.metric.as_ref().map(|metric| metric.name.as_str());
            primary(plan, workload).or(planned)
        })
    };
    let requested = !args.metric.is_empty()
        || args.baseline.is_some()
        || !args.fail_on.is_empty()
        || args.bisect
        || args.stop_width.is_some();
    // The trials of a search are not compared.
    let compared = || plan.workloads.iter().filter(|it| it.search.is_none());
    let kinds = || compared().map(kinds_of_work);
    plan.configurations.len() == 1
        && !requested
        && (compared().any(|it| it.family.is_some())
            || kinds().zip(kinds().skip(1)).any(|(a, b)| a != b)
            || metrics().zip(metrics().skip(1)).any(|(a, b)| a != b))
}

/// The kinds of work of a workload's jobs: reads, writes, trims and their order, or the kinds of their ops.
fn kinds_of_work(workload: &Workload) -> BTreeSet<(Vec<bool>, Vec<Direction>)> {
    let kind = |work: &Work| match work {
        Work::Blocks(blocks) => {
            let access = &blocks.access;
            let random = access.order != Order::Sequential;
            let flags = vec![access.reads, access.writes, access.trims, random];
            (flags, Vec::new())
        }
        Work::FileOperations(_) | Work::SharedFiles(_) => (Vec::new(), work.directions()),
    };
    workload.jobs.iter().map(|job| kind(&job.work)).collect()
}

/// The metric that decides for a workload, by its `primary`.
pub(crate) fn primary<'p>(plan: &'p Plan, workload: &Workload) -> Option<&'p str> {
    let mut conditions = plan.question.metric_where.iter();
    let own = conditions.find(|(dimension, value, _)| {
        dimension == Observation::WORKLOAD && *value == workload.name
    });
    own.map(|(_, _, metric)| metric.as_str())
}

/// The number of rounds whose trials are compared: a search has its own, larger number.
pub(crate) fn compared_rounds(plan: &Plan) -> u32 {
    let others = plan.workloads.iter().filter(|it| it.search.is_none());
    let rounds = others.map(|it| it.rounds.unwrap_or(plan.rounds).min(plan.rounds));
    rounds.min().unwrap_or(plan.rounds)
}

/// The part of α that the next verdict of a run may spend.
pub(crate) fn alpha(plan: &Plan) -> f64 {
    iodyno_judge::question_of(plan).alpha_at_look()
}

/// Warnings about the sides of a plan's comparison, and about too few rounds for a decision.
pub(crate) fn doubts(plan: &Plan, found: &FoundPaths, args: &ExperimentArgs) -> Vec<Diagnostic> {
    let mut doubts = same_targets(plan, found);
    doubts.extend(too_large(
        &plan.nodes,
        &plan.configurations,
        &plan.workloads,
        &args.places,
    ));
    doubts.extend(undecided(plan, args));
    doubts.extend(without_effect(plan, args));
    doubts
}

/// Warnings for keys of an experiment that have no effect in this plan.
fn without_effect(plan: &Plan, args: &ExperimentArgs) -> Vec<Diagnostic> {
    let warning = |key: &str, message: String, hint: &str| Diagnostic {
        place: args.places.get(key).cloned(),
        ..Diagnostic::warning(message).hint(hint)
    };
    let mut found = Vec::new();
    let others = plan.workloads.iter().filter(|it| it.search.is_none());
    let cells = (plan.each_cell()).filter(|(_, workload)| workload.search.is_none());
    if cells.count() < 2 {
        if plan.table.is_some() {
            let message = "the table is not printed: there is nothing to compare".to_owned();
            let hint = "add a second configuration or a second workload";
            found.push(warning("table", message, hint));
        }
        for workload in others.filter(|it| it.stopping.width.is_some()) {
            let name = &workload.name;
            let message = format!("`stop` of `{name}` has no effect: there is nothing to compare");
            let hint = "add a second configuration or a second workload";
            found.push(warning(&format!("workload.{name}"), message, hint));
        }
    }
    for node in plan.nodes.iter().filter(|node| !node.only_sampled) {
        let has = |nodes: &[String]| nodes.is_empty() || nodes.contains(&node.name);
        let mut cells = plan.each_cell();
        if !cells.any(|(configuration, workload)| has(&configuration.nodes) && has(&workload.nodes))
        {
            let message = format!("the node `{}` runs no trial", node.name);
            let hint = "name it in `nodes`, remove it, or set `jobs = false` to sample it";
            found.push(warning("node", message, hint));
        }
    }
    let made = |it: &Configuration| it.provision().is_some();
    if !plan.configurations.iter().any(made) && args.places.contains_key("fresh") {
        let message = "`fresh` has no effect: no storage is made".to_owned();
        found.push(warning("fresh", message, "leave it out"));
    }
    found
}

/// Warnings for configurations with the same target: differences between them are noise.
fn same_targets(plan: &Plan, found: &FoundPaths) -> Vec<Diagnostic> {
    let place = |one: &Configuration| found.resolved(path_of(one)?);
    let own: Vec<&Configuration> = plan.configurations.iter().filter(|c| !c.again).collect();
    let pairs = own
        .iter()
        .enumerate()
        .flat_map(|(index, one)| own[index + 1..].iter().map(move |other| (one, other)));
    let same = pairs.filter(|(one, other)| place(one).is_some_and(|at| place(other) == Some(at)));
    same.map(|(one, other)| {
        let (one, other) = (&one.name, &other.name);
        Diagnostic::warning(format!("`{one}` and `{other}` are the same target"))
            .hint("to measure the noise floor, use one of them with `--aa`")
    })
    .collect()
}

/// Warnings if the number of rounds, or the time for them, cannot lead to a decision.
fn undecided(plan: &Plan, args: &ExperimentArgs) -> Vec<Diagnostic> {
    if iodyno_judge::primaries(plan) == 0 {
        return Vec::new();
    }
    if let Some(why) = too_few(plan, compared_rounds(plan)) {
        let warning = Diagnostic::warning(why.to_string());
        return vec![Diagnostic {
            place: args.places.get("rounds").cloned(),
            ..warning.hint(format!("use `--rounds {}` or more", why.least))
        }];
    }
    let (round_ns, _) = of_round(plan);
    let round = format!("a round takes at least {}", Nanos(round_ns));
    let own = plan.workloads.iter().filter(|it| it.search.is_none());
    let own = own.filter_map(|workload| {
        let cells = plan.each_cell().filter(|(_, it)| it.name == workload.name);
        let round_ns = longest(workload)?.0.saturating_mul(cells.count() as u64);
        let name = &workload.name;
        let round = format!("a round of `{name}` takes at least {}", Nanos(round_ns));
        let setting = Setting {
            name: "max_time".to_owned(),
            place: args.places.get(&format!("workload.{name}")).cloned(),
        };
        too_short(
            plan,
            &round,
            round_ns,
            workload.stopping.max_time_ns,
            &setting,
        )
    });
    let limit = plan.stopping.max_time_ns;
    too_short(
        plan,
        &round,
        round_ns,
        limit,
        &Setting::of(args, "--max-time", "max_time"),
    )
    .into_iter()
    .chain(own)
    .collect()
}

/// Why this number of rounds cannot decide.
fn too_few(plan: &Plan, rounds: u32) -> Option<TooFewRounds> {
    let primaries = iodyno_judge::primaries(plan);
    iodyno_judge::can_decide(rounds, primaries, alpha(plan)).err()
}

/// The warning for a time limit that allows too few rounds for a decision. `round`: how long a round takes, in words.
fn too_short(
    plan: &Plan,
    round: &str,
    round_ns: u64,
    max_time_ns: Option<u64>,
    setting: &Setting,
) -> Option<Diagnostic> {
    let fit = max_time_ns?.checked_div(round_ns)?.max(1);
    let fit = u32::try_from(fit).unwrap_or(u32::MAX);
    let why = too_few(plan, fit)?;
    let name = &setting.name;
    let needed = round_ns.saturating_mul(u64::from(why.least));
    let seconds = needed.div_ceil(Nanos::SECOND.0);
    let hint = match name.starts_with("--") {
        true => format!("use `{name} {seconds}s` or more, or shorter jobs"),
        false => format!("use `{name} = \"{seconds}s\"` or more, or shorter jobs"),
    };
    let rounds = counted(fit.into(), "round");
    let message = format!("{round}, so `{name}` allows {rounds}: {why}");
    Some(Diagnostic {
        place: setting.place.clone(),
        ..Diagnostic::warning(message).hint(hint)
    })
}

/// The warning if the time limit allows too few rounds, as long as the first one is estimated by a probe.
pub(crate) fn too_short_by_probe(plan: &Plan, round_ns: u64) -> Option<Diagnostic> {
    let round = format!("a round takes about {}", Nanos(round_ns));
    let setting = Setting {
        name: "max_time".to_owned(),
        place: None,
    };
    too_short(plan, &round, round_ns, plan.stopping.max_time_ns, &setting)
}

fn not_a_metric(setting: &Setting, name: &str) -> Diagnostic {
    let place = &setting.name;
    setting
        .error(format!("unknown metric in `{place} {name}`"))
        .hint(format!("the metrics are: {}", Metric::NAMES))
}

/// The error for an unknown metric, reported before the run.
fn unknown_metric(setting: &Setting, name: &str, plan: &Plan) -> Option<Diagnostic> {
    if name == Metric::EVERY {
        return None;
    }
    let mut printed = plan.workloads.iter().flat_map(Workload::output_metrics);
    if printed.any(|metric| metric.name == name) {
        return None;
    }
    if !Metric::is_own(name) {
        return Some(not_a_metric(setting, name));
    }
    let (op, _) = name.split_once('.')?;
    (!is_issued(name, &plan.workloads)).then(|| {
        let place = &setting.name;
        setting
            .error(format!("`{place} {name}`: no job issues `{op}`"))
            .hint("use a metric of an op that the jobs issue")
    })
}

/// Whether a job can issue the op of a metric, if it is about one. Syncs are caused by several options, so they are not
/// checked here; the comparison reports missing ones.
pub(crate) fn is_issued(metric: &str, workloads: &[Workload]) -> bool {
    metric.split_once('.').is_none_or(|(op, _)| {
        op == Direction::Sync.name() || workloads.iter().any(|it| it.issues(op))
    })
}

/// Errors for flags of a comparison if there is only one cell, or none whose trials are compared.
fn nothing_to_compare(plan: &Plan, args: &ExperimentArgs) -> Vec<Diagnostic> {
    let searched = plan.workloads.iter().all(|it| it.search.is_some());
    if plan.cells() > 1 && !searched {
        return Vec::new();
    }
    let requested = [
        ("--fail-on", "", !args.fail_on.is_empty()),
        ("--bisect", "", args.bisect),
        ("--stop-width", "stop", args.stop_width.is_some()),
        ("--baseline", "baseline", args.baseline.is_some()),
        ("--margin", "margin", searched && args.margin.is_some()),
        ("--metric", "metric", searched && !args.metric.is_empty()),
        ("--aa", "aa", searched && args.aa),
    ];
    let requested = requested.into_iter().filter(|(_, _, requested)| *requested);
    requested
        .map(|(flag, key, _)| {
            let setting = Setting::of(args, flag, key);
            let hint = match setting.place {
                _ if searched => "leave it out: the trials of searches are not compared",
                None => "add a second target with `--on`, or a second workload",
                Some(_) => "add a second configuration or a second workload",
            };
            let message = format!("`{}` requires something to compare", setting.name);
            setting.error(message).hint(hint)
        })
        .collect()
}

/// The values of a dimension of a plan, in their order.
pub(crate) fn sides(plan: &Plan, dimension: &str) -> Vec<String> {
    // The trials of a search are not compared.
    let workloads = || plan.workloads.iter().filter(|it| it.search.is_none());
    let axes = || {
        let configurations = plan.configurations.iter().map(|it| &it.dimensions);
        configurations.chain(workloads().map(|it| &it.dimensions))
    };
    let mut found: Vec<String> = match dimension {
        Observation::WORKLOAD => workloads().map(|it| it.name.clone()).collect(),
        Observation::CONFIGURATION => {
            let configurations = plan.configurations.iter();
            configurations.map(|it| it.name.clone()).collect()
        }
        axis => axes().filter_map(|axes| axes.get(axis).cloned()).collect(),
    };
    let mut seen = std::collections::HashSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found
}

/// The error for `--aa` if an axis is compared: only a configuration or a workload can be repeated.
fn not_repeatable(columns: &str, args: &ExperimentArgs) -> Option<Diagnostic> {
    let named = [Observation::CONFIGURATION, Observation::WORKLOAD].contains(&columns);
    (args.aa && !named).then(|| {
        let message = format!("the baseline of the axis `{columns}` cannot be run twice");
        let setting = Setting::of(args, "--aa", "aa");
        let hint = format!(
            "remove `{}`, or compare configurations or workloads",
            setting.name
        );
        setting.error(message).hint(hint)
    })
}

/// The error for a baseline that does not exist.
fn unknown_baseline(sides: &[String], columns: &str, args: &ExperimentArgs) -> Option<Diagnostic> {
    let name = args.baseline.as_ref()?;
    (!sides.contains(name)).then(|| {
        let setting = Setting::of(args, "--baseline", "baseline");
        let kind = match columns {
            Observation::CONFIGURATION | Observation::WORKLOAD => format!("a {columns}"),
            axis => format!("a value of `{axis}`"),
        };
        let message = format!("`{} {name}` is not {kind} of this run", setting.name);
        setting.error(message).hint(match sides.is_empty() {
            true => "leave it out: searches are not compared".to_owned(),
            false => format!("choose one of: {}", sides.join(", ")),
        })
    })
}
