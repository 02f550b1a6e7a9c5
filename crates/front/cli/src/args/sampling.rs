//! Flags for sampling the host during a run.

use clap::{Args, ValueEnum, ValueHint};
use iodyno_model::Sampling;
use iodyno_units::Nanos;

/// Flags of every command that measures.
#[derive(Debug, Clone, Args)]
pub(crate) struct SamplingArgs {
    /// Also sample these server processes: names separated by commas.
    ///
    /// Their CPU time, threads and I/O are stored with each trial, and their CPU time per op is reported.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_hint = ValueHint::CommandName, value_parser = process)]
    pub(crate) sample: Vec<String>,

    /// Sampling interval of host statistics, at least `100ms`; `0` disables sampling.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) sample_every: Nanos,

    /// Count the times of requests at the block devices below the targets, in the kernel.
    ///
    /// Adds up to 1 µs of CPU time to each request. Needs CAP_BPF and CAP_PERFMON.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) trace: Option<TraceChoice>,
}

/// What is traced in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceChoice {
    /// Requests at block devices: time in the queue and in the device.
    Block,
}

impl SamplingArgs {
    /// The sampling settings of a plan.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling {
            every_ns: self.sample_every.0,
            processes: each_once(&self.sample),
            made_for: Default::default(),
            stats: Vec::new(),
            block_trace: self.trace == Some(TraceChoice::Block),
        }
    }
}

/// The names in the order given, without repetitions.
pub(crate) fn each_once(names: &[String]) -> Vec<String> {
    let mut each: Vec<String> = Vec::new();
    for name in names {
        if !each.contains(name) {
            each.push(name.clone());
        }
    }
    each
}

/// Parses a sampling interval; 0 disables sampling.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    const LONGEST: Nanos = Nanos(3_600_000_000_000);
    if text.trim() == "0" {
        return Ok(Nanos(0));
    }
    let every: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match every {
        every if every.0 < Sampling::MIN_NS => {
            Err("the minimum is 100ms; `0` disables sampling".to_owned())
        }
        every if every > LONGEST => Err("the maximum is 1h".to_owned()),
        every => Ok(every),
    }
}

/// Parses the name of a program; a path is refused.
pub(crate) fn process(text: &str) -> Result<String, String> {
    let name = text.trim();
    match name {
        "" => Err("the name is missing".to_owned()),
        name if name.contains('/') => Err(format!(
            "expected a program name, not a path: `{}`",
            name.rsplit('/').next().unwrap_or_default()
        )),
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_0_or_from_a_tenth_of_a_second_to_an_hour() {
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
