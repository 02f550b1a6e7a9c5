//! A short description of a series of rates over time.

use iodyno_model::{Behaviour, Course, Regime};
use iodyno_units::{Rate, percent};

/// The largest number of regimes that are printed in full; of more, the first two and the last are printed.
const TOLD: usize = 4;

/// Up to this range of the single seconds, percent of their mean, a series is called steady: SNIA's limit for a steady
/// state (Solid State Storage Performance Test Specification). A series of one level can exceed it by noise.
const STEADY_RANGE: f64 = 20.0;

/// `steady from 2 s (range 6 %)`, `3 regimes: 4.1k/s until 2 s, …`; empty without a series.
pub(crate) fn words(behaviour: &Behaviour) -> String {
    match behaviour.course {
        Course::Steady {
            from_ns,
            range_percent,
        } => {
            let from = match from_ns {
                0 => String::new(),
                ns => format!(" from {}", seconds(ns)),
            };
            let range = percent(range_percent / 100.0);
            match range_percent > STEADY_RANGE {
                false => format!("steady{from} (range {range})"),
                true => format!("no trend{from}, but single seconds range over {range}"),
            }
        }
        Course::Drifting {
            rise_percent,
            range_percent,
        } => {
            // If the trend is less than half the range, the rates go up and down.
            match rise_percent.abs() * 2.0 >= range_percent {
                true => {
                    let verb = if rise_percent < 0.0 { "falls" } else { "rises" };
                    format!(
                        "drifting ({verb} {} of its mean)",
                        percent(rise_percent.abs() / 100.0)
                    )
                }
                false => format!("unsteady (range {})", percent(range_percent / 100.0)),
            }
        }
        Course::Regimes => regimes(&behaviour.regimes),
        Course::TooShort { seconds } => format!("too short to tell ({seconds} s)"),
        Course::Unknown => String::new(),
    }
}

fn regimes(regimes: &[Regime]) -> String {
    let until =
        |regime: &Regime| format!("{}/s until {}", Rate(regime.rate), seconds(regime.end_ns));
    let told = match regimes {
        [first, second, .., last] if regimes.len() > TOLD => {
            vec![until(first), until(second), "…".to_owned(), until(last)]
        }
        all => all.iter().map(until).collect(),
    };
    format!("{} regimes: {}", regimes.len(), told.join(", "))
}

/// Seconds to a tenth: `2 s`, `3.3 s`.
fn seconds(ns: u64) -> String {
    let tenths = (ns as f64 / 1e8).round() / 10.0;
    format!("{tenths} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(course: Course, regimes: &[(u64, f64)], expected: &str) {
        let mut start_ns = 0;
        let regimes = regimes
            .iter()
            .map(|(end_ns, rate)| {
                let start = std::mem::replace(&mut start_ns, *end_ns);
                Regime {
                    start_ns: start,
                    end_ns: *end_ns,
                    rate: *rate,
                    deviation: 0.0,
                }
            })
            .collect();
        let behaviour = Behaviour {
            course,
            regimes,
            autocorrelation_time: None,
        };
        assert_eq!(words(&behaviour), expected);
    }

    #[test]
    fn a_series_is_described_in_a_few_words() {
        let steady = |from_ns, range_percent| Course::Steady {
            from_ns,
            range_percent,
        };
        let drifting = |rise_percent, range_percent| Course::Drifting {
            rise_percent,
            range_percent,
        };
        check(steady(0, 6.2), &[], "steady (range 6.2 %)");
        check(
            steady(2_000_137_000, 12.4),
            &[],
            "steady from 2 s (range 12.4 %)",
        );
        check(steady(0, 20.0), &[], "steady (range 20 %)");
        check(
            steady(2_000_137_000, 93.0),
            &[],
            "no trend from 2 s, but single seconds range over 93 %",
        );
        check(
            drifting(12.1, 14.0),
            &[],
            "drifting (rises 12.1 % of its mean)",
        );
        check(
            drifting(-30.0, 35.0),
            &[],
            "drifting (falls 30 % of its mean)",
        );
        check(drifting(-3.0, 100.0), &[], "unsteady (range 100 %)");
        check(
            Course::TooShort { seconds: 3 },
            &[],
            "too short to tell (3 s)",
        );
        check(Course::Unknown, &[], "");
        check(
            Course::Regimes,
            &[(1_880_000_000, 4_100.0), (3_300_000_000, 65_300.0)],
            "2 regimes: 4.10k/s until 1.9 s, 65.3k/s until 3.3 s",
        );
        let many: Vec<(u64, f64)> = (1..=6).map(|i| (i * 10_000_000_000, 100.0)).collect();
        check(
            Course::Regimes,
            &many,
            "6 regimes: 100/s until 10 s, 100/s until 20 s, …, 100/s until 60 s",
        );
    }
}
