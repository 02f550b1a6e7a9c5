//! Comma-separated values as in RFC 4180, except that lines end with a newline alone.

use iodyno_model::Estimated;

use crate::style::sanitize;

/// A line of fields with its newline.
pub(crate) fn record<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    fields.join(",") + "\n"
}

/// A number with all its digits; empty if it is missing or not finite.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => String::new(),
    }
}

/// A value and the ends of its interval.
pub(crate) fn estimated(estimated: Option<&Estimated>) -> [String; 3] {
    let (low, high) = estimated.and_then(|it| it.interval).unzip();
    [estimated.map(|it| it.value), low, high].map(number)
}

/// The text of a field. Newlines are replaced, for tools that read line by line. Spreadsheets run text that begins with
/// a sign as a formula, so an apostrophe is put before it. Numbers are not changed.
pub(crate) fn text(field: &str) -> String {
    let mut field = sanitize(field);
    if field.trim_start().starts_with(['=', '+', '-', '@']) && !is_numeric(&field) {
        field.insert(0, '\'');
    }
    field
}

/// A field, quoted if necessary.
fn quoted(field: &str) -> String {
    let field = text(field);
    let special = field.contains([',', '"']) || field.trim() != field;
    match special {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

/// Whether a field consists of one or several numbers, with a unit or a percent sign: `-3`, `+1.5%`, `-1;;2e-9`.
fn is_numeric(field: &str) -> bool {
    field
        .chars()
        .all(|c| c.is_ascii_digit() || "+-.eE;%× ".contains(c))
}

/// A strict parser for RFC 4180.
#[cfg(test)]
pub(crate) fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' => {
                assert!(field.is_empty(), "a quote within {field}");
                quoted = true;
            }
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            character => field.push(character),
        }
    }
    assert!(
        !quoted && field.is_empty() && record.is_empty(),
        "no end of line"
    );
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_need_quotes_are_quoted() {
        let fields = ["plain", "a,b", "say \"no\"", " blank", "two\nlines\r", ""];
        assert_eq!(
            record(fields),
            "plain,\"a,b\",\"say \"\"no\"\"\",\" blank\",two lines?,\n"
        );
    }

    #[test]
    fn text_that_a_spreadsheet_would_run_is_kept_as_text() {
        for (field, expected) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+cmd", "'+cmd"),
            ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
            ("--x", "'--x"),
            (" =1", "' =1"),
            ("\t=1", "' =1"),
            (
                "=HYPERLINK(\"a\",\"b\")",
                "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\"",
            ),
            ("-3.5", "-3.5"),
            ("+0.1e-9", "+0.1e-9"),
            ("-12%", "-12%"),
            ("-", "-"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(record([field]), format!("{expected}\n"), "{field}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_empty() {
        assert_eq!(number(Some(0.1)), "0.1");
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(number(value), "");
        }
    }
}
