//! The CPUs and priorities of a worker's thread.

use std::io;
use std::path::Path;

use iodyno_model::{Placement, number_list};
use iodyno_sys::thread;

/// The kernel's list of NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// Sets the calling thread's CPUs and priorities according to the job. Returns a note for each setting that failed.
pub(crate) fn place(placement: &Placement, clone: u32) -> Vec<String> {
    let mut notes = Vec::new();
    let mut cpus = placement.cpus.clone();
    if !placement.numa_cpu_nodes.is_empty() {
        match cpus_of(Path::new(NODES), &placement.numa_cpu_nodes) {
            Ok(found) => cpus = found,
            Err(error) => notes.push(format!("not pinned to its NUMA nodes: {error}")),
        }
    }
    let mut note = |what: &str, result: std::io::Result<()>| {
        if let Err(error) = result {
            notes.push(format!("{what}: {error}"));
        }
    };
    let own = cpus.get(clone as usize % cpus.len().max(1));
    match own {
        Some(cpu) if placement.split => {
            note(&format!("not pinned to CPU {cpu}"), thread::pin_to(&[*cpu]));
        }
        Some(_) => note("not pinned to its CPUs", thread::pin_to(&cpus)),
        None => {}
    }
    if placement.nice != 0 {
        note(
            &format!("nice {} not set", placement.nice),
            thread::set_nice(placement.nice),
        );
    }
    if let Some(priority) = placement.priority() {
        note("I/O priority not set", thread::set_io_priority(priority));
    }
    notes
}

/// The CPUs of these nodes, ascending, each once.
///
/// # Errors
/// A node that does not exist, or has no CPUs.
fn cpus_of(root: &Path, nodes: &[u32]) -> io::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for node in nodes {
        let path = root.join(format!("node{node}/cpulist"));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("node {node}: {error}")))?;
        let found = number_list(&text).ok_or_else(|| {
            io::Error::other(format!("node {node} has no CPUs (`{}`)", text.trim()))
        })?;
        cpus.extend(found);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_cpus_that_the_kernel_lists() {
        let root = tempfile::tempdir().unwrap();
        for (node, cpus) in [(0, "0-3,8-9\n"), (1, "4-7\n"), (2, "\n"), (3, "2,1\n")] {
            let folder = root.path().join(format!("node{node}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), cpus).unwrap();
        }
        for (nodes, cpus) in [
            (vec![0], Some(vec![0, 1, 2, 3, 8, 9])),
            (vec![1, 0], Some((0..=9).collect())),
            (vec![0, 3], Some(vec![0, 1, 2, 3, 8, 9])),
            (vec![2], None),
            (vec![7], None),
            (vec![0, 7], None),
        ] {
            assert_eq!(cpus_of(root.path(), &nodes).ok(), cpus, "{nodes:?}");
        }
        let told = cpus_of(root.path(), &[7]).unwrap_err().to_string();
        assert!(told.contains("node 7"), "{told}");
    }

    #[test]
    fn this_host_has_a_node_with_cpus() {
        if !Path::new(NODES).join("node0").exists() {
            return;
        }
        assert!(!cpus_of(Path::new(NODES), &[0]).unwrap().is_empty());
    }
}
