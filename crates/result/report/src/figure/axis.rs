//! Axes: titles, units and scales.

use iodyno_model::{Better, Metric, SeriesUnit, Unit};

use crate::series::{BYTES, NANOS, largest_below};

/// How values are placed along an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// In proportion to their differences.
    Linear,
    /// The same for numbers of a sequence, such as rounds: only whole numbers have labels.
    Whole,
    /// In proportion to their ratios; only values above 0.
    Log,
    /// Percentiles, 0 ≤ p < 100, by the number of nines: each step divides the rest by ten.
    Nines,
    /// One place for each name, from 0, the first one at the top or left.
    Names(Vec<String>),
}

/// An axis. The values of curves are in its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit: `latency, ms`.
    pub title: String,
    /// How values are placed.
    pub scale: Scale,
    /// Divides a value of the stored unit (ns, bytes) into the unit of the axis.
    pub divisor: f64,
    /// Whether 0 belongs to the axis.
    pub from_zero: bool,
}

impl Axis {
    /// An axis whose values are drawn unchanged.
    pub fn plain(title: impl Into<String>, scale: Scale) -> Axis {
        Axis {
            title: title.into(),
            scale,
            divisor: 1.0,
            from_zero: false,
        }
    }

    /// Time in seconds from values in ns.
    pub fn seconds(title: &str) -> Axis {
        Axis {
            divisor: 1e9,
            ..Axis::plain(format!("{title}, s"), Scale::Linear)
        }
    }

    /// An axis of a metric. `largest`: the largest value, which decides the unit.
    pub fn of_metric(metric: &Metric, largest: f64) -> Axis {
        let unit = match &metric.unit {
            Unit::OpsPerSecond => SeriesUnit::PerSecond,
            Unit::BytesPerSecond => SeriesUnit::BytesPerSecond,
            Unit::Nanos => SeriesUnit::Nanos,
            Unit::Other(name) => {
                let title = match name.is_empty() {
                    true => metric.name.clone(),
                    false => format!("{}, {name}", metric.name),
                };
                return Axis::plain(title, Scale::Linear);
            }
        };
        Axis::of_unit(&metric.name, unit, largest)
    }

    /// A linear axis of a quantity. `largest`: the largest value, which decides the unit.
    pub fn of_unit(name: &str, unit: SeriesUnit, largest: f64) -> Axis {
        let (unit, divisor) = match unit {
            SeriesUnit::Number => ("", 1.0),
            SeriesUnit::Hundredths => ("", 100.0),
            SeriesUnit::Percent => ("%", 1.0),
            SeriesUnit::Nanos => largest_below(&NANOS, largest),
            SeriesUnit::Bytes => largest_below(&BYTES, largest),
            SeriesUnit::PerSecond => largest_below(&RATES, largest),
            SeriesUnit::BytesPerSecond => largest_below(&BYTE_RATES, largest),
        };
        Axis {
            title: match unit {
                "" => name.to_owned(),
                unit => format!("{name}, {unit}"),
            },
            divisor,
            ..Axis::plain("", Scale::Linear)
        }
    }

    /// The same axis with logarithmic scale.
    pub fn log(self) -> Axis {
        Axis {
            scale: Scale::Log,
            ..self
        }
    }

    /// The same axis, from 0.
    pub fn zero(self) -> Axis {
        Axis {
            from_zero: true,
            ..self
        }
    }

    /// The place of a stored value on the axis; `None` if the axis cannot show it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let value = value / self.divisor;
        let shown = match self.scale {
            Scale::Log => value > 0.0,
            Scale::Nines => (0.0..100.0).contains(&value),
            Scale::Linear | Scale::Whole | Scale::Names(_) => true,
        };
        (shown && value.is_finite()).then_some(match self.scale {
            Scale::Nines => nines(value),
            _ => value,
        })
    }
}

/// The direction in which values of a metric are better, for captions.
pub(crate) fn better(metric: &Metric) -> &'static str {
    match metric.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    }
}

