//! What devices did so far, for results of a running trial.

use iodyno_model::{DeviceUse, SeriesKind, Trial};

use super::measured;
use super::total::totals;

/// The counters of the devices of these kernel names over the measured time, from the samples of a trial of one node. A
/// device without samples did nothing so far.
pub fn device_use(trial: &Trial, names: &[String]) -> Vec<DeviceUse> {
    let telemetry = measured(trial);
    let totals = totals(&telemetry, SeriesKind::Disk);
    let of = |name: &String| {
        let total = totals.iter().find(|total| total.subject == name);
        let count = |column: &str| total.map_or(0, |total| total.count(column));
        let ms = |column: &str| count(column) / 1_000_000;
        DeviceUse {
            name: name.clone(),
            ios: ["reads", "writes", "discards", "flushes"].map(count),
            merges: ["read_merges", "write_merges", "discard_merges"].map(count),
            bytes: ["read_bytes", "written_bytes", "discarded_bytes"].map(count),
            ticks_ms: ["read_time", "write_time", "discard_time", "flush_time"].map(ms),
            busy_ms: ms("busy_time"),
            queue_ms: ms("queue_time"),
        }
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DISK, Sample, SeriesColumn, SeriesRow, SeriesShape};

    use super::*;
    use crate::testing;

    #[test]
    fn counts_are_added_up_over_the_samples_of_the_measured_time() {
        let (_, mut trial) = testing::four_clones();
        let shape = SeriesShape {
            kind: SeriesKind::Disk,
            number: 0,
            node: String::new(),
            subjects: vec![SeriesRow::new("vda")],
            columns: DISK
                .iter()
                .map(|(name, unit, reading)| SeriesColumn {
                    name: (*name).to_owned(),
                    unit: *unit,
                    reading: *reading,
                })
                .collect(),
            because: None,
        };
        let sample = |second: i64| Sample {
            shape: 0,
            at_ns: second * 1_000_000_000,
            span_ns: 1_000_000_000,
            values: vec![Some(2_000_000); DISK.len()],
        };
        trial.telemetry.shapes = vec![shape];
        // The first one is before the start.
        trial.telemetry.samples = vec![sample(0), sample(1), sample(2)];
        let names = ["vda".to_owned(), "vdb".to_owned()];
        let [vda, vdb] = &device_use(&trial, &names)[..] else {
            panic!()
        };
        assert_eq!((vda.ios, vda.bytes), ([4_000_000; 4], [4_000_000; 3]));
        assert_eq!((vda.ticks_ms, vda.busy_ms), ([4; 4], 4));
        assert_eq!(
            *vdb,
            DeviceUse {
                name: "vdb".to_owned(),
                ..DeviceUse::default()
            }
        );
    }
}
