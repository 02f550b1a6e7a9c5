//! Experiments in TOML: the plan of a file, and the flags of the command line that override it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use iodyno_experiment::{Context as Reading, Experiment, ReadyMade, is_experiment, read};
use iodyno_fio::{Host, SystemHost};
use iodyno_model::{
    Configuration, Diagnostic, FilePolicy, Layer, Observation, Place, Plan, PlannedNode, Provision,
    Question, Workload,
};

use crate::args::{ExperimentArgs, Percent, RunArgs};
use crate::configurations::{configurations, named_paths};
use crate::context::Context;
use crate::failure::Failure;
use crate::fit::{fitting, in_new_folders};
use crate::nodes::with_program;
use crate::observations::usable_name;
use crate::plan_flags::{destroyed, finished, working_folder};
use crate::rounds::is_issued;
use crate::selection::{select, sides};
use crate::targets::{FoundPaths, node_paths, path_of};

/// The text of the experiment among the files of a command; `None` without one.
///
/// # Errors
/// Other files are given with it.
pub(crate) fn experiment_text(files: &[PathBuf]) -> Result<Option<(&Path, String)>, Failure> {
    let mut texts = files
        .iter()
        .filter_map(|file| Some((file.as_path(), text_of(file)?)));
    let Some(found) = texts.next() else {
        return Ok(None);
    };
    if files.len() > 1 {
        let message = format!(
            "the experiment `{}` is not the only file",
            found.0.display()
        );
        let hint = "run it alone; name job files in its workloads: `fio = \"job.fio\"`";
        return Err(Failure::input(vec![Diagnostic::error(message).hint(hint)]));
    }
    Ok(Some(found))
}

/// The text of a ready-made experiment, or of a file that is an experiment. `None` also if it cannot be read: that is
/// reported with the workloads.
fn text_of(file: &Path) -> Option<String> {
    if let Some(found) = ready_made(file) {
        return Some(found.text.to_owned());
    }
    let toml = file.extension().is_some_and(|ending| ending == "toml");
    let text = toml.then(|| SystemHost.read(file).ok()).flatten()?;
    is_experiment(&text).then_some(text)
}

/// The ready-made experiment with this name. A file of this name takes precedence.
pub(crate) fn ready_made(file: &Path) -> Option<&'static ReadyMade> {
    ReadyMade::named(file.to_str()?).filter(|_| !file.exists())
}

/// The experiment in a file with these parameters, or its errors. `None`: it is not an experiment.
pub(crate) fn checked(
    file: &Path,
    settings: &[(String, String)],
) -> Option<Result<Experiment, Vec<Diagnostic>>> {
    let text = text_of(file)?;
    let reading = Reading {
        source: &file.display().to_string(),
        folder: &working_folder().unwrap_or_default(),
        settings,
        nodes: &[],
        host: &SystemHost,
    };
    Some(read(&text, &reading))
}

/// Whether a plan has all configurations and workloads of an experiment with these parameters.
pub(crate) fn has_all(file: &Path, settings: &[String], plan: &Plan) -> bool {
    let (settings, _) = parameters(settings);
    let Some(Ok(experiment)) = checked(file, &settings) else {
        return true;
    };
    let has = |own: &Configuration| plan.configurations.iter().any(|it| it.name == own.name);
    let targets = &experiment.configurations;
    // `--on` replaces all of them.
    let replaced = !targets.iter().any(has);
    let mut workloads = experiment.workloads.iter();
    (replaced || targets.iter().all(has))
        && workloads.all(|own| plan.workloads.iter().any(|it| it.name == own.name))
}

