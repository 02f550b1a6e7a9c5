//! The requirements of all jobs on each file: how it is opened, its length and content.
//!
//! Pure. A file that several clones use is one entry: it is opened and laid out as the most demanding job requires.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use iodyno_guard::Intent;
use iodyno_model::{Blocks, EngineKind, Fallocate, Job, Target, Work};

use crate::resolve::resolved::{FileKind, FileUse, Resolved, ResolvedFile};

/// A file or device of the trial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
    /// Its length, if it exists, bytes.
    pub(crate) existing: Option<u64>,
    /// The first job that needs it.
    pub(crate) job: usize,
    pub(crate) intent: Intent,
    /// What the jobs' own ops do with it, apart from verifying their own writes.
    pub(crate) ops: Ops,
    /// Whether the user named it.
    pub(crate) named: bool,
    /// It must contain data up to this offset, bytes.
    pub(crate) fill_to: u64,
    /// Length of the blocks of that data, each of which ends with a checksum and its offset, bytes; 0: they do not.
    pub(crate) sealed: u64,
    /// Space must be reserved up to this offset, bytes.
    pub(crate) reserve_to: u64,
    /// The length to which the job itself extends it, bytes, for which space is needed.
    pub(crate) grows_to: u64,
    pub(crate) fallocate: Fallocate,
    pub(crate) fsync: bool,
    pub(crate) fsync_on_close: bool,
    pub(crate) invalidate: bool,
    /// Whether it is read into the cache before the start.
    pub(crate) pre_read: bool,
    pub(crate) unlink: bool,
    /// The ranges that jobs may write, bytes.
    pub(crate) writes: Vec<Range<u64>>,
}

/// Ops of jobs on a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ops {
    reads: bool,
    writes: bool,
    /// It is read by a job that only verifies what others wrote.
    checks: bool,
}

impl Ops {
    /// Whether jobs read data from before the trial.
    pub(crate) fn read_earlier_data(self) -> bool {
        self.reads || (self.checks && !self.writes)
    }

    fn and(self, other: Ops) -> Ops {
        Ops {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            checks: self.checks || other.checks,
        }
    }
}

impl Wanted {
    /// Bytes to be written before the start.
    pub(crate) fn to_fill(&self) -> u64 {
        self.fill_to.saturating_sub(self.existing.unwrap_or(0))
    }

    /// Bytes that the file system must allocate before the start.
    pub(crate) fn to_allocate(&self) -> u64 {
        let reserved = match self.fallocate {
            Fallocate::None | Fallocate::Truncate => 0,
            Fallocate::Native | Fallocate::Posix | Fallocate::KeepSize => self.reserve_to,
        };
        self.fill_to
            .max(reserved)
            .max(self.grows_to)
            .saturating_sub(self.existing.unwrap_or(0))
    }

    /// Adds the demand of one more job, on its region of the file.
    fn add(&mut self, demand: &Demand, file: &ResolvedFile) {
        self.named |= demand.named;
        self.intent.read |= demand.intent.read;
        self.ops = self.ops.and(demand.ops);
        self.intent.write |= demand.intent.write;
        self.intent.trim |= demand.intent.trim;
        self.grows_to = self.grows_to.max(demand.grows_to);
        self.invalidate |= demand.invalidate;
        self.pre_read |= demand.pre_read;
        self.fsync_on_close |= demand.fsync_on_close && self.intent.changes();
        if file.kind != FileKind::Regular {
            return;
        }
        self.unlink |= demand.unlink;
        self.intent.remove |= demand.unlink;
        self.fsync |= demand.fsync;
        if demand.data {
            self.fill_to = self.fill_to.max(file.end());
            self.sealed = self.sealed.max(demand.sealed);
        }
        if demand.space || demand.data {
            if self.fallocate == Fallocate::None {
                self.fallocate = demand.fallocate;
            }
            if self.fallocate != Fallocate::None {
                self.reserve_to = self.reserve_to.max(file.end());
            }
        }
        // Creating a file or laying it out is a write.
        self.intent.write |= file.existing.is_none() || !self.ready();
    }

