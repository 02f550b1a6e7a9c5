//! Finds clones that would change the same zones of a zoned device: each tracks write pointers separately.

use iodyno_model::Work;
use iodyno_sys::zones::{device_number, zone_length};

use crate::spec::CloneSpec;

/// A part of a zoned device that a clone uses by zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part<'a> {
    name: &'a str,
    device: u64,
    start: u64,
    end: u64,
    writes: bool,
}

/// The first device on which two clones use the same zones, at least one of them for writing. Clones that run one after
/// the other are included: they read the state of the zones before the first one starts.
pub fn shared_zones<'a>(clones: impl Iterator<Item = &'a CloneSpec>) -> Option<&'a str> {
    let parts: Vec<Part<'a>> = clones.flat_map(parts_of).collect();
    first_shared(&parts)
}

fn parts_of(spec: &CloneSpec) -> Vec<Part<'_>> {
    let Work::Blocks(blocks) = &spec.job.work else {
        return Vec::new();
    };
    if blocks.extent.write_zones.is_none() {
        return Vec::new();
    }
    let files = spec.files.iter().filter(|file| file.device);
    let parts = files.filter_map(|file| {
        let device = file.descriptor.as_ref()?;
        zone_length(device)?;
        Some(Part {
            name: &file.name,
            device: device_number(device)?,
            start: file.base,
            end: file.base + file.length,
            writes: blocks.access.writes,
        })
    });
    parts.collect()
}

fn first_shared<'a>(parts: &[Part<'a>]) -> Option<&'a str> {
    let meets = |one: &Part<'_>, other: &Part<'_>| {
        one.device == other.device
            && one.start < other.end
            && other.start < one.end
            && (one.writes || other.writes)
    };
    let mut all = parts.iter().enumerate();
    all.find_map(|(place, one)| {
        let mut rest = parts[place + 1..].iter();
        rest.any(|other| meets(one, other)).then_some(one.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_zones_only_if_all_read() {
        let part = |device, start, end, writes| Part {
            name: "a",
            device,
            start,
            end,
            writes,
        };
        let shared = |one, other| first_shared(&[one, other]).is_some();
        assert!(shared(part(1, 0, 8, true), part(1, 4, 12, false)));
        assert!(!shared(part(1, 0, 8, false), part(1, 4, 12, false)));
        assert!(!shared(part(1, 0, 8, true), part(1, 8, 12, true)));
        assert!(!shared(part(1, 0, 8, true), part(2, 4, 12, true)));
    }
}
