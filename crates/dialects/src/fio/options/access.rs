//! Options that say what is done and at which offsets.

use iodyno_model::{Distribution, Order, Sequencer};

use super::general::out_of_range;
use crate::fio::draft::{Draft, Suffix};
use crate::fio::option::{OptionSpec, Unit};
use crate::fio::value::{Fault, Value};
use crate::fio::words::split_outside;

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

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "rw",
        Unit::Words(READ_WRITE),
        "What is done. `randread:8`: a new offset every 8 ops; `read:4k`: 4 KiB skipped after each op.",
        read_write,
    )
    .alias(&["readwrite"])
    .default("read"),
    OptionSpec::honoured(
        "rw_sequencer",
        Unit::Words(&["sequential", "identical"]),
        "What the number after `rw=rand…:` does between two draws.",
        |draft, value| {
            draft.job.access.sequencer = value.choice(&[
                ("sequential", Sequencer::Sequential),
                ("identical", Sequencer::Identical),
            ])?;
            Ok(())
        },
    )
    .default("sequential"),
    OptionSpec::honoured(
        "rwmixread",
        Unit::Percent,
        "Share of reads in a mix; each op is drawn on its own.",
        |draft, value| {
            draft.job.access.read_percent = value.count(0, 100)?;
            Ok(())
        },
    )
    .default("50"),
    OptionSpec::honoured(
        "rwmixwrite",
        Unit::Percent,
        "Share of writes in a mix; the last of both options counts.",
        |draft, value| {
            draft.job.access.read_percent = 100 - value.count(0, 100)?;
            Ok(())
        },
    )
    .default("50"),
    OptionSpec::ignored(
        "rwmixcycle",
        Unit::Count,
        "Ops between changes of direction.",
        "each op's direction is drawn on its own",
    ),
    OptionSpec::honoured(
        "bs",
        Unit::Bytes,
        "Size of ops; a comma list is for read, write, trim.",
        |draft, value| {
            let mut bs = draft.bs;
            value.spread(&mut bs, |token| block_size(value, token))?;
            draft.bs = bs;
            Ok(())
        },
    )
    .alias(&["blocksize"])
    .default("4096"),
    OptionSpec::honoured(
        "bsrange",
        Unit::Bytes,
        "Sizes drawn uniformly: `4k-16k`; a comma list is for read, write, trim.",
        |draft, value| {
            if !value.text.contains(['-', ':']) {
                return Err(Fault::error("a range has two ends").hint("write it as `4k-16k`"));
            }
            let mut range = draft.bs_range;
            value.spread(&mut range, |token| {
                value
                    .range_of(token, |end| value.count_of(end, 1, 1 << 40))
                    .map(Some)
            })?;
            draft.bs_range = range;
            Ok(())
        },
    )
    .alias(&["blocksize_range"]),
    OptionSpec::honoured(
        "bssplit",
        Unit::Text,
        "Sizes with their shares in percent: `4k/60:64k/40`; a comma list is for read, write, trim.",
        |draft, value| {
            let mut split = draft.bs_split.clone();
            value.spread(&mut split, |token| shares(value, token).map(Some))?;
            draft.bs_split = split;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "bs_unaligned",
        Unit::Boolean,
        "A range may give any number of bytes.",
        |draft, value| {
            draft.bs_unaligned = value.boolean()?;
            Ok(())
        },
    )
    .alias(&["blocksize_unaligned"]),
    OptionSpec::refused(
        "bs_is_seq_rand",
        Unit::Boolean,
        "The values of `bs` are for sequential and random ops.",
        "sizes go by direction",
        "two jobs, one sequential and one random",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "blockalign",
        Unit::Bytes,
        "Random offsets are multiples of this; of the smallest block without it.",
        |draft, value| {
            let mut align = draft.job.access.block_align;
            value.spread(&mut align, |token| value.count_of(token, 1, 1 << 40))?;
            draft.job.access.block_align = align;
            Ok(())
        },
    )
    .alias(&["ba"]),
    OptionSpec::honoured(
        "percentage_random",
        Unit::Percent,
        "Share of random ops in a random job; a comma list is for read, write, trim.",
        |draft, value| {
            let mut share = draft.job.access.percent_random;
            value.spread(&mut share, |token| {
                value.count_of(token, 0, 100).map(|percent| percent as u32)
            })?;
            draft.job.access.percent_random = share;
            Ok(())
        },
    )
    .default("100"),
    OptionSpec::refused(
        "percentage_sequential",
        Unit::Percent,
        "Share of sequential ops.",
        "it is deprecated",
        "`percentage_random`",
    ),
    OptionSpec::honoured(
        "random_distribution",
        Unit::Words(&["random", "zipf:θ", "pareto:h", "normal:dev"]),
        "How random offsets are drawn. All but `random` imply `norandommap`.",
        distribution,
    )
    .default("random"),
    OptionSpec::ignored(
        "random_sequence_stride",
        Unit::Boolean,
        "How a sequence of offsets goes on.",
        "it only says more about `random_distribution=sequence`, which is refused",
    ),
    OptionSpec::honoured(
        "norandommap",
        Unit::Boolean,
        "Random offsets may be met again before all have been met.",
        |draft, value| {
            draft.no_random_map = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::ignored(
        "softrandommap",
        Unit::Boolean,
        "Goes on where the random map cannot be allocated.",
        "the map takes no memory here",
    ),
    OptionSpec::ignored(
        "random_generator",
        Unit::Words(&["tausworthe", "lfsr", "tausworthe64"]),
        "How random numbers are made.",
        "one generator serves regions of any size, and each block is met once a pass all the same",
    ),
    OptionSpec::honoured(
        "randrepeat",
        Unit::Boolean,
        "The same offsets in every run.",
        |draft, value| {
            draft.job.access.repeatable = value.boolean()?;
            Ok(())
        },
    )
    .alias(&["allrandrepeat"])
    .default("1"),
    OptionSpec::honoured(
        "randseed",
        Unit::Count,
        "Everything random in the job follows from it.",
        |draft, value| {
            draft.job.access.seed = Some(value.bytes()?);
            Ok(())
        },
    ),
    OptionSpec::refused(
        "sprandom",
        Unit::Boolean,
        "Preconditions a solid-state disk in one pass.",
        "this preconditioning is not here",
        "two passes of `rw=randwrite` over the device (`loops=2`)",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "spr_num_regions",
        Unit::Count,
        "Regions of `sprandom`.",
        "it only says more about `sprandom`, which is refused",
    ),
    OptionSpec::ignored(
        "spr_op",
        Unit::Number,
        "Over-provisioning for `sprandom`.",
        "it only says more about `sprandom`, which is refused",
    ),
    OptionSpec::ignored(
        "spr_cs",
        Unit::Bytes,
        "Cache size for `sprandom`.",
        "it only says more about `sprandom`, which is refused",
    ),
    OptionSpec::refused(
        "num_range",
        Unit::Count,
        "Ranges of one trim command.",
        "a trim has one range",
        "a larger `bs`",
    )
    .neutral(&["1"]),
];

fn read_write(draft: &mut Draft, value: &Value) -> Result<(), Fault> {
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
    let access = &mut draft.job.access;
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

fn block_size(value: &Value, token: &str) -> Result<u64, Fault> {
    let token = token.trim();
    if split_outside(token, &['-', ':']).len() > 1 && !token.starts_with('-') {
        return Err(value.at(
            token,
            Fault::error(format!(
                "`{token}` is a range; `bs` takes one size a direction"
            ))
            .hint(format!(
                "write `bsrange={token}` for sizes in between; \
                     fio takes this for the sizes of reads and of writes"
            )),
        ));
    }
    value.count_of(token, 1, 1 << 40)
}

/// `4k/60:64k/40`; sizes without a share divide the rest among them.
fn shares(value: &Value, token: &str) -> Result<Vec<(u64, f64)>, Fault> {
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
            Fault::error(format!("the shares add up to {given} %, not 100 %"))
                .hint("correct them; a size without a share gets what is left over"),
        ));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(parts
        .into_iter()
        .map(|(size, share)| (size, share.unwrap_or(rest)))
        .collect())
}

fn distribution(draft: &mut Draft, value: &Value) -> Result<(), Fault> {
    #[derive(Clone, Copy)]
    enum Law {
        Uniform,
        Zipf,
        Pareto,
        Normal,
        Unknown,
    }
    let (law, after) = value.word(&[
        ("random", Law::Uniform),
        ("zipf", Law::Zipf),
        ("pareto", Law::Pareto),
        ("normal", Law::Normal),
        ("zoned", Law::Unknown),
        ("zoned_abs", Law::Unknown),
        ("sequence", Law::Unknown),
    ])?;
    let (parameter, center) = match after.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        None => (None, ""),
        Some((parameter, center)) => (Some(parameter), center),
    };
    if matches!(law, Law::Unknown) {
        return Err(Fault::refusal(format!(
            "the distribution `{}` is not supported",
            value.text.split(':').next().unwrap_or_default()
        ))
        .hint("use zipf, pareto or normal, or several jobs with `offset` and `size`"));
    }
    if !center.is_empty() {
        return Err(value.at(
            center,
            Fault::refusal("the centre of a distribution cannot be chosen")
                .hint("leave the second number out"),
        ));
    }
    let parameter = parameter
        .map(|text| value.float_of(text).map(|number| (number, text)))
        .transpose()?;
    let number = |default: f64| parameter.map_or(default, |(number, _)| number);
    let text = parameter.map_or("", |(_, text)| text);
    draft.distribution = match law {
        Law::Zipf if number(1.1) <= 0.0 || number(1.1) == 1.0 => {
            return Err(value.at(text, out_of_range(text, "above 0, and not 1")));
        }
        Law::Pareto if !(number(0.2) > 0.0 && number(0.2) < 1.0) => {
            return Err(value.at(text, out_of_range(text, "between 0 and 1")));
        }
        Law::Normal if !(number(0.0) >= 0.0 && number(0.0) < 100.0) => {
            return Err(value.at(text, out_of_range(text, "from 0 to below 100 (percent)")));
        }
        Law::Zipf => Distribution::Zipf(number(1.1)),
        Law::Pareto => Distribution::Pareto(number(0.2)),
        Law::Normal => Distribution::Normal(number(0.0)),
        Law::Uniform | Law::Unknown => Distribution::Uniform,
    };
    Ok(())
}