/// Connects to the nodes of an experiment. `nodes`: those of the flags. Returns the plan, and the flags with the file's
/// settings where a flag was not given. Prints warnings; fails with every error found.
pub(crate) fn plan(
    file: &Path,
    text: &str,
    args: &RunArgs,
    nodes: &[PlannedNode],
    context: &Context,
) -> Result<(Plan, FoundPaths, ExperimentArgs), Failure> {
    let folder = working_folder()?;
    let (mut settings, mut faults) = parameters(&args.settings);
    if ready_made(file).is_some_and(|it| it.fits) && nodes.is_empty() {
        fit(&mut settings, args, &folder, context)?;
    }
    let reading = Reading {
        source: &file.display().to_string(),
        folder: &folder,
        settings: &settings,
        nodes,
        host: &SystemHost,
    };
    let mut experiment = match read(text, &reading) {
        Ok(experiment) => experiment,
        Err(found) => {
            faults.extend(found);
            return Err(Failure::input(faults));
        }
    };
    iodyno_secrets::mask_values(std::mem::take(&mut experiment.secrets).into_iter());
    let binary = args.nodes.node_binary.as_deref();
    experiment.nodes = with_program(std::mem::take(&mut experiment.nodes), binary)?;
    context.connect(&experiment.nodes)?;
    if !args.server.is_empty() {
        let message = "`--server` is for job files: an experiment has its own targets";
        let hint = "set `target = \"virtiofs on FOLDER\"` and `virtiofs.server` in a configuration";
        faults.push(Diagnostic::error(message).hint(hint));
    }
    if !args.command.is_empty() {
        let message = "`--command` cannot be given with an experiment";
        let hint = "add a workload to it: `[workload.NAME]` with `command = \"…\"`";
        faults.push(Diagnostic::error(message).hint(hint));
    }
    let mut flags = with_settings(args.experiment.clone(), &mut experiment);
    let paths = with_targets(&mut experiment, &flags, &args.only, context, &mut faults)?;
    if !args.only.is_empty() {
        without_missing_sides(&mut experiment, &mut flags, &args.experiment);
    }
    faults.extend(experiment.warnings);
    let metric_where = experiment.primaries.into_iter().map(|(workload, metric)| {
        let dimension = Observation::WORKLOAD.to_owned();
        (dimension, workload, metric)
    });
    let plan = Plan {
        about: experiment.about,
        nodes: experiment.nodes,
        destroy: destroyed(args, &folder),
        fresh: experiment.fresh,
        retry: experiment.retry,
        probe: experiment.probe,
        table: experiment.table,
        question: Question {
            // A part does not answer it.
            words: experiment.question.filter(|_| args.only.is_empty()),
            metric_where: metric_where.collect(),
            ..Question::default()
        },
        ..Plan::new("", experiment.configurations, experiment.workloads)
    };
    let plan = match experiment.compare {
        Some(dimension) => comparing(plan, dimension),
        None => plan,
    };
    let plan = finished(plan, faults, &flags, context)?;
    Ok((plan, paths, flags))
}

/// The flags, with the settings of an experiment where a flag was not given, and the places of these settings.
fn with_settings(flags: ExperimentArgs, experiment: &mut Experiment) -> ExperimentArgs {
    let share = |share| Percent { share };
    let given = [
        ("rounds", flags.rounds.is_some()),
        ("stop", flags.stop_width.is_some()),
        ("max_time", flags.max_time.is_some()),
        ("baseline", flags.baseline.is_some()),
        ("metric", !flags.metric.is_empty()),
        ("aa", flags.aa),
    ];
    let mut places = std::mem::take(&mut experiment.places);
    for (key, _) in given.into_iter().filter(|(_, given)| *given) {
        places.remove(key);
    }
    let name = usable_name(experiment.name.clone());
    ExperimentArgs {
        rounds: flags.rounds.or(experiment.rounds),
        aa: flags.aa || experiment.aa,
        stop_width: flags.stop_width.or(experiment.stop.map(share)),
        max_time: flags.max_time.or(experiment.max_time),
        baseline: flags.baseline.or(experiment.baseline.take()),
        metric: match flags.metric.is_empty() {
            true => std::mem::take(&mut experiment.metrics),
            false => flags.metric,
        },
        margin: flags.margin.or(experiment.margin.map(share)),
        no_settle: flags.no_settle || !experiment.settle,
        seed: flags.seed.or(experiment.seed),
        name: flags.name.or(Some(name)),
        places,
        ..flags
    }
}

/// Replaces the configurations by those of `--on`, if they are existing targets or only folders, and keeps the part
/// that `--where` selects. Returns what was found at their paths.
fn with_targets(
    experiment: &mut Experiment,
    flags: &ExperimentArgs,
    only: &[String],
    context: &Context,
    faults: &mut Vec<Diagnostic>,
) -> Result<FoundPaths, Failure> {
    let folder = working_folder()?;
    let own = &mut experiment.configurations;
    let workloads = &mut experiment.workloads;
    if !own.is_empty() && (flags.on.is_empty() || !own.iter().all(is_folder)) {
        if !flags.on.is_empty() {
            let message = "the experiment has its own configurations";
            let hint = "leave `--on` out, or change a parameter with `--set NAME=VALUE`";
            faults.push(Diagnostic::error(message).hint(hint));
        }
        faults.extend(select(own, workloads, only));
        let paths = FoundPaths::look_on(node_paths(own, workloads), context)?;
        // A dry run reports missing paths as a run would.
        let error = |path: &Path| paths.error(path).filter(|_| !flags.dry_run);
        faults.extend(absent(own, &flags.places, error));
        return Ok(paths);
    }
    let replaced = !flags.on.is_empty();
    if replaced {
        faults.extend(dropped(own, experiment.compare.as_deref(), &flags.places));
    }
    let new_folders = own.iter().any(|it| it.provision().is_some());
    let paths = FoundPaths::look(named_paths(&flags.on, &folder, only), context)?;
    let error = |path: &Path| paths.error(path).filter(|_| !flags.dry_run);
    let found = configurations(&flags.on, &folder, error).unwrap_or_else(|found| {
        faults.extend(found);
        Vec::new()
    });
    *own = match new_folders {
        true => in_new_folders(found, &paths),
        false => found,
    };
    if let Some(workload) = workloads.iter().find(|it| it.files == FilePolicy::Rollback) {
        let message = format!(
            "`{}` cannot be rolled back: `--on` names existing storage",
            workload.name
        );
        let hint =
            "`files = \"rollback\"` needs a configuration with `zfs` or `btrfs` as the top layer";
        faults.push(Diagnostic::error(message).hint(hint));
    }
    if replaced {
        faults.extend(not_there(workloads, own, &flags.places));
    }
    faults.extend(select(own, workloads, only));
    Ok(paths)
}