    /// Whether it exists and is long enough, or needs no layout.
    pub(crate) fn ready(&self) -> bool {
        self.fill_to.max(self.reserve_to) <= self.existing.unwrap_or(0)
    }
}

/// The requirements of a job on each of its files.
#[derive(Debug, Clone, Default)]
struct Demand {
    intent: Intent,
    ops: Ops,
    named: bool,
    /// Whether it must contain data before the start.
    data: bool,
    /// See [`Wanted::sealed`].
    sealed: u64,
    /// Whether space must be reserved before the start.
    space: bool,
    grows_to: u64,
    fallocate: Fallocate,
    fsync: bool,
    fsync_on_close: bool,
    invalidate: bool,
    pre_read: bool,
    unlink: bool,
}

impl Demand {
    /// `None`: the job has no files whose engine is one of `which`.
    fn of(work: &Work, which: impl Fn(EngineKind) -> bool) -> Option<Demand> {
        if !which(work.engine()?.kind) {
            return None;
        }
        match work {
            Work::Blocks(blocks) => Some(Demand::of_blocks(blocks)),
            Work::SharedFiles(rule) => Some(Demand {
                ops: Ops {
                    reads: rule.mode.reads(),
                    writes: rule.mode.writes(),
                    checks: false,
                },
                intent: Intent {
                    read: rule.mode.reads(),
                    write: rule.mode.writes(),
                    ..Intent::default()
                },
                data: rule.lay_out && (rule.create_only || !rule.mode.makes_files()),
                sealed: if rule.validate { rule.block } else { 0 },
                fsync: rule.create_only,
                fallocate: Fallocate::None,
                grows_to: match rule.mode.makes_files() {
                    true => rule.file_size,
                    false => 0,
                },
                ..Demand::default()
            }),
            Work::FileOperations(_) => None,
        }
    }

    /// The demand of a replay on this file.
    fn replayed(self, blocks: &Blocks, used: &FileUse) -> Demand {
        let changes = used.writes || used.trims;
        let mapped = blocks.engine.kind == EngineKind::Mmap;
        let laid_out = used.offered && !blocks.files.create_on_open;
        Demand {
            ops: Ops {
                reads: used.reads || !changes,
                writes: used.writes,
                checks: false,
            },
            intent: Intent {
                read: used.reads || !changes,
                write: used.writes,
                trim: used.trims,
                remove: false,
            },
            named: used.named,
            data: laid_out && (used.reads || mapped),
            space: laid_out && changes,
            unlink: self.unlink && used.offered,
            ..self
        }
    }

    fn of_blocks(blocks: &Blocks) -> Demand {
        let Blocks {
            access,
            files,
            verify,
            engine,
            ..
        } = blocks;
        let writable = blocks.read_only_by().is_none();
        let mapped = engine.kind == EngineKind::Mmap;
        let data = access.reads || mapped || (access.writes && files.overwrite && !files.append);
        let laid_out = writable && !files.create_on_open;
        let writes = access.writes && writable;
        Demand {
            ops: Ops {
                reads: access.reads || files.pre_read,
                writes,
                checks: verify.is_some() && !writes,
            },
            intent: Intent {
                read: access.reads || verify.is_some() || files.pre_read,
                // Reserving space is a write, even if fio calls the job a read.
                write: (access.writes || engine.kind.without_data()) && writable,
                trim: (access.trims || verify.as_ref().is_some_and(|it| it.trim.is_some()))
                    && writable,
                remove: false,
            },
            named: !files.names.is_empty(),
            data: data && laid_out,
            sealed: 0,
            space: (access.writes || access.trims) && laid_out,
            grows_to: 0,
            fallocate: files.fallocate,
            fsync: files.fsync_on_layout,
            fsync_on_close: files.fsync_on_close,
            invalidate: files.invalidate,
            pre_read: files.pre_read,
            unlink: files.unlink,
        }
    }
}

/// The files of the host: one entry for each path, in order of first use.
pub(crate) fn of(resolved: &Resolved, jobs: &[Job], target: &Target) -> Vec<Wanted> {
    files(resolved, jobs, target, |kind| !kind.without_files())
}

