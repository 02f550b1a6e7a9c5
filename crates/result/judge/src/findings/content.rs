//! Detects figures that depend on the content of the written data or of the files that were read.

use iodyno_model::{
    Buffers, Content, Finding, FindingKind, Job, MountInfo, StackLayer, Weight, Work,
};
use iodyno_units::Bytes;

use super::{Evidence, finding, list, remedied};
use crate::{devices, work};

/// Reads of holes take no device time; above this percentage of a file they change the figure noticeably.
const UNWRITTEN_PERCENT: f64 = 1.0;

/// From this percentage upwards the figure describes holes.
const MOSTLY_UNWRITTEN_PERCENT: f64 = 50.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    compressible(evidence)
        .into_iter()
        .chain(unwritten(evidence))
        .collect()
}

fn compressible(evidence: &Evidence) -> Option<Finding> {
    let mut what: Vec<String> = Vec::new();
    for (_, job) in evidence.clones_on_files() {
        if !gives_data(job) {
            continue;
        }
        // Files that a reading job laid out have the same content.
        for text in easy_content(&job.buffers) {
            let text = format!("{text} ({})", job.name);
            if !what.contains(&text) {
                what.push(text);
            }
        }
    }
    if what.is_empty() {
        return None;
    }
    let reducer = reducing_layer(evidence);
    let text = match &reducer {
        Some(layer) => format!(
            "{} on {layer}, which may compress or deduplicate",
            list(&what)
        ),
        None => format!(
            "the data are easy to compress or deduplicate: {}",
            list(&what)
        ),
    };
    let weight = match reducer {
        Some(_) => Weight::Warning,
        None => Weight::Note,
    };
    Some(remedied(
        finding(
            FindingKind::Compressible,
            weight,
            text,
            "any zero, pattern, compressible or repeated buffers; a warning on storage that \
             compresses or deduplicates",
        ),
        "use the default buffers (incompressible), unless this is what is measured",
    ))
}

/// Whether the job's buffers are written to the storage. A job that lays out its files fills them even if it only
/// reads; shared files were written by another command.
fn gives_data(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(_) => true,
        Work::FileOperations(operations) => operations.makes_data(),
        Work::SharedFiles(shared) => shared.mode.writes(),
    }
}

fn easy_content(buffers: &Buffers) -> Vec<String> {
    let content = match &buffers.content {
        Content::Random => None,
        Content::Zero => Some("buffers of zeroes".to_owned()),
        Content::Pattern(_) => Some("buffers of a pattern".to_owned()),
        Content::Compressible { percent: 0, .. } => None,
        Content::Compressible { percent, .. } => Some(format!("buffers {percent} % compressible")),
    };
    let dedupe = (buffers.dedupe_percent > 0)
        .then(|| format!("{} % repeated blocks", buffers.dedupe_percent));
    content.into_iter().chain(dedupe).collect()
}

/// A layer below the targets that can compress or deduplicate.
fn reducing_layer(evidence: &Evidence) -> Option<String> {
    let parts = &evidence.trial.parts;
    let mount = parts
        .iter()
        .flat_map(devices::file_systems)
        .find(|mount| reduces(mount))
        .map(|mount| mount.file_system.clone());
    mount.or_else(|| {
        parts
            .iter()
            .flat_map(|part| &part.environment.targets)
            .flat_map(|target| &target.stack)
            .find_map(|layer| match layer {
                StackLayer::Mapped { name, .. } if name.contains("vdo") => Some(name.clone()),
                layer => layer
                    .device()
                    .filter(|device| device.name.starts_with("zram"))
                    .map(|device| device.name.clone()),
            })
    })
}

fn reduces(mount: &MountInfo) -> bool {
    mount.file_system.contains("zfs") || mount.options.contains("compress")
}

fn unwritten(evidence: &Evidence) -> Option<Finding> {
    let files = || evidence.trial.parts.iter().flat_map(|part| &part.files);
    let reads = files().any(|file| file.read);
    // Files that the trial creates are intentionally empty.
    let makes = |job: &Job| {
        let shared = job.work.shared_files();
        shared.is_some_and(|shared| shared.mode.makes_files())
    };
    let mut jobs = evidence.clones_on_files().map(|(_, job)| job);
    let writes = jobs.any(|job| work::writes(job) && !makes(job));
    let shared = evidence.only_shared();
    // A file that is only written can be empty at the start.
    let (length, holes) = files()
        .filter(|file| file.read || !reads)
        .filter_map(|file| Some((file.length, file.unwritten?)))
        .fold((0u64, 0u64), |sum, file| (sum.0 + file.0, sum.1 + file.1));
    let percent = holes as f64 * 100.0 / length.max(1) as f64;
    if percent < UNWRITTEN_PERCENT || !(reads || writes) {
        return None;
    }
    let amount = format!("{} of {} ({percent:.0} %)", Bytes(holes), Bytes(length));
    let found = |weight, text| {
        finding(
            FindingKind::Unwritten,
            weight,
            text,
            format!(
                "≥ {UNWRITTEN_PERCENT} % of the files never written; \
             ≥ {MOSTLY_UNWRITTEN_PERCENT} %: reads measure holes"
            ),
        )
    };
    Some(match reads {
        true => remedied(
            found(
                match percent >= MOSTLY_UNWRITTEN_PERCENT {
                    true => Weight::Invalid,
                    false => Weight::Warning,
                },
                format!(
                    "{amount} had never been written when reading began: such reads access no data"
                ),
            ),
            match shared {
                true => "make the files with `prepare` first",
                false => "write the files first, or remove them: iodyno then lays them out",
            },
        ),
        false => remedied(
            found(
                Weight::Note,
                format!(
                    "{amount} had never been written: first writes also allocate or convert extents"
                ),
            ),
            match shared {
                true => "make the files with `prepare` first, to measure writes in place",
                false => "set overwrite=1 to measure writes in place",
            },
        ),
    })
}
