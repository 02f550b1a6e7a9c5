//! The nodes on which each trial of a run runs at once: `--node NAME=ADDRESS`, or those of an experiment.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use iodyno_host::on_threads;
use iodyno_lab::LabNode;
use iodyno_model::{Diagnostic, NodeAddress, PlannedNode};
use iodyno_runner::{FioNode, LocalNode, Node, SshNode, node_program};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::logging;

/// The nodes of a run, connected.
pub(crate) struct Nodes(Vec<(PlannedNode, Place)>);

enum Place {
    Here(LocalNode),
    Elsewhere(Box<SshNode>),
    WithFio(Box<FioNode>),
}

impl Place {
    fn node(&self) -> &dyn Node {
        match self {
            Place::Here(node) => node,
            Place::Elsewhere(node) => node.as_ref(),
            Place::WithFio(node) => node.as_ref(),
        }
    }
}

impl Nodes {
    /// This host, as the only node.
    pub(crate) fn here(verbose: u8) -> Result<Nodes, Failure> {
        let here = Place::Here(local_node(verbose));
        Ok(Nodes(vec![(PlannedNode::new("", "local"), here)]))
    }

    /// Connects to the nodes of a plan, many at the same time; without any, this host is the only one. Reports every
    /// node that cannot be used.
    pub(crate) fn connect(planned: &[PlannedNode], verbose: u8) -> Result<Nodes, Failure> {
        if planned.is_empty() {
            return Nodes::here(verbose);
        }
        let here = local_node(verbose);
        let flags: Vec<String> = logging::node_flags(verbose).into_iter().collect();
        let connect = |node: &PlannedNode| match node.at.parse::<NodeAddress>() {
            Ok(NodeAddress::Local) => Ok(Place::Here(here.clone())),
            Ok(NodeAddress::Ssh(address)) => {
                let program = node.program.as_ref().map(|it| it.path.as_path());
                SshNode::connect(&address, node.sudo, program, flags.clone())
                    .map(|node| Place::Elsewhere(Box::new(node)))
            }
            Ok(NodeAddress::Fio(address)) => {
                FioNode::connect(here.clone(), address.as_ref(), node.sudo)
                    .map(|node| Place::WithFio(Box::new(node)))
            }
            Ok(NodeAddress::Vm(_)) => {
                let fault = format!(
                    "`{}` is a virtual machine, which `iodyno run JOBS --node` starts",
                    node.at
                );
                Err(Diagnostic::error(fault).hint(NodeAddress::VM_IN_EXPERIMENT))
            }
            Err(why) => Err(Diagnostic::error(format!(
                "`{}` is not an address: {why}",
                node.at
            ))),
        };
        let places = some_at_once(planned, connect);
        let (mut nodes, mut faults) = (Vec::new(), Vec::new());
        for (node, place) in planned.iter().zip(places) {
            match place {
                Ok(place) => nodes.push((node.clone(), place)),
                Err(fault) => faults.push(Diagnostic {
                    message: format!("node `{}`: {}", node.name, fault.message),
                    ..fault
                }),
            }
        }
        match faults.is_empty() {
            true => Ok(Nodes(nodes)),
            false => Err(Failure {
                exit: Exit::CheckFailed,
                faults,
            }),
        }
    }

    /// The nodes as `lab` uses them, in the order of the plan.
    pub(crate) fn list(&self) -> Vec<LabNode<'_>> {
        let nodes = self.0.iter().map(|(planned, place)| LabNode {
            name: planned.name.clone(),
            node: place.node(),
            here: matches!(place, Place::Here(_)),
            only_sampled: planned.only_sampled,
        });
        nodes.collect()
    }
}

/// This host as a node.
fn local_node(verbose: u8) -> LocalNode {
    let mut node = LocalNode::this_program();
    node.arguments
        .extend(logging::node_flags(verbose).map(Into::into));
    node
}

/// Concurrent connection attempts per CPU: the key exchange of ssh takes tens of milliseconds of CPU time, and the time
/// for a connection is limited.
const CONNECTING_PER_CPU: usize = 8;

/// Runs `work` for each node, for some of them at the same time. Returns the results in the order of the nodes.
fn some_at_once<R: Send>(
    planned: &[PlannedNode],
    work: impl Fn(&PlannedNode) -> Result<R, Diagnostic> + Sync,
) -> Vec<Result<R, Diagnostic>> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = planned.len().min(cpus * CONNECTING_PER_CPU);
    let (work, next) = (&work, &AtomicUsize::new(0));
    let worker = || {
        let take = || {
            let place = next.fetch_add(1, Ordering::Relaxed);
            Some((place, work(planned.get(place)?)))
        };
        std::iter::from_fn(take).collect::<Vec<_>>()
    };
    let done = on_threads(0..threads, |_| worker());
    let done: BTreeMap<_, _> = done.into_iter().flatten().collect();
    done.into_values().collect()
}

