//! Checks of one row.

use iodyno_model::{Claim, ClaimCheck, ClaimRules};

use super::attempt::{Attempt, Row};
use super::matching::label;
use super::number::{Number, ROUNDING, half_unit};
use super::summary::ALPHA;
use super::words::{figures_words, held_words, tidy};

pub(super) fn check_row(claim: &Claim, row: &Row) -> ClaimCheck {
    let attempt = match &row.attempt {
        Ok(attempt) => attempt,
        Err(why) => return unchecked(claim, why.clone()),
    };
    let missing = attempt.sides.iter().find(|side| side.figures.is_empty());
    if let Some(side) = missing {
        let why = format!("{}: there are no trials of {}", side.name, label(claim));
        return unchecked(claim, why);
    }
    if let Some(text) = claim
        .sides
        .iter()
        .find(|text| Number::of(text, claim).is_none())
    {
        return unchecked(
            claim,
            format!("`{text}` is not a number in a form that is known"),
        );
    }
    ClaimCheck {
        claim: claim.clone(),
        against: against(claim, attempt),
        recomputed: attempt.sides.iter().map(|side| side.text.clone()).collect(),
        p: p_of(claim, attempt),
        unchecked: None,
    }
}

/// The printed p if one of the tests gives it, otherwise that of the default test.
fn p_of(claim: &Claim, attempt: &Attempt) -> Option<f64> {
    let printed = attempt
        .ps
        .iter()
        .find(|p| claim.p.is_some_and(|claimed| p_agrees(claimed, **p)));
    printed.or(attempt.ps.first()).copied()
}

fn p_agrees(printed: f64, p: f64) -> bool {
    (printed - p).abs() <= 0.0005 + ROUNDING
}

/// A claim without trials; its difference can still contradict its own sides.
pub(super) fn unchecked(claim: &Claim, why: String) -> ClaimCheck {
    let against: Vec<String> = contradiction(claim).into_iter().collect();
    ClaimCheck {
        claim: claim.clone(),
        recomputed: vec![None; claim.sides.len()],
        p: None,
        unchecked: against.is_empty().then_some(why),
        against,
    }
}

/// Why the printed difference is not possible for the printed sides, for any rounding.
fn contradiction(claim: &Claim) -> Option<String> {
    let [old, new] = &claim.sides[..] else {
        return None;
    };
    let bounds = |text| {
        let number = Number::of(text, claim)?;
        let low = (number.value - number.half_unit) * number.factor;
        let high = (number.value + number.half_unit) * number.factor;
        (low > 0.0).then_some((low, high))
    };
    let ((old_low, old_high), (new_low, new_high)) = (bounds(old)?, bounds(new)?);
    let printed = claim.delta.strip_suffix('%')?;
    let value: f64 = printed.parse().ok()?;
    let low = (new_low / old_high - 1.0) * 100.0 - half_unit(printed);
    let high = (new_high / old_low - 1.0) * 100.0 + half_unit(printed);
    let slack = ROUNDING * (1.0 + high.abs());
    (value < low - slack || value > high + slack).then(|| {
        format!(
            "from {} to {} it is {low:+.2}% to {high:+.2}%, not {}",
            tidy(old),
            tidy(new),
            claim.delta
        )
    })
}

fn against(claim: &Claim, attempt: &Attempt) -> Vec<String> {
    let mut against = Vec::new();
    let mut numbers_agree = true;
    for (index, (side, printed)) in attempt.sides.iter().zip(&claim.sides).enumerate() {
        let name = &side.name;
        if let (false, Some(n)) = (side.count_agrees, claim.n.get(index)) {
            numbers_agree = false;
            against.push(format!(
                "{name}: the table says n={n}, the text holds {}",
                held_words(side, claim)
            ));
        } else if !side.agrees {
            numbers_agree = false;
            let gives = side.text.as_deref().map_or("nothing".to_owned(), tidy);
            against.push(format!(
                "{name}: {} give {gives}, not {}",
                figures_words(side, claim),
                tidy(printed)
            ));
        }
    }
    // Other numbers have another p; the printed difference is informative only with the same ones.
    if numbers_agree {
        against.extend(against_test(claim, attempt));
        if let (false, [old, new]) = (attempt.delta_agrees, &attempt.sides[..])
            && let (Some(old), Some(new)) = (&old.summary, &new.summary)
        {
            let percent = (new.center / old.center - 1.0) * 100.0;
            against.push(format!(
                "the difference is {percent:+.2}%, not {}",
                claim.delta
            ));
        }
    }
    against
}

/// The contradiction between p and a row.
fn against_test(claim: &Claim, attempt: &Attempt) -> Vec<String> {
    let mut against = Vec::new();
    let Some(p) = p_of(claim, attempt) else {
        return against;
    };
    if let Some(claimed) = claim.p.filter(|claimed| !p_agrees(*claimed, p)) {
        against.push(format!("p is {p:.3}, not {claimed:.3}"));
    }
    // Exact units and tables without a test have no p, but always a difference; if a t test is not defined, there is
    // neither.
    if claim.p.is_none() && (claim.delta != "~" || !attempt.has_t) {
        return against;
    }
    let hidden = match claim.subject.rules {
        ClaimRules::Means => p >= ALPHA,
        ClaimRules::Medians => p > ALPHA,
    };
    // Exactly at the limit, the last bit decides.
    let at_limit = (p - ALPHA).abs() <= ROUNDING;
    if (claim.delta == "~") != hidden && !at_limit {
        against.push(match hidden {
            true => format!(
                "with p={p:.3} the difference is not printed as {}",
                claim.delta
            ),
            false => format!(
                "with p={p:.3} the difference is printed, not {}",
                claim.delta
            ),
        });
    }
    against
}
