//! `iodyno explain` of equal sides.

use crate::equal_sides::named_of_equal_sides;

#[test]
fn of_300_equal_sides_at_most_a_twentieth_has_a_cause() {
    let runs = (0..12).map(|seed| named_of_equal_sides(25, seed));
    let (named, all) = runs.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    assert_eq!(all, 300);
    assert!(named * 20 <= all, "{named} of {all}");
}
