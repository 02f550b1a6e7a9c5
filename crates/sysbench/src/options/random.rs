//! The options of random offsets.

use iodyno_options::{Fault, Unit::*, one_of};

use super::{OptionSpec, honoured};
use crate::draft::{Draft, Law};
use crate::value::{count, number, number_within};

const LAWS: [(&str, Law); 5] = [
    ("uniform", Law::Uniform),
    ("gaussian", Law::Gaussian),
    ("special", Law::Special),
    ("pareto", Law::Pareto),
    ("zipfian", Law::Zipfian),
];

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("rand-type", Words(&["uniform", "gaussian", "special", "pareto", "zipfian"]), "How random offsets are distributed.",
        |draft, text| one_of(text, &LAWS).map(|value| draft.law = value)).default("uniform"),
    honoured("rand-seed", Count, "Random offsets and contents follow from it; 0: from the trial's own seed, which is recorded.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.seed = value)).default("0"),
    honoured("rand-spec-iter", Count, "gaussian, special: uniform numbers whose mean is taken; the deviation is the region ÷ √(12 × this).",
        |draft, text| count(text, 1..=1_000_000).map(|value| draft.iterations = value as u32)).default("12"),
    honoured("rand-spec-pct", Percent, "special: share of the region, in its middle, that is met most often.",
        |draft, text| number_within(text, 0.001..=100.0).map(|value| draft.special_percent = value)).default("1"),
    honoured("rand-spec-res", Percent, "special: share of requests that go there; the others are gaussian.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.special_share = value)).default("75"),
    honoured("rand-pareto-h", Number, "pareto: a share h of the region gets a share 1 − h of the requests.",
        rand_pareto_h).default("0.2"),
    honoured("rand-zipfian-exp", Number, "zipfian: the law's exponent; 0 is uniform.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.zipf_exponent = value)).default("0.8"),
];

fn rand_pareto_h(draft: &mut Draft, text: &str) -> Result<(), Fault> {
    let h = number(text)?;
    if h <= 0.0 || h >= 1.0 {
        return Err(Fault::error(format!("`{text}` is not between 0 and 1")));
    }
    draft.pareto_h = h;
    Ok(())
}
