//! Examines files and devices, and changes nothing: done by the helper process.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use iodyno_engine::trace::TracedOp;
use iodyno_host::{Roots, identity, space, stack};
use iodyno_model::{BoundPlan, Diagnostic, Forecast, Job, KnownTarget};
use iodyno_telemetry::may_trace_block;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::files::exports;
use crate::files::operations::Site;
use crate::files::requirements::{self, Wanted};
use crate::files::shares;
use crate::files::{Files, room_needed};
use crate::probe::HostProbe;
use crate::protocol::{Examination, Examined, FoundPath, Room};
use crate::resolve::resolve;
use crate::resolve::resolved::{FileKind, Resolved};

/// Answers all requests.
pub(crate) fn examine(wanted: Examination) -> Examined {
    let roots = Roots::host();
    let resolved = wanted.plans.iter().map(|plan| resolve(plan, &HostProbe));
    let clones = resolved.flat_map(|resolved| resolved.unwrap_or_default().clones);
    let files = clones.flat_map(|clone| clone.files);
    let files = files.filter(|file| file.kind == FileKind::Regular);
    let paths = wanted.identify.into_iter();
    let paths: BTreeSet<PathBuf> = paths.chain(files.map(|file| file.path)).collect();
    let targets = paths.into_iter().filter_map(|path| {
        let identity = identity::identify(&path, &roots)?;
        Some(KnownTarget {
            node: String::new(),
            path,
            identity,
        })
    });
    let stacks = wanted.describe.iter();
    Examined {
        targets: targets.collect(),
        stacks: stacks.map(|path| stack::describe(path, &roots)).collect(),
        found: (wanted.find.iter())
            .map(|path| found(path, wanted.room_of_found))
            .collect(),
        forecasts: wanted.forecast.iter().map(forecast).collect(),
        shortages: shortages(&wanted.room),
        no_traces: (wanted
            .block_trace
            .then(no_block_trace)
            .flatten()
            .into_iter())
        .chain(wanted.replays.iter().flat_map(unreadable))
        .collect(),
    }
}

/// Why a trial whose jobs replay traces cannot start.
fn unreadable(plan: &BoundPlan) -> Vec<Diagnostic> {
    resolve(plan, &HostProbe).err().unwrap_or_default()
}

/// Why requests at block devices cannot be traced here.
pub(super) fn no_block_trace() -> Option<Diagnostic> {
    let error = may_trace_block().err()?;
    Some(Diagnostic::error(format!("--trace block: {error}")))
}

/// `with_room`: a temporary file without a name is opened in a folder, to find out about direct I/O.
fn found(path: &Path, with_room: bool) -> Result<FoundPath, String> {
    let found = path.canonicalize().and_then(|resolved| {
        let folder = resolved.metadata()?.is_dir();
        let room = (folder && with_room).then(|| room(&resolved)).transpose()?;
        Ok(FoundPath {
            path: resolved,
            folder,
            room,
        })
    });
    if let Ok(found) = &found
        && found.path.to_str().is_none()
    {
        return Err(format!("it leads to {:?}, which is not UTF-8", found.path));
    }
    found.map_err(|error| {
        let text = error.to_string();
        // Without the number that the standard library appends.
        text.split(" (os error ").next().unwrap_or(&text).to_owned()
    })
}

fn room(folder: &Path) -> std::io::Result<Room> {
    let space = rustix::fs::statvfs(folder)?;
    let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, nameless, Mode::RUSR | Mode::WUSR);
    Ok(Room {
        free: space.f_bavail.saturating_mul(space.f_frsize),
        buffered_only: opened.is_err_and(|error| error == Errno::INVAL),
    })
}

fn forecast(plan: &BoundPlan) -> Forecast {
    if plan.workload.in_virtual_time() {
        let resolved = resolve(plan, &HostProbe).unwrap_or_default();
        return Forecast {
            traces: traces(&resolved, &plan.workload.jobs),
            ..Forecast::default()
        };
    }
    let mut forecast = Forecast::default();
    match resolve(plan, &HostProbe) {
        Ok(resolved) => {
            let jobs = &plan.workload.jobs;
            let wanted = requirements::of(&resolved, jobs, &plan.configuration.target);
            forecast.targets = Files::forecast(plan, &wanted);
            forecast.targets.extend(exports::forecast(plan));
            forecast.traces = traces(&resolved, jobs);
        }
        // Only a trial knows the content of a share.
        Err(_) if shares::any(plan) => {}
        Err(faults) => forecast.faults = faults,
    }
    forecast.targets.extend(Site::forecast(plan));
    forecast
}

/// The traces that are replayed at their own times, with the time of the last op, ns.
fn traces(resolved: &Resolved, jobs: &[Job]) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for clone in &resolved.clones {
        let replay = jobs
            .get(clone.job as usize)
            .and_then(|job| job.work.replay());
        let (Some(replay), Some(own)) = (replay, &clone.replay) else {
            continue;
        };
        let path = replay
            .traces
            .get(clone.clone as usize % replay.traces.len().max(1));
        let due = own.trace.ops.iter().filter_map(TracedOp::due_ns).max();
        if let (Some(path), Some(due), false) = (path, due, replay.no_stall) {
            let trace = (path.clone(), due);
            if !found.contains(&trace) {
                found.push(trace);
            }
        }
    }
    found
}

/// The shortages of each trial alone. If there are none, those of all trials together: the files of blocks and shared
/// files remain after their trial, and the folder of file operations is removed.
fn shortages(plans: &[BoundPlan]) -> Vec<(Option<usize>, Diagnostic)> {
    let roots = Roots::host();
    let check = |wanted: &[Wanted]| -> Vec<Diagnostic> {
        let found = space::check(&roots, &room_needed(wanted.iter())).into_iter();
        found
            .filter(|shortage| !matches!(shortage, space::Shortage::Unknown { .. }))
            .map(|shortage| Diagnostic::of_text(&shortage.to_string()))
            .collect()
    };
    let mut all = Vec::new();
    let mut kept: HashMap<PathBuf, Wanted> = HashMap::new();
    let real = plans.iter().enumerate();
    for (index, plan) in real.filter(|(_, plan)| !plan.workload.in_virtual_time()) {
        // The trial itself reports failures to resolve.
        let resolved = resolve(plan, &HostProbe).unwrap_or_default();
        let jobs = &plan.workload.jobs;
        let wanted = requirements::of(&resolved, jobs, &plan.configuration.target);
        let alone = check(&wanted).into_iter().chain(Site::shortages(plan));
        all.extend(alone.map(|fault| (Some(index), fault)));
        for file in wanted.into_iter().filter(|file| !file.unlink) {
            let known = kept.get(&file.path);
            if known.is_none_or(|known| known.to_allocate() < file.to_allocate()) {
                kept.insert(file.path.clone(), file);
            }
        }
    }
    if all.is_empty() {
        let kept: Vec<Wanted> = kept.into_values().collect();
        all.extend(check(&kept).into_iter().map(|fault| (None, fault)));
    }
    all
}
