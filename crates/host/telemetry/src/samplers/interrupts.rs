//! Interrupts by source and CPU, from /proc/interrupts.
//!
//! A large host has hundreds of sources, most of which do not matter to a trial, and each has one count per CPU. A
//! source that is one of the kernel's own or serves a device in the scope becomes a row at its first interrupt; any
//! other after [`MIN_INTERRUPTS`] interrupts since its first reading. A row remains as long as the host lists the
//! source, so shapes change mainly at the start.

mod serving;

use std::mem;

use iodyno_host::Roots;
use iodyno_model::{Reading, SeriesColumn, SeriesKind, SeriesRow, SeriesUnit};

use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Devices;
use crate::text::Text;
use serving::{Serving, is_number};

/// Number of interrupts after which a source that serves no device in the scope becomes a row.
const MIN_INTERRUPTS: u64 = 100;
/// The kernel keeps counts in 32 bits.
const RANGE: u64 = 1 << 32;

/// /proc/interrupts.
pub(crate) struct Interrupts {
    text: Text,
    sources: Sources,
}

impl Interrupts {
    pub(crate) fn open(roots: &Roots, devices: &Devices) -> Interrupts {
        Interrupts {
            text: Text::new(roots.proc.join("interrupts")),
            sources: Sources {
                serving: Serving::new(roots, devices),
                cpus: Vec::new(),
                known: Vec::new(),
                counts: Vec::new(),
            },
        }
    }
}

impl Sampler for Interrupts {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Interrupts
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let sources = &mut self.sources;
        self.text.read_by(|text| sources.read(text, into))?;
        Ok(Read::Fresh)
    }

    fn wraps(&self, _column: usize) -> Option<u64> {
        Some(RANGE)
    }

    /// The source was read before it became a row.
    fn began_at(&self, row: &SeriesRow, column: &SeriesColumn) -> Option<u64> {
        let known = &self.sources.known;
        let source = known.iter().find(|source| source.row.name == row.name)?;
        let cpu = self
            .sources
            .cpus
            .iter()
            .position(|cpu| *cpu == column.name)?;
        source.before.get(cpu).copied()
    }
}

/// All listed sources, in order.
struct Sources {
    serving: Serving,
    /// Names of the columns.
    cpus: Vec<String>,
    known: Vec<Source>,
    /// The counts of the line that is being read.
    counts: Vec<u64>,
}

/// A line of the table.
struct Source {
    id: String,
    /// Controller and device, as printed in the line.
    what: String,
    row: SeriesRow,
    now: Vec<u64>,
    /// The counts of the previous reading, if it had the same CPUs.
    before: Vec<u64>,
    /// The sum over all CPUs when it was first read.
    first: u64,
    is_row: bool,
}

impl Sources {
    fn read(&mut self, text: &str, into: &mut Readings) -> Result<(), String> {
        let mut lines = text.lines();
        self.head(lines.next().unwrap_or_default(), into)?;
        let mut place = 0;
        let mut looked = false;
        for line in lines {
            let Some((id, rest)) = line.trim_ascii_start().split_once(':') else {
                continue;
            };
            let what = self.counts(rest);
            // `ERR:` and `MIS:` do not belong to a CPU.
            if self.counts.len() < self.cpus.len() || (what.is_empty() && !is_number(id)) {
                if is_number(id) {
                    return Err(format!("`{line}` has not as many counts as there are CPUs"));
                }
                continue;
            }
            if !self.is_known(place, id, what) {
                if !mem::replace(&mut looked, true) {
                    self.serving.look();
                }
                let source = self.source(id, what);
                self.known.insert(place, source);
            }
            self.known[place].counted(&mut self.counts);
            place += 1;
        }
        self.known.truncate(place);
        let mut fill = into.refill();
        for source in self.known.iter().filter(|source| source.is_row) {
            let values = source.now.iter().copied().map(Some);
            fill.row(|row| *row == source.row, || source.row.clone(), values);
        }
        fill.done();
        Ok(())
    }

    /// Parses the first line, which names the CPUs that are online.
    fn head(&mut self, line: &str, into: &mut Readings) -> Result<(), String> {
        let names = || line.split_ascii_whitespace();
        let is_cpu = |name: &str| name.strip_prefix("CPU").is_some_and(is_number);
        if line.is_empty() || !names().all(is_cpu) {
            return Err("its first line does not name the CPUs".to_owned());
        }
        if !names().eq(self.cpus.iter()) {
            self.cpus = names().map(str::to_owned).collect();
            self.known.iter_mut().for_each(|source| source.now.clear());
        }
        if self.cpus.len() != into.columns.len()
            || !names().eq(into.columns.iter().map(|column| column.name.as_str()))
        {
            let column = |name: &String| SeriesColumn {
                name: name.clone(),
                unit: SeriesUnit::Number,
                reading: Reading::Count,
            };
            into.columns = self.cpus.iter().map(column).collect();
        }
        Ok(())
    }

