//! What every target that drives a collector holds of its samples.

use std::path::Path;

use iodyno_model::Telemetry;
use iodyno_host::Roots;
use iodyno_telemetry::{Scope, Collector};

/// Samples the host below `root` once a second for as long as `change` says that it changed it, and holds of each sample that
/// it fits its shape.
pub fn sampled(root: &Path, scope: &Scope, mut change: impl FnMut() -> bool) -> Telemetry {
    let mut collector = Collector::open(&Roots::below(root), scope);
    collector.begin(0);
    let mut all = Telemetry::default();
    let mut at_ns = 0;
    loop {
        at_ns += 1_000_000_000;
        let new = collector.sample(at_ns);
        let samples = new.samples.clone();
        all.extend(new);
        for sample in &samples {
            let shape = all.shape(sample.shape).expect("told before its samples");
            assert_eq!(
                sample.values.len(),
                shape.subjects.len() * shape.columns.len()
            );
            assert!(sample.span_ns > 0 && !sample.values.is_empty());
        }
        if !change() {
            return all;
        }
    }
}