/// The same for files of shares.
pub(crate) fn in_shares(resolved: &Resolved, jobs: &[Job], target: &Target) -> Vec<Wanted> {
    files(resolved, jobs, target, EngineKind::has_share)
}

fn files(
    resolved: &Resolved,
    jobs: &[Job],
    target: &Target,
    which: impl Fn(EngineKind) -> bool,
) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    let mut by_path: HashMap<PathBuf, usize> = HashMap::new();
    for clone in &resolved.clones {
        let job = &jobs[clone.job as usize];
        let Some(demand) = Demand::of(&job.work, &which) else {
            continue;
        };
        for (number, file) in clone.files.iter().enumerate() {
            let demand = match (&clone.replay, job.work.blocks()) {
                (Some(replay), Some(blocks)) => {
                    demand.clone().replayed(blocks, &replay.uses[number])
                }
                _ => demand.clone(),
            };
            let index = *by_path.entry(file.path.clone()).or_insert_with(|| {
                all.push(Wanted {
                    path: file.path.clone(),
                    kind: file.kind,
                    existing: file.existing,
                    job: clone.job as usize,
                    // The jobs choose.
                    fallocate: Fallocate::None,
                    ..Wanted::default()
                });
                all.len() - 1
            });
            let wanted = &mut all[index];
            // A job without `filename=` can be named after its device. If a link at a generated name leads elsewhere,
            // the guard refuses it.
            wanted.named |= matches!(target, Target::Path(path) if *path == file.path)
                || file.path == Path::new(&job.name);
            if demand.intent.changes() {
                wanted.writes.push(match clone.replay {
                    None => file.base..file.end(),
                    // The offsets of a trace are anywhere in it.
                    Some(_) => 0..u64::MAX,
                });
            }
            wanted.add(&demand, file);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::resolved::ResolvedClone;
    use crate::samples::{access, job};
    use iodyno_model::Direction::{Read, Trim, Write};
    use iodyno_model::{Direction, Engine, Files, Verify};

    const MIB: u64 = 1 << 20;

    fn wants(directions: &[Direction]) -> Job {
        let mut job = job("j");
        job.work.blocks_mut().unwrap().access = access(directions);
        job
    }

    fn with(job: Job, change: impl FnOnce(&mut Job)) -> Job {
        let mut job = job;
        change(&mut job);
        job
    }

    /// Each job has one clone on `/t/f`, its region ending at the given MiB.
    fn wanted(existing: Option<u64>, jobs: &[(Job, u64)]) -> Wanted {
        let clones = jobs
            .iter()
            .enumerate()
            .map(|(index, (_, end))| ResolvedClone {
                job: index as u32,
                clone: 0,
                files: vec![ResolvedFile {
                    path: "/t/f".into(),
                    existing: existing.map(|mib| mib * MIB),
                    kind: FileKind::Regular,
                    base: 0,
                    length: end * MIB,
                }],
                region_bytes: end * MIB,
                byte_budget: end * MIB,
                seed: 0,
                replay: None,
            });
        let resolved = Resolved {
            clones: clones.collect(),
            notes: Vec::new(),
        };
        let jobs: Vec<Job> = jobs.iter().map(|(job, _)| job.clone()).collect();
        let target = Target::AsWritten {
            folder: "/t".into(),
        };
        let mut all = of(&resolved, &jobs, &target);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn a_job_that_verifies_its_own_writes_or_those_of_another_job_reads_nothing_earlier() {
        let verifies = |directions: &[Direction], only: bool| {
            with(wants(directions), |job| {
                let verify = Verify {
                    only,
                    ..Verify::default()
                };
                job.work.blocks_mut().unwrap().verify = Some(verify);
            })
        };
        let (writer, check) = (verifies(&[Write], false), verifies(&[Write], true));
        for (jobs, expected) in [
            (vec![writer.clone()], false),
            (vec![verifies(&[Read, Write], false)], true),
            (vec![check.clone()], true),
            (vec![verifies(&[Read], false)], true),
            (vec![writer.clone(), check], false),
            (vec![writer, wants(&[Read])], true),
        ] {
            let jobs: Vec<(Job, u64)> = jobs.into_iter().map(|job| (job, 1)).collect();
            let wanted = wanted(Some(1), &jobs);
            assert!(wanted.intent.read);
            assert_eq!(wanted.ops.read_earlier_data(), expected, "{jobs:?}");
        }
    }

    /// (MiB to be filled, MiB to be allocated, it is written).
    fn check(existing: Option<u64>, jobs: &[(Job, u64)], expected: (u64, u64, bool)) {
        let wanted = wanted(existing, jobs);
        let found = (
            wanted.to_fill() / MIB,
            wanted.to_allocate() / MIB,
            wanted.intent.write,
        );
        assert_eq!(found, expected, "{wanted:?}");
    }

    #[test]
    fn readers_need_data_and_writers_only_space() {
        let (read, write, both) = (wants(&[Read]), wants(&[Write]), wants(&[Read, Write]));
        check(None, &[(read.clone(), 4)], (4, 4, true));
        check(Some(1), &[(read.clone(), 4)], (3, 3, true));
        check(Some(4), &[(read.clone(), 4)], (0, 0, false));
        check(Some(9), &[(read.clone(), 4)], (0, 0, false));
        check(None, &[(write.clone(), 4)], (0, 4, true));
        check(Some(1), &[(write.clone(), 4)], (0, 3, true));
        check(Some(9), &[(write.clone(), 4)], (0, 0, true));
        check(None, &[(both, 4)], (4, 4, true));
        check(None, &[(wants(&[Trim]), 4)], (0, 4, true));
        let overwrite = with(write.clone(), |job| {
            job.work.blocks_mut().unwrap().files.overwrite = true
        });
        check(None, &[(overwrite, 4)], (4, 4, true));
        let mapped = with(write.clone(), |job| {
            job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Mmap, 1)
        });
        check(None, &[(mapped, 4)], (4, 4, true));
        for fallocate in [Fallocate::None, Fallocate::Truncate] {
            let lazy = with(write.clone(), |job| {
                job.work.blocks_mut().unwrap().files.fallocate = fallocate
            });
            check(None, &[(lazy, 4)], (0, 0, true));
        }
        let late = with(write, |job| {
            job.work.blocks_mut().unwrap().files.create_on_open = true
        });
        check(None, &[(late, 4)], (0, 0, true));
    }

    #[test]
    fn a_shared_file_is_laid_out_once_for_the_most_demanding() {
        let (read, write) = (wants(&[Read]), wants(&[Write]));
        let jobs = [(write.clone(), 8), (read.clone(), 2), (read.clone(), 4)];
        check(None, &jobs, (4, 8, true));
        check(Some(8), &[(read, 2), (write, 8)], (0, 0, true));
    }

    #[test]
    fn generated_names_are_not_names_by_the_user() {
        let format = wanted(None, &[(wants(&[Write]), 1)]);
        assert!(!format.named);
        let named = with(wants(&[Write]), |job| {
            job.work.blocks_mut().unwrap().files = Files {
                names: vec!["f".into()],
                unlink: true,
                ..Files::default()
            }
        });
        let named = wanted(None, &[(named, 1)]);
        assert!(named.named && named.unlink && named.invalidate);
    }

    #[test]
    fn a_device_is_named_by_its_job_and_not_by_a_link_at_a_generated_name() {
        for (name, path, named) in [
            ("/dev/sdz", "/dev/sdz", true),
            ("j", "/t/j.0.0", false),
            ("/dev/sdz", "/t/_dev_sdz.0.0", false),
        ] {
            let clones = vec![ResolvedClone {
                job: 0,
                clone: 0,
                files: vec![ResolvedFile {
                    path: path.into(),
                    existing: Some(8 * MIB),
                    kind: FileKind::Device,
                    base: 0,
                    length: MIB,
                }],
                region_bytes: MIB,
                byte_budget: MIB,
                seed: 0,
                replay: None,
            }];
            let resolved = Resolved {
                clones,
                notes: Vec::new(),
            };
            let writer = Job {
                name: name.to_owned(),
                ..wants(&[Write])
            };
            let target = Target::AsWritten {
                folder: "/t".into(),
            };
            let all = of(&resolved, &[writer], &target);
            assert_eq!(all[0].named, named, "{name} at {path}");
        }
    }
}
