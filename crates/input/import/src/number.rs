//! Numbers and units of time as tools print them.

/// A finite number that is not negative.
pub(crate) fn number(text: &str) -> Option<f64> {
    let value = text.trim().parse::<f64>().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// A duration as Go prints it: `1s`, `600.0s`, `1m5s`, `1h0m0s`; seconds.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    for (unit, worth) in [("h", 3600.0), ("m", 60.0), ("s", 1.0)] {
        if let Some((value, after)) = rest.split_once(unit) {
            total += number(value)? * worth;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

/// `12.3`, `1,234.5`: commas only between groups of three digits. `1,5` has another meaning in other countries.
pub(crate) fn grouped(text: &str) -> Option<f64> {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let fits = whole.split_once(',').is_none_or(|(first, groups)| {
        (1..=3).contains(&first.len()) && groups.split(',').all(|group| group.len() == 3)
    });
    fits.then(|| number(&text.replace(',', "")))?
}

/// The digits, points and commas at the beginning of a text, and the rest without blanks around it.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A unit of time, ns.
pub(crate) fn unit_ns(unit: &str) -> Option<f64> {
    match unit.trim() {
        "nsec" | "ns" => Some(1.0),
        "usec" | "us" => Some(1e3),
        "msec" | "ms" => Some(1e6),
        "sec" | "s" => Some(1e9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_spans_as_go_prints_them() {
        for (word, value) in [
            ("1s", Some(1.0)),
            ("600.0s", Some(600.0)),
            ("1m5s", Some(65.0)),
            ("1h0m0s", Some(3600.0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-1s", None),
            ("1s2", None),
            ("12ms", None),
        ] {
            assert_eq!(seconds(word), value, "{word}");
        }
    }
}
