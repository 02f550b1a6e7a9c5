//! Expressions in parentheses: `+ - * / % ^`, a unary minus, and numbers with suffixes.

/// Maximum nesting, so that malicious input cannot exhaust the stack.
const DEPTH: u32 = 64;

/// The value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// Its value, suffixes applied.
    pub(super) number: f64,
    /// Whether it contains a suffix, so that the default unit does not apply.
    pub(super) with_suffix: bool,
}

/// Evaluates `text`; `factor` gives the multiplier of a suffix. Fails with the reason.
pub(super) fn evaluate(
    text: &str,
    factor: &dyn Fn(&str) -> Option<f64>,
) -> Result<Outcome, String> {
    let mut parser = Parser {
        rest: text,
        factor,
        with_suffix: false,
        depth: 0,
    };
    let number = parser.sum()?;
    parser.skip_space();
    match parser.rest.chars().next() {
        None => Ok(Outcome {
            number,
            with_suffix: parser.with_suffix,
        }),
        Some(extra) => Err(format!("`{extra}` is left over")),
    }
}

/// The integer part of the result of an expression without suffixes; `None` if `text` is none.
pub(super) fn result(text: &str) -> Option<String> {
    let outcome = evaluate(text, &|_| None).ok()?;
    let operates = text.contains(['+', '-', '*', '/', '%', '^']);
    (operates && outcome.number.is_finite()).then(|| format!("{:.0}", outcome.number.trunc()))
}

struct Parser<'a> {
    rest: &'a str,
    factor: &'a dyn Fn(&str) -> Option<f64>,
    with_suffix: bool,
    depth: u32,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes the next character if it is one of `wanted`.
    fn take(&mut self, wanted: &[char]) -> Option<char> {
        self.skip_space();
        let found = self.rest.chars().next().filter(|c| wanted.contains(c))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = match operator {
                '+' => value + right,
                _ => value - right,
            };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.power()?;
        while let Some(operator) = self.take(&['*', '/', '%']) {
            let right = self.power()?;
            if operator != '*' && right == 0.0 {
                return Err("it divides by zero".to_owned());
            }
            value = match operator {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.term()?;
        let mut exponents = Vec::new();
        while self.take(&['^']).is_some() {
            exponents.push(self.term()?);
        }
        let Some(last) = exponents.pop() else {
            return Ok(base);
        };
        // `a^b^c` is `a^(b^c)`.
        let exponent = exponents
            .into_iter()
            .rev()
            .fold(last, |right, left| left.powf(right));
        Ok(base.powf(exponent))
    }

    fn term(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        let value = if self.take(&['-']).is_some() {
            -self.term()?
        } else if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.take(&[')']).ok_or("a `)` is missing")?;
            value
        } else {
            self.number()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<f64, String> {
        self.skip_space();
        let hexadecimal = self
            .rest
            .strip_prefix("0x")
            .or_else(|| self.rest.strip_prefix("0X"));
        let value;
        if let Some(body) = hexadecimal {
            let end = span(body, |c| c.is_ascii_hexdigit());
            value =
                u64::from_str_radix(&body[..end], 16).map_err(|_| "a number is missing")? as f64;
            self.rest = &body[end..];
        } else {
            let end = span(self.rest, |c| c.is_ascii_digit() || c == '.');
            value = self.rest[..end].parse::<f64>().map_err(|_| match end {
                0 => "a number is missing".to_owned(),
                _ => format!("`{}` is not a number", &self.rest[..end]),
            })?;
            self.rest = &self.rest[end..];
        }
        let end = span(self.rest, |c| c.is_ascii_alphabetic());
        let (suffix, rest) = self.rest.split_at(end);
        self.rest = rest;
        if suffix.is_empty() {
            return Ok(value);
        }
        self.with_suffix = true;
        (self.factor)(suffix)
            .map(|factor| value * factor)
            .ok_or_else(|| format!("`{suffix}` is not a suffix"))
    }
}

/// Number of bytes at the start of `text` whose characters pass `test`.
fn span(text: &str, test: impl Fn(char) -> bool) -> usize {
    text.find(|c| !test(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(suffix: &str) -> Option<f64> {
        (suffix == "k").then_some(1024.0)
    }

    #[test]
    fn evaluates_with_the_usual_precedence() {
        for (text, number) in [
            ("1+2*3", 7.0),
            ("(1+2)*3", 9.0),
            ("10-4-3", 3.0),
            ("2^3^2", 512.0),
            ("7%4", 3.0),
            ("-2+5", 3.0),
            ("(0x10 + 1.5)", 17.5),
            ("4k", 4096.0),
            (" ( 2 * ( 3 + 4 ) ) ", 14.0),
        ] {
            assert_eq!(evaluate(text, &factor).unwrap().number, number, "{text}");
        }
    }

    #[test]
    fn reports_errors() {
        let deep = "(".repeat(100_000);
        for (text, why) in [
            ("", "a number is missing"),
            ("(1", "a `)` is missing"),
            ("1)", "`)` is left over"),
            ("1/0", "divides by zero"),
            ("1%0", "divides by zero"),
            ("1.2.3", "is not a number"),
            ("4x", "`x` is not a suffix"),
            ("0xg", "a number is missing"),
            (&deep, "nested too deeply"),
        ] {
            let found = evaluate(text, &factor).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
