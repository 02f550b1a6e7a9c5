//! The flags of `doctor` and `watch`: the host itself.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use iodyno_units::Nanos;

use super::sampling::{interval, process};

/// Is this host fit to measure on?
///
/// Looks at the governor, turbo, CPU time taken by the hypervisor, other load, memory and swap, the clock, and for
/// each PATH at what lies below it: scheduler, write cache, discard, mount options, free space, the balance
/// of interrupts. It writes nothing. Each fault comes with its remedy.
///
/// Exits with 0 if the host is fit, with 1 if it is not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno doctor                           The host, and what lies below the current folder
  iodyno doctor /mnt/data /dev/nvme0n1    The host, and what lies below these two
  iodyno doctor --json | jq '.checks[] | select(.state == \"unfit\")'")]
pub(crate) struct DoctorArgs {
    /// Folders, files or devices that are to be measured; by default the current folder.
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// Watch the host so long for load, steal and interrupts.
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = span)]
    pub(crate) span: Nanos,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Watch the host live.
///
/// Load, CPUs, disks, interrupts by CPU with their balance, pressure, memory and pools, as a run samples them.
/// `q` or Ctrl-C ends it. Without a terminal, or with `--once`, one picture is printed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno watch
  iodyno watch --every 200ms --sample virtiofsd,qemu-system-x86_64
  iodyno watch --once --json | jq '.series'")]
pub(crate) struct WatchArgs {
    /// From one picture to the next: from `100ms` to `1h`.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = picture)]
    pub(crate) every: Nanos,

    /// Watch these processes, too, by name, after commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_hint = ValueHint::CommandName, value_parser = process)]
    pub(crate) sample: Vec<String>,

    /// Print one picture, of one interval, and end.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print JSON; without `--once`, a line for each picture.
    #[arg(long)]
    pub(crate) json: bool,
}

fn picture(text: &str) -> Result<Nanos, String> {
    match interval(text)? {
        Nanos(0) => Err("the shortest is 100ms".to_owned()),
        every => Ok(every),
    }
}

fn span(text: &str) -> Result<Nanos, String> {
    let span: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match span.0 {
        ns if ns < 500_000_000 => Err("nothing is seen in less than 500ms".to_owned()),
        ns if ns > 3_600_000_000_000 => Err("the longest is 1h".to_owned()),
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
