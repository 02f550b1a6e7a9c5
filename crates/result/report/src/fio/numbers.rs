//! Numbers in the format of fio's normal output: the prefix changes when a number has too many characters.

use iodyno_model::Reporting;

/// Powers of 1024 (`KiB`) or of 1000 (`kB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Binary,
    Decimal,
}

/// `value` in at most `digits` digits with its prefix: 51746 → `51.7k`, 63.6 MiB → `63.6Mi`.
pub(super) fn prefixed(value: f64, digits: usize, base: Base) -> String {
    let (step, prefixes) = match base {
        Base::Binary => (1024.0, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        Base::Decimal => (1000.0, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let whole = if value.is_finite() {
        value.trunc()
    } else {
        0.0
    };
    let length = |value: f64| format!("{:.0}", value.trunc()).len();
    let (mut scaled, mut index) = (whole, 0);
    while length(scaled) > digits && index + 1 < prefixes.len() {
        scaled /= step;
        index += 1;
    }
    let decimals = match index {
        0 => 0,
        _ => digits.saturating_sub(length(scaled) + 1),
    };
    let mut text = format!("{scaled:.decimals$}");
    // 99.96 rounds up to 100.0: one digit too many.
    if text.len() > digits && decimals > 0 {
        text = format!("{scaled:.*}", decimals - 1);
    }
    text + prefixes[index]
}

/// How the figures of a job are written: fio's `significant_figures`, `kb_base` and `unit_base`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notation {
    digits: usize,
    /// The base that comes first, and the one in parentheses.
    bases: (Base, Base),
    bits: bool,
}

impl Notation {
    pub(super) fn of(reporting: &Reporting) -> Notation {
        Notation {
            digits: reporting.digits.clamp(1, 10) as usize,
            bases: match reporting.decimal {
                false => (Base::Binary, Base::Decimal),
                true => (Base::Decimal, Base::Binary),
            },
            bits: reporting.bits,
        }
    }

    /// A number without a unit: 51746 → `51.7k`.
    pub(super) fn number(self, value: f64) -> String {
        prefixed(value, self.digits, Base::Decimal)
    }

    /// A size in both bases: `202MiB`, `212MB`.
    pub(super) fn size(self, bytes: f64) -> (String, String) {
        self.both(bytes, "B")
    }

    /// A rate in both bases: `202MiB/s`, `212MB/s`; or in bits: `1616Mibit/s`, `1695Mbit/s`.
    pub(super) fn rate(self, bytes_per_s: f64) -> (String, String) {
        match self.bits {
            false => self.both(bytes_per_s, "B/s"),
            true => self.both(bytes_per_s.trunc() * 8.0, "bit/s"),
        }
    }

    fn both(self, value: f64, unit: &str) -> (String, String) {
        let text = |base| prefixed(value, self.digits, base) + unit;
        (text(self.bases.0), text(self.bases.1))
    }

    /// The factor for a sampled bandwidth in bytes/s with this mean, and its unit. As in fio, the unit has a
    /// prefix of a million only if the mean is beyond that.
    pub(super) fn sampled(self, mean: f64) -> (f64, &'static str) {
        let bits = if self.bits { 8.0 } else { 1.0 };
        let (kilo, mega) = match (self.bits, self.bases.0) {
            (false, Base::Binary) => ("KiB", "MiB"),
            (false, Base::Decimal) => ("kB", "MB"),
            (true, Base::Binary) => ("Kibit", "Mibit"),
            (true, Base::Decimal) => ("kbit", "Mbit"),
        };
        let step = match self.bases.0 {
            Base::Binary => 1024.0,
            Base::Decimal => 1000.0,
        };
        match mean * bits / step > step * step {
            true => (bits / step / step, mega),
            false => (bits / step, kilo),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, Notation, prefixed};
    use iodyno_model::Reporting;

    #[test]
    fn writes_as_fio_does() {
        // Seen in fio 3.42's output.
        for (value, digits, base, text) in [
            (0.0, 4, Base::Decimal, "0"),
            (315.0, 4, Base::Decimal, "315"),
            (9999.0, 4, Base::Decimal, "9999"),
            (51_746.0, 4, Base::Decimal, "51.7k"),
            (129_007.0, 4, Base::Decimal, "129k"),
            (2128.0, 6, Base::Decimal, "2128"),
            (1_048_576.0, 4, Base::Binary, "1024Ki"),
            (66_707_456.0, 4, Base::Binary, "63.6Mi"),
            (67_108_864.0, 4, Base::Binary, "64.0Mi"),
            (66_707_456.0, 4, Base::Decimal, "66.7M"),
            (4_294_967_296.0, 4, Base::Binary, "4096Mi"),
            (f64::NAN, 4, Base::Decimal, "0"),
        ] {
            assert_eq!(prefixed(value, digits, base), text, "{value}");
        }
    }

    #[test]
    fn rates_follow_the_units_of_the_job() {
        let check = |digits, bits, decimal, rate: [&str; 2], sampled| {
            let notation = Notation::of(&Reporting {
                digits,
                bits,
                decimal,
                ..Reporting::default()
            });
            let (first, second) = notation.rate(528_416_913.0);
            assert_eq!([first.as_str(), second.as_str()], rate);
            assert_eq!(notation.sampled(528_416_913.0).1, sampled);
        };
        check(4, false, false, ["504MiB/s", "528MB/s"], "KiB");
        check(4, false, true, ["528MB/s", "504MiB/s"], "kB");
        check(4, true, false, ["4032Mibit/s", "4227Mbit/s"], "Mibit");
        check(4, true, true, ["4227Mbit/s", "4032Mibit/s"], "Mbit");
        check(7, false, false, ["516032KiB/s", "528417kB/s"], "KiB");
        check(1, false, false, ["0GiB/s", "1GB/s"], "KiB");
    }
}
