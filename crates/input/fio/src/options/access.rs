//! Options of the access pattern: kinds of op and offsets.

use iodyno_model::{Amount, Distribution, Order, PerDirection, Sequencer};
use iodyno_options::{Problem, Unit::*, ignored, refused};

use super::general::out_of_range;
use crate::draft::{Draft, Suffix};
use crate::options::{OptionSpec, honoured};
use crate::value::{Value, split_outside};

const READ_WRITE: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

const DISTRIBUTIONS: &[&str] = &[
    "random",
    "zipf:θ[:centre]",
    "pareto:h[:centre]",
    "normal:dev[:centre]",
    "zoned:50/5:50/95",
    "zoned_abs:60/10g:40/90g",
    "sequence:2,0,1",
];

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("rw", Words(READ_WRITE), "Access pattern. `randread:8`: a new offset every 8 ops; `read:4k`: skips 4 KiB after each op.",
        read_write).alias(&["readwrite"]).default("read"),
    honoured("rw_sequencer", Words(&["sequential", "identical"]), "Offsets between two draws, with a number after `rw=rand…:`.",
        rw_sequencer).default("sequential").sets(&["access.sequencer"]),
    honoured("rwmixread", Percent, "Percentage of reads in a mix; drawn for each op.",
        |draft, value| value.count(0, 100).map(|it| draft.blocks.access.read_percent = it)).default("50").sets(&["access.read_percent"]),
    honoured("rwmixwrite", Percent, "Percentage of writes in a mix; the last of both options applies.",
        |draft, value| value.count(0, 100).map(|it| draft.blocks.access.read_percent = 100 - it)).default("50"),
    ignored("rwmixcycle", Count, "Ops between changes of direction.", "the direction is drawn for each op"),
    honoured("bs", Bytes, "Block size; a comma-separated list is for read, write, trim.", bs).alias(&["blocksize"]).default("4096"),
    honoured("bsrange", Bytes, "Sizes drawn uniformly: `4k-16k`; a comma-separated list is for read, write, trim.",
        bsrange).alias(&["blocksize_range"]),
    honoured("bssplit", Forms(&["4k/60:64k/40"]), "Block sizes with their percentages; a comma-separated list is for read, write, trim.",
        bssplit),
    honoured("bs_unaligned", Boolean, "Sizes from a range need not be multiples of the smallest one.",
        |draft, value| value.boolean().map(|it| draft.bs_unaligned = it)).alias(&["blocksize_unaligned"]),
    refused("bs_is_seq_rand", Boolean, "Uses the values of `bs` for sequential and random ops.", "block sizes are per direction", "use two jobs, one sequential and one random").neutral(&["0"]),
    honoured("ba", Bytes, "Random offsets are multiples of this; by default, of the smallest block.",
        blockalign).alias(&["blockalign"]),
    honoured("percentage_random", Percent, "Percentage of random ops in a random job; a comma-separated list is for read, write, trim.",
        percentage_random).default("100").sets(&["access.percent_random"]),
    refused("percentage_sequential", Percent, "Percentage of sequential ops.", "it is deprecated", "use `percentage_random`"),
    honoured("random_distribution", Words(DISTRIBUTIONS),
        "Distribution of random offsets. Each zone has a percentage of the ops and a length; a comma-separated list is for read, write, trim. A sequence lists up to 64 blocks of each file, which are accessed in turn. The centre, from 0 to 1, is the place of the most frequent block in the region. All but `random` imply `norandommap`.",
        distribution).default("random").sets(&["access.distribution"]),
    honoured("random_sequence_stride", Boolean, "Each pass of a sequence begins as many blocks further on as the sequence has.",
        |draft, value| value.boolean().map(|it| draft.sequence_stride = it)).default("0"),
    honoured("norandommap", Boolean, "Random offsets may repeat before all blocks have been accessed.",
        |draft, value| value.boolean().map(|it| draft.no_random_map = it)).sets(&["access.random_map"]),
    ignored("softrandommap", Boolean, "Continues if the random map cannot be allocated.", "the map takes no memory here"),
    honoured("random_generator", Words(&["tausworthe", "lfsr", "tausworthe64"]), "With `lfsr` each block is accessed once per pass, also with `norandommap`. Otherwise one generator is used for regions of any size.",
        |draft, value| value.choice(&[
            ("tausworthe", false),
            ("lfsr", true),
            ("tausworthe64", false),
        ]).map(|it| draft.without_repeats = it)).default("tausworthe"),
    honoured("randrepeat", Boolean, "Uses the same offsets in every run.",
        |draft, value| value.boolean().map(|it| draft.blocks.access.repeatable = it)).alias(&["allrandrepeat"]).default("1").sets(&["access.repeatable"]),
    honoured("randseed", Count, "Seed of the job.",
        |draft, value| value.bytes().map(|it| draft.blocks.access.seed = Some(it))).sets(&["access.seed"]),
    honoured("sprandom", Boolean, "Random writes that put a solid-state disk into the state of long random writes in one pass.",
        |draft, value| value.boolean().map(|it| draft.preconditions = it)).default("0").sets(&["access.precondition"]),
    honoured("spr_num_regions", Count, "sprandom: number of regions with the same share of valid data.",
        |draft, value| value.count(1, u32::MAX).map(|it| draft.precondition.regions = it)).default("100"),
    honoured("spr_op", Number, "sprandom: physical capacity beyond the logical one, as a share of it: above 0, below 1.",
        over_provisioning).default("0.15"),
    honoured("spr_cs", Bytes, "sprandom: size of the disk's cache. Blocks are written again only after a region of at least this size.",
        |draft, value| value.bytes().map(|it| draft.precondition.cache = it)).default("0"),
    refused("num_range", Count, "Ranges of one trim command.", "a trim has one range", "use a larger `bs`").neutral(&["1"]),
];

