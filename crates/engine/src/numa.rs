//! The CPUs of NUMA nodes, as the kernel lists them.

use std::io;
use std::path::Path;

/// Where the kernel lists its nodes.
pub(crate) const NODES: &str = "/sys/devices/system/node";

/// The CPUs of these nodes, ascending, each once.
///
/// # Errors
/// A node that is not there, or has no CPUs.
pub(crate) fn cpus_of(root: &Path, nodes: &[u32]) -> io::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for node in nodes {
        let path = root.join(format!("node{node}/cpulist"));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("node {node}: {error}")))?;
        let found = list(text.trim()).ok_or_else(|| {
            io::Error::other(format!("node {node} has no CPUs (`{}`)", text.trim()))
        })?;
        cpus.extend(found);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Numbers and ranges, `0-3,8`; `None` where there is none or it is something else.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_cpus_the_kernel_lists_for_it() {
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
    fn this_host_has_a_node_of_cpus() {
        if !Path::new(NODES).join("node0").exists() {
            return;
        }
        assert!(!cpus_of(Path::new(NODES), &[0]).unwrap().is_empty());
    }
}
