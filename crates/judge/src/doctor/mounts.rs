//! File systems of the targets: options that change what is measured, and room.

use iodyno_model::{Check, CheckState, Environment, MountInfo, StackLayer};
use iodyno_units::Bytes;

use super::{check, remedied, unknown};
use CheckState::{Fine, Note, Unfit};

/// Options that make every write another thing than users of the file system know, with what to do about them.
const UNFIT: [(&str, &str); 7] = [
    ("ro", "nothing can be written"),
    ("sync", "every write is synced"),
    ("dirsync", "every change of a folder is synced"),
    ("data=journal", "data are written twice"),
    ("nobarrier", "syncs do not reach the medium"),
    ("barrier=0", "syncs do not reach the medium"),
    ("norecovery", "the journal is not used"),
];

/// Room that is left, in percent: allocators slow down as a file system fills, and so do the devices below.
const FREE_PERCENT: (f64, f64) = (20.0, 10.0);

/// … and in bytes: a working set larger than a cache has no place in less.
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
    let wrong: Vec<String> = (UNFIT.iter())
        .filter(|(option, _)| has(option))
        .map(|(option, means)| format!("{option}: {means}"))
        .collect();
    if !wrong.is_empty() {
        let remedy = match (has("ro"), has("data=journal")) {
            (true, _) => format!("mount -o remount,rw {point}, after a look at the kernel's log"),
            (_, true) => format!("umount {point}, and mount it without data=journal"),
            _ => format!("mount -o remount,async,barrier {point}, and the same in /etc/fstab"),
        };
        return remedied(check(name, Unfit, wrong.join("; "), rule), remedy);
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
            format!("mount -o remount,relatime {point}"),
        ),
        false => check(name, Fine, in_words, rule),
    }
}

/// Only where it is on.
fn online_discard(mount: &MountInfo) -> Option<Check> {
    let point = mount.point.display();
    let online = |option: &&str| *option == "discard" || option.starts_with("discard=");
    let option = options_of(mount).into_iter().find(online)?;
    Some(remedied(
        check(
            format!("discard on {point}"),
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
        return unknown(name, "the file system does not tell", rule);
    }
    let percent = mount.free as f64 * 100.0 / mount.total as f64;
    let state = match percent {
        percent if percent < FREE_PERCENT.1 => Unfit,
        percent if percent < FREE_PERCENT.0 || mount.free < FREE_BYTES => Note,
        _ => Fine,
    };
    let found = format!(
        "{} of {} ({percent:.0} %)",
        Bytes(mount.free),
        Bytes(mount.total)
    );
    remedied(
        check(name, state, found, rule),
        format!(
            "remove what is not needed: du -xh --max-depth=2 {} | sort -h",
            mount.point.display()
        ),
    )
}
