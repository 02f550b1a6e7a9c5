//! Load averages, from /proc/loadavg.

use iodyno_model::{LOAD, SeriesColumn, SeriesKind, SeriesRow};
use iodyno_target::Roots;

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// /proc/loadavg.
pub(crate) struct Load {
    text: Text,
}

impl Load {
    pub(crate) fn open(roots: &Roots) -> Load {
        Load {
            text: Text::new(roots.proc.join("loadavg")),
        }
    }
}

impl Sampler for Load {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Load
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let values = self.text.read_by(|text| {
            parse(text).ok_or_else(|| format!("it has no averages: `{}`", text.trim()))
        })?;
        if into.rows.is_empty() {
            into.rows.push(SeriesRow::default());
            into.columns = SeriesColumn::of(LOAD);
        }
        into.values.clear();
        into.values.extend(values.map(Some));
        Ok(Read::Fresh)
    }
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
