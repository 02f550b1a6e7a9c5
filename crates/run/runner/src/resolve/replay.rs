//! Binds jobs that replay a trace: reads the trace, and determines the files of its ops.
//!
//! A trace is data from any source, so it does not decide which files are written. Only files that the job or the
//! command names are written: by `replay_redirect` or `filename`, below `directory` or the target, or under a relative
//! name below the current folder. Any other file that a trace names is only read, and never changed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::trace::{Limits, Trace, TracedFile, TracedName};
use iodyno_model::{Blocks, Diagnostic, Replay};
use iodyno_units::Bytes;
use rustix::fs::OFlags;

use super::binding::Binding;
use super::naming::{Base, placed};
use crate::faults::fault;
use crate::resolve::resolved::{FileKind, FileUse, ResolvedClone, ResolvedFile, ResolvedReplay};

/// The largest number of ops of all traces of a trial together: 384 MiB.
const MAX_OPS: usize = 1 << 24;
/// The longest file that is read as a trace, bytes.
const MAX_TRACE_LEN: u64 = 16 << 30;
/// The largest size of all buffers of a clone together, bytes.
const MAX_BUFFERS: u64 = 4 << 30;

/// The traces of a trial, each read once for each job.
#[derive(Debug, Default)]
pub(super) struct Traces {
    read: Vec<(u32, PathBuf, Arc<Trace>)>,
    ops: usize,
}

impl Traces {
    /// The trace of a clone.
    pub(super) fn of(
        &mut self,
        (job, clone): (u32, u32),
        blocks: &Blocks,
        replay: &Replay,
        base: Base<'_>,
    ) -> Result<Arc<Trace>, Diagnostic> {
        let Some(path) = replay
            .traces
            .get(clone as usize % replay.traces.len().max(1))
        else {
            return Err(fault("it has no trace to replay", "set `read_iolog=`"));
        };
        let path = match base {
            Base::Written(folder) => folder.join(path),
            _ => path.clone(),
        };
        let known = |read: &&(u32, PathBuf, Arc<Trace>)| read.0 == job && read.1 == path;
        if let Some((.., trace)) = self.read.iter().find(known) {
            return Ok(Arc::clone(trace));
        }
        let limits = Limits {
            ops: MAX_OPS - self.ops,
            read_only: blocks.read_only_by().is_some(),
        };
        let trace = Arc::new(load(&path, replay, limits)?);
        self.ops += trace.ops.len();
        self.read.push((job, path, Arc::clone(&trace)));
        Ok(trace)
    }
}

fn load(path: &Path, replay: &Replay, limits: Limits) -> Result<Trace, Diagnostic> {
    let shown = path.display();
    let file = open(path).map_err(|error| {
        let message = format!("the trace `{shown}` cannot be read: {error}");
        fault(message, "check `read_iolog=`")
    })?;
    let trace = iodyno_engine::trace::read(BufReader::with_capacity(1 << 16, file), replay, limits)
        .map_err(|error| fault(format!("the trace `{shown}`: {error}"), error.hint))?;
    match trace.ops.is_empty() {
        true => Err(fault(
            format!("the trace `{shown}` has no ops to replay"),
            "check the trace and `replay_skip=`",
        )),
        false => Ok(trace),
    }
}

/// Only regular files are read: a pipe may never end, and a device has no length of this kind.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let state = file.metadata()?;
    match (state.is_file(), state.len()) {
        (false, _) => Err(io::Error::other("it is not a regular file")),
        (true, length) if length > MAX_TRACE_LEN => Err(io::Error::other(format!(
            "it is longer than {}",
            Bytes(MAX_TRACE_LEN)
        ))),
        _ => Ok(file),
    }
}

/// The destination of the ops of a traced file.
struct Place {
    path: PathBuf,
    named: bool,
    offered: bool,
}

