//! What the commands of a trial leave behind: running processes and mounts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_host::{ProcessStat, Roots, marked, mounts, signal_marked, text};
use iodyno_model::printable::shell_path;
use rustix::process::Signal;

/// The longest wait for the end of killed processes.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// The most processes that are named in a note.
const NAMED: usize = 5;

/// Kills the processes that commands started in a folder below `folder`, except daemons, which have a session of their
/// own. Returns notes on both.
pub(super) fn kill_processes(folder: &Path) -> Vec<String> {
    let roots = Roots::host();
    let below = format!("{}/", folder.display());
    let wanted = |mark: &str| mark.starts_with(&below);
    let running = |own_session: bool| -> Vec<u32> {
        let all = marked(&roots, &wanted).into_iter();
        all.filter(|pid| {
            let stat = ProcessStat::of(&roots, *pid).filter(|stat| !stat.has_ended());
            stat.is_some_and(|stat| (stat.group == stat.session) == own_session)
        })
        .collect()
    };
    let describe = |pids: &[u32]| {
        let named = pids.iter().take(NAMED).map(|pid| {
            let name = text(roots.proc.join(format!("{pid}/comm"))).unwrap_or_default();
            format!("{pid} (`{name}`)")
        });
        let more = pids.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("{more} more"));
        named.chain(more).collect::<Vec<_>>().join(", ")
    };
    let mut left = running(false);
    let mut notes = Vec::new();
    if !left.is_empty() {
        let (killed, begun) = (describe(&left), Instant::now());
        // A process can start others until it is dead.
        while !left.is_empty() && begun.elapsed() < AFTER_KILL {
            for pid in &left {
                signal_marked(&roots, *pid, &wanted, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
            left = running(false);
        }
        notes.push(match left.is_empty() {
            true => format!("processes that the command left running were killed: {killed}"),
            false => format!(
                "processes that the command left running cannot be killed: {}",
                describe(&left)
            ),
        });
    }
    let daemons = running(true);
    if !daemons.is_empty() {
        notes.push(format!(
            "daemons that the command started still run: {}; stop them in `cleanup`",
            describe(&daemons)
        ));
    }
    notes
}

/// How to remove a folder by hand. What is mounted in it must be unmounted first: `rm -r` would remove its content.
pub(super) fn removal(folder: &Path) -> String {
    let own = mounts::own(&Roots::host());
    let points = own.into_iter().map(|mount| mount.point);
    removal_of(
        folder,
        &points
            .filter(|at| at.starts_with(folder))
            .collect::<Vec<_>>(),
    )
}

/// `mounted`: the mount points in it, in the order of mounting.
fn removal_of(folder: &Path, mounted: &[PathBuf]) -> String {
    // The last mount is undone first.
    let steps = mounted.iter().rev();
    let steps = steps.map(|point| format!("umount {} && ", shell_path(point)));
    format!("{}rm -r {}", steps.collect::<String>(), shell_path(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_in_a_folder_is_unmounted_before_it_is_removed() {
        let of = |points: &[&str]| {
            let points: Vec<PathBuf> = points.iter().map(PathBuf::from).collect();
            removal_of(Path::new("/t/a b"), &points)
        };
        assert_eq!(of(&[]), "rm -r '/t/a b'");
        assert_eq!(
            of(&["/t/a b/m", "/t/a b/m/n"]),
            "umount '/t/a b/m/n' && umount '/t/a b/m' && rm -r '/t/a b'"
        );
    }
}
