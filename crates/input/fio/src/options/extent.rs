//! Options of the amount of work, the region of the files, and the end of the job.

use iodyno_model::{self as model, SteadyMetric, SteadyRule};
use iodyno_options::{
    Problem,
    Unit::{self, *},
    differs, ignored, refused,
};

use super::general::out_of_range;
use crate::draft::{Draft, SetAmount, ZoneMode};
use crate::number::TimeUnit;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("size", Amount, "Size of each clone's region over all its files, and number of bytes to process.",
        |draft, value| amount(draft, value, "size", |draft, it| draft.blocks.extent.size = unless_zero(it))),
    honoured("io_size", Amount, "Number of bytes that each clone processes, if it is not `size`.",
        |draft, value| amount(draft, value, "io_size", |draft, it| draft.blocks.passes.io_size = unless_zero(it))).alias(&["io_limit"]).sets(&["passes.io_size"]),
    honoured("offset", Amount, "Start of the region in each file.",
        |draft, value| amount(draft, value, "offset", |draft, it| draft.blocks.extent.offset = it)).alias(&["fileoffset"]).default("0").sets(&["extent.offset"]),
    honoured("offset_increment", Amount, "Added to `offset` for each preceding clone.",
        |draft, value| amount(draft, value, "offset_increment", |draft, it| draft.blocks.extent.offset_increment = it)).default("0").sets(&["extent.offset_increment"]),
    honoured("offset_align", Bytes, "Offsets given in percent are rounded up to a multiple of this; by default, of the largest block.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.offset_align = it)).default("0").sets(&["extent.offset_align"]),
    honoured("number_ios", Count, "Ends after this number of ops, times `loops`; no effect with `time_based`.", number_ios).default("0"),
    honoured("loops", Count, "Number of passes over the region.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.blocks.passes.loops = u64::from(it.max(1)))).default("1").sets(&["passes.loops"]),
    honoured("runtime", Seconds, "Ends after this measured time.", runtime).alias(&["timeout"]).default("0"),
    honoured("time_based", Boolean, "Repeats the region until `runtime`.",
        |draft, value| value.boolean().map(|it| draft.blocks.passes.time_based = it)).sets(&["passes.time_based"]),
    honoured("ramp_time", Seconds, "Time to run before the measurement; added to `runtime`. Its bytes count towards `size`, its ops do not count towards `number_ios`.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.job.end.ramp = it)).default("0"),
    refused("ramp_size", Bytes, "Bytes to process before the measurement.", "the ramp is a time", "use `ramp_time`").neutral(&["0"]),
    honoured("zonemode", Words(&["none", "strided", "zbd"]), "How the region is divided into zones. `zbd`: each zone is written from its start to its end, on zoned devices, and on other files and devices with `zonesize`; `8z` is then a size of 8 zones.",
        zonemode).default("none").sets(&["extent.write_zones"]),
    honoured("zonesize", Bytes, "Length of the used part of a zone.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_size = it)).default("0").sets(&["extent.zone_size"]),
    honoured("zonerange", Bytes, "Full length of a zone; default: `zonesize`.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_range = it)).default("0").sets(&["extent.zone_range"]),
    honoured("zoneskip", Bytes, "Bytes skipped between zones.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_skip = it)).default("0").sets(&["extent.zone_skip"]),
    honoured("zonecapacity", Bytes, "zbd: writable part of a zone; default: the device's, otherwise `zonesize`.",
        |draft, value| value.bytes().map(|it| draft.zones.capacity = it)),
    honoured("read_beyond_wp", Boolean, "zbd: reads are not limited to what the job has written.",
        |draft, value| value.boolean().map(|it| draft.zones.read_beyond = it)).default("0"),
    honoured("max_open_zones", Count, "zbd: maximum number of zones that each clone has written in part; 0: the limit of the device.",
        |draft, value| value.count(0, 1 << 20).map(|it| draft.zones.max_open = it)).alias(&["job_max_open_zones"]).default("0"),
    zoned("ignore_zone_limits", Boolean, "Opens more zones than the device allows."),
    differs("zone_reset_threshold", Number, "Share of written blocks at which zones are reset.", RESETS).neutral(&["0"]),
    differs("zone_reset_frequency", Number, "Frequency of such resets.", RESETS).neutral(&["0"]),
    zoned("recover_zbd_write_error", Boolean, "Continues after a failed zone write."),
    differs("write_zone_remainder", Boolean, "Fills up zones.", "the rest of a zone that is shorter than a block stays empty").neutral(&["0"]),
    honoured("steadystate", Forms(STEADY), "Ends when the variation of a figure in the last `steadystate_duration` is below this limit: the largest deviation from the mean, or the least-squares slope per check; in percent of the mean with `%`. With `group_reporting` the jobs of a group are added up and end together.",
        steadystate).alias(&["ss"]).default("iops_slope:0.01%").sets(&["end.steady"]),
    honoured("steadystate_duration", Seconds, "Length of the window for `steadystate`; 0: the results are not checked.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.steady.window = it)).alias(&["ss_dur"]).default("0"),
    honoured("steadystate_ramp_time", Seconds, "Measured time before the first window begins.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.steady.ramp = it)).alias(&["ss_ramp"]).default("0"),
    honoured("steadystate_check_interval", Seconds, "Time between two checks; at least 1 s.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.steady.interval = it)).alias(&["ss_interval"]).default("1"),
];

fn number_ios(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let ops = value.bytes()?;
    draft.job.end.ops = (ops > 0).then_some(ops);
    Ok(())
}

fn runtime(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let time = value.time(TimeUnit::Seconds)?;
    draft.job.end.runtime = (time.0 > 0).then_some(time);
    Ok(())
}

fn zonemode(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.zone_mode = Some(value.choice(&[
        ("none", ZoneMode::None),
        ("strided", ZoneMode::Strided),
        ("zbd", ZoneMode::Written),
    ])?);
    Ok(())
}

/// As in fio, a size of 0 is not set.
fn unless_zero(size: model::Amount) -> Option<model::Amount> {
    use model::Amount::{Bytes, Percent};
    (!matches!(size, Bytes(0) | Percent(0.0))).then_some(size)
}

/// Sets an amount, or keeps it until the size of zones is known.
fn amount(
    draft: &mut Draft,
    value: &Value,
    option: &'static str,
    set: SetAmount,
) -> Result<(), Problem> {
    draft.in_zones.remove(option);
    match value.text.strip_suffix(['z', 'Z']) {
        Some(zones) => {
            let zones = value.count_of(zones, 0, 1 << 40)?;
            draft.in_zones.insert(option, (zones, set));
        }
        None => set(draft, value.amount()?),
    }
    Ok(())
}

const RESETS: &str = "a zone is reset when it is full and written again";

const fn zoned(name: &'static str, unit: Unit, text: &'static str) -> OptionSpec {
    let why =
        "it is not supported: the limits of a device are kept, and a failed write ends the job";
    ignored(name, unit, text, why)
}

const STEADY: &[&str] = &[
    "iops:2%",
    "iops_slope:0.1%",
    "bw:1m",
    "bw_slope:0.1%",
    "lat:5%",
    "lat_slope:1%",
];

fn steadystate(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    use SteadyMetric::{Bandwidth, Iops, Latency};
    let ((metric, slope), limit) = value.word(&[
        ("iops", (Iops, false)),
        ("iops_slope", (Iops, true)),
        ("bw", (Bandwidth, false)),
        ("bw_slope", (Bandwidth, true)),
        ("lat", (Latency, false)),
        ("lat_slope", (Latency, true)),
    ])?;
    let limit = limit.filter(|limit| !limit.is_empty()).ok_or_else(|| {
        Problem::error("a criterion of steadiness needs a limit").hint("write `iops_slope:0.1%`")
    })?;
    // As in fio, `90%%` is `90%`.
    let percent = limit.ends_with('%').then(|| limit.trim_end_matches('%'));
    let number = match (percent, metric) {
        (Some(percent), _) => value.float_of(percent)?,
        (None, Iops) => value.float_of(limit)?,
        (None, Bandwidth) => value.count_of(limit, 0, 1 << 60)? as f64,
        // As in fio, a number without a unit is in ns.
        (None, Latency) => match limit.parse::<u64>() {
            Ok(ns) => ns as f64,
            Err(_) => value.time_of(limit, TimeUnit::Microseconds)?.0 as f64,
        },
    };
    if number <= 0.0 {
        return Err(value.at(limit, out_of_range(limit, "above 0")));
    }
    draft.steady = SteadyRule {
        metric,
        slope,
        limit: number,
        percent: percent.is_some(),
        ..draft.steady
    };
    Ok(())
}
