//! The exports of servers that a trial uses, instead of files.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::path::PathBuf;

use iodyno_engine::{ClonePart, CloneSpec, Service};
use iodyno_guard::export::{self, Connected, Use};
use iodyno_model::{
    Admission, Blocks, BoundPlan, Diagnostic, EngineKind, ExportUri, Job, TargetUse,
};

use crate::faults::{self, PrepareError, at_job};
use crate::resolve::resolved::ResolvedFile;

/// The export of a job, and its use by the job. `None`: its engine has no export, or one with files (see `shares`).
pub(crate) fn wanted(job: &Job) -> Option<(&ExportUri, Use)> {
    let blocks = job.work.blocks()?;
    let export = blocks.engine.export.as_ref();
    let uri = export.filter(|_| !blocks.engine.kind.has_share())?;
    let Blocks {
        access,
        sync,
        engine,
        verify,
        ..
    } = blocks;
    let writable = blocks.read_only_by().is_none();
    let writes = access.writes && writable;
    let trimmed = verify.as_ref().is_some_and(|verify| verify.trim.is_some());
    let syncs = sync.fsync_every > 0 || sync.fdatasync_every > 0;
    let wanted = Use {
        writes,
        trims: (access.trims || trimmed) && writable,
        flushes: writes && (syncs || sync.range.is_some() || sync.end_fsync),
        fua: writes && (engine.o_sync || engine.o_dsync),
        smallest: access.min_block(),
        longest: access.max_block(),
    };
    Some((uri, wanted))
}

fn admissions(
    plan: &BoundPlan,
) -> impl Iterator<Item = (&ExportUri, bool, Result<(), Diagnostic>)> {
    let jobs = plan.workload.jobs.iter();
    jobs.filter_map(|job| {
        let (uri, wanted) = wanted(job)?;
        let changes = wanted.changes();
        let permitted = export::permitted(uri, changes, &plan.destroy);
        Some((uri, changes, permitted.map_err(|why| at_job(why, job))))
    })
}

/// Refuses a trial that would change an export without permission.
pub(crate) fn admit(plan: &BoundPlan) -> Result<(), PrepareError> {
    let mut refused: Vec<Diagnostic> = Vec::new();
    for why in admissions(plan).filter_map(|(_, _, permitted)| permitted.err()) {
        if !refused.contains(&why) {
            refused.push(why);
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(PrepareError::Refused(refused)),
    }
}

/// The guard's answer for each export.
pub(crate) fn forecast(plan: &BoundPlan) -> Vec<(PathBuf, Admission)> {
    let answers = admissions(plan).map(|(uri, changes, permitted)| {
        let admission = match permitted {
            Ok(()) if changes => Admission::Granted(TargetUse::Overwrite),
            Ok(()) => Admission::Granted(TargetUse::Read),
            Err(why) => Admission::NeedsDestroy(why),
        };
        (PathBuf::from(uri.to_string()), admission)
    });
    answers.collect()
}

/// The processes on this host that serve these clones.
pub(crate) fn servers<'a>(clones: impl Iterator<Item = &'a CloneSpec>) -> Vec<u32> {
    let server = |clone: &CloneSpec| match (&clone.part, clone.job.work.engine()?.kind) {
        (_, EngineKind::Nbd) => export::server(clone.files.first()?.descriptor.as_ref()?.as_fd()),
        (ClonePart::Blocks(part), _) => part.service.as_ref()?.server(),
        _ => None,
    };
    let found: BTreeSet<u32> = clones.filter_map(server).collect();
    found.into_iter().collect()
}

/// Connections that the clones of a trial share; each clone has a queue.
#[derive(Debug, Default)]
pub(crate) struct Shared(HashMap<String, Service>);

impl Shared {
    /// Connects the only file of a clone of this job, if it is an export. Returns the connection if the clone gets a
    /// queue of it.
    pub(crate) fn connect(
        &mut self,
        job: &Job,
        resolved: &[ResolvedFile],
        files: &mut [iodyno_engine::JobFile],
    ) -> Result<Option<Service>, Diagnostic> {
        let Some((uri, _)) = wanted(job) else {
            return Ok(None);
        };
        let name = uri.to_string();
        if let Some(connection) = self.0.get(&name) {
            return Ok(Some(connection.clone()));
        }
        for (file, resolved) in files.iter_mut().zip(resolved) {
            let length = resolved.existing.unwrap_or_default();
            let connected = export::connect(uri, length);
            match connected.map_err(|why| faults::of_job(why, job))? {
                Connected::Nbd(socket) => file.descriptor = Some(socket),
                Connected::VhostUser(connection) => {
                    let service = Service::Disk(connection);
                    self.0.insert(name, service.clone());
                    return Ok(Some(service));
                }
            }
        }
        Ok(None)
    }
}
