//! Pressure stall information by resource, from /proc/pressure.

use iodyno_host::Roots;
use iodyno_model::{PRESSURE, SeriesKind, SeriesRow};

use crate::sampler::{Fill, Read, Readings, Sampler};
use crate::text::Text;

const NS_A_US: u64 = 1000;

/// Reads /proc/pressure/cpu, io, memory, and irq if the kernel provides it (since 6.1).
pub(crate) struct Pressure {
    resources: Vec<(&'static str, Text)>,
    irq: Option<Text>,
}

impl Pressure {
    pub(crate) fn open(roots: &Roots) -> Pressure {
        let text = |name: &str| Text::new(roots.proc.join("pressure").join(name));
        let mut irq = text("irq");
        Pressure {
            resources: ["cpu", "io", "memory"]
                .map(|name| (name, text(name)))
                .into(),
            irq: irq.read_by(parse).is_ok().then_some(irq),
        }
    }
}

impl Sampler for Pressure {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Pressure
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let mut fill = into.fill(PRESSURE);
        for (name, text) in &mut self.resources {
            let totals = text.read_by(parse).map_err(with_remedy)?;
            row(&mut fill, name, totals);
        }
        if let Some(irq) = &mut self.irq {
            row(&mut fill, "irq", irq.read_by(parse)?);
        }
        fill.done();
        Ok(Read::Fresh)
    }
}

/// Pressure stall information can be disabled in a kernel that supports it.
fn with_remedy(error: String) -> String {
    if error.starts_with("cannot read") {
        format!("{error}; where the kernel has it switched off, boot with psi=1")
    } else {
        error
    }
}

fn row(fill: &mut Fill<'_>, name: &str, totals: [Option<u64>; 2]) {
    fill.row(|row| row.name == name, || SeriesRow::new(name), totals);
}

/// Parses `some avg10=0.25 avg60=0.47 avg300=0.54 total=1220`, and the same for `full`: totals in ns. Not every
/// resource has both.
fn parse(text: &str) -> Result<[Option<u64>; 2], String> {
    let total = |which: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(which))?;
        let total = line.rsplit_once(" total=")?.1.trim_end();
        total.parse::<u64>().ok()?.checked_mul(NS_A_US)
    };
    match [total("some "), total("full ")] {
        [None, None] => Err("it has no totals".to_owned()),
        totals => Ok(totals),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_totals_in_nanoseconds() {
        let some = "some avg10=0.05 avg60=0.46 avg300=2.33 total=1583996741\n";
        let full = "full avg10=0.05 avg60=0.43 avg300=2.14 total=795117059\n";
        let (some_ns, full_ns) = (Some(1_583_996_741_000), Some(795_117_059_000));
        for (text, expected) in [
            (format!("{some}{full}"), [some_ns, full_ns]),
            (some.to_owned(), [some_ns, None]),
            (full.to_owned(), [None, full_ns]),
        ] {
            assert_eq!(parse(&text), Ok(expected));
        }
        for text in [
            "",
            "some",
            "total=1",
            "some avg10=0.1 total=",
            "full x total=-1",
        ] {
            assert_eq!(parse(text), Err("it has no totals".to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_text(text in "((some|full) [ -~]{0,20}( total=[0-9]{0,25})?\n|\\PC*){0,3}") {
            let _ = parse(&text);
        }
    }
}
