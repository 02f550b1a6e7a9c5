//! Checks of the targets' file systems: mount options and free space.

use iodyno_model::printable::shell_path;
use iodyno_model::{Check, CheckState, Environment, MountInfo, StackLayer};
use iodyno_units::Bytes;

use super::{check, remedied, scarce, share, unknown};
use CheckState::{Fine, Note, Unfit};

/// Options that change the semantics of every write: their meaning, and the option that reverts them on a
/// mounted file system.
const UNFIT: [(&str, &str, Option<&str>); 7] = [
    ("ro", "nothing can be written", None),
    ("sync", "every write is synced", Some("async")),
    ("dirsync", "every change of a folder is synced", None),
    ("data=journal", "data are written twice", None),
    (
        "nobarrier",
        "syncs do not reach the medium",
        Some("barrier"),
    ),
    (
        "barrier=0",
        "syncs do not reach the medium",
        Some("barrier=1"),
    ),
    ("norecovery", "the journal is not used", None),
];

/// Minimum free space in percent: allocators and devices slow down as a file system fills.
const FREE_PERCENT: (f64, f64) = (20.0, 10.0);

/// … and in bytes: a working set that exceeds the cache needs this much.
const FREE_BYTES: u64 = 4 << 30;

pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let layers = (environment.targets.iter()).flat_map(|target| &target.stack);
    let mounts = layers.filter_map(|layer| match layer {
        StackLayer::Mount(mount) => Some(mount),
        _ => None,
    });
    let each = mounts.flat_map(|mount| {
        [
            Some(options(mount)),
            online_discard(mount),
            Some(free_space(mount)),
        ]
    });
    each.flatten().collect()
}

fn options_of(mount: &MountInfo) -> Vec<&str> {
    mount.options.split(',').map(str::trim).collect()
}

fn options(mount: &MountInfo) -> Check {
    let point = mount.point.display();
    let name = format!("options of {point}");
    let rule = "relatime or noatime, writable, and nothing that changes what a write or a sync is";
    let options = options_of(mount);
    let has = |option: &str| options.contains(&option);
    let wrong = UNFIT.iter().filter(|(option, ..)| has(option));
    let wrong: Vec<_> = wrong.copied().collect();
    if !wrong.is_empty() {
        let found: Vec<String> = wrong
            .iter()
            .map(|(option, means, _)| format!("{option}: {means}"))
            .collect();
        let found = check(name, Unfit, found.join("; "), rule);
        return remedied(found, undone(&shell_path(&mount.point), &wrong));
    }
    let in_words = format!("{} {}", mount.file_system, mount.options);
    match has("strictatime") {
        true => remedied(
            check(
                name,
                Note,
                format!("{in_words}: every read writes a time"),
                rule,
            ),
            format!("mount -o remount,relatime {}", shell_path(&mount.point)),
        ),
        false => check(name, Fine, in_words, rule),
    }
}

/// The remedy for mount options. A file system that the kernel has remounted read-only must be inspected before it is
/// written to.
fn undone(point: &str, wrong: &[(&str, &str, Option<&str>)]) -> String {
    let names: Vec<&str> = wrong.iter().map(|(option, ..)| *option).collect();
    if names.contains(&"ro") {
        return format!(
            "use another file system, or find out why it is read-only: if the kernel's log (dmesg) \
             has errors of it, save the data and run fsck on it unmounted; otherwise run mount -o \
             remount,rw {point}"
        );
    }
    let by: Option<Vec<&str>> = wrong.iter().map(|(.., by)| *by).collect();
    match by {
        Some(by) => format!(
            "mount -o remount,{} {point}, and the same in /etc/fstab",
            by.join(",")
        ),
        None => format!(
            "umount {point}, and mount it without {}",
            names.join(" and ")
        ),
    }
}

/// Reported only if on.
fn online_discard(mount: &MountInfo) -> Option<Check> {
    let (shown, point) = (mount.point.display(), shell_path(&mount.point));
    let online = |option: &&str| *option == "discard" || option.starts_with("discard=");
    let option = options_of(mount).into_iter().find(online)?;
    Some(remedied(
        check(
            format!("discard on {shown}"),
            Note,
            format!("{option}: what is removed is discarded while others are measured"),
            "trimmed beforehand, and not meanwhile",
        ),
        format!("mount -o remount,nodiscard {point}, and fstrim {point} before measuring"),
    ))
}

fn free_space(mount: &MountInfo) -> Check {
    let name = format!("free space on {}", mount.point.display());
    let rule = format!(
        "≥ {} % and ≥ {}; unfit below {} %",
        FREE_PERCENT.0,
        Bytes(FREE_BYTES),
        FREE_PERCENT.1
    );
    if mount.total == 0 {
        return unknown(name, "not reported by the file system", rule);
    }
    let (found, percent) = share(mount.free, mount.total);
    let state = match scarce(percent, FREE_PERCENT) {
        Fine if mount.free < FREE_BYTES => Note,
        state => state,
    };
    let remedy = match percent >= FREE_PERCENT.0 {
        true => "take a larger one: what is measured in it fits into caches".to_owned(),
        false => format!(
            "remove what is not needed: du -xh --max-depth=2 {} | sort -h",
            shell_path(&mount.point)
        ),
    };
    remedied(check(name, state, found, rule), remedy)
}
