//! The work of a job: one of three kinds.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    Access, Blocks, Direction, Engine, EngineKind, Operations, Replay, SharedFiles, ShellCommand,
    SimClock,
};

/// The work of a job. Settings that apply to one kind of work only are fields of that kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(
    clippy::large_enum_variant,
    reason = "the largest kind is the usual one, and jobs are few"
)]
pub enum Work {
    /// Reads and writes at offsets, in fio's sense.
    Blocks(Blocks),
    /// Cycles of file operations: create, write, sync, rename, unlink, …
    FileOperations(Operations),
    /// A set of files shared by all clones, as in sysbench's fileio test.
    SharedFiles(SharedFiles),
}

impl Default for Work {
    fn default() -> Work {
        Work::Blocks(Blocks::default())
    }
}

impl Work {
    /// The recorded kinds of op, in table order.
    pub fn directions(&self) -> Vec<Direction> {
        match self {
            Work::Blocks(_) | Work::SharedFiles(_) => Direction::ALL.to_vec(),
            Work::FileOperations(operations) => operations.directions(),
        }
    }

    /// The engine. File operations have none: their system calls take names, not offsets.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Work::Blocks(blocks) => Some(&blocks.engine),
            Work::SharedFiles(shared) => Some(&shared.engine),
            Work::FileOperations(_) => None,
        }
    }

    /// Mutable access to [`Work::engine`].
    pub fn engine_mut(&mut self) -> Option<&mut Engine> {
        match self {
            Work::Blocks(blocks) => Some(&mut blocks.engine),
            Work::SharedFiles(shared) => Some(&mut shared.engine),
            Work::FileOperations(_) => None,
        }
    }

    /// The engine's name, as results show it.
    pub fn engine_name(&self) -> &'static str {
        match self {
            Work::FileOperations(Operations {
                command: Some(_), ..
            }) => "command",
            _ => self
                .engine()
                .map_or("file operations", |engine| engine.kind.name()),
        }
    }

    /// Maximum number of ops in flight per clone.
    pub fn depth(&self) -> u32 {
        self.engine().map_or(1, |engine| engine.depth)
    }

    /// Length of the buffers of each clone, bytes. Those of a replay depend on its trace.
    pub fn buffer_bytes(&self) -> u64 {
        let request = self.shared_files().map_or(0, SharedFiles::request);
        let block = self.access().map_or(0, |access| access.max_block());
        u64::from(self.depth()).saturating_mul(request.max(block))
    }

    /// Number of files of each clone that have names of their own.
    pub fn file_count(&self) -> u64 {
        match self {
            Work::Blocks(blocks) => blocks.files.count.into(),
            Work::SharedFiles(shared) => shared.count.into(),
            Work::FileOperations(_) => 0,
        }
    }

    /// The work, if it is of this kind.
    pub fn blocks(&self) -> Option<&Blocks> {
        match self {
            Work::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// Mutable access to [`Work::blocks`].
    pub fn blocks_mut(&mut self) -> Option<&mut Blocks> {
        match self {
            Work::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// The replay of a trace, if it is one.
    pub fn replay(&self) -> Option<&Replay> {
        self.blocks()?.replay.as_ref()
    }

    /// The work, if it is of this kind.
    pub fn file_operations(&self) -> Option<&Operations> {
        match self {
            Work::FileOperations(operations) => Some(operations),
            _ => None,
        }
    }

    /// The command that it runs, if it runs one.
    pub fn command(&self) -> Option<&ShellCommand> {
        self.file_operations()?.command.as_ref()
    }

    /// Mutable access to [`Work::file_operations`].
    pub fn file_operations_mut(&mut self) -> Option<&mut Operations> {
        match self {
            Work::FileOperations(operations) => Some(operations),
            _ => None,
        }
    }

    /// The work, if it is of this kind.
    pub fn shared_files(&self) -> Option<&SharedFiles> {
        match self {
            Work::SharedFiles(shared) => Some(shared),
            _ => None,
        }
    }

    /// Whether it accesses files or devices; null and simulated engines do not.
    pub fn on_files(&self) -> bool {
        self.engine()
            .is_none_or(|engine| !engine.kind.without_files())
    }

    /// Whether it runs in virtual time if all jobs of its workload do. Only blocks can be simulated in
    /// virtual time: file operations take the host's time.
    pub fn in_virtual_time(&self) -> bool {
        self.blocks().is_some_and(|Blocks { engine, .. }| {
            let clock = engine.sim.as_ref().map(|sim| sim.clock);
            engine.kind == EngineKind::Sim && clock != Some(SimClock::Real)
        })
    }

    /// Whether ops bypass the page cache, as far as requested.
    pub fn direct(&self) -> bool {
        self.engine().is_some_and(|engine| engine.direct)
    }

    /// The directions issued at offsets, in table order.
    pub fn moves(&self) -> Vec<Direction> {
        self.access()
            .map_or(Vec::new(), |access| access.directions().collect())
    }

    /// Mutable access to [`Work::shared_files`].
    pub fn shared_files_mut(&mut self) -> Option<&mut SharedFiles> {
        match self {
            Work::SharedFiles(shared) => Some(shared),
            _ => None,
        }
    }

    /// Directions, order and block sizes; file operations have none.
    pub fn access(&self) -> Option<Cow<'_, Access>> {
        match self {
            Work::Blocks(blocks) => Some(Cow::Borrowed(&blocks.access)),
            Work::SharedFiles(shared) => Some(Cow::Owned(shared.access())),
            Work::FileOperations(_) => None,
        }
    }

    /// The closest equivalent of the work in a job file: for formats that support nothing else.
    pub fn as_blocks(&self) -> Cow<'_, Blocks> {
        match self {
            Work::Blocks(blocks) => Cow::Borrowed(blocks),
            Work::SharedFiles(shared) => Cow::Owned(shared.as_blocks()),
            Work::FileOperations(_) => Cow::Owned(Blocks::default()),
        }
    }
}
