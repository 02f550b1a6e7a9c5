//! Periods in which a disk is slower.

/// A period in which a disk is slower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowPeriod {
    /// Its begin, ns.
    pub from_ns: u64,
    /// Its end, ns.
    pub until_ns: u64,
    /// What service times are multiplied by, for ops whose service begins in it.
    pub factor: f64,
}

impl SlowPeriod {
    /// The product of the factors at `now`.
    pub(crate) fn factor_at(periods: &[SlowPeriod], now: f64) -> f64 {
        let active = |one: &&SlowPeriod| (one.from_ns as f64) <= now && now < one.until_ns as f64;
        periods
            .iter()
            .filter(active)
            .map(|one| one.factor)
            .product()
    }
}
