//! Network interfaces, from /proc/net/dev.

use iodyno_host::Roots;
use iodyno_model::{NETWORK, SeriesColumn, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// Reads /proc/net/dev. An interface without packets since it was created is left out.
pub(crate) struct Network {
    text: Text,
}

impl Network {
    pub(crate) fn open(roots: &Roots) -> Network {
        Network {
            text: Text::new(roots.proc.join("net/dev")),
        }
    }
}

impl Sampler for Network {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Network
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.text.read_by(|text| read(text, into))?;
        Ok(Read::Fresh)
    }

    fn began_at(&self, _: &SeriesRow, _: &SeriesColumn) -> Option<u64> {
        // Without packets before, or created since.
        Some(0)
    }
}

fn read(text: &str, into: &mut Readings) -> Result<(), String> {
    let mut fill = into.fill(NETWORK);
    for line in text.lines() {
        // The lines of the head have no colon.
        let Some((name, counts)) = line.split_once(':') else {
            continue;
        };
        let (name, values) = (name.trim(), counters(counts));
        let values = values.ok_or_else(|| format!("the counters of {name} cannot be read"))?;
        let [_, received, _, _, _, sent, ..] = values;
        if received > 0 || sent > 0 {
            let new = || SeriesRow::new(name);
            fill.row(|row| row.name == name, new, values.map(Some));
        }
    }
    fill.done();
    Ok(())
}

/// The first four of an interface's 16 counters for both directions: bytes, packets, errors and drops.
fn counters(text: &str) -> Option<[u64; NETWORK.len()]> {
    let mut all = [0; 16];
    let mut words = text.split_ascii_whitespace();
    for counter in &mut all {
        *counter = words.next()?.parse().ok()?;
    }
    let [a, b, c, d, _, _, _, _, e, f, g, h, ..] = all;
    Some([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 35460696  202532    0    0    0     0          0         0 35460696  202532    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
eth0:541195189   19288    1    2    3     4          5         6 22848483  215866    7    8    9    10      11         12
";

    #[test]
    fn reads_interfaces_with_packets() {
        let mut readings = Readings::default();
        read(DEV, &mut readings).unwrap();
        let names: Vec<&str> = readings.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["lo", "eth0"]);
        assert_eq!(readings.columns, SeriesColumn::of(NETWORK));
        let eth0 = [541_195_189, 19_288, 1, 2, 22_848_483, 215_866, 7, 8];
        assert_eq!(readings.values[8..], eth0.map(Some));
        let fault = read("eth0: 1 2 3\n", &mut readings).unwrap_err();
        assert_eq!(fault, "the counters of eth0 cannot be read");
    }
}
