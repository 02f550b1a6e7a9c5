//! Which columns of a series a narrow terminal drops first.

use iodyno_model::{FigureTable, SeriesKind};

/// The least important columns, in the order in which they are dropped.
fn losses(kind: SeriesKind) -> &'static [&'static str] {
    match kind {
        SeriesKind::Disk => &[
            "d_await",
            "dareq-sz",
            "%drqm",
            "drqm/s",
            "dB/s",
            "d/s",
            "%rrqm",
            "%wrqm",
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
        SeriesKind::Cpu => &["%guest", "%nice", "%soft"],
        SeriesKind::Load => &["forks/s", "load15", "load5"],
        SeriesKind::Network => &["rxdrop/s", "txdrop/s", "rxerr/s", "txerr/s"],
        SeriesKind::Cgroup => &["wB/s limit", "rB/s limit", "w/s limit", "r/s limit"],
        SeriesKind::Memory => &["dirty_background", "dirty_limit", "free", "cached"],
        SeriesKind::Process => &["reads/s", "writes/s", "%user", "%system"],
        _ => &[],
    }
}

/// The indices of the columns in the order in which a narrow terminal drops them: columns that are 0 or unknown in all
/// rows, the columns named above, CPUs in ascending order of interrupts, then the other columns from the last to the
/// first.
pub(super) fn order_of_loss(table: &FigureTable) -> Vec<usize> {
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
    let places = (0..table.columns.len()).rev();
    let mut order: Vec<(usize, (u8, f64))> = places.map(|place| (place, rank(place))).collect();
    order.sort_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    order.into_iter().map(|(place, _)| place).collect()
}

/// The largest value of a column; 0 if all are unknown.
pub(super) fn largest(table: &FigureTable, place: usize) -> f64 {
    let values = table.rows.iter().filter_map(|row| *row.values.get(place)?);
    values.map(f64::abs).fold(0.0, f64::max)
}
