//! Number of rounds, stop rules and the question of a run.

use iodyno_model::{
    Configuration, Diagnostic, Direction, Metric, Observation, Place, Plan, Question, Settling,
    Stopping, Work, Workload,
};
use iodyno_units::{Nanos, counted};

use crate::args::ExperimentArgs;
use crate::capacity::too_large;
use crate::duration::longest;
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
    // An experiment may name what it compares.
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
    let primaries = plan.question.metric_where.iter();
    let set = |flag, key: &str| Setting::of(args, flag, key);
    let metrics = args.metric.iter();
    let metrics = metrics.map(|name| (set("--metric", "metric"), name));
    let primaries =
        primaries.map(|(_, workload, name)| (set("primary", &format!("primary.{workload}")), name));
    let faults: Vec<Diagnostic> = metrics
        .chain(primaries)
        .filter_map(|(setting, name)| unknown_metric(&setting, name, &plan))
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
        // There is nothing to decide.
        _ if unlike && !args.aa => 1,
        _ => iodyno_judge::default_rounds(iodyno_judge::primaries(&plan), alpha(&plan)),
    };
    plan.rounds = match (args.rounds, args.stop_width) {
        (Some(rounds), _) => rounds,
        (None, Some(_)) => ROUNDS_TO_STOP_IN,
        (None, None) => default,
    };
    plan.stopping = Stopping {
        least_rounds: default.min(plan.rounds),
        width: args.stop_width.map(|width| width.share),
        max_time_ns: args.max_time.map(|time| time.0),
    };
    if !args.no_settle && (plan.cells() > 1 || plan.rounds > 1) {
        plan.settling = Settling {
            drop_caches: true,
            idle_ns: IDLE.0,
        };
    }
    Ok(iodyno_lab::with_searches(plan))
}

/// Whether one target's workloads have different metrics, such as those of a suite of file operations, so that they are not
/// compared with each other. Flags that need a comparison ask for one.
fn unlike(plan: &Plan, args: &ExperimentArgs) -> bool {
    let metrics = || {
        plan.workloads.iter().map(|workload| {
            let planned = workload.metric.as_ref().map(|metric| metric.name.as_str());
            primary(plan, workload).or(planned)
        })
    };
    let asked = !args.metric.is_empty()
        || args.baseline.is_some()
        || args.fail_on.is_some()
        || args.stop_width.is_some();
    plan.configurations.len() == 1
        && !asked
        && metrics().zip(metrics().skip(1)).any(|(a, b)| a != b)
}

/// The metric that decides for a workload, by its `primary`.
pub(crate) fn primary<'p>(plan: &'p Plan, workload: &Workload) -> Option<&'p str> {
    let mut conditions = plan.question.metric_where.iter();
    let own = conditions.find(|(dimension, value, _)| {
        dimension == Observation::WORKLOAD && *value == workload.name
    });
    own.map(|(_, _, metric)| metric.as_str())
}

/// The number of rounds whose trials are compared: a search has more of its own.
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
    doubts
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

/// Warnings if the number of rounds cannot give a decision.
fn undecided(plan: &Plan, args: &ExperimentArgs) -> Vec<Diagnostic> {
    let primaries = iodyno_judge::primaries(plan);
    if primaries == 0 {
        return Vec::new();
    }
    let decides = |rounds| iodyno_judge::can_decide(rounds, primaries, alpha(plan));
    if let Err(why) = decides(compared_rounds(plan)) {
        let warning = Diagnostic::warning(why.to_string());
        return vec![Diagnostic {
            place: args.places.get("rounds").cloned(),
            ..warning.hint(format!("use `--rounds {}` or more", why.least))
        }];
    }
    let Some(max_time) = plan.stopping.max_time_ns else {
        return Vec::new();
    };
    let round = (0..plan.cells()).try_fold(0u64, |sum, cell| {
        Some(sum.saturating_add(longest(plan.cell(cell).1)?.0))
    });
    let Some(round) = round else {
        return Vec::new();
    };
    let fit = u32::try_from(max_time / round.max(1)).unwrap_or(u32::MAX);
    match decides(fit) {
        Ok(()) => Vec::new(),
        Err(why) => {
            let setting = Setting::of(args, "--max-time", "max_time");
            let needed = round.saturating_mul(u64::from(why.least));
            let seconds = needed.div_ceil(Nanos::SECOND.0);
            let warning = Diagnostic::warning(format!(
                "a round takes at least {}, so `{}` allows {}: {why}",
                Nanos(round),
                setting.name,
                counted(fit.into(), "round")
            ));
            let hint = format!("use `--max-time {seconds}s` or more, or shorter jobs");
            vec![Diagnostic {
                place: setting.place,
                ..warning.hint(hint)
            }]
        }
    }
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
    if !Metric::is_own(name) {
        return Some(not_a_metric(setting, name));
    }
    let (op, _) = name.split_once('.')?;
    let jobs = plan.workloads.iter().flat_map(|workload| &workload.jobs);
    let mut issued = jobs.flat_map(|job| match &job.work {
        Work::FileOperations(operations) => operations.directions(),
        work => work.moves(),
    });
    // Syncs are caused by several options, so they are not checked here; the comparison reports if there are none.
    let known = op == Direction::Sync.name() || issued.any(|direction| direction.name() == op);
    (!known).then(|| {
        let place = &setting.name;
        setting
            .error(format!("`{place} {name}`: no job issues a {op}"))
            .hint("use a metric of an op that the jobs issue")
    })
}

/// Errors for flags of a comparison if there is only one cell.
fn nothing_to_compare(plan: &Plan, args: &ExperimentArgs) -> Vec<Diagnostic> {
    if plan.cells() > 1 {
        return Vec::new();
    }
    let asked = [
        ("--fail-on", "", args.fail_on.is_some()),
        ("--stop-width", "stop", args.stop_width.is_some()),
        ("--baseline", "baseline", args.baseline.is_some()),
    ];
    let asked = asked.into_iter().filter(|(_, _, asked)| *asked);
    asked
        .map(|(flag, key, _)| {
            let setting = Setting::of(args, flag, key);
            let hint = match setting.place {
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
        let message = format!("`{} {name}` is not a {columns} of this run", setting.name);
        setting.error(message).hint(match sides.is_empty() {
            true => "leave it out: searches are not compared".to_owned(),
            false => format!("choose one of: {}", sides.join(", ")),
        })
    })
}
