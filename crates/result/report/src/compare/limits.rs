//! What limits repeated trials.

use iodyno_model::{Limit, SeriesUnit, TimePart};

use crate::series::with_unit;
use crate::style::Style;
use crate::table::{Column, Table};

/// What limits each row of repeated trials; empty without rows. Ends with a newline.
pub fn limits(rows: &[(String, Limit)], style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let named = |text: &str| (rows.len() > 1).then(|| text.to_owned());
    let name = named("").map(Column::left);
    let mut table = Table::new(
        name.into_iter()
            .chain([Column::left("limited by").wrap(24)]),
    );
    for (row, limit) in rows {
        table.row(named(row).into_iter().chain([limited_by(limit)]));
    }
    table.draw(style.columns(), style)
}

/// What limits repeated trials: `the device: 88 % of the 6.9 ms of an op, 7.8 in flight`.
fn limited_by(limit: &Limit) -> String {
    let time = with_unit(limit.time_ns, SeriesUnit::Nanos);
    if let Some((cpu, wait)) = limit.worker {
        let overlap = match limit.overlap >= 0.05 {
            true => format!(
                "; the device was busy for {:.0} % of the time of an op",
                100.0 * limit.overlap
            ),
            false => String::new(),
        };
        return match wait > cpu {
            true => format!("waiting for a CPU: {wait:.0} % of the worker's time{overlap}"),
            false => format!("the CPU of the worker: {cpu:.0} % of its time"),
        };
    }
    let flight = match limit.in_flight < 1.5 {
        true => "one at a time".to_owned(),
        false => format!(
            "{} in flight",
            with_unit(limit.in_flight, SeriesUnit::Number)
        ),
    };
    let part = match limit.part {
        TimePart::Device => "the device",
        TimePart::Queue => "the device's queue",
        TimePart::Server => "the server",
        TimePart::Above => "the kernel above the device",
        TimePart::AsleepOrDevice | TimePart::DeviceAndAbove => "the device or the kernel above it",
        TimePart::OutsideServer => "requests outside the server",
        TimePart::Unknown => "a wait that no counter states",
        part => part.words(),
    };
    let given = match limit.rate_given {
        true => "the given rate, if it is reached; else ",
        false => "",
    };
    let share = 100.0 * limit.share;
    format!("{given}{part}: {share:.0} % of the {time} of an op, {flight}")
}
