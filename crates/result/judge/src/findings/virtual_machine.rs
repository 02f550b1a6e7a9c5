//! Detects that what a virtual machine synced is not durable, and that its instructions were emulated.

use iodyno_model::{DiskCache, Environment, Finding, FindingKind, StackLayer, Weight};

use super::{Evidence, finding, remedied};

/// Part of the name of qemu's emulated CPU.
const EMULATED: &str = "QEMU TCG";
/// A device whose volatile cache the kernel flushes, and one to which it sends no flushes.
const FLUSHED: &str = "write back";
const NOT_FLUSHED: &str = "write through";

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let environments = evidence.trial.parts.iter().map(|part| &part.environment);
    environments
        .flat_map(|environment| [flushes(environment), emulated(environment)])
        .flatten()
        .collect()
}

/// The guest sees another write cache than qemu's disk has, or qemu ignores flushes.
fn flushes(environment: &Environment) -> Option<Finding> {
    let facts = &environment.made.as_ref()?.facts;
    let fact = |name: &str| facts.get(&format!("vm.{name}"));
    let backend = fact(DiskCache::SEEN_FACT)?;
    let disks = environment.targets.iter().flat_map(|target| &target.stack);
    let mut disks = disks.filter_map(|layer| match layer {
        StackLayer::Disk(device) => Some((&device.name, device.queue.get("write_cache")?)),
        _ => None,
    });
    let unflushed = disks.find(|(_, seen)| *seen == NOT_FLUSHED);
    let ignored = fact("disks").is_some_and(|disks| disks.contains("cache=unsafe"));
    let (text, remedy) = match unflushed {
        Some((name, _)) if backend == FLUSHED => (
            format!(
                "the guest takes {name} for a device without a write cache and sends it no flushes, but the disk below has one: synced data are not durable"
            ),
            format!(
                "in the guest: echo '{FLUSHED}' > /sys/block/{name}/cache_type, or use cache=writethrough"
            ),
        ),
        Some((name, _)) if backend == DiskCache::NOT_KNOWN => (
            format!(
                "the guest takes {name} for a device without a write cache and sends it no flushes: synced data are durable only if the disk's server makes each write durable"
            ),
            format!("host.queue.write_cache = \"{FLUSHED}\" makes the guest send flushes"),
        ),
        _ if ignored => (
            "qemu ignores the flushes of the guest (cache=unsafe): synced data are not durable"
                .to_owned(),
            "set vm.disk.cache to none or writeback to measure syncs".to_owned(),
        ),
        _ => return None,
    };
    let threshold = "a disk of a guest with write_cache = write through whose backend is write back or not known, or cache=unsafe";
    Some(remedied(
        finding(FindingKind::FlushesLost, Weight::Warning, text, threshold),
        remedy,
    ))
}

fn emulated(environment: &Environment) -> Option<Finding> {
    let model = &environment.cpu.model;
    model.contains(EMULATED).then(|| {
        remedied(
            finding(
                FindingKind::Emulated,
                Weight::Warning,
                format!("the instructions of the guest were emulated ({model}): its rates and CPU times are not those of a host"),
                "a CPU named after qemu's emulation",
            ),
            "use KVM, or compare only with other emulated guests",
        )
    })
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DeviceLayer, MadeTarget, TargetInfo, Trial};

    use super::*;
    use crate::findings::findings;
    use crate::testing::{part, reader, trial, workload};

    /// The kinds of the findings of this file in a trial in a guest.
    fn found(backend: &str, seen: &str, disks: &str, cpu: &str) -> Vec<(FindingKind, String)> {
        let mut part = part(Vec::new());
        let device = DeviceLayer {
            name: "vda".to_owned(),
            queue: [("write_cache".to_owned(), seen.to_owned())].into(),
            ..DeviceLayer::default()
        };
        part.environment.cpu.model = cpu.to_owned();
        part.environment.targets = vec![TargetInfo {
            path: "/dev/iodyno-t/disk0".into(),
            stack: vec![StackLayer::Disk(device)],
        }];
        let facts = [("vm.write cache", backend), ("vm.disks", disks)];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        part.environment.made = Some(MadeTarget {
            facts: facts.into(),
            ..MadeTarget::default()
        });
        let trial = Trial {
            parts: vec![part],
            ..trial(Vec::new())
        };
        let all = findings(&workload("w", vec![reader("r")]), &trial);
        let kinds = [FindingKind::FlushesLost, FindingKind::Emulated];
        let own = all.into_iter().filter(|one| kinds.contains(&one.kind));
        own.map(|one| (one.kind, one.text)).collect()
    }

    #[test]
    fn a_guest_that_sends_no_flushes_to_a_write_cache_is_found() {
        let disks = "virtio-blk, aio=threads, cache=none: …";
        let lost = found(FLUSHED, NOT_FLUSHED, disks, "Xeon");
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].0, FindingKind::FlushesLost);
        assert!(lost[0].1.contains("vda"), "{}", lost[0].1);
        assert_eq!(found(FLUSHED, FLUSHED, disks, "Xeon"), []);
        assert_eq!(found(NOT_FLUSHED, NOT_FLUSHED, disks, "Xeon"), []);
        // A flush more than needed is not wrong.
        assert_eq!(found(NOT_FLUSHED, FLUSHED, disks, "Xeon"), []);
    }

    #[test]
    fn ignored_flushes_and_emulation_are_found() {
        let lost = found(FLUSHED, FLUSHED, "virtio-blk, cache=unsafe: …", "Xeon");
        assert!(lost[0].1.contains("cache=unsafe"), "{lost:?}");
        let emulated = found(FLUSHED, FLUSHED, "cache=none", "QEMU TCG CPU version 2.5+");
        assert_eq!(emulated.len(), 1);
        assert_eq!(emulated[0].0, FindingKind::Emulated);
    }
}
