//! The named distributions that the tests need, from `statrs`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::StatsError;
use crate::error::check_open_unit;

/// P(Z ≤ z) of the standard normal distribution. NaN gives NaN.
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The quantile of the standard normal distribution at probability `p`.
pub fn normal_quantile(p: f64) -> Result<f64, StatsError> {
    check_open_unit("p", p)?;
    Ok(Normal::standard().inverse_cdf(p))
}

/// The quantile of Student's t with `freedom` degrees of freedom at probability `p`.
pub fn student_t_quantile(p: f64, freedom: f64) -> Result<f64, StatsError> {
    check_open_unit("p", p)?;
    Ok(student_t(freedom)?.inverse_cdf(p))
}

/// P(|T| ≥ |t|) of Student's t with `freedom` degrees of freedom.
pub fn student_t_two_sided_p(t: f64, freedom: f64) -> Result<f64, StatsError> {
    if t.is_nan() {
        return Err(StatsError::NotFinite { index: 0 });
    }
    if t.is_infinite() {
        student_t(freedom)?;
        return Ok(0.0);
    }
    Ok((2.0 * student_t(freedom)?.cdf(-t.abs())).min(1.0))
}

fn student_t(freedom: f64) -> Result<StudentsT, StatsError> {
    StudentsT::new(0.0, 1.0, freedom).map_err(|_| StatsError::OutOfRange {
        name: "degrees of freedom",
        value: freedom,
        expected: "a number above 0",
    })
}

/// C(n, k) as a floating-point number: exact up to 2^53, then within a few units in the last place.
pub(crate) fn choose(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    let k = k.min(n - k);
    // Each partial product is itself a binomial coefficient, so below 2^53 every step is exact.
    (1..=k).fold(1.0, |product, i| product * (n - k + i) as f64 / i as f64)
}
