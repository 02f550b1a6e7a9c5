//! CPUs: their frequency, and the clock that everything is measured by.

use iodyno_model::{Check, CheckState, Environment};

use crate::findings::FAST_SOURCES;

pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    vec![clock_source(environment)]
}

fn clock_source(environment: &Environment) -> Check {
    let source = environment.clock_source.as_str();
    let fast = FAST_SOURCES.contains(&source);
    Check {
        name: "clock source".to_owned(),
        state: match (source, fast) {
            ("", _) => CheckState::Unknown,
            (_, true) => CheckState::Fine,
            (_, false) => CheckState::Unfit,
        },
        found: match source {
            "" => "the host does not tell".to_owned(),
            source => format!("{source}, {} ns a reading", environment.clock_read_ns),
        },
        rule: format!("one that is read without the kernel: {}", FAST_SOURCES.join(", ")),
        remedy: (!fast && !source.is_empty()).then(|| {
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if available_clocksource has it"
                .to_owned()
        }),
    }
}