fn rw_sequencer(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.blocks.access.sequencer = value.choice(&[
        ("sequential", Sequencer::Sequential),
        ("identical", Sequencer::Identical),
    ])?;
    Ok(())
}

fn bs(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut bs = draft.bs;
    let parts = split_outside(value.text, &['-', ':']);
    if parts.len() > 1 && !value.text.contains(',') {
        let list = parts.join(",");
        value.remark(
            Problem::warning(format!(
                "`{}` is not a range: as in fio, it is the sizes of reads and of writes",
                value.text
            ))
            .hint(format!(
                "write `bs={list}` to say so, or `bsrange={}` for sizes in between",
                value.text
            )),
        );
        let list = Value::new(&list, value.kb_base);
        list.spread(&mut bs, |token| list.count_of(token, 1, 1 << 40))?;
        list.remarks
            .take()
            .into_iter()
            .for_each(|it| value.remark(it));
    } else {
        value.spread(&mut bs, |token| value.count_of(token, 1, 1 << 40))?;
    }
    draft.bs = bs;
    Ok(())
}

fn bsrange(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    if !value.text.contains(['-', ':']) {
        return Err(Problem::error("a range has two ends").hint("write it as `4k-16k`"));
    }
    let mut range = draft.bs_range;
    value.spread(&mut range, |token| {
        value
            .range_of(token, |end| value.count_of(end, 1, 1 << 40))
            .map(Some)
    })?;
    draft.bs_range = range;
    Ok(())
}

fn over_provisioning(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let share = value.float_of(value.single()?)?;
    if share <= 0.0 || share >= 1.0 {
        let message = format!("the over-provisioning {share} is not between 0 and 1");
        return Err(Problem::error(message).hint("write 0.07 for 7 %"));
    }
    draft.precondition.over_provisioning = share;
    Ok(())
}

fn bssplit(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut split = draft.bs_split.clone();
    value.spread(&mut split, |token| shares(value, token).map(Some))?;
    draft.bs_split = split;
    Ok(())
}

fn blockalign(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut align = draft.blocks.access.block_align;
    value.spread(&mut align, |token| value.count_of(token, 1, 1 << 40))?;
    draft.blocks.access.block_align = align;
    Ok(())
}

fn percentage_random(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut share = draft.blocks.access.percent_random;
    value.spread(&mut share, |token| {
        value.count_of(token, 0, 100).map(|percent| percent as u32)
    })?;
    draft.blocks.access.percent_random = share;
    Ok(())
}

fn read_write(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    use Order::{Random, Sequential};
    let ((reads, writes, trims, order), after) = value.word(&[
        ("read", (true, false, false, Sequential)),
        ("write", (false, true, false, Sequential)),
        ("trim", (false, false, true, Sequential)),
        ("randread", (true, false, false, Random)),
        ("randwrite", (false, true, false, Random)),
        ("randtrim", (false, false, true, Random)),
        ("rw", (true, true, false, Sequential)),
        ("readwrite", (true, true, false, Sequential)),
        ("randrw", (true, true, false, Random)),
        ("trimwrite", (false, true, true, Sequential)),
        ("randtrimwrite", (false, true, true, Random)),
    ])?;
    let access = &mut draft.blocks.access;
    (access.reads, access.writes, access.trims) = (reads, writes, trims);
    access.order = order;
    draft.suffix = match (after, order) {
        (None, _) => None,
        (Some(ops), Random) => {
            let ops = value.count_of(ops, 1, u64::from(u32::MAX))?;
            Some(Suffix::Every(ops as u32))
        }
        (Some(skip), Sequential) => {
            let (sign, digits) = match skip.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, skip),
            };
            let skip = value.count_of(digits, 0, 1 << 60)?;
            Some(Suffix::Skip(sign * skip as i64))
        }
    };
    Ok(())
}