/// The nodes with the program of `--node-binary`. Nodes of a stored run keep theirs, which may have moved there.
///
/// # Errors
/// The program cannot be read, or is not that of the stored run.
pub(crate) fn with_program(
    mut nodes: Vec<PlannedNode>,
    binary: Option<&Path>,
) -> Result<Vec<PlannedNode>, Failure> {
    for node in &mut nodes {
        let stored = node.program.take();
        let path = binary.or(stored.as_ref().map(|it| it.path.as_path()));
        let (Some(path), Ok(NodeAddress::Ssh(_))) = (path, node.at.parse()) else {
            continue;
        };
        let of_run = format!("the program of node `{}` in this run", node.name);
        let hint = "restore it, or give the same program with `--node-binary`; a new run can use another one";
        let program = node_program(path).map_err(|error| match &stored {
            None => Failure::file("read", path, &error),
            Some(_) => {
                let fault = format!("cannot read `{}`, {of_run}: {error}", path.display());
                Failure::one(Diagnostic::error(fault).hint(hint))
            }
        })?;
        if stored
            .as_ref()
            .is_some_and(|it| it.sha256 != program.sha256)
        {
            let fault = format!("`{}` is not {of_run}: its content differs", path.display());
            return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
        }
        node.program = Some(program);
    }
    Ok(nodes)
}

/// The nodes of the `--node` flags.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn planned(flags: &[String]) -> Result<Vec<PlannedNode>, Vec<Diagnostic>> {
    let (mut nodes, mut faults): (Vec<PlannedNode>, _) = (Vec::new(), Vec::new());
    for flag in flags {
        let (name, at) = flag.split_once('=').unwrap_or(("", flag));
        let fault = if name.is_empty() {
            Some((
                "has no name".to_owned(),
                format!("write `--node NAME={at}`"),
            ))
        } else if PlannedNode::name_fault(name).is_some() {
            let hint = "use letters, digits, `.`, `_` and `-`".to_owned();
            Some(("has a name with other characters".to_owned(), hint))
        } else if nodes.iter().any(|other| other.name == name) {
            let hint = "give each node its own name".to_owned();
            Some((format!("repeats the name `{name}`"), hint))
        } else {
            let hint = format!(
                "write `--node {name}=ssh://HOST`, `--node {name}=local` or `--node {name}=vm:linux,disk=1GiB`"
            );
            at.parse::<NodeAddress>()
                .err()
                .map(|why| (format!("is not an address: {why}"), hint))
        };
        match fault {
            None => nodes.push(PlannedNode::new(name, at)),
            Some((what, hint)) => {
                faults.push(Diagnostic::error(format!("`--node {flag}` {what}")).hint(hint));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(nodes),
        false => Err(faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_many_nodes_are_in_their_order() {
        let nodes: Vec<PlannedNode> = (0..500)
            .map(|number| PlannedNode::new(format!("n{number}"), "local"))
            .collect();
        let names = some_at_once(&nodes, |node| match node.name.as_str() {
            "n7" => Err(Diagnostic::error("no")),
            name => Ok(name.to_owned()),
        });
        assert_eq!(names.len(), 500);
        for (node, name) in nodes.iter().zip(names) {
            assert_eq!(name.ok(), (node.name != "n7").then(|| node.name.clone()));
        }
    }

    #[test]
    fn a_node_has_a_name_and_an_address() {
        let parsed = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
            planned(&flags)
                .map_err(|faults| faults.into_iter().map(|f| f.message).collect::<Vec<_>>())
        };
        let nodes = parsed(&["a=ssh://ada@10.0.0.1:2222", "b=local"]).unwrap();
        let nodes: Vec<(&str, &str)> = nodes.iter().map(|n| (&*n.name, &*n.at)).collect();
        assert_eq!(nodes, [("a", "ssh://ada@10.0.0.1:2222"), ("b", "local")]);
        for (flag, words) in [
            ("ssh://h", "has no name"),
            ("=local", "has no name"),
            ("a b=local", "other characters"),
            (
                "b=http://h",
                "is not an address: it does not begin with `ssh://`",
            ),
            ("b=vm:bsd", "`bsd` is not a kind of virtual machine"),
            ("b=ssh://-oProxyCommand=x", "begins with `-`"),
            ("a=local", "repeats the name `a`"),
        ] {
            let faults = parsed(&["a=local", flag]).unwrap_err();
            assert!(
                faults.len() == 1 && faults[0].contains(words),
                "{flag}: {faults:?}"
            );
        }
    }
}