/// Removes settings of the file that refer to parts which `--where` removed: an axis with a single value, the baseline
/// unless it is still one of several sides, metrics that no job has, and `stop` where nothing is compared. `given`: the
/// flags as given.
fn without_missing_sides(
    experiment: &mut Experiment,
    flags: &mut ExperimentArgs,
    given: &ExperimentArgs,
) {
    let (configurations, workloads) = (&experiment.configurations, &experiment.workloads);
    let axis = experiment.compare.as_deref();
    let columns = axis.unwrap_or(match configurations.len() {
        1 => Observation::WORKLOAD,
        _ => Observation::CONFIGURATION,
    });
    let sides = sides(configurations, workloads, columns);
    let compared = sides.len() > 1;
    if given.baseline.is_none()
        && let Some(name) = &flags.baseline
        && !(compared && sides.contains(name.as_str()))
    {
        flags.baseline = None;
        flags.places.remove("baseline");
    }
    if given.stop_width.is_none() && configurations.len() < 2 && workloads.len() < 2 {
        flags.stop_width = None;
        flags.places.remove("stop");
    }
    if given.metric.is_empty() {
        flags.metric.retain(|name| is_issued(name, workloads));
    }
    let kept = |name: &str| workloads.iter().any(|it| it.name == name);
    experiment.primaries.retain(|(workload, _)| kept(workload));
    experiment.compare = experiment.compare.take().filter(|_| compared);
}

/// The plan with a question about the values of a dimension: for each configuration if there are several, and each
/// combination of the other axes. For an axis of workloads, only workloads with that axis are compared: others may also
/// set its option.
fn comparing(plan: Plan, dimension: String) -> Plan {
    let named = |axes: &BTreeMap<String, String>| axes.contains_key(&dimension);
    let compared = |workload: &Workload| named(&workload.dimensions);
    let of_axis = plan.workloads.iter().any(compared);
    // A dimension of configurations is compared for each workload, and vice versa.
    let of_configurations = dimension == Observation::CONFIGURATION
        || plan.configurations.iter().any(|it| named(&it.dimensions));
    let of_workloads = dimension == Observation::WORKLOAD || of_axis;
    let cells: Vec<_> = (plan.each_cell())
        .filter(|(_, workload)| !of_axis || compared(workload))
        .collect();
    let configurations: BTreeSet<&str> = cells.iter().map(|(it, _)| it.name.as_str()).collect();
    let mut rows: BTreeSet<String> = BTreeSet::new();
    if of_configurations && dimension != Observation::CONFIGURATION {
        rows.extend(
            cells
                .iter()
                .flat_map(|(it, _)| it.dimensions.keys().cloned()),
        );
    }
    if of_workloads && dimension != Observation::WORKLOAD {
        rows.extend(
            cells
                .iter()
                .flat_map(|(_, it)| it.dimensions.keys().cloned()),
        );
    }
    rows.remove(&dimension);
    let mut rows: Vec<String> = rows.into_iter().collect();
    if !of_configurations && (configurations.len() > 1 || rows.is_empty()) {
        rows.insert(0, Observation::CONFIGURATION.to_owned());
    }
    if !of_workloads {
        rows.insert(0, Observation::WORKLOAD.to_owned());
    }
    let mut only = Vec::new();
    if of_axis && !plan.workloads.iter().all(compared) {
        // The answer of a search is printed next to the comparison.
        let own = plan.workloads.iter();
        let own = own.filter(|it| compared(it) || it.search.is_some());
        only.extend(own.map(|it| (Observation::WORKLOAD.to_owned(), it.name.clone())));
    }
    let question = Question {
        defines: plan.defines(&dimension),
        columns: dimension,
        rows,
        only,
        ..plan.question
    };
    Plan { question, ..plan }
}

