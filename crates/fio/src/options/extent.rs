//! Options that say how much is done, where in the files, and when the job ends.

use crate::number::TimeUnit;
use crate::option::{OptionSpec, Unit};
use crate::value::Fault;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "size",
        Unit::Amount,
        "Region of each clone over all its files, and the bytes it does.",
        |draft, value| {
            draft.job.extent.size = Some(value.amount()?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "io_size",
        Unit::Amount,
        "Bytes each clone does, where that is not `size`.",
        |draft, value| {
            draft.job.end.io_size = Some(value.amount()?);
            Ok(())
        },
    )
    .alias(&["io_limit"]),
    OptionSpec::honoured(
        "offset",
        Unit::Amount,
        "Where in each file the region begins.",
        |draft, value| {
            draft.job.extent.offset = value.amount()?;
            Ok(())
        },
    )
    .alias(&["fileoffset"])
    .default("0"),
    OptionSpec::honoured(
        "offset_increment",
        Unit::Amount,
        "Added to `offset` once for each clone before this one.",
        |draft, value| {
            draft.job.extent.offset_increment = value.amount()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "offset_align",
        Unit::Bytes,
        "Offsets given in percent are rounded down to a multiple of this.",
        |draft, value| {
            draft.job.extent.offset_align = value.bytes()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "number_ios",
        Unit::Count,
        "Ends after so many ops.",
        |draft, value| {
            let ops = value.bytes()?;
            draft.job.end.ops = (ops > 0).then_some(ops);
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "loops",
        Unit::Count,
        "Passes over the region.",
        |draft, value| {
            draft.job.end.loops = u64::from(value.count(0, u32::MAX)?.max(1));
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "runtime",
        Unit::Seconds,
        "Ends after so much measured time.",
        |draft, value| {
            let time = value.time(TimeUnit::Seconds)?;
            draft.job.end.runtime = (time.0 > 0).then_some(time);
            Ok(())
        },
    )
    .alias(&["timeout"])
    .default("0"),
    OptionSpec::honoured(
        "time_based",
        Unit::Boolean,
        "Goes on until `runtime`, over the region again and again.",
        |draft, value| {
            draft.job.end.time_based = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "ramp_time",
        Unit::Seconds,
        "Runs so long before the measurement begins; added to `runtime`.",
        |draft, value| {
            draft.job.end.ramp = value.time(TimeUnit::Seconds)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::refused(
        "ramp_size",
        Unit::Bytes,
        "Moves so many bytes before the measurement begins.",
        "the ramp is a time",
        "`ramp_time`",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "zonemode",
        Unit::Words(&["none", "strided", "zbd"]),
        "How the region is divided into zones.",
        |draft, value| {
            draft.zone_mode = match value.choice(&[
                ("none", Some(false)),
                ("strided", Some(true)),
                ("zbd", None),
            ])? {
                Some(strided) => Some(strided),
                None => {
                    return Err(Fault::refusal("zoned block devices are not supported")
                        .hint("use a conventional device, or zonemode=strided"));
                }
            };
            Ok(())
        },
    )
    .default("none"),
    OptionSpec::honoured(
        "zonesize",
        Unit::Bytes,
        "Bytes of each zone that are used.",
        |draft, value| {
            draft.job.extent.zone_size = value.bytes()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "zonerange",
        Unit::Bytes,
        "A zone's whole length; `zonesize` without it.",
        |draft, value| {
            draft.job.extent.zone_range = value.bytes()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "zoneskip",
        Unit::Bytes,
        "Bytes left out between two zones.",
        |draft, value| {
            draft.job.extent.zone_skip = value.bytes()?;
            Ok(())
        },
    )
    .default("0"),
    zoned(
        "zonecapacity",
        Unit::Bytes,
        "Bytes of a zone that can be written.",
    ),
    zoned(
        "read_beyond_wp",
        Unit::Boolean,
        "Reads past the write pointer.",
    ),
    zoned("max_open_zones", Unit::Count, "Zones open at once."),
    zoned(
        "job_max_open_zones",
        Unit::Count,
        "Zones a clone has open at once.",
    ),
    zoned(
        "ignore_zone_limits",
        Unit::Boolean,
        "Opens more zones than the device allows.",
    ),
    zoned(
        "zone_reset_threshold",
        Unit::Number,
        "Share of written blocks that begins resets.",
    ),
    zoned(
        "zone_reset_frequency",
        Unit::Number,
        "How often zones are reset.",
    ),
    zoned(
        "recover_zbd_write_error",
        Unit::Boolean,
        "Goes on after a failed zone write.",
    ),
    zoned("write_zone_remainder", Unit::Boolean, "Fills up zones."),
    OptionSpec::differs(
        "steadystate",
        Unit::Text,
        "Ends once the figures are steady.",
        "the job runs its whole length; the result says from when on it was steady",
    )
    .alias(&["ss"]),
    steady(
        "steadystate_duration",
        &["ss_dur"],
        "How long it must have been steady.",
    ),
    steady(
        "steadystate_ramp_time",
        &["ss_ramp"],
        "How long to wait before judging.",
    ),
    steady(
        "steadystate_check_interval",
        &["ss_interval"],
        "How often to judge.",
    ),
];

const fn zoned(name: &'static str, unit: Unit, text: &'static str) -> OptionSpec {
    let why = "it only says more about `zonemode=zbd`, which is refused";
    OptionSpec::ignored(name, unit, text, why)
}

const fn steady(
    name: &'static str,
    aliases: &'static [&'static str],
    text: &'static str,
) -> OptionSpec {
    let why = "it only says more about `steadystate`, which is ignored";
    OptionSpec::ignored(name, Unit::Seconds, text, why).alias(aliases)
}
