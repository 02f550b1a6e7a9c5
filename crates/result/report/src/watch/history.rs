//! The figures of earlier screens, for spark lines and for a stable order of rows.

use std::collections::{BTreeMap, VecDeque};

use iodyno_model::{FigureTable, SeriesKind};

use super::Latest;

/// Number of screens that are kept: the width of the widest spark line.
const KEPT: usize = 240;

/// Number of screens for which a remark is shown.
const REMARKED: u64 = 30;

/// The quantity that is kept for a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Percent: for CPUs the time except idle and iowait, for disks the utilisation. For processes: cores.
    Busy,
    /// Bytes per second, read and written.
    Moved,
}

/// The figures of the last [`KEPT`] screens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    count: u64,
    tracks: BTreeMap<(SeriesKind, Measure, String), VecDeque<Option<f64>>>,
    /// Remarks, with the number of their screen.
    remarks: VecDeque<(u64, SeriesKind, String)>,
}

impl History {
    /// Adds the latest screen.
    pub fn push(&mut self, tables: &[FigureTable]) {
        self.count += 1;
        for track in self.tracks.values_mut() {
            if track.len() == KEPT {
                track.pop_front();
            }
            track.push_back(None);
        }
        for table in tables {
            for (_, remark) in &table.remarks {
                let remark = (self.count, table.kind, remark.clone());
                self.remarks.push_back(remark);
            }
            if let Some(latest) = Latest::of(table) {
                self.keep(&latest);
            }
        }
        // Subjects without values in this period are removed.
        self.tracks
            .retain(|_, track| track.iter().any(Option::is_some));
        let count = self.count;
        self.remarks.retain(|(at, ..)| at + REMARKED > count);
    }

    fn keep(&mut self, latest: &Latest) {
        let kind = latest.table.kind;
        let measures: &[(Measure, &[&str])] = match kind {
            SeriesKind::Cpu => &[(Measure::Busy, &["%user", "%system", "%irq", "%steal"])],
            SeriesKind::Disk => &[
                (Measure::Busy, &["%util"]),
                (Measure::Moved, &["rB/s", "wB/s"]),
            ],
            SeriesKind::Process => &[
                (Measure::Busy, &["cores"]),
                (Measure::Moved, &["rB/s", "wB/s"]),
            ],
            SeriesKind::Others => &[(Measure::Moved, &["rB/s", "wB/s"])],
            SeriesKind::Reclaim => &[(
                Measure::Moved,
                &[
                    "scanned_kswapd",
                    "scanned_direct",
                    "swapped_in",
                    "swapped_out",
                ],
            )],
            _ => &[],
        };
        for row in latest.rows {
            for (measure, columns) in measures {
                let value = latest.sum(row, columns);
                let key = (kind, *measure, row.subject.clone());
                let track = self.tracks.entry(key).or_insert_with(|| [None].into());
                if let Some(last) = track.back_mut() {
                    *last = value;
                }
            }
        }
    }

    /// The last values of a subject, at most this number, the latest last.
    pub(super) fn track(
        &self,
        kind: SeriesKind,
        measure: Measure,
        subject: &str,
        most: usize,
    ) -> Vec<Option<f64>> {
        let track = self.tracks.get(&(kind, measure, subject.to_owned()));
        track.map_or(Vec::new(), |track| {
            track
                .iter()
                .skip(track.len().saturating_sub(most))
                .copied()
                .collect()
        })
    }

    /// The mean over all kept screens; a screen without the subject counts as 0.
    pub(super) fn mean(&self, kind: SeriesKind, measure: Measure, subject: &str) -> f64 {
        let values = self.track(kind, measure, subject, KEPT);
        let sum: f64 = values.iter().flatten().sum();
        sum / values.len().max(1) as f64
    }

    /// The last of the current remarks, and their number.
    pub(super) fn last_remark(&self) -> Option<(&str, usize)> {
        let (_, _, remark) = self.remarks.back()?;
        Some((remark, self.remarks.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{FigureColumn, FigureRow, SeriesUnit};

    fn disks(utils: &[(&str, f64)], remarks: &[&str]) -> FigureTable {
        FigureTable {
            kind: SeriesKind::Disk,
            columns: vec![FigureColumn {
                name: "%util".to_owned(),
                unit: SeriesUnit::Percent,
            }],
            rows: (utils.iter())
                .map(|(name, util)| FigureRow {
                    at_ns: 0,
                    span_ns: 1,
                    subject: (*name).to_owned(),
                    values: vec![Some(*util)],
                })
                .collect(),
            remarks: remarks.iter().map(|text| (0, (*text).to_owned())).collect(),
        }
    }

    #[test]
    fn tracks_end_with_the_latest_screen_and_have_gaps() {
        let mut history = History::default();
        history.push(&[disks(&[("vda", 10.0)], &[])]);
        history.push(&[disks(&[("vdb", 50.0)], &[])]);
        history.push(&[disks(&[("vda", 30.0), ("vdb", 70.0)], &[])]);
        let track = |name, most| history.track(SeriesKind::Disk, Measure::Busy, name, most);
        assert_eq!(track("vda", 9), [Some(10.0), None, Some(30.0)]);
        assert_eq!(track("vda", 2), [None, Some(30.0)]);
        assert_eq!(track("vdb", 9), [Some(50.0), Some(70.0)]);
        assert_eq!(track("vdc", 9), []);
        assert_eq!(history.mean(SeriesKind::Disk, Measure::Busy, "vdb"), 60.0);
    }

    #[test]
    fn subjects_that_disappeared_and_old_remarks_are_removed() {
        let mut history = History::default();
        history.push(&[disks(&[("sdz", 10.0)], &["sdy has gone", "sdz is new"])]);
        assert_eq!(history.last_remark(), Some(("sdz is new", 2)));
        for _ in 1..REMARKED {
            history.push(&[]);
        }
        assert!(history.last_remark().is_some());
        history.push(&[]);
        assert_eq!(history.last_remark(), None);
        for _ in REMARKED..KEPT as u64 {
            history.push(&[]);
        }
        assert!(history.tracks.is_empty());
    }
}