/// Parses `4k/60:64k/40`; sizes without a share divide the rest.
fn shares(value: &Value, token: &str) -> Result<Vec<(u64, f64)>, Problem> {
    let mut parts = Vec::new();
    for part in split_outside(token, &[':']) {
        if part.trim().is_empty() {
            continue;
        }
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let size = value.count_of(size, 1, 1 << 40)?;
        let share = match share.trim().trim_end_matches('%') {
            "" => None,
            text => Some(value.count_of(text, 0, 100)? as f64),
        };
        parts.push((size, share));
    }
    let given: f64 = parts.iter().filter_map(|part| part.1).sum();
    let open = parts.iter().filter(|part| part.1.is_none()).count();
    let complete = given == 100.0 || (given < 100.0 && open > 0);
    if !complete {
        return Err(value.at(
            token,
            Problem::error(format!("the shares add up to {given} %, not 100 %"))
                .hint("correct them; a size without a share gets the remainder"),
        ));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(parts
        .into_iter()
        .map(|(size, share)| (size, share.unwrap_or(rest)))
        .collect())
}

fn distribution(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    #[derive(Clone, Copy)]
    enum Law {
        Uniform,
        Zipf,
        Pareto,
        Normal,
        Zoned,
        ZonedAbsolute,
        Sequence,
    }
    let (law, after) = value.word(&[
        ("random", Law::Uniform),
        ("zipf", Law::Zipf),
        ("pareto", Law::Pareto),
        ("normal", Law::Normal),
        ("zoned", Law::Zoned),
        ("zoned_abs", Law::ZonedAbsolute),
        ("sequence", Law::Sequence),
    ])?;
    let mut centred = |(parameter, center)| {
        draft.blocks.access.center = center;
        parameter
    };
    let distribution = match law {
        Law::Zoned => zoned(value, after, false)?,
        Law::ZonedAbsolute => zoned(value, after, true)?,
        Law::Sequence => PerDirection::all(sequence(value, after)?),
        Law::Uniform => PerDirection::all(Distribution::Uniform),
        Law::Zipf => PerDirection::all(Distribution::Zipf(centred(zipf(value, after)?))),
        Law::Pareto => PerDirection::all(Distribution::Pareto(centred(pareto(value, after)?))),
        Law::Normal => PerDirection::all(Distribution::Normal(centred(normal(value, after)?))),
    };
    draft.distribution = distribution;
    Ok(())
}

/// Parses `2,0,1`: numbers of blocks.
fn sequence(value: &Value, after: Option<&str>) -> Result<Distribution, Problem> {
    const MOST: usize = 64;
    let list = after.unwrap_or_default();
    let blocks: Vec<u64> = split_outside(list, &[','])
        .into_iter()
        .map(|block| {
            let block = block.trim();
            let number = block.parse::<u32>().map(u64::from);
            number.map_err(|_| {
                let fault = Problem::error(format!("`{block}` is not the number of a block"));
                value.at(block, fault.hint("write numbers, such as `sequence:2,0,1`"))
            })
        })
        .collect::<Result<_, _>>()?;
    if blocks.len() > MOST {
        let fault = Problem::error(format!("a sequence has at most {MOST} blocks"));
        return Err(value.at(list, fault.hint("shorten it")));
    }
    Ok(Distribution::Sequence {
        blocks,
        stride: false,
    })
}

/// The number of a distribution, and its centre.
pub(super) type Centred = (f64, Option<f64>);

/// Parses the exponent of Zipf's law, and its centre.
pub(super) fn zipf(value: &Value, after: Option<&str>) -> Result<Centred, Problem> {
    parameter(value, after, 1.1, "above 0, and not 1", |theta| {
        theta > 0.0 && theta != 1.0
    })
}

/// Parses the power of a Pareto distribution, and its centre.
pub(super) fn pareto(value: &Value, after: Option<&str>) -> Result<Centred, Problem> {
    parameter(value, after, 0.2, "between 0 and 1", |power| {
        power > 0.0 && power < 1.0
    })
}

/// Parses the deviation of a normal distribution, and its centre.
pub(super) fn normal(value: &Value, after: Option<&str>) -> Result<Centred, Problem> {
    let rule = "from 0 to below 100 (percent)";
    parameter(value, after, 0.0, rule, |deviation| {
        (0.0..100.0).contains(&deviation)
    })
}

/// Parses the number after the name of a distribution, and the centre after that.
fn parameter(
    value: &Value,
    after: Option<&str>,
    default: f64,
    rule: &str,
    fits: fn(f64) -> bool,
) -> Result<Centred, Problem> {
    let Some(after) = after else {
        return Ok((default, None));
    };
    let (text, center) = match after.split_once(':') {
        Some((text, center)) => match value.float_of(center)? {
            place if (0.0..=1.0).contains(&place) => (text, Some(place)),
            _ => return Err(value.at(center, out_of_range(center, "from 0 to 1"))),
        },
        None => (after, None),
    };
    let text = match text.split_once('/') {
        Some((number, rest)) => {
            value.remark(
                value.at(
                    rest,
                    Problem::warning(format!("as in fio, `/{rest}` has no effect"))
                        .hint("leave it out: a distribution has one number"),
                ),
            );
            number
        }
        None => text,
    };
    if text.trim().is_empty() {
        let law = value.text.split(':').next().unwrap_or_default().trim();
        let example = match law {
            "zipf" => "1.2",
            "pareto" => "0.3",
            _ => "10",
        };
        return Err(Problem::error(format!("`{law}:` needs a number"))
            .hint(format!("write a number, such as `{law}:{example}`")));
    }
    match value.float_of(text)? {
        number if fits(number) => Ok((number, center)),
        _ => Err(value.at(text, out_of_range(text, rule))),
    }
}

/// Parses `50/5:30/15:20/`: share of the ops and length of each zone, in one list for each of read, write
/// and trim.
fn zoned(
    value: &Value,
    after: Option<&str>,
    absolute: bool,
) -> Result<PerDirection<Distribution>, Problem> {
    let list = after.unwrap_or_default();
    let read = |text: &str| zones(value, text, absolute).map(Distribution::Zoned);
    Ok(match split_outside(list, &[','])[..] {
        [all] => PerDirection::all(read(all)?),
        [reads, others] => PerDirection {
            read: read(reads)?,
            write: read(others)?,
            trim: read(others)?,
        },
        [reads, writes, trims] => PerDirection {
            read: read(reads)?,
            write: read(writes)?,
            trim: read(trims)?,
        },
        _ => {
            return Err(value.at(
                list,
                Problem::error("a list has at most three values: read, write, trim"),
            ));
        }
    })
}

fn zones(value: &Value, list: &str, absolute: bool) -> Result<Vec<(f64, Amount)>, Problem> {
    let example = match absolute {
        true => "write share/length, such as `zoned_abs:60/10g:40/100g`",
        false => "write share/length in percent, such as `zoned:60/10:40/90`",
    };
    let mut zones = Vec::new();
    let mut open = 0;
    for zone in split_outside(list, &[':']) {
        if zone.trim().is_empty() {
            continue;
        }
        let (share, length) = zone.split_once('/').unwrap_or((zone, ""));
        let percent = |text: &str| {
            let text = text.trim();
            value.count_of(text.strip_suffix('%').unwrap_or(text), 0, 100)
        };
        let share = percent(share)? as f64;
        let length = match (length.trim(), absolute) {
            ("", true) => {
                let fault = Problem::error(format!("the zone `{zone}` has no length"));
                return Err(value.at(zone, fault.hint(example)));
            }
            ("", false) => {
                open += 1;
                None
            }
            (length, true) => Some(Amount::Bytes(value.count_of(length, 1, 1 << 60)?)),
            (length, false) => Some(Amount::Percent(percent(length)? as f64)),
        };
        zones.push((share, length));
    }
    let shares: f64 = zones.iter().map(|zone| zone.0).sum();
    if shares != 100.0 {
        let fault = Problem::error(format!(
            "the shares of the ops add up to {shares} %, not 100 %"
        ));
        return Err(value.at(list, fault.hint(example)));
    }
    let lengths = zones.iter().map(|zone| match zone.1 {
        Some(Amount::Percent(percent)) => percent,
        _ => 0.0,
    });
    let rest = 100.0 - lengths.sum::<f64>();
    if rest < 0.0 {
        let fault = Problem::error(format!("the zones take {} % of the region", 100.0 - rest));
        return Err(value.at(list, fault.hint(example)));
    }
    // Zones without a length divide the rest.
    let left = Amount::Percent(rest / f64::from(open.max(1)));
    Ok(zones
        .into_iter()
        .map(|(share, length)| (share, length.unwrap_or(left)))
        .collect())
}
