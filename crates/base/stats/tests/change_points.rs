//! Change points in series without randomness, compared with Apache Otava.

mod common;

use common::{close, irregular};
use iodyno_stats::{ChangePointOptions, Segmentation, change_points};

/// Levels with their lengths, plus irregular noise between 0 and 10.
fn series(levels: &[(usize, f64)]) -> Vec<f64> {
    let flat = levels
        .iter()
        .flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
    let count = levels.iter().map(|(count, _)| count).sum();
    flat.zip(irregular(count, 101))
        .map(|(level, noise)| level + noise)
        .collect()
}

fn find(levels: &[(usize, f64)]) -> Segmentation {
    change_points(&series(levels), &ChangePointOptions::default()).unwrap()
}

fn indices(found: &Segmentation) -> Vec<usize> {
    found.changes.iter().map(|change| change.index).collect()
}

#[test]
fn clear_changes_are_found_where_otava_finds_them() {
    // apache-otava 0.8.0: compute_change_points(list, window_len=50, max_pvalue=0.001)
    assert_eq!(indices(&find(&[(60, 100.0), (60, 120.0)])), [60]);
    assert_eq!(
        indices(&find(&[(21, 100.0), (10, 60.0), (69, 100.0)])),
        [21, 31]
    );
    assert_eq!(indices(&find(&[(150, 50.0)])), [0; 0]);
    assert_eq!(indices(&find(&[(10, 5.0), (90, 30.0)])), [10]);
    // Otava: 203 and 402 for changes at 200 and 400 that are as small as the noise.
    let found = indices(&find(&[(200, 100.0), (200, 104.0), (200, 99.0)]));
    assert!(
        found.len() == 2 && found[0].abs_diff(200) <= 3 && found[1].abs_diff(400) <= 3,
        "{found:?}"
    );
    let found = indices(&find(&[(30, 100.0), (30, 103.0), (30, 140.0), (30, 90.0)]));
    assert!(found.ends_with(&[60, 90]), "{found:?}"); // Otava also finds the 3 % at 30
}

#[test]
fn a_segment_has_its_own_mean_and_deviation() {
    let values = series(&[(60, 100.0), (60, 120.0)]);
    let found = find(&[(60, 100.0), (60, 120.0)]);
    for segment in &found.segments {
        let part = &values[segment.start..segment.end];
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let square = part.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (part.len() - 1) as f64;
        close(segment.mean, mean, 1e-9);
        close(segment.deviation, square.sqrt(), 1e-9);
    }
    close(
        found.changes[0].change,
        found.segments[1].mean / found.segments[0].mean - 1.0,
        1e-12,
    );
}

#[test]
fn two_constant_levels_are_two_segments() {
    let mut values = vec![4000.0; 40];
    values.extend([65_000.0; 200]);
    let found = change_points(&values, &ChangePointOptions::default()).unwrap();
    assert_eq!(indices(&found), [40]);
    assert_eq!(
        (found.changes[0].p, found.segments[0].deviation),
        (0.0, 0.0)
    );
}

#[test]
fn a_single_spike_is_not_a_regime() {
    let mut values = series(&[(100, 100.0)]);
    values[50] = 1000.0;
    let found = change_points(&values, &ChangePointOptions::default()).unwrap();
    assert_eq!(indices(&found), [0; 0]);
}

#[test]
fn a_stall_to_zero_is_a_regime() {
    let mut values = series(&[(120, 100.0)]);
    values[60..68].fill(0.0);
    let found = change_points(&values, &ChangePointOptions::default()).unwrap();
    assert_eq!(indices(&found), [60, 68]);
    assert_eq!(found.changes[0].change, -1.0);
    assert_eq!(found.changes[1].change, f64::INFINITY);
}

#[test]
fn changes_below_the_minimum_change_are_omitted() {
    let values = series(&[(200, 1000.0), (200, 1012.0), (200, 1500.0)]);
    let options = ChangePointOptions {
        min_change: 0.05,
        ..Default::default()
    };
    let found = change_points(&values, &options).unwrap();
    assert_eq!(indices(&found), [400]);
    let all = change_points(&values, &ChangePointOptions::default()).unwrap();
    assert_eq!(all.changes.len(), 2);
}

#[test]
fn a_small_lasting_shift_in_a_long_series_is_found() {
    // Half of the noise's range in 20 000 values: not visible in any window of 50.
    let found = find(&[(12_000, 100.0), (8_000, 101.0)]);
    let near = found
        .changes
        .iter()
        .any(|change| change.index.abs_diff(12_000) < 300);
    assert!(near && found.changes.len() <= 3, "{:?}", found.changes);
}

#[test]
fn short_series_are_one_segment() {
    for count in 1..10 {
        let found = change_points(&irregular(count, 101), &ChangePointOptions::default()).unwrap();
        assert_eq!(found.segments.len(), 1);
    }
}
