//! Flags for the nodes of a run.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use iodyno_model::PlannedNode;

use crate::failure::Failure;
use crate::nodes::{planned, with_program};

/// The nodes on which each trial runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NodesArgs {
    /// Run each trial on this node, on all nodes at the same instant; repeat for several.
    ///
    /// ADDRESS is `ssh://[USER@]HOST[:PORT]`, `local` for this host, one of them with `?fio` to have fio do the I/O
    /// there, or, for `iodyno run`, `vm:linux[,KEY=VALUE...]` for a virtual machine that is started for the run. The
    /// results are merged, with a row for each node. Paths are those of the nodes; `--on disk=/dev/vda` is the disk
    /// of a virtual machine. `ssh` has to work without a question. See docs/nodes.md and docs/virtual-machines.md.
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) node: Vec<String>,

    /// Copy this program to nodes that do not have iodyno in this version [default: the one in
    /// `libexec/iodyno/ARCH/` where iodyno is installed].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) node_binary: Option<PathBuf>,
}

impl NodesArgs {
    /// The nodes of a new run.
    ///
    /// # Errors
    /// Every error of every flag.
    pub(crate) fn planned(&self) -> Result<Vec<PlannedNode>, Failure> {
        let nodes = planned(&self.node).map_err(Failure::input)?;
        with_program(nodes, self.node_binary.as_deref())
    }
}