impl Binding<'_> {
    /// A clone that replays this trace.
    pub(super) fn bind_replay(
        &self,
        base: Base<'_>,
        index: u32,
        replay: &Replay,
        trace: Arc<Trace>,
        notes: &mut Vec<String>,
    ) -> Result<ResolvedClone, Vec<Diagnostic>> {
        let engine = &self.blocks.engine;
        let buffers = trace.longest_transfer.saturating_mul(engine.depth.into());
        if buffers > MAX_BUFFERS {
            let message = format!(
                "{} buffers of {}, the longest op of the trace, are more than {}",
                engine.depth,
                Bytes(trace.longest_transfer),
                Bytes(MAX_BUFFERS)
            );
            return Err(vec![fault(message, "lower `iodepth=`")]);
        }
        let mut faults = Vec::new();
        let mut files: Vec<ResolvedFile> = Vec::new();
        let mut names: Vec<&TracedName> = Vec::new();
        let mut uses: Vec<FileUse> = Vec::new();
        let mut map = Vec::with_capacity(trace.files.len());
        for traced in &trace.files {
            let place = match self.place(base, replay, &traced.name) {
                Ok(place) => place,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            let known = files.iter().position(|file| file.path == place.path);
            // Several files become one only if the user requests it.
            let one = place.named || engine.kind.without_files();
            if let Some(at) = known.filter(|at| !one && *names[*at] != traced.name) {
                faults.push(fault(
                    format!(
                        "`{}` and `{}` of the trace would both be `{}`",
                        shown(names[at]),
                        shown(&traced.name),
                        place.path.display()
                    ),
                    "replay the trace where its files are, or set `replay_redirect=`",
                ));
                continue;
            }
            let at = known.unwrap_or(files.len());
            if known.is_none() {
                files.push(ResolvedFile {
                    path: place.path,
                    existing: None,
                    kind: FileKind::Null,
                    base: 0,
                    length: 0,
                });
                names.push(&traced.name);
                uses.push(FileUse {
                    named: place.named,
                    offered: place.offered,
                    ..FileUse::default()
                });
            }
            let used = &mut uses[at];
            used.reads |= traced.reads;
            used.writes |= traced.writes;
            used.trims |= traced.trims;
            let both = used.alignment | traced.alignment();
            used.alignment = both & both.wrapping_neg();
            let file = &mut files[at];
            file.length = file.length.max(traced.end);
            if !engine.kind.without_files() {
                match self.fitting(&file.path, uses[at], traced, trace.places) {
                    Ok((existing, kind)) => (file.existing, file.kind) = (existing, kind),
                    Err(fault) => faults.push(fault),
                }
            }
            map.push(at as u32);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let job = &self.job.name;
        notes.extend(
            trace
                .notes
                .iter()
                .map(|note| format!("job `{job}`: {note}")),
        );
        Ok(ResolvedClone {
            job: index,
            clone: self.clone,
            region_bytes: files
                .iter()
                .map(|file| file.length)
                .fold(0, u64::saturating_add),
            files,
            byte_budget: u64::MAX,
            seed: self.seed,
            replay: Some(ResolvedReplay {
                trace,
                files: map,
                uses,
            }),
        })
    }

    fn place(
        &self,
        base: Base<'_>,
        replay: &Replay,
        name: &TracedName,
    ) -> Result<Place, Diagnostic> {
        let of_user = |path: PathBuf| Place {
            path,
            named: true,
            offered: true,
        };
        let blocks = self.blocks;
        if blocks.engine.kind.without_files() {
            return Ok(of_user(PathBuf::from(blocks.engine.kind.name())));
        }
        if let Base::Only(path) = base {
            return Ok(of_user(path.to_owned()));
        }
        if let Some(redirect) = &replay.redirect {
            return Ok(of_user(placed(base, None, redirect)));
        }
        let path = match name {
            TracedName::Path(path) => path.clone(),
            TracedName::Device { major, minor } => {
                self.probe.device_path(*major, *minor).ok_or_else(|| {
                    fault(
                        format!("the trace's device {major}:{minor} is not on this host"),
                        "set `replay_redirect=` to the device or file to use",
                    )
                })?
            }
        };
        let directories = &blocks.files.directories;
        let folder = match directories.len() {
            0 => None,
            count => Some(directories[self.clone as usize % count].as_path()),
        };
        let (named, offered) = match base {
            Base::Written(from) if folder.is_none() => {
                let own = from.join(&path);
                let named = blocks.files.names.iter().any(|name| from.join(name) == own);
                let below = path
                    .components()
                    .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
                // The guard refuses writes to a device that is not named.
                (named || !below, named || below)
            }
            _ => (false, true),
        };
        Ok(Place {
            path: placed(base, folder, &path),
            named,
            offered,
        })
    }

    /// The length and kind of a file, if the ops of the trace fit it.
    fn fitting(
        &self,
        path: &Path,
        used: FileUse,
        traced: &TracedFile,
        places: &str,
    ) -> Result<(Option<u64>, FileKind), Diagnostic> {
        let shown = path.display();
        if !used.offered && (traced.writes || traced.trims) {
            return Err(fault(
                format!(
                    "the trace writes to `{shown}`, which neither the job nor the command names"
                ),
                format!(
                    "name it with `filename={shown}`, or replay onto another file with `replay_redirect=`, \
                     `directory=` or `--on`"
                ),
            ));
        }
        let (existing, kind) = self.existing(path, self.probe.look(path))?;
        let short = |what: &str, hint: &str| {
            fault(
                format!(
                    "`{shown}` has {}, and {places} {} of the trace ends at {}{what}",
                    Bytes(existing.unwrap_or(0)),
                    traced.end_at,
                    Bytes(traced.end)
                ),
                hint,
            )
        };
        let beyond = traced.end > existing.unwrap_or(0);
        match kind {
            FileKind::Device if beyond => Err(short("", "use a larger device, or `replay_scale=`")),
            FileKind::Regular if !used.offered && existing.is_none() => Err(fault(
                format!("`{shown}` of the trace does not exist"),
                format!(
                    "create it, name it with `filename={shown}`, or use another file with `replay_redirect=`"
                ),
            )),
            FileKind::Regular if beyond && !used.offered => Err(short(
                "; a file that only the trace names is not extended",
                "name it with `filename=`, or set `replay_redirect=` or `replay_scale=`",
            )),
            FileKind::Regular if beyond && self.blocks.read_only_by().is_some() => Err(short(
                "; nothing is extended",
                "use a longer file, or `replay_scale=`",
            )),
            _ => Ok((existing, kind)),
        }
    }
}

/// A traced name, for messages.
fn shown(name: &TracedName) -> String {
    match name {
        TracedName::Path(path) => path.display().to_string(),
        TracedName::Device { major, minor } => format!("{major}:{minor}"),
    }
}
