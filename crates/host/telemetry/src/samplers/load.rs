//! Load averages and the scheduler's counters, from /proc/loadavg and /proc/stat.

use iodyno_host::Roots;
use iodyno_model::{LOAD, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// /proc/loadavg and /proc/stat.
pub(crate) struct Load {
    averages: Text,
    stat: Text,
}

impl Load {
    pub(crate) fn open(roots: &Roots) -> Load {
        Load {
            averages: Text::new(roots.proc.join("loadavg")),
            stat: Text::new(roots.proc.join("stat")),
        }
    }
}

impl Sampler for Load {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Load
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let averages = self.averages.read_by(|text| {
            parse(text).ok_or_else(|| format!("it has no averages: `{}`", text.trim()))
        })?;
        // If it cannot be read, the series of CPUs has a gap.
        let scheduled = self.stat.read_by(|text| Ok(scheduled(text)));
        let scheduled = scheduled.unwrap_or_default();
        let mut fill = into.fill(LOAD);
        let values = averages.map(Some).into_iter().chain(scheduled);
        fill.row(|_| true, SeriesRow::default, values);
        fill.done();
        Ok(Read::Fresh)
    }
}

/// From /proc/stat: the number of tasks that wait for I/O, and since boot the numbers of context switches and of new
/// tasks.
fn scheduled(text: &str) -> [Option<u64>; 3] {
    // They follow long lines of interrupts.
    let value = |name: &str| {
        let mut lines = text.lines().rev();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    ["procs_blocked", "ctxt", "processes"].map(value)
}

/// Parses `0.52 0.61 1.28 1/78 1809`: averages in hundredths, numbers of running and of all tasks.
fn parse(text: &str) -> Option<[u64; 5]> {
    let mut words = text.split_ascii_whitespace();
    let mut average = || hundredths(words.next()?);
    let averages = [average()?, average()?, average()?];
    let (running, tasks) = words.next()?.split_once('/')?;
    Some([
        averages[0],
        averages[1],
        averages[2],
        running.parse().ok()?,
        tasks.parse().ok()?,
    ])
}

fn hundredths(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.')?;
    let part: u64 = (part.len() == 2).then(|| part.parse().ok())??;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_counters_of_the_scheduler_that_the_kernel_has() {
        let text = "cpu  1 2 3 4\nintr 9 8\nctxt 305\nbtime 17\nprocesses 139\nprocs_running 11\nprocs_blocked 2\n";
        assert_eq!(scheduled(text), [Some(2), Some(305), Some(139)]);
        assert_eq!(scheduled("ctxt 5\nprocesses x\n"), [None, Some(5), None]);
    }

    #[test]
    fn reads_averages_in_hundredths() {
        assert_eq!(
            parse("0.52 10.61 1.28 1/78 1809\n"),
            Some([52, 1061, 128, 1, 78])
        );
        for text in [
            "",
            "0.52",
            "0.5 0.61 1.28 1/78 1",
            "0.52 0.61 1.28 78 1",
            "x.52 0.61 1.28 1/78 1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
