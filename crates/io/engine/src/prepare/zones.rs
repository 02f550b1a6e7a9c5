//! The zones of zoned devices, as `zonemode=zbd` of fio uses them, before a job begins.

use iodyno_model::{Blocks, Direction, WriteZones};
use iodyno_sys::zones::{Zone, ZoneKind, open_limit, zone_length, zones};
use iodyno_units::Bytes;

use crate::outcome::WorkerError;
use crate::spec::{CloneSpec, JobFile};
use crate::stream::DeviceZones;

/// Why a job cannot run on zones: the cause and the remedy.
type Refusal = (String, &'static str);

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
    let refused = |name: &str, (cause, hint): Refusal| {
        WorkerError::new(format!("use `zonemode=zbd` on `{name}`"), cause).hint(hint)
    };
    let name = spec.files.first().map_or("", |file| file.name.as_str());
    let of_first = |refusal| refused(name, refusal);
    let Some(size) = zone_size(spec, &rule).map_err(of_first)? else {
        return Ok(None);
    };
    check_job(blocks, &rule, size).map_err(of_first)?;
    let mut found = DeviceZones {
        rule,
        written: Vec::new(),
    };
    let mut limit = u32::MAX;
    let mut capacity = None;
    for file in &spec.files {
        let zones = in_region(file, size).map_err(|refusal| refused(&file.name, refusal))?;
        for zone in &zones {
            if *capacity.get_or_insert(zone.capacity) != zone.capacity {
                let cause = format!("its zones differ in capacity (at {})", Bytes(zone.start));
                let hint = "use a region with `offset` and `size` whose zones are alike";
                return Err(of_first((cause, hint)));
            }
        }
        (found.written).push(zones.iter().map(|zone| zone.written).collect());
        limit = match file.descriptor.as_ref().map_or(0, open_limit) {
            0 => limit,
            own => limit.min(own),
        };
    }
    let capacity = match (capacity.unwrap_or(size), rule.capacity) {
        (capacity, 0) => capacity,
        (capacity, own) => own.min(capacity),
    };
    check_capacity(blocks, capacity).map_err(of_first)?;
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

/// The length of the zones of all files, bytes. `None`: they have none, and the job sets a length.
fn zone_size(spec: &CloneSpec, rule: &WriteZones) -> Result<Option<u64>, Refusal> {
    let lengths = spec.files.iter().map(|file| match &file.descriptor {
        Some(device) if file.device => zone_length(device),
        _ => None,
    });
    let lengths: Vec<Option<u64>> = lengths.collect();
    let size = match lengths.first().copied().flatten() {
        Some(size) => size,
        None if lengths.iter().any(Option::is_some) => {
            let cause = "some of the files have zones, and this one has none".to_owned();
            return Err((cause, "use a job for each"));
        }
        None if rule.size > 0 => return Ok(None),
        None => return Err(("it has no zones of its own".to_owned(), "add `zonesize=…`")),
    };
    if lengths.iter().any(|length| *length != Some(size)) {
        let cause = "the zones of the files differ in length".to_owned();
        return Err((cause, "use a job for each"));
    }
    Ok(Some(size))
}

/// Refuses jobs that cannot run on zones of this length, bytes.
fn check_job(blocks: &Blocks, rule: &WriteZones, size: u64) -> Result<(), Refusal> {
    let (own, found) = (Bytes(rule.size), Bytes(size));
    if rule.size != 0 && rule.size != size {
        let cause = format!("`zonesize` is {own}, and its zones have {found}");
        return Err((cause, "leave `zonesize` out"));
    }
    if u32::try_from(size).is_err() {
        return Err((
            format!("zones of {found} are too long"),
            "use another device",
        ));
    }
    if blocks.access.writes && !blocks.engine.direct {
        let cause = "a zoned device is not written through the page cache".to_owned();
        return Err((cause, "add `direct=1`"));
    }
    if blocks.verify.is_some() {
        let cause = "emptying a zone removes blocks to verify".to_owned();
        return Err((cause, "leave `verify` out"));
    }
    Ok(())
}

/// Refuses a capacity that writes do not fill: the remaining part of such a zone would keep it open.
fn check_capacity(blocks: &Blocks, capacity: u64) -> Result<(), Refusal> {
    let least = blocks.access.block_sizes.get(Direction::Write);
    let least = least.map_or(1, |sizes| sizes.min().max(1));
    if !blocks.access.writes || capacity.is_multiple_of(least) {
        return Ok(());
    }
    let cause = format!(
        "{} of each zone can be written, not a multiple of {}",
        Bytes(capacity),
        Bytes(least)
    );
    Err((cause, "choose another `bs`, or set `zonecapacity`"))
}

/// The whole zones of a region, all of which can be written from start to end; otherwise the cause and the remedy.
fn in_region(file: &JobFile, size: u64) -> Result<Vec<Zone>, Refusal> {
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
