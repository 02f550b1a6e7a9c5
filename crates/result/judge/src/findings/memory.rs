//! Memory pressure during the measurement, and writers that were throttled because of dirty pages.

use iodyno_model::{Finding, FindingKind, Job, SeriesKind, Telemetry, Weight};
use iodyno_units::Bytes;

use super::{Evidence, during, finding, remedied};
use crate::series::{View, sum, totals};
use crate::work;

/// Direct reclaims per second. A few happen on any host whose page cache has filled its memory; ten per second affect
/// the tail latencies at any realistic rate.
const STALLS_PER_SECOND: f64 = 10.0;

/// Bytes swapped in and out per second: negligible on a host with enough memory.
const SWAP_PER_SECOND: f64 = 1048576.0;

/// The kernel's own thread scanned this many bytes per second although no job uses the page cache.
const KSWAPD_PER_SECOND: f64 = 10.0 * 1048576.0;

/// Writers were throttled in this percentage of the samples: less can be the end of a burst.
const THROTTLED_PERCENT: f64 = 20.0;

/// … and from this percentage upwards the whole figure is the storage's rate; between the two it is a mix of
/// memory's and the storage's.
const THROUGHOUT_PERCENT: f64 = 90.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    pressure(evidence)
        .into_iter()
        .chain(limit_met(evidence))
        .chain(throttled(evidence))
        .collect()
}

/// Whether the memory limit of the control group, and not the host's memory, limited the page cache.
fn limit_met(evidence: &Evidence) -> Vec<Finding> {
    let parts = evidence.trial.parts.iter();
    let found = parts.filter_map(|part| {
        let limit = part.environment.memory.limit?;
        let hits = part.host.control_group?.memory_limit_hits?;
        let per_second = hits as f64 * 1e9 / part.host.span_ns.max(1) as f64;
        let weight = match evidence.uses_page_cache() {
            true => Weight::Warning,
            false => Weight::Note,
        };
        (per_second >= STALLS_PER_SECOND).then(|| {
            remedied(
                finding(
                    FindingKind::MemoryPressure,
                    weight,
                    format!(
                        "the control group's memory limit of {} was met {per_second:.0} times per second: it limited the page cache, \
                         and allocations had to reclaim memory first",
                        Bytes(limit)
                    ),
                    format!(
                        "memory limit met ≥ {STALLS_PER_SECOND:.0} times/s (memory.events, memory.failcnt); a note where no job uses \
                         the page cache"
                    ),
                ),
                "raise the limit (memory.max, memory.limit_in_bytes), or compare only with the same limit",
            )
        })
    });
    found.collect()
}

fn pressure(evidence: &Evidence) -> Option<Finding> {
    if !evidence.sampled(SeriesKind::Reclaim) {
        return None;
    }
    let totals = totals(&evidence.telemetry, SeriesKind::Reclaim);
    let host = totals.first()?;
    let seconds = host.span_ns as f64 / 1e9;
    let (into, out) = (host.count("swapped_in"), host.count("swapped_out"));
    let stalls = host.per_second("stalls");
    let kswapd = host.per_second("scanned_kswapd");
    let mut said = Vec::new();
    if sum([into, out]) as f64 / seconds >= SWAP_PER_SECOND {
        said.push(format!(
            "{} were swapped in and {} out",
            Bytes(into),
            Bytes(out)
        ));
    }
    if stalls >= STALLS_PER_SECOND {
        said.push(format!(
            "{stalls:.0} allocations per second had to reclaim memory first ({} scanned)",
            Bytes(host.count("scanned_direct"))
        ));
    }
    let weight = match said.is_empty() {
        false => Weight::Warning,
        true if kswapd >= KSWAPD_PER_SECOND && !evidence.uses_page_cache() => {
            said.push(format!(
                "memory was reclaimed ({} scanned) although no job uses the page cache",
                Bytes(host.count("scanned_kswapd"))
            ));
            Weight::Note
        }
        true => return None,
    };
    let spans_ns = evidence.spans_ns(SeriesKind::Reclaim, |shape, sample| {
        View::of(shape, sample).any(|row| {
            let at_least = |column, least| row.per_second(column).is_some_and(|rate| rate >= least);
            let swapped =
                ["swapped_in", "swapped_out"].map(|column| row.per_second(column).unwrap_or(0.0));
            match weight {
                Weight::Note => at_least("scanned_kswapd", KSWAPD_PER_SECOND),
                _ => {
                    at_least("stalls", STALLS_PER_SECOND)
                        || swapped.iter().sum::<f64>() >= SWAP_PER_SECOND
                }
            }
        })
    });
    let stalled = evidence.pressure_percent("memory");
    let stalled = stalled.map_or(String::new(), |(some, _)| {
        format!("; tasks waited for memory in {some:.1} % of the time")
    });
    let found = remedied(
        finding(
            FindingKind::MemoryPressure,
            weight,
            format!("{}{stalled}", said.join("; ")),
            format!(
                "swap ≥ {}/s, or ≥ {STALLS_PER_SECOND:.0} allocations/s that reclaim themselves; a note: kswapd scans \
                 ≥ {}/s and every job is direct",
                Bytes(SWAP_PER_SECOND as u64),
                Bytes(KSWAPD_PER_SECOND as u64)
            ),
        ),
        match evidence.uses_page_cache() {
            true => {
                "stop other users of memory, set direct=1, or lower the ARC's limit (zfs_arc_max); compare only trials \
                 with the same free memory"
            }
            false => {
                "stop other users of memory, or lower the ARC's limit (zfs_arc_max); compare only trials with the same \
                 free memory"
            }
        },
    );
    Some(during(found, spans_ns))
}

