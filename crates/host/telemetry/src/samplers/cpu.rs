//! CPU time by CPU, from /proc/stat.

use iodyno_host::Roots;
use iodyno_host::counters::{CpuTimes, NS_A_TICK, times_by_cpu};
use iodyno_model::{CPU, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// The kernel's idle times occasionally decrease by some hundredths of a second; a larger decrease means another CPU
/// with the same number.
const SLACK_NS: u64 = 1_000_000_000;

/// Reads /proc/stat. A CPU that is offline is not listed.
pub(crate) struct Cpu {
    text: Text,
}

impl Cpu {
    pub(crate) fn open(roots: &Roots) -> Cpu {
        Cpu {
            text: Text::new(roots.proc.join("stat")),
        }
    }
}

impl Sampler for Cpu {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Cpu
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.text.read_by(|text| read(text, into))?;
        Ok(Read::Fresh)
    }

    fn slack(&self, column: usize) -> u64 {
        match CPU[column].0 {
            "idle" | "iowait" => SLACK_NS,
            _ => 0,
        }
    }
}

fn read(text: &str, into: &mut Readings) -> Result<(), String> {
    let mut fill = into.fill(CPU);
    for (number, times) in times_by_cpu(text) {
        let times = times.ok_or_else(|| format!("the times of CPU{number} cannot be read"))?;
        fill.row(
            |row| row.name.strip_prefix("CPU") == Some(number),
            || SeriesRow::new(format!("CPU{number}")),
            values(&times),
        );
    }
    if fill.rows() == 0 {
        return Err("it has no CPUs".to_owned());
    }
    fill.done();
    Ok(())
}

fn values(times: &CpuTimes) -> [Option<u64>; CPU.len()] {
    let CpuTimes {
        user,
        system,
        idle,
        iowait,
        irq,
        steal,
        nice,
        soft,
        guest,
    } = *times;
    [user, system, idle, iowait, irq, steal, nice, soft, guest]
        .map(|ticks| Some(ticks.saturating_mul(NS_A_TICK)))
}
