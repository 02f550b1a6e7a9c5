//! Changes to a workload as texts: `key=value`.

use std::str::FromStr;

use iodyno_model::closest;
use iodyno_units::{Bytes, Nanos, list};

use super::Overrides;

/// The keys of [`Overrides::set`].
pub const SETTINGS: [&str; 15] = [
    "threads",
    "own-folders",
    "files",
    "file-size",
    "new-file-at",
    "duration",
    "ramp",
    "max-ops",
    "rate",
    "poisson",
    "drain",
    "compress",
    "chunk",
    "setup-threads",
    "setup",
];

impl Overrides {
    /// Changes one value. `_` and `-` in a key are equivalent.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        fn number<T: FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| "expected a number".to_owned())
        }
        fn switch(value: &str) -> Result<bool, String> {
            match value {
                "1" | "true" | "yes" => Ok(true),
                "0" | "false" | "no" => Ok(false),
                _ => Err("expected `true` or `false`".to_owned()),
            }
        }
        let time = || value.parse::<Nanos>().map_err(|error| error.to_string());
        match key.replace('_', "-").as_str() {
            "threads" => self.threads = Some(number(value)?),
            "files" => {
                let Counted { set, count } = value.parse()?;
                self.files.push((set, count));
            }
            "file-size" => {
                let Sized { set, bytes } = value.parse()?;
                self.file_size.push((set, bytes));
            }
            "new-file-at" => self.new_file_at = Some(size(value)?),
            "duration" => self.duration = Some(time()?),
            "ramp" => self.ramp = Some(time()?),
            "max-ops" => self.max_ops = Some(number(value)?),
            "rate" => self.rate = Some(number(value)?),
            "poisson" => self.poisson = switch(value)?,
            "own-folders" => self.own_folders = Some(switch(value)?),
            "drain" => self.drain = Some(switch(value)?),
            "compress" => self.compress_percent = Some(percent(value)?),
            "chunk" => self.chunk = Some(size(value)?),
            "setup-threads" => self.setup_threads = Some(number(value)?),
            "setup" if value == "original" => {
                let original = Overrides::ORIGINAL;
                (self.chunk, self.setup_threads) = (Some(original.chunk), original.threads);
            }
            "setup" => return Err("the only value is `original`".to_owned()),
            unknown => return Err(no_option(unknown)),
        }
        Ok(())
    }
}

/// There is no such option: the similar one, or all of them.
fn no_option(key: &str) -> String {
    match closest(key, SETTINGS.into_iter()) {
        Some(near) => format!("unknown option `{key}`; did you mean `{near}`?"),
        None => format!(
            "unknown option `{key}`; the options are {}",
            list(&SETTINGS)
        ),
    }
}

/// `[SET=]N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The set; `None` is the set from which the ops take files.
    pub set: Option<String>,
    /// Number of files.
    pub count: u64,
}

/// `[SET=]SIZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sized {
    /// The set; `None` is the files that the ops work on.
    pub set: Option<String>,
    /// Bytes.
    pub bytes: u64,
}

impl FromStr for Counted {
    type Err = String;

    fn from_str(text: &str) -> Result<Counted, String> {
        let (set, value) = named(text);
        let (digits, times) = match value.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1000),
            None => (value, 1),
        };
        let count = digits
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(times));
        let count =
            count.ok_or_else(|| "expected a number of files, such as 1000 or 10k".to_owned())?;
        Ok(Counted { set, count })
    }
}

impl FromStr for Sized {
    type Err = String;

    fn from_str(text: &str) -> Result<Sized, String> {
        let (set, value) = named(text);
        let bytes = size(value)?;
        Ok(Sized { set, bytes })
    }
}

/// Parses a size.
///
/// # Errors
/// What was expected.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    Ok(bytes.0)
}

/// A whole number of percent, rounded: `50%`, `50`.
fn percent(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent.round() as u32),
        Ok(_) => Err("a percentage must be above 0 and at most 100".to_owned()),
        Err(_) => Err("expected a percentage, such as `3%`".to_owned()),
    }
}

fn named(text: &str) -> (Option<String>, &str) {
    match text.split_once('=') {
        Some((set, value)) => (Some(set.to_owned()), value),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_may_name_their_set() {
        let counted = |text: &str| text.parse::<Counted>().map(|it| (it.set, it.count));
        assert_eq!(counted("100"), Ok((None, 100)));
        assert_eq!(counted("10k"), Ok((None, 10_000)));
        assert_eq!(counted("big=2"), Ok((Some("big".to_owned()), 2)));
        for wrong in ["", "x", "1.5", "-1", "99999999999999999999k", "10M"] {
            assert!(counted(wrong).is_err(), "{wrong}");
        }
        let sized = |text: &str| text.parse::<Sized>().map(|it| (it.set, it.bytes));
        assert_eq!(sized("2MiB"), Ok((None, 2 << 20)));
        assert_eq!(sized("small=64k"), Ok((Some("small".to_owned()), 64 << 10)));
        assert!(sized("big=").is_err());
    }

    #[test]
    fn every_key_is_a_setting_and_no_other() {
        for key in SETTINGS {
            let why = Overrides::default().set(key, "").err().unwrap_or_default();
            assert!(!why.contains("unknown option"), "{key}: {why}");
        }
        let why = |key: &str| Overrides::default().set(key, "4k").unwrap_err();
        assert_eq!(why("fils"), "unknown option `fils`; did you mean `files`?");
        assert_eq!(
            why("new_file"),
            "unknown option `new-file`; did you mean `new-file-at`?"
        );
        let all = why("bs");
        assert!(
            all.starts_with("unknown option `bs`; the options are threads, "),
            "{all}"
        );
        assert!(all.ends_with(", setup-threads and setup"), "{all}");
    }
}
