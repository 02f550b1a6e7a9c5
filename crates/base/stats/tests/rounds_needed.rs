//! Numbers of rounds, compared with the reference's table.

mod common;

use common::close;
use iodyno_stats::{
    Decides, least_rounds, least_samples, rounds_to_decide, samples_to_decide, student_t_quantile,
};

#[test]
fn the_minimum_of_rounds_under_holm_agrees_with_the_table() {
    for (primaries, rounds) in [(1, 6), (2, 7), (3, 7), (7, 9), (20, 10), (60, 12)] {
        assert_eq!(
            least_rounds(primaries, 0.05),
            Ok(rounds),
            "{primaries} primaries"
        );
    }
    assert_eq!(least_rounds(0, 0.05), Ok(6));
    // U test: 2/C(2n, n) is 0.10 at 3, 0.029 at 4, 0.0079 at 5 and 0.0022 at 6.
    for (primaries, samples) in [(1, 4), (2, 5), (6, 5), (7, 6), (20, 6)] {
        assert_eq!(
            least_samples(primaries, 0.05),
            Ok(samples),
            "{primaries} primaries"
        );
    }
}

const SEEN: [f64; 10] = [0.06, -0.03, 0.05, 0.01, -0.02, 0.08, 0.0, 0.04, -0.01, 0.02];

/// Two values with this standard deviation, whose centre is 0.
fn spread(deviation: f64) -> [f64; 2] {
    [-deviation / 2f64.sqrt(), deviation / 2f64.sqrt()]
}

/// The number of rounds whose expected interval has this width.
fn for_width(deviation: f64, level: f64, width: f64) -> Option<usize> {
    let projected = rounds_to_decide(&spread(deviation), width / 2.0, level, 0.5);
    projected.unwrap().0.rounds
}

#[test]
fn a_width_needs_the_first_count_whose_expected_width_is_small_enough() {
    let width = |rounds: usize| {
        let t = student_t_quantile(0.975, rounds as f64 - 1.0).unwrap();
        2.0 * t * 0.04 * (std::f64::consts::PI / 3.0 / rounds as f64).sqrt()
    };
    let rounds = for_width(0.04, 0.95, 0.03).unwrap();
    assert!(width(rounds) <= 0.03 && width(rounds - 1) > 0.03);
}

#[test]
fn narrower_widths_and_higher_power_need_more_rounds() {
    let rounds = |width| for_width(0.04, 0.95, width).unwrap();
    assert!(rounds(0.01) > rounds(0.02) && rounds(0.02) > rounds(0.04));
    // Not reachable.
    assert_eq!(for_width(0.04, 0.95, 1e-6), None);
    let decide = |power| {
        rounds_to_decide(&SEEN, 0.03, 0.95, power)
            .unwrap()
            .0
            .rounds
            .unwrap()
    };
    assert!(decide(0.8) > decide(0.5));
    // A constant difference only needs the number of rounds at which the test can be significant.
    assert_eq!(for_width(0.0, 0.95, 0.01), Some(6));
    assert_eq!(for_width(0.0, 0.999, 0.01), Some(11));
}

#[test]
fn the_nearer_of_difference_and_equivalence_is_projected() {
    let around = |centre: f64| {
        [
            centre - 0.01,
            centre + 0.01,
            centre - 0.02,
            centre + 0.02,
            centre,
        ]
    };
    let check = |centre: f64, decides, half_width: f64| {
        let (projection, goal) = rounds_to_decide(&around(centre), 0.03, 0.95, 0.5).unwrap();
        assert_eq!(goal, decides, "{centre}");
        close(projection.half_width, half_width, 1e-9);
    };
    check(0.05, Decides::Difference, 0.05);
    check(-0.05, Decides::Difference, 0.05);
    check(0.02, Decides::Difference, 0.02);
    check(0.01, Decides::Equivalence, 0.02);
    check(-0.001, Decides::Equivalence, 0.029);
}

#[test]
fn unpaired_projections_count_both_spreads() {
    let unpaired = |one, other| {
        let projected = samples_to_decide(&spread(one), &spread(other), 0.01, 0.95, 0.5);
        projected.unwrap().0.rounds.unwrap()
    };
    let paired = for_width(0.04, 0.95, 0.02).unwrap();
    assert!(unpaired(0.008, 0.04) >= paired && unpaired(0.04, 0.04) > unpaired(0.008, 0.04));
    let shifted = SEEN.map(|v| v + 0.2);
    let (projection, goal) = samples_to_decide(&SEEN, &shifted, 0.03, 0.95, 0.8).unwrap();
    assert_eq!((goal, projection.more), (Decides::Difference, Some(0)));
}
