//! Numbers and units of time as tools print them.

/// A finite number that is not negative.
pub(crate) fn number(text: &str) -> Option<f64> {
    let value = text.trim().parse::<f64>().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
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
