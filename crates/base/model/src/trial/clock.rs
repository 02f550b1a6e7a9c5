//! The clock of a node, compared with the lab's.

use serde::{Deserialize, Serialize};

/// The offset of a node's clock from the lab's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Node − lab, ns.
    pub offset_ns: i64,
    /// Maximum error of the offset, ns.
    pub error_ns: u64,
    /// When it was read, on the lab's clock, ns; 0: not known (trials of older versions).
    #[serde(default)]
    pub at_ns: u64,
}

impl ClockOffset {
    /// Before it is known.
    pub const UNKNOWN: ClockOffset = ClockOffset {
        offset_ns: 0,
        error_ns: u64::MAX,
        at_ns: 0,
    };

    /// The node read `node_ns` between these two instants of the lab's clock. It is assumed to be halfway; the
    /// maximum error is half of the round trip.
    pub fn of_round_trip(sent_ns: u64, node_ns: u64, received_ns: u64) -> ClockOffset {
        let round_trip_ns = received_ns.saturating_sub(sent_ns);
        let halfway_ns = sent_ns + round_trip_ns / 2;
        ClockOffset {
            offset_ns: node_ns.wrapping_sub(halfway_ns).cast_signed(),
            error_ns: round_trip_ns.div_ceil(2),
            at_ns: halfway_ns,
        }
    }

    /// The rate of the node's clock between this reading and a later one; `None` if the time between them is not known.
    pub fn rate_until(&self, later: &ClockOffset) -> Option<ClockRate> {
        let span_ns = later.at_ns.checked_sub(self.at_ns)?;
        if self.at_ns == 0 || span_ns == 0 {
            return None;
        }
        let drift_ns = later.offset_ns.saturating_sub(self.offset_ns);
        Some(ClockRate {
            rate: 1.0 + drift_ns as f64 / span_ns as f64,
            error: (self.error_ns as f64 + later.error_ns as f64) / span_ns as f64,
        })
    }
}

/// The rate of a node's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockRate {
    /// Time of the node that passes in one unit of the lab's time.
    pub rate: f64,
    /// Maximum error of the rate.
    pub error: f64,
}

impl ClockRate {
    /// Whether it is certain that the rate differs from the lab's by more than this share.
    pub fn is_off_by(&self, share: f64) -> bool {
        (self.rate - 1.0).abs() - self.error > share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_clock_is_known_to_the_errors_of_its_readings() {
        let read = |at_ns, offset_ns, error_ns| ClockOffset {
            offset_ns,
            error_ns,
            at_ns,
        };
        let first = read(1_000, -5_000_000, 50_000);
        // 400 ms more passed in 100 ms.
        let fast = first.rate_until(&read(100_001_000, 395_000_000, 50_000));
        let fast = fast.unwrap();
        assert!((fast.rate - 5.0).abs() < 1e-9 && (fast.error - 0.001).abs() < 1e-9);
        assert!(fast.is_off_by(0.03));
        // 3 % less, ± 0.1 %.
        let slow = first.rate_until(&read(100_001_000, -8_000_000, 50_000));
        let slow = slow.unwrap();
        assert!(slow.is_off_by(0.028) && !slow.is_off_by(0.0295));
        assert_eq!(read(0, 0, 0).rate_until(&read(1_000, 0, 0)), None);
        assert_eq!(first.rate_until(&first), None);
        assert_eq!(first.rate_until(&read(0, 0, 0)), None);
    }

    #[test]
    fn a_round_trip_bounds_the_offset() {
        for (sent, node, received, offset, error) in [
            (100, 100, 100, 0, 0),
            (100, 150, 200, 0, 50),
            (100, 1150, 201, 1000, 51),
            (5000, 150, 5100, -4900, 50),
        ] {
            let read = ClockOffset::of_round_trip(sent, node, received);
            assert_eq!((read.offset_ns, read.error_ns), (offset, error));
        }
    }
}
