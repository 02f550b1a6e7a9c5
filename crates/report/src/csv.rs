//! Comma-separated values, as RFC 4180 has them, but that lines end with a newline alone.

/// A line of fields, its end included.
pub(crate) fn record(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    fields.join(",") + "\n"
}

/// As many digits as tell it apart; empty for what is no number.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => String::new(),
    }
}

fn quoted(field: &str) -> String {
    let special = field.contains([',', '"', '\n', '\r']) || field.trim() != field;
    match special {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_misread_is_quoted() {
        let fields = ["plain", "a,b", "say \"no\"", " blank", "two\nlines", ""];
        assert_eq!(
            record(&fields.map(str::to_owned)),
            "plain,\"a,b\",\"say \"\"no\"\"\",\" blank\",\"two\nlines\",\n"
        );
    }

    #[test]
    fn what_is_no_number_is_empty() {
        assert_eq!(number(Some(0.1)), "0.1");
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(number(value), "");
        }
    }
}
