//! Flags of `doctor` and `watch`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use iodyno_units::Nanos;

use super::sampling::{interval, process};

/// Check whether this host is fit for benchmarks.
///
/// Checks the CPU governor, turbo, steal time, other load, memory, swap and the clock, and for each
/// PATH the devices below it: I/O scheduler, write cache, discard, mount options, free space and
/// interrupt balance. Nothing is written. Each problem is printed with a remedy.
///
/// The exit code is 0 if the host is fit, and 1 if it is not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno doctor                           Check the host and the devices of the current folder
  iodyno doctor /mnt/data /dev/nvme0n1    Check the host and these targets
  iodyno doctor --json | jq '.checks[] | select(.state == \"unfit\")'")]
pub(crate) struct DoctorArgs {
    /// Folders, files or devices to be measured [default: the current folder].
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// How long to observe load, steal time and interrupts.
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = span)]
    pub(crate) span: Nanos,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show live statistics of the host.
///
/// Shows what a run samples: load, CPUs, disks, interrupts for each CPU, pressure, memory and ZFS pools. Keys: `q`
/// quit, `h` help with a legend of the bars, `p` pause, `s` sort, `/` filter, `i` idle loop devices. Without a
/// terminal, or with `--once`, prints the statistics of one interval.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno watch
  iodyno watch --every 200ms --sample virtiofsd,qemu-system-x86_64
  iodyno watch --once --json | jq '.series'")]
pub(crate) struct WatchArgs {
    /// Update interval, from `100ms` to `1h`.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = picture)]
    pub(crate) every: Nanos,

    /// Also show these processes: names separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_hint = ValueHint::CommandName, value_parser = process)]
    pub(crate) sample: Vec<String>,

    /// Print the statistics of one interval and exit.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print JSON; without `--once`, one line per interval.
    #[arg(long)]
    pub(crate) json: bool,
}

fn picture(text: &str) -> Result<Nanos, String> {
    match interval(text)? {
        Nanos(0) => Err("the minimum is 100ms".to_owned()),
        every => Ok(every),
    }
}

fn span(text: &str) -> Result<Nanos, String> {
    let span: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match span.0 {
        ns if ns < 500_000_000 => Err("the minimum is 500ms".to_owned()),
        ns if ns > 3_600_000_000_000 => Err("the maximum is 1h".to_owned()),
        _ => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_limits() {
        assert!(picture("100ms").is_ok() && picture("0").is_err());
        assert!(span("500ms").is_ok() && span("499ms").is_err() && span("2h").is_err());
    }
}
