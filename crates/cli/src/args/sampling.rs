//! The flags of what is sampled of the host while it is measured.

use clap::{Args, ValueHint};
use iodyno_model::Sampling;
use iodyno_units::Nanos;

/// What every command that measures has in common with the others.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Sample these processes besides the host: servers under test, by name, after commas.
    ///
    /// Their CPU time, threads and I/O are kept with each trial, and charged: CPU time for each op.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_hint = ValueHint::CommandName, value_parser = process)]
    pub(crate) sample: Vec<String>,

    /// Sample the host this often: from `100ms` on; `0`: not at all.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) sample_every: Nanos,
}

impl SamplingArgs {
    /// What the plan says of it.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling {
            every_ns: self.sample_every.0,
            processes: each_once(&self.sample),
        }
    }
}

/// Names as they were given; one that is given twice, once.
pub(crate) fn each_once(names: &[String]) -> Vec<String> {
    let mut each: Vec<String> = Vec::new();
    for name in names {
        if !each.contains(name) {
            each.push(name.clone());
        }
    }
    each
}

/// From one sample to the next.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    const LONGEST: Nanos = Nanos(3_600_000_000_000);
    if text.trim() == "0" {
        return Ok(Nanos(0));
    }
    let every: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match every {
        every if every.0 < Sampling::LEAST_NS => {
            Err("the shortest is 100ms; `0` samples nothing".to_owned())
        }
        every if every > LONGEST => Err("the longest is 1h".to_owned()),
        every => Ok(every),
    }
}

/// The name of a program, not its path.
pub(crate) fn process(text: &str) -> Result<String, String> {
    let name = text.trim();
    match name {
        "" => Err("a name is missing".to_owned()),
        name if name.contains('/') => Err(format!(
            "it is a path; name the program alone: `{}`",
            name.rsplit('/').next().unwrap_or_default()
        )),
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_from_a_tenth_of_a_second_to_an_hour_or_nothing() {
        for (text, expected) in [
            ("1s", Some(1_000_000_000)),
            ("100ms", Some(100_000_000)),
            ("1h", Some(3_600_000_000_000)),
            ("0", Some(0)),
            ("0s", None),
            ("99ms", None),
            ("61min", None),
            ("5", None),
            ("", None),
        ] {
            assert_eq!(interval(text).ok().map(|every| every.0), expected, "{text}");
        }
    }

    #[test]
    fn a_process_is_named_without_its_path() {
        assert_eq!(process(" virtiofsd ").unwrap(), "virtiofsd");
        let twice = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(each_once(&twice), ["b", "a"]);
        assert!(process("").is_err());
        assert!(process("/usr/bin/qemu").unwrap_err().contains("`qemu`"));
    }
}
