//! Properties that hold for any series: imported, truncated, or with counts that wrapped.

use iodyno_model::{
    Environment, Sample, SeriesColumn, SeriesKind, SeriesRow, SeriesShape, Telemetry,
};
use proptest::prelude::*;

use super::{balance, figures};
use crate::testing;
use crate::testing::telemetry::recording;

fn values() -> impl Strategy<Value = Vec<Option<u64>>> {
    let value = prop_oneof![
        Just(None),
        Just(Some(0)),
        (0u64..5_000_000_000).prop_map(Some),
        any::<u64>().prop_map(Some),
        Just(Some(u64::MAX)),
    ];
    prop::collection::vec(value, 0..45)
}

/// Samples of two rows; some have another length than their shape.
fn series() -> impl Strategy<Value = Telemetry> {
    let kind = prop::sample::select(SeriesKind::ALL.to_vec());
    let at = prop_oneof![
        -5_000_000_000i64..25_000_000_000,
        Just(i64::MIN),
        Just(i64::MAX)
    ];
    let span = prop_oneof![Just(0), Just(1_000_000_000), any::<u64>()];
    let samples = prop::collection::vec((at, span, values()), 0..8);
    prop::collection::vec((kind, samples), 0..6).prop_map(|all| {
        let mut telemetry = Telemetry::default();
        for (number, (kind, samples)) in (0..).zip(all) {
            telemetry.shapes.push(SeriesShape {
                node: String::new(),
                kind,
                number,
                subjects: ["CPU0", "36 virtio1-req.0"].map(SeriesRow::new).into(),
                columns: columns(kind),
                because: None,
            });
            let samples = samples.into_iter().map(|(at_ns, span_ns, values)| Sample {
                shape: number,
                at_ns,
                span_ns,
                values,
            });
            telemetry.samples.extend(samples);
        }
        telemetry
    })
}

fn columns(kind: SeriesKind) -> Vec<SeriesColumn> {
    let made = recording().seconds(kind, 1, |_| vec![("CPU0", vec![("CPU0", 1), ("CPU1", 1)])]);
    made.done().shapes[0].columns.clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_series_can_be_drawn_and_judged(telemetry in series()) {
        for kind in SeriesKind::ALL {
            let table = figures(&telemetry, kind, None);
            for row in &table.rows {
                prop_assert_eq!(row.values.len(), table.columns.len());
                prop_assert!(row.values.iter().flatten().all(|value| value.is_finite()));
            }
        }
        crate::examine(&Environment::default(), &telemetry);
        let (workload, mut trial) = testing::four_clones();
        trial.frames.clear();
        trial.telemetry = telemetry;
        crate::servers(&trial);
        crate::findings(&workload, &trial);
    }

    #[test]
    fn the_balance_lies_between_one_of_n_and_one(shares in prop::collection::vec(0u32..1 << 30, 1..64)) {
        let shares: Vec<f64> = shares.into_iter().map(f64::from).collect();
        if let Some(found) = balance(&shares) {
            let least = 1.0 / shares.len() as f64;
            prop_assert!(found >= least - 1e-9 && found <= 1.0 + 1e-9, "{}", found);
        } else {
            prop_assert!(shares.iter().all(|share| *share == 0.0));
        }
    }
}
