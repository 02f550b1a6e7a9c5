//! An estimated value with its interval, as JSON.

use iodyno_model::Estimated;

use crate::json::object;

object!(EstimatedView<'a>(estimated in &'a Estimated) {
    value: estimated.value,
    low: estimated.interval.map(|interval| interval.0),
    high: estimated.interval.map(|interval| interval.1),
    level: estimated.level,
});
