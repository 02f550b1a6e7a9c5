//! Numbers of rounds, compared with the reference's table.

mod common;

use common::close;
use iodyno_stats::{
    Decides, least_rounds, least_samples, rounds_for_width, rounds_to_decide, samples_for_width,
    samples_to_decide, student_t_quantile,
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

#[test]
fn a_width_needs_the_first_count_whose_expected_width_is_small_enough() {
    let found = rounds_for_width(&SEEN, 0.95, 0.03).unwrap();
    let mean = SEEN.iter().sum::<f64>() / 10.0;
    let deviation = (SEEN.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 9.0).sqrt();
    let width = |rounds: usize| {
        let t = student_t_quantile(0.975, rounds as f64 - 1.0).unwrap();
        2.0 * t * deviation * (std::f64::consts::PI / 3.0 / rounds as f64).sqrt()
    };
    let rounds = found.rounds.unwrap();
    assert!(width(rounds) <= 0.03 && width(rounds - 1) > 0.03);
    assert_eq!(found.more, Some(rounds - 10));
}

#[test]
fn narrower_widths_and_higher_power_need_more_rounds() {
    let rounds = |width| {
        rounds_for_width(&SEEN, 0.95, width)
            .unwrap()
            .rounds
            .unwrap()
    };
    assert!(rounds(0.01) > rounds(0.02) && rounds(0.02) > rounds(0.04));
    // Already narrow enough: no further rounds.
    assert_eq!(rounds_for_width(&SEEN, 0.95, 1.0).unwrap().more, Some(0));
    // Not reachable.
    assert_eq!(rounds_for_width(&SEEN, 0.95, 1e-6).unwrap().rounds, None);
    let decide = |power| {
        rounds_to_decide(&SEEN, 0.03, 0.95, power)
            .unwrap()
            .0
            .rounds
            .unwrap()
    };
    assert!(decide(0.8) > decide(0.5));
    // A constant difference only needs the number of rounds at which the test can be significant.
    assert_eq!(
        rounds_for_width(&[0.1, 0.1], 0.95, 0.01).unwrap().rounds,
        Some(6)
    );
    assert_eq!(
        rounds_for_width(&[0.1, 0.1], 0.999, 0.01).unwrap().rounds,
        Some(11)
    );
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
    let quiet = [0.01, -0.01, 0.005, -0.005];
    let paired = rounds_for_width(&SEEN, 0.95, 0.02).unwrap().rounds.unwrap();
    let one_noisy = samples_for_width(&quiet, &SEEN, 0.95, 0.02)
        .unwrap()
        .rounds
        .unwrap();
    let both_noisy = samples_for_width(&SEEN, &SEEN, 0.95, 0.02)
        .unwrap()
        .rounds
        .unwrap();
    assert!(one_noisy >= paired && both_noisy > one_noisy);
    let shifted = SEEN.map(|v| v + 0.2);
    let (projection, goal) = samples_to_decide(&SEEN, &shifted, 0.03, 0.95, 0.8).unwrap();
    assert_eq!((goal, projection.more), (Decides::Difference, Some(0)));
}
