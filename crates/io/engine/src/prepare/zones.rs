//! The zones of zoned devices, as `zonemode=zbd` of fio uses them, before a job begins.

use iodyno_model::{Blocks, Direction, WriteZones};
use iodyno_sys::zones::{Zone, ZoneKind, open_limit, zone_length, zones};
use iodyno_units::Bytes;

use crate::outcome::WorkerError;
use crate::spec::{CloneSpec, JobFile};
use crate::stream::DeviceZones;

/// The zones of a clone's devices; `None`: the devices have no zones, or the job ignores them.
///
/// # Errors
/// The job cannot run on them.
pub(super) fn of_devices(
    spec: &CloneSpec,
    blocks: &Blocks,
) -> Result<Option<DeviceZones>, WorkerError> {
    let Some(rule) = blocks.extent.write_zones else {
        return Ok(None);
    };
    let lengths = spec.files.iter().map(|file| match &file.descriptor {
        Some(device) if file.device => zone_length(device),
        _ => None,
    });
    let lengths: Vec<Option<u64>> = lengths.collect();
    let refused = |name: &str, cause: String, hint: &str| WorkerError {
        what: format!("use `zonemode=zbd` on `{name}`"),
        cause,
        hint: Some(hint.to_owned()),
    };
    let name = spec.files.first().map_or("", |file| file.name.as_str());
    let size = match lengths.first().copied().flatten() {
        Some(size) => size,
        None if lengths.iter().all(Option::is_none) && rule.size > 0 => return Ok(None),
        None if lengths.iter().all(Option::is_none) => {
            let cause = "it has no zones of its own".to_owned();
            return Err(refused(name, cause, "add `zonesize=…`"));
        }
        None => {
            let cause = "some of the files have zones, and this one has none".to_owned();
            return Err(refused(name, cause, "use a job for each"));
        }
    };
    let one = |hint: &str, cause: String| Err(refused(name, cause, hint));
    if lengths.iter().any(|length| *length != Some(size)) {
        let cause = "the zones of the files differ in length".to_owned();
        return one("use a job for each", cause);
    }
    if rule.size != 0 && rule.size != size {
        let cause = format!(
            "`zonesize` is {}, and its zones have {}",
            Bytes(rule.size),
            Bytes(size)
        );
        return one("leave `zonesize` out", cause);
    }
    if u32::try_from(size).is_err() {
        return one(
            "use another device",
            format!("zones of {} are too long", Bytes(size)),
        );
    }
    if blocks.access.writes && !blocks.engine.direct {
        let cause = "a zoned device is not written through the page cache".to_owned();
        return one("add `direct=1`", cause);
    }
    if blocks.verify.is_some() {
        let cause = "emptying a zone removes blocks to verify".to_owned();
        return one("leave `verify` out", cause);
    }
    let mut found = DeviceZones {
        rule,
        written: Vec::new(),
    };
    let mut limit = u32::MAX;
    let mut capacity = None;
    for file in &spec.files {
        let zones =
            in_region(file, size).map_err(|(cause, hint)| refused(&file.name, cause, hint))?;
        for zone in &zones {
            if *capacity.get_or_insert(zone.capacity) != zone.capacity {
                let cause = format!("its zones differ in capacity (at {})", Bytes(zone.start));
                return one(
                    "use a region with `offset` and `size` whose zones are alike",
                    cause,
                );
            }
        }
        found
            .written
            .push(zones.iter().map(|zone| zone.written).collect());
        limit = match file.descriptor.as_ref().map_or(0, open_limit) {
            0 => limit,
            own => limit.min(own),
        };
    }
    let capacity = capacity.unwrap_or(size);
    let least = blocks.access.block_sizes.get(Direction::Write);
    let least = least.map_or(1, |sizes| sizes.min().max(1));
    let capacity = match rule.capacity {
        0 => capacity,
        own => own.min(capacity),
    };
    if blocks.access.writes && !capacity.is_multiple_of(least) {
        // The remaining part of such a zone would keep it open.
        let cause = format!(
            "{} of each zone can be written, not a multiple of {}",
            Bytes(capacity),
            Bytes(least)
        );
        return one("choose another `bs`, or set `zonecapacity`", cause);
    }
    found.rule = WriteZones {
        size,
        capacity,
        max_open: match (rule.max_open, limit) {
            (own, u32::MAX) => own,
            (0, limit) => limit,
            (own, limit) => own.min(limit),
        },
        ..rule
    };
    Ok(Some(found))
}

/// The whole zones of a region, all of which can be written from start to end; otherwise the cause and the remedy.
fn in_region(file: &JobFile, size: u64) -> Result<Vec<Zone>, (String, &'static str)> {
    if !file.base.is_multiple_of(size) || file.length < size {
        let cause = format!(
            "its region begins at {} with {}, and zones have {}",
            Bytes(file.base),
            Bytes(file.length),
            Bytes(size)
        );
        return Err((
            cause,
            "set `offset` and `size` to whole zones, such as `offset=2z`",
        ));
    }
    let Some(device) = &file.descriptor else {
        return Ok(Vec::new());
    };
    let end = file.base + file.length / size * size;
    let found = zones(device, file.base, end).map_err(|error| {
        (
            format!("its zones cannot be read: {error}"),
            "check the device",
        )
    })?;
    if let Some(zone) = found.iter().find(|zone| zone.kind != ZoneKind::Sequential) {
        let what = match zone.kind {
            ZoneKind::Conventional => "has no write pointer",
            _ => "is broken",
        };
        let cause = format!("the zone at {} {what}", Bytes(zone.start));
        return Err((cause, "choose a region without it by `offset` and `size`"));
    }
    Ok(found)
}
