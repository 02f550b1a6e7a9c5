//! Built-in workloads and experiments are made to fit the folders in which they run, and leave nothing there.

use iodyno_model::{Configuration, Layer, Provision, Target};

use crate::targets::FoundPaths;

/// Options of built-in jobs, and parameters of ready-made experiments, that fit these folders: `size`, and `direct`
/// where a file system refuses direct I/O.
pub(crate) fn fitting(found: &FoundPaths) -> Vec<(&'static str, String)> {
    let free = found.rooms().map(|room| room.free).min();
    let mut all = Vec::new();
    all.extend(free.map(|free| ("size", format!("{}m", fitting_mib(free)))));
    if found.rooms().any(|room| room.buffered_only) {
        all.push(("direct", "0".to_owned()));
    }
    all
}

/// A tenth of the free space in MiB, as a power of two from 16 MiB to 1 GiB.
fn fitting_mib(free: u64) -> u64 {
    let tenth = (free / 10) >> 20;
    (1 << tenth.max(1).ilog2()).clamp(16, 1024)
}

/// Makes configurations on existing folders use a new folder in each, which is removed after the run.
pub(crate) fn in_new_folders(
    configurations: Vec<Configuration>,
    found: &FoundPaths,
) -> Vec<Configuration> {
    let in_new_folder = |configuration: Configuration| match &configuration.target {
        Target::Path(path) if found.may_be_folder(path) => {
            let layers = vec![Layer::Directory { path: path.clone() }];
            let provision = Provision {
                layers,
                ..Provision::default()
            };
            let target = Target::Made(Box::new(provision));
            Configuration {
                target,
                ..configuration
            }
        }
        _ => configuration,
    };
    configurations.into_iter().map(in_new_folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_a_tenth_of_the_free_space_within_limits() {
        for (free, mib) in [
            (0, 16),
            (1 << 30, 64),
            (5 << 30, 512),
            (1 << 40, 1024),
            (u64::MAX, 1024),
        ] {
            assert_eq!(fitting_mib(free), mib, "{free}");
        }
    }
}