    /// Parses a line's counts, and returns the rest of the line.
    fn counts<'a>(&mut self, line: &'a str) -> &'a str {
        self.counts.clear();
        let mut rest = line.trim_ascii_start();
        while self.counts.len() < self.cpus.len() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, after) = rest.split_at(digits);
            if digits == 0 || !(after.is_empty() || after.starts_with(' ')) {
                break;
            }
            let add =
                |sum: u64, digit: u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
            self.counts.push(number.bytes().fold(0, add));
            rest = after.trim_ascii_start();
        }
        rest
    }

    /// Whether the source at this index is this one; removes sources before it that disappeared.
    fn is_known(&mut self, place: usize, id: &str, what: &str) -> bool {
        let mut rest = self.known[place..].iter();
        let found = rest.position(|source| source.id == id && source.what == what);
        if let Some(gone) = found.filter(|gone| *gone > 0) {
            self.known.drain(place..place + gone);
        }
        found.is_some()
    }

    fn source(&self, id: &str, what: &str) -> Source {
        let name = if is_number(id) { device(what) } else { None };
        let words: Vec<&str> = what.split_ascii_whitespace().collect();
        let shown = name.map_or_else(|| words.join(" "), str::to_owned);
        Source {
            id: id.to_owned(),
            what: what.to_owned(),
            row: SeriesRow {
                name: format!("{id} {shown}").trim_end().to_owned(),
                serves: name.and_then(|name| self.serving.device(id, name)),
            },
            now: Vec::new(),
            before: Vec::new(),
            first: total(&self.counts),
            is_row: false,
        }
    }
}

impl Source {
    fn counted(&mut self, counts: &mut Vec<u64>) {
        mem::swap(&mut self.now, &mut self.before);
        mem::swap(&mut self.now, counts);
        let enough = if self.row.serves.is_some() || !is_number(&self.id) {
            1
        } else {
            self.first.saturating_add(MIN_INTERRUPTS)
        };
        self.is_row |= total(&self.now) >= enough;
    }
}

/// The names of the devices: `virtio1-req.0` or `ehci_hcd:usb1, eth0`. They follow the last gap of two blanks, as in
/// `PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`. If no driver uses the interrupt, the line ends in blanks.
fn device(what: &str) -> Option<&str> {
    let name = what.rsplit_once("  ")?.1;
    (!name.is_empty() && !name.ends_with(' ')).then_some(name)
}

fn total(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn sources() -> Sources {
        Interrupts::open(&Roots::below(Path::new("/nowhere")), &Devices::All).sources
    }

    #[test]
    fn devices_are_named_as_their_drivers_do() {
        for (what, expected) in [
            (
                "PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0",
                Some("virtio1-req.0"),
            ),
            ("IO-APIC   9-fasteoi   acpi", Some("acpi")),
            (
                "IO-APIC  16-fasteoi   ehci_hcd:usb1, i801_smbus",
                Some("ehci_hcd:usb1, i801_smbus"),
            ),
            (
                "PCI-MSI 458752-edge      PCIe PME, aerdrv",
                Some("PCIe PME, aerdrv"),
            ),
            ("xen-dyn-event     blkif", Some("blkif")),
            ("GICv3  30 Level     arch_timer", Some("arch_timer")),
            // An unused interrupt.
            ("PCI-MSIX-0000:00:02.0   1-edge      ", None),
            ("IO-APIC   9-fasteoi ", None),
            ("GICv3  30 Level   ", None),
            ("", None),
        ] {
            assert_eq!(device(what), expected, "{what}");
        }
    }

    #[test]
    fn invalid_tables_are_refused() {
        for (text, expected) in [
            ("", "its first line does not name the CPUs"),
            ("\n", "its first line does not name the CPUs"),
            ("CPU0 CPUx\n", "its first line does not name the CPUs"),
            ("36: 5 6 a  b\n", "its first line does not name the CPUs"),
            (
                "CPU0 CPU1\n36: 5 x\n",
                "`36: 5 x` has not as many counts as there are CPUs",
            ),
        ] {
            let read = sources().read(text, &mut Readings::default());
            assert_eq!(read, Err(expected.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn every_value_is_at_its_position_in_any_table(
            texts in prop::collection::vec(
                "( *(CPU[0-9] ){0,4}\n)( {0,2}[0-9A-Z]{1,3}:?( +[0-9]{1,22}){0,4}  [a-z ]{0,6}\n){0,6}", 1..5
            )
        ) {
            let (mut sources, mut readings) = (sources(), Readings::default());
            for text in texts {
                if sources.read(&text, &mut readings).is_ok() {
                    let places = readings.rows.len() * readings.columns.len();
                    prop_assert_eq!(readings.values.len(), places);
                }
            }
        }
    }
}
