//! Which columns of a table a terminal has room for.

use iodyno_model::{FigureTable, SeriesKind};

/// What is missed least in a narrow terminal, in the order in which it goes.
fn losses(kind: SeriesKind) -> &'static [&'static str] {
    match kind {
        SeriesKind::Disk => &[
            "d_await",
            "dB/s",
            "d/s",
            "rrqm/s",
            "wrqm/s",
            "f_await",
            "in flight",
            "f/s",
            "rareq-sz",
            "wareq-sz",
            "w_await",
            "r_await",
            "wB/s",
            "rB/s",
            "aqu-sz",
        ],
        SeriesKind::Cgroup => &["wB/s limit", "rB/s limit", "w/s limit", "r/s limit"],
        SeriesKind::Memory => &["dirty_background", "dirty_limit", "free", "cached"],
        SeriesKind::Process => &["reads/s", "writes/s", "%user", "%system"],
        _ => &[],
    }
}

/// The places of the columns that are shown, ascending: all that `room` columns of the terminal are enough for, the first at
/// least. What is 0 or unknown throughout goes first, then what is missed least, CPUs with few interrupts before
/// those with many, then whatever stands last.
pub(super) fn shown(table: &FigureTable, widths: &[usize], room: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    let mut needed: usize = widths.iter().sum();
    for place in order_of_loss(table, widths.len()) {
        if needed <= room || shown.len() <= 1 {
            break;
        }
        shown.retain(|kept| *kept != place);
        needed -= widths[place];
    }
    shown
}

fn order_of_loss(table: &FigureTable, columns: usize) -> Vec<usize> {
    let named = losses(table.kind);
    let rank = |place: usize| {
        let name = table.columns[place].name.as_str();
        let named = named.iter().position(|loss| *loss == name);
        let largest = largest(table, place);
        let of_a_cpu = table.kind == SeriesKind::Interrupts && name.starts_with("CPU");
        match (largest > 0.0, named, of_a_cpu) {
            (false, ..) => (0, 0.0),
            (true, Some(rank), _) => (1, rank as f64),
            (true, None, true) => (2, largest),
            (true, None, false) => (3, 0.0),
        }
    };
    let mut order: Vec<(usize, (u8, f64))> = (0..columns)
        .rev()
        .map(|place| (place, rank(place)))
        .collect();
    order.sort_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    order.into_iter().map(|(place, _)| place).collect()
}

/// The largest value of a column; 0 where none is known.
pub(super) fn largest(table: &FigureTable, place: usize) -> f64 {
    let values = table.rows.iter().filter_map(|row| *row.values.get(place)?);
    values.map(f64::abs).fold(0.0, f64::max)
}