/// `balance_dirty_pages` makes writers sleep from the middle between the background threshold and the limit
/// upwards (kernel, mm/page-writeback.c, `dirty_freerun_ceiling`; admin-guide/sysctl/vm:
/// dirty_background_ratio, dirty_ratio).
fn throttled(evidence: &Evidence) -> Option<Finding> {
    let writes = evidence.jobs_that_ran().any(dirties);
    if !evidence.sampled(SeriesKind::Memory) || !writes {
        return None;
    }
    let (mut samples, mut above, mut most, mut limit) = (0u32, 0u32, 0u64, 0u64);
    for (dirty, middle) in dirty_samples(&evidence.telemetry) {
        samples += 1;
        above += u32::from(dirty > middle);
        if dirty > most {
            (most, limit) = (dirty, middle);
        }
    }
    let percent = f64::from(above) * 100.0 / f64::from(samples.max(1));
    if samples < super::MIN_SAMPLES || percent < THROTTLED_PERCENT {
        return None;
    }
    let (weight, means) = match percent >= THROUGHOUT_PERCENT {
        true => (
            Weight::Note,
            "the figure is the rate at which the storage takes writes",
        ),
        false => (
            Weight::Warning,
            "the figure is part memory's and part the storage's",
        ),
    };
    let stalled = evidence.pressure_percent("io");
    let stalled = stalled.map_or(String::new(), |(some, _)| {
        format!("; tasks waited for I/O in {some:.0} % of the time")
    });
    let spans_ns = evidence.spans_ns(SeriesKind::Memory, |shape, sample| {
        let rows = View::of(shape, sample).find_map(|row| dirty(&row));
        rows.is_some_and(|(dirty, middle)| dirty > middle)
    });
    let found = remedied(
        finding(
            FindingKind::DirtyThrottled,
            weight,
            format!(
                "writers were throttled in {percent:.0} % of the time: up to {} were dirty or in write-back, and above {} \
                 the kernel delays writers{stalled}: {means}",
                Bytes(most),
                Bytes(limit)
            ),
            format!(
                "dirty + write-back above the middle of background threshold and limit in ≥ {THROTTLED_PERCENT:.0} % of the samples while a \
                 job writes through the page cache; a note from {THROUGHOUT_PERCENT:.0} % upwards"
            ),
        ),
        "set direct=1 or end_fsync=1, or run until memory has no effect on the rate; vm.dirty_bytes and \
         vm.dirty_background_bytes set the limits",
    );
    Some(during(found, spans_ns))
}

/// The same of each sample.
pub(crate) fn dirty_samples(telemetry: &Telemetry) -> impl Iterator<Item = (u64, u64)> {
    let samples = telemetry.of(SeriesKind::Memory);
    samples.filter_map(|(shape, sample)| View::of(shape, sample).find_map(|row| dirty(&row)))
}

/// Bytes that are dirty or in write-back, and the number of bytes from which writers wait.
fn dirty(row: &View) -> Option<(u64, u64)> {
    let dirty = sum([row.count("dirty")?, row.count("writeback")?]);
    let (background, limit) = (row.count("dirty_background")?, row.count("dirty_limit")?);
    (limit > 0).then(|| (dirty, background.midpoint(limit)))
}

/// Whether the job leaves dirty pages.
fn dirties(job: &Job) -> bool {
    let operations = job.work.file_operations();
    let makes_data = operations.is_some_and(|it| it.makes_data());
    makes_data || (work::writes(job) && work::buffered(job))
}
