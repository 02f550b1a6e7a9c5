//! `iodyno doctor`: checks whether the host is fit for benchmarks.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use iodyno_host::{Roots, counters, environment};
use iodyno_model::{CheckState, Diagnostic, Environment, Telemetry};
use iodyno_report::doctor as report;
use iodyno_telemetry::{Collector, Devices, Pools, Scope};
use iodyno_units::Nanos;

use crate::args::DoctorArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::plan_flags::working_folder;
use crate::screen::write_out;

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(250);

/// Checks the host and the devices below the paths.
pub(crate) fn doctor(args: &DoctorArgs, context: &Context) -> Result<Exit, Failure> {
    let paths = paths(&args.paths)?;
    let roots = Roots::host();
    let environment = environment::read(&roots, env!("CARGO_PKG_VERSION"), &paths);
    if context.terminal.redraws {
        let line = format!("observing the host for {}", args.span);
        context.screen.live(&line);
    }
    let telemetry = watched(&roots, &environment, args.span);
    context.screen.clear();
    let checks = iodyno_judge::examine(&environment, &telemetry);
    write_out(match args.json {
        true => report::json(&checks),
        false => report::text(&checks, context.style_out()),
    })?;
    let unfit = checks.iter().any(|check| check.state == CheckState::Unfit);
    Ok(if unfit { Exit::CheckFailed } else { Exit::Fine })
}

/// Makes the paths absolute. Reports every path that does not exist.
fn paths(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let folder = working_folder()?;
    if named.is_empty() {
        return Ok(vec![folder]);
    }
    let found = named
        .iter()
        .map(|path| (path, folder.join(path).metadata()));
    let faults: Vec<Diagnostic> = found
        .filter_map(|(path, found)| Some((path, found.err()?)))
        .map(|(path, error)| {
            Diagnostic::error(format!(
                "cannot access `{}`: {}",
                path.display(),
                reason(&error)
            ))
        })
        .collect();
    match faults.is_empty() {
        true => Ok(named.iter().map(|path| folder.join(path)).collect()),
        false => Err(Failure::input(faults)),
    }
}

/// Samples the idle host for this time.
fn watched(roots: &Roots, environment: &Environment, span: Nanos) -> Telemetry {
    let mut collector = Collector::open(
        roots,
        &Scope {
            block_trace: false,
            every: EVERY,
            devices: Devices::Named(counters::devices(&environment.targets)),
            pools: Pools::Named(Vec::new()),
            processes: Vec::new(),
            servers: Vec::new(),
            stats: Vec::new(),
            own: vec![std::process::id()],
        },
    );
    let begun = Instant::now();
    let now = || begun.elapsed().as_nanos() as i64;
    collector.begin(now());
    let mut telemetry = Telemetry::default();
    while begun.elapsed() < Duration::from_nanos(span.0) {
        thread::sleep(EVERY);
        telemetry.extend(collector.sample(now()));
    }
    collector.close();
    telemetry
}