/// The place of a percentile: 0 for 0, 1 for 90, 2 for 99.
pub(crate) fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).log10()
}

/// The percentiles that have ticks.
pub(crate) const NINES: [(f64, &str); 8] = [
    (0.0, "0"),
    (50.0, "p50"),
    (90.0, "p90"),
    (99.0, "p99"),
    (99.9, "p99.9"),
    (99.99, "p99.99"),
    (99.999, "p99.999"),
    (99.9999, "p99.9999"),
];

const RATES: [(&str, f64); 3] = [("/s", 1.0), ("thousand/s", 1e3), ("million/s", 1e6)];
const BYTE_RATES: [(&str, f64); 4] = [
    ("B/s", 1.0),
    ("KiB/s", 1024.0),
    ("MiB/s", 1048576.0),
    ("GiB/s", 1073741824.0),
];

impl Axis {
    /// The title of a panel, with the unit of the axis if the title does not have it.
    pub(crate) fn title_of(&self, panel: &str) -> String {
        match self.title.split_once(", ") {
            Some((_, unit)) if !panel.is_empty() => format!("{panel}, {unit}"),
            _ if panel.is_empty() => self.title.clone(),
            _ => panel.to_owned(),
        }
    }

    /// The place of a value that is in the unit of the axis, on a line in proportion to the drawing.
    pub(crate) fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => value.log10(),
            Scale::Linear | Scale::Whole | Scale::Nines | Scale::Names(_) => value,
        }
    }

    /// Places between two positions that have a label, ascending.
    pub(crate) fn ticks(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        match &self.scale {
            Scale::Names(names) => (0..).map(f64::from).zip(names.iter().cloned()).collect(),
            Scale::Nines => {
                let each = NINES
                    .iter()
                    .map(|(at, text)| (nines(*at), (*text).to_owned()));
                each.filter(|(at, _)| *at <= high).collect()
            }
            Scale::Linear => linear(low, high),
            Scale::Whole => {
                let step = whole_step(high - low);
                let numbers = (low / step).ceil() as i64..=(high / step).floor() as i64;
                let each = numbers.map(|count| count as f64 * step);
                each.map(|at| (at, number(at, 0))).collect()
            }
            Scale::Log => logarithmic(low, high),
        }
    }
}

/// Multiples of 1, 2 or 5 × 10ⁿ, about six.
fn linear(low: f64, high: f64) -> Vec<(f64, String)> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![(low, number(low, 0))];
    }
    let power = 10_f64.powf((span / 6.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step
        .into_iter()
        .find(|step| span / step <= 6.5)
        .unwrap_or(10.0 * power);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last)
        .map(|count| {
            let at = count as f64 * step;
            (at, number(at, decimals))
        })
        .collect()
}

/// The distance between labels of whole numbers, for at most about 15.
pub(crate) fn whole_step(span: f64) -> f64 {
    let decades = (0..15).map(|power| 10_f64.powi(power));
    let mut steps = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * decade));
    steps.find(|step| span / step <= 15.0).unwrap_or(1e15)
}

/// Powers of ten, with 2 and 5 between them if there are few. Positions are logarithms.
fn logarithmic(low: f64, high: f64) -> Vec<(f64, String)> {
    let factors: &[f64] = match high - low {
        span if span > 4.0 => &[1.0],
        span if span > 1.0 => &[1.0, 2.0, 5.0],
        _ => {
            let values = linear(10_f64.powf(low), 10_f64.powf(high));
            return values
                .into_iter()
                .filter(|(value, _)| *value > 0.0)
                .map(|(value, text)| (value.log10(), text))
                .collect();
        }
    };
    let powers = (low.floor() as i32)..=(high.ceil() as i32);
    let all = powers.flat_map(|power| {
        factors.iter().map(move |factor| {
            let value = factor * 10_f64.powi(power);
            (
                value.log10(),
                number(value, usize::try_from(-power).unwrap_or(0)),
            )
        })
    });
    all.filter(|(at, _)| (low..=high).contains(at)).collect()
}

fn number(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}
