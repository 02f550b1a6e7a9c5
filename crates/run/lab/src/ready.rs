//! A target that was made for trials, and the nodes that carry them out on it.

use std::path::{Path, PathBuf};

use iodyno_model::{
    BoundPlan, Diagnostic, EngineKind, ExportUri, Layer, MadeTarget, MirrorLayer, Target,
    server_program,
};
use iodyno_runner::{Guest, Node};

/// The target of a trial that is made.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    /// The folder or device.
    pub(crate) path: PathBuf,
    /// The token of its storage.
    pub(crate) token: String,
    /// How it was made.
    pub(crate) about: MadeTarget,
    /// The virtual machines that run its trials, with the node that reaches them; empty: the run's nodes do.
    pub(crate) guests: Vec<Guest>,
    /// The file server that the jobs use; `None`: they use the path.
    pub(crate) share: Option<ExportUri>,
    /// The sockets on which its file servers report statistics.
    pub(crate) stats: Vec<PathBuf>,
    /// Whether it was made for this trial.
    pub(crate) anew: bool,
}

impl Ready {
    /// The nodes within its virtual machines, which this node has started; none without.
    pub(crate) fn nodes<'n>(&self, node: &'n dyn Node) -> Vec<Box<dyn Node + 'n>> {
        nodes(&self.guests, node)
    }

    /// The plan of a trial on this target.
    pub(crate) fn bind(&self, mut plan: BoundPlan) -> BoundPlan {
        // A server of virtio-fs is found by its socket.
        let servers = plan.configuration.provision().into_iter();
        let servers = servers.flat_map(|provision| &provision.layers);
        let servers: Vec<String> = servers
            .filter_map(|layer| match layer {
                Layer::Fuse(server) => Some(server_program(&server.command)),
                Layer::Mirror(_) => Some(MirrorLayer::PROCESS),
                _ => None,
            })
            .map(|program| program.rsplit('/').next().unwrap_or(program).to_owned())
            .collect();
        for name in servers {
            // The other configurations have servers of this name, too.
            if !plan.sampling.processes.contains(&name) {
                plan.sampling.processes.push(name.clone());
                plan.sampling.made_for.insert(name, self.token.clone());
            }
        }
        plan.sampling.stats = self.stats.clone();
        on_target(&mut plan, &self.path, self.share.as_ref());
        plan
    }
}

/// Binds a plan to a target that was made. Where it has a server, the jobs are its clients.
pub(crate) fn on_target(plan: &mut BoundPlan, path: &Path, share: Option<&ExportUri>) {
    plan.configuration.target = Target::Path(path.to_owned());
    // Its content was written by this run.
    plan.destroy.push(path.to_owned());
    let Some(server) = share else { return };
    if server.engine() == EngineKind::VhostUserBlk {
        plan.destroy.push(PathBuf::from(server.to_string()));
    } else {
        plan.shared = Some(path.to_owned());
    }
    for job in &mut plan.workload.jobs {
        if let Some(blocks) = job.work.blocks_mut() {
            blocks.engine = blocks.engine.of_client(server);
        }
    }
}

/// The nodes within these virtual machines, which this node has started.
fn nodes<'n>(guests: &[Guest], node: &'n dyn Node) -> Vec<Box<dyn Node + 'n>> {
    guests
        .iter()
        .filter_map(|guest| node.guest(guest))
        .collect()
}

/// The same on each node that runs trials on a target of this node.
pub(crate) fn on_each(
    guests: &[Guest],
    node: &dyn Node,
    mut work: impl FnMut(&dyn Node) -> Result<(), Vec<Diagnostic>>,
) -> Result<(), Vec<Diagnostic>> {
    match nodes(guests, node) {
        within if within.is_empty() => work(node),
        within => within.iter().try_for_each(|node| work(node.as_ref())),
    }
}
