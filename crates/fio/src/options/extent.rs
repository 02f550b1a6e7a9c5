//! Options of the amount of work, the region of the files, and the end of the job.

use iodyno_options::{
    Problem,
    Unit::{self, *},
    differs, ignored, refused,
};

use crate::draft::Draft;
use crate::number::TimeUnit;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("size", Amount, "Region of each clone over all its files, and the bytes it does.",
        |draft, value| value.amount().map(|it| draft.blocks.extent.size = Some(it))),
    honoured("io_size", Amount, "Bytes each clone does, where that is not `size`.",
        |draft, value| value.amount().map(|it| draft.blocks.passes.io_size = Some(it))).alias(&["io_limit"]),
    honoured("offset", Amount, "Where in each file the region begins.",
        |draft, value| value.amount().map(|it| draft.blocks.extent.offset = it)).alias(&["fileoffset"]).default("0"),
    honoured("offset_increment", Amount, "Added to `offset` once for each clone before this one.",
        |draft, value| value.amount().map(|it| draft.blocks.extent.offset_increment = it)).default("0"),
    honoured("offset_align", Bytes, "Offsets given in percent are rounded down to a multiple of this.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.offset_align = it)).default("0"),
    honoured("number_ios", Count, "Ends after this number of ops.", number_ios).default("0"),
    honoured("loops", Count, "Passes over the region.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.blocks.passes.loops = u64::from(it.max(1)))).default("1"),
    honoured("runtime", Seconds, "Ends after this measured time.", runtime).alias(&["timeout"]).default("0"),
    honoured("time_based", Boolean, "Goes on until `runtime`, over the region again and again.",
        |draft, value| value.boolean().map(|it| draft.blocks.passes.time_based = it)),
    honoured("ramp_time", Seconds, "Time to run before the measurement; added to `runtime`.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.job.end.ramp = it)).default("0"),
    refused("ramp_size", Bytes, "Bytes to move before the measurement.", "the ramp is a time", "use `ramp_time`").neutral(&["0"]),
    honoured("zonemode", Words(&["none", "strided", "zbd"]), "How the region is divided into zones.",
        zonemode).default("none"),
    honoured("zonesize", Bytes, "Bytes of each zone that are used.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_size = it)).default("0"),
    honoured("zonerange", Bytes, "A zone's whole length; `zonesize` without it.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_range = it)).default("0"),
    honoured("zoneskip", Bytes, "Bytes left out between two zones.",
        |draft, value| value.bytes().map(|it| draft.blocks.extent.zone_skip = it)).default("0"),
    zoned("zonecapacity", Bytes, "Bytes of a zone that can be written."),
    zoned("read_beyond_wp", Boolean, "Reads past the write pointer."),
    zoned("max_open_zones", Count, "Zones open at once."),
    zoned("job_max_open_zones", Count, "Zones a clone has open at once."),
    zoned("ignore_zone_limits", Boolean, "Opens more zones than the device allows."),
    zoned("zone_reset_threshold", Number, "Share of written blocks that begins resets."),
    zoned("zone_reset_frequency", Number, "How often zones are reset."),
    zoned("recover_zbd_write_error", Boolean, "Goes on after a failed zone write."),
    zoned("write_zone_remainder", Boolean, "Fills up zones."),
    differs("steadystate", Text, "Ends once the figures are steady.", "the job runs its whole length; the result says from when on it was steady").alias(&["ss"]),
    steady("steadystate_duration", &["ss_dur"], "How long it must have been steady."),
    steady("steadystate_ramp_time", &["ss_ramp"], "How long to wait before judging."),
    steady("steadystate_check_interval", &["ss_interval"], "How often to judge."),
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
    draft.zone_mode = match value.choice(&[
        ("none", Some(false)),
        ("strided", Some(true)),
        ("zbd", None),
    ])? {
        Some(strided) => Some(strided),
        None => {
            return Err(Problem::refusal("zoned block devices are not supported")
                .hint("use a conventional device, or zonemode=strided"));
        }
    };
    Ok(())
}

const fn zoned(name: &'static str, unit: Unit, text: &'static str) -> OptionSpec {
    let why = "it only refines `zonemode=zbd`, which is refused";
    ignored(name, unit, text, why)
}

const fn steady(
    name: &'static str,
    aliases: &'static [&'static str],
    text: &'static str,
) -> OptionSpec {
    let why = "it only refines `steadystate`, which is ignored";
    ignored(name, Unit::Seconds, text, why).alias(aliases)
}