/// `--set NAME=VALUE`.
pub(crate) fn parameters(texts: &[String]) -> (Vec<(String, String)>, Vec<Diagnostic>) {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut faults = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
                if found.iter().any(|(other, _)| *other == name) {
                    let message = format!("`--set {text}`: `{name}` is given twice");
                    faults.push(Diagnostic::error(message).hint("give it once"));
                }
                found.push((name, value));
            }
            _ => faults.push(
                Diagnostic::error(format!("`--set {text}` has no name and value"))
                    .hint("write `--set NAME=VALUE`; the names are the experiment's `params`"),
            ),
        }
    }
    (found, faults)
}

/// Sets the parameters of a ready-made experiment that are not given so that its files fit the folders.
fn fit(
    settings: &mut Vec<(String, String)>,
    args: &RunArgs,
    folder: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let on = &args.experiment.on;
    let given = settings.iter().find(|(own, _)| own == "folder");
    let paths = match (on.is_empty(), given) {
        (false, _) => named_paths(on, folder, &args.only),
        (true, Some((_, path))) => vec![folder.join(path)],
        (true, None) => vec![folder.to_owned()],
    };
    for (name, value) in fitting(&FoundPaths::look_for_room(paths, context)?) {
        if !settings.iter().any(|(own, _)| own == name) {
            settings.push((name.to_owned(), value));
        }
    }
    Ok(())
}

/// Whether nothing is made for a configuration, or only a folder.
fn is_folder(configuration: &Configuration) -> bool {
    configuration.provision().is_none_or(|provision| {
        let layers = provision.layers.clone();
        let only_layers = Provision {
            layers,
            ..Provision::default()
        };
        *provision == only_layers && matches!(*provision.layers, [Layer::Directory { .. }])
    })
}

/// The errors for parts that `--on` cannot replace: the nodes of configurations, and a compared axis.
fn dropped(
    configurations: &[Configuration],
    compare: Option<&str>,
    places: &BTreeMap<String, Place>,
) -> Vec<Diagnostic> {
    let error = |key: String, message: String| Diagnostic {
        place: places.get(&key).cloned(),
        ..Diagnostic::error(message).hint("leave `--on` out")
    };
    let with_nodes = configurations.iter().filter(|it| !it.nodes.is_empty());
    let mut found: Vec<Diagnostic> = with_nodes
        .map(|configuration| {
            let name = &configuration.name;
            let message = format!("`--on` replaces `{name}`, which has its own nodes");
            error(format!("configuration.{name}"), message)
        })
        .collect();
    let mut configurations = configurations.iter();
    if let Some(axis) = compare
        && configurations.any(|it| it.dimensions.contains_key(axis))
    {
        let message =
            format!("`--on` replaces the configurations, whose axis `{axis}` is compared");
        found.push(error("compare".to_owned(), message));
    }
    found
}

/// The errors for workloads that run only on configurations that `--on` replaces.
fn not_there(
    workloads: &[Workload],
    configurations: &[Configuration],
    places: &BTreeMap<String, Place>,
) -> Vec<Diagnostic> {
    let there = |name: &&String| configurations.iter().any(|it| it.name == **name);
    let found = workloads.iter().filter_map(|workload| {
        let name = workload.only.iter().find(|name| !there(name))?;
        let message = format!(
            "`{}` runs only on `{name}`, which `--on` replaces",
            workload.name
        );
        Some(Diagnostic {
            place: places.get(&format!("workload.{}", workload.name)).cloned(),
            ..Diagnostic::error(message).hint(format!("name it: `--on {name}=PATH`"))
        })
    });
    found.collect()
}

/// The errors for targets that do not exist. `error`: why a path does not exist.
fn absent<'a>(
    configurations: &[Configuration],
    places: &BTreeMap<String, Place>,
    error: impl Fn(&Path) -> Option<&'a str>,
) -> Vec<Diagnostic> {
    let found = configurations.iter().filter_map(|configuration| {
        let path = path_of(configuration)?;
        let error = error(path)?;
        let (name, path) = (&configuration.name, path.display());
        let message = format!("the target of `{name}`, `{path}`: {error}");
        Some(Diagnostic {
            place: places.get(&format!("configuration.{name}")).cloned(),
            ..Diagnostic::error(message).hint("give an existing folder, file or device")
        })
    });
    found.collect()
}
