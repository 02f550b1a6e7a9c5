//! How many files or devices a layer needs below it.

use iodyno_model::{DmTarget, VdevGroup};

use super::words::Word;
use crate::check::Keyed;
use crate::document::Report;

/// Legs of a mirror, if nothing names a number.
const LEGS: u32 = 2;

/// How many devices or files the layers above need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// How many sets of them: one for each virtual machine, for instance.
    sets: u32,
    /// The number of virtual machines.
    guests: u32,
    /// The size of a set.
    each: SetSize,
}

/// The number of devices or files that a layer uses together.
#[derive(Debug, Clone, Copy)]
enum SetSize {
    Any,
    Exactly(u32, &'static str),
    AtLeast { least: u32, usual: u32 },
}

impl Wanted {
    pub(super) fn usual(self) -> u32 {
        self.sets
            * match self.each {
                SetSize::Any => 1,
                SetSize::Exactly(number, _) => number,
                SetSize::AtLeast { usual, .. } => usual,
            }
    }

    /// Why the layers above cannot use this number, and the remedy.
    pub(super) fn misfit(self, kind: &str, count: u32) -> Option<(String, &'static str)> {
        if !count.is_multiple_of(self.sets) {
            let message = match self.sets == self.guests {
                true => format!(
                    "`vm.guests` is {}, and `{kind}.count` is {count}: not a multiple of it",
                    self.guests
                ),
                false => format!(
                    "the layers above need a multiple of {}, and `{kind}.count` is {count}",
                    self.sets
                ),
            };
            return Some((message, "leave `count` out, for the smallest number"));
        }
        match self.each {
            SetSize::Exactly(wanted, key) if wanted * self.sets != count => {
                let message = match self.sets {
                    1 => {
                        format!("`{key}` has {wanted} devices, and `{kind}.count` is {count}")
                    }
                    _ => format!(
                        "the layers above need {}, and `{kind}.count` is {count}",
                        wanted * self.sets
                    ),
                };
                Some((message, "leave `count` out"))
            }
            SetSize::AtLeast { least, .. } if count < least * self.sets => {
                let message = format!(
                    "`md` needs at least {}, and `{kind}.count` is {count}",
                    least * self.sets
                );
                Some((message, "leave `count` out, for the smallest usual number"))
            }
            _ => None,
        }
    }
}

/// What the layers above need of this one.
pub(super) fn wanted(above: &[Word<'_>], report: &mut Report<'_>) -> Wanted {
    let mut wanted = Wanted {
        sets: 1,
        guests: 1,
        each: SetSize::Any,
    };
    for word in above.iter().rev() {
        match word {
            Word::Kind("loop" | "delay" | "throttle", _) => {}
            Word::Kind("dm", keyed) => {
                if keyed.word("target", report) == Some("log-writes") {
                    wanted.sets *= DmTarget::LogWrites.consumes();
                }
            }
            Word::Kind("vm", keyed) => {
                let guests = keyed.count("guests", report);
                wanted.guests = guests.map_or(1, |guests| guests as u32);
                wanted.sets *= wanted.guests;
            }
            Word::Kind("zfs", keyed) => {
                if let Some(devices) = wanted_devices(keyed, report) {
                    wanted.each = SetSize::Exactly(devices, "zfs.layout");
                }
                break;
            }
            Word::Kind("mirror", keyed) => {
                wanted.each = match keyed.count("legs", report) {
                    Some(legs) => SetSize::Exactly(legs as u32, "mirror.legs"),
                    None => SetSize::AtLeast {
                        least: 1,
                        usual: LEGS,
                    },
                };
                break;
            }
            Word::Kind("md", keyed) => {
                let usual = match keyed.word("level", report) {
                    Some("raid10") => 4,
                    _ => 2,
                };
                wanted.each = SetSize::AtLeast { least: 2, usual };
                break;
            }
            _ => break,
        }
    }
    wanted
}

/// The number of devices that a layout names; `None` without one.
pub(super) fn wanted_devices(keyed: &Keyed<'_>, report: &mut Report<'_>) -> Option<u32> {
    let layout = layout(keyed, report);
    let devices = layout.iter().map(|group| group.devices).sum();
    (!layout.is_empty()).then_some(devices)
}

/// `2 x mirror 3 + raidz1 4`.
pub(super) fn layout(keyed: &Keyed<'_>, report: &mut Report<'_>) -> Vec<VdevGroup> {
    let Some(text) = keyed.text("layout", report) else {
        return Vec::new();
    };
    let groups: Option<Vec<Vec<VdevGroup>>> = text.value.split('+').map(group).collect();
    let total: u32 = groups
        .iter()
        .flatten()
        .flatten()
        .map(|group| group.devices)
        .sum();
    match groups.filter(|_| total <= 64) {
        Some(groups) => groups.concat(),
        None => {
            let message = format!("`zfs.layout` cannot be {:?}", text.value);
            let hint = "write `stripe 2`, `mirror 2`, `2 x mirror 3`, `raidz1 4`, or several with ` + `; at most 64 devices";
            report.error(text.at, message, hint);
            Vec::new()
        }
    }
}

fn group(text: &str) -> Option<Vec<VdevGroup>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (times, words) = match words.as_slice() {
        [times, "x" | "×", rest @ ..] => (times.parse::<u32>().ok()?, rest),
        words => (1, words),
    };
    let (kind, devices) = match words {
        [kind, devices] => (*kind, devices.parse::<u32>().ok()?),
        [devices] => ("stripe", devices.parse::<u32>().ok()?),
        _ => return None,
    };
    let least = match kind {
        "stripe" => 1,
        "mirror" | "raidz" | "raidz1" => 2,
        "raidz2" => 3,
        "raidz3" => 4,
        _ => return None,
    };
    let redundancy = (kind != "stripe").then(|| kind.to_owned());
    let group = VdevGroup {
        redundancy,
        devices,
    };
    ((1..=64).contains(&times) && (least..=64).contains(&devices))
        .then(|| vec![group; times as usize])
}
