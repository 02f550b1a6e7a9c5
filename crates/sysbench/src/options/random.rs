//! The options of random offsets.

use crate::draft::Law;
use crate::option::{OptionSpec, Unit};
use crate::value::{Fault, count, number, number_within, word};

const LAWS: [(&str, Law); 5] = [
    ("uniform", Law::Uniform),
    ("gaussian", Law::Gaussian),
    ("special", Law::Special),
    ("pareto", Law::Pareto),
    ("zipfian", Law::Zipfian),
];

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "rand-type",
        Unit::Words(&["uniform", "gaussian", "special", "pareto", "zipfian"]),
        "uniform",
        "How random offsets are distributed.",
        |draft, text| word(text, &LAWS).map(|value| draft.law = value),
    ),
    OptionSpec::honoured(
        "rand-seed",
        Unit::Count,
        "0",
        "Random offsets and contents follow from it; 0: from the trial's own seed, which is recorded.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.seed = value),
    ),
    OptionSpec::honoured(
        "rand-spec-iter",
        Unit::Count,
        "12",
        "gaussian, special: uniform numbers whose mean is taken; the deviation is the region ÷ √(12 × this).",
        |draft, text| count(text, 1..=1_000_000).map(|value| draft.iterations = value as u32),
    ),
    OptionSpec::honoured(
        "rand-spec-pct",
        Unit::Percent,
        "1",
        "special: share of the region, in its middle, that is met most often.",
        |draft, text| number_within(text, 0.001..=100.0).map(|value| draft.special_percent = value),
    ),
    OptionSpec::honoured(
        "rand-spec-res",
        Unit::Percent,
        "75",
        "special: share of requests that go there; the others are gaussian.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.special_share = value),
    ),
    OptionSpec::honoured(
        "rand-pareto-h",
        Unit::Number,
        "0.2",
        "pareto: a share h of the region gets a share 1 − h of the requests.",
        |draft, text| {
            let h = number(text)?;
            if h <= 0.0 || h >= 1.0 {
                return Err(Fault::new(format!("`{text}` is not between 0 and 1")));
            }
            draft.pareto_h = h;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "rand-zipfian-exp",
        Unit::Number,
        "0.8",
        "zipfian: the law's exponent; 0 is uniform.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.zipf_exponent = value),
    ),
];
