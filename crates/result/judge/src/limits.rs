//! What limits the rate of repeated trials: the part of the time of an op that is largest, or the worker.

use iodyno_model::ordered::entry;
use iodyno_model::{Costs, Limit, Observation, Question, TimePart};

use crate::compare::chosen;
use crate::explain::MIN_ASLEEP;
use crate::explain::stack::{Form, split, worker};
use crate::result::row_name;

/// The limit of each row of repeated trials, by the row's name. `costs` has those of each observation, in the same
/// order. Rows whose trials have no counters are left out.
pub fn limits(
    observations: &[Observation],
    costs: &[Option<Costs>],
    question: &Question,
) -> Vec<(String, Limit)> {
    let mut rows: Vec<(String, Vec<&Costs>)> = Vec::new();
    for (trial, costs) in observations.iter().zip(costs) {
        if trial.unusable.is_none() && chosen(trial, question) {
            entry(&mut rows, row_name(trial, question)).extend(costs);
        }
    }
    let rows = rows.into_iter();
    rows.filter_map(|(name, costs)| Some((name, limit(&costs)?)))
        .collect()
}

/// The limit of some trials of the same work.
fn limit(trials: &[&Costs]) -> Option<Limit> {
    let over = |of: &dyn Fn(&Costs) -> f64| {
        trials.iter().map(|it| of(it)).sum::<f64>() / trials.len() as f64
    };
    let form = Form::of(trials.iter().copied());
    let time_ns = over(&Costs::whole_ns);
    if trials.is_empty() || time_ns <= 0.0 {
        return None;
    }
    let mut parts: Vec<(TimePart, f64)> = Vec::new();
    for own in trials.iter().flat_map(|it| split(it, form).op) {
        *entry(&mut parts, own.part) += own.ns / trials.len() as f64;
    }
    let largest = parts
        .into_iter()
        .max_by(|(_, one), (_, other)| one.total_cmp(other));
    let (part, ns) = largest?;
    let known = trials.iter().all(|it| worker(it).is_some() && !it.polls);
    let percent = |places: &[usize]| {
        over(&|it| {
            let own = worker(it).unwrap_or_default();
            places.iter().map(|place| 100.0 * own[*place]).sum::<f64>() / it.worker_ns
        })
    };
    let (cpu, wait) = (percent(&[0, 1]), percent(&[2]));
    Some(Limit {
        time_ns,
        in_flight: over(&Costs::in_flight),
        part,
        share: ns / time_ns,
        worker: (known && cpu + wait > 100.0 - MIN_ASLEEP).then_some((cpu, wait)),
        rate_given: trials.iter().all(|it| it.scheduled),
        overlap: over(&|it| split(it, form).overlap) / time_ns,
    })
}

#[cfg(test)]
mod tests {
    use iodyno_model::DeviceCosts;

    use super::*;

    /// One op of 100 µs at a time, of which `device_ns` at the device; the worker uses the CPU for `cpu_ns` of it.
    fn one_op(device_ns: f64, cpu_ns: f64) -> Costs {
        let device = DeviceCosts {
            ns: [device_ns, 0.0, 0.0, 0.0],
            ..DeviceCosts::default()
        };
        Costs {
            ops: 1e4,
            seconds: 1.0,
            one_at_a_time: true,
            op_ns: 1e5,
            worker_ns: 1e5,
            cpu_ns: Some((0.0, cpu_ns)),
            delay_ns: Some(0.0),
            waits_for: [1e5, 0.0, 0.0, 0.0],
            top: Some(device),
            lowest: Some(device),
            ..Costs::default()
        }
    }

    #[test]
    fn the_largest_part_of_the_time_of_an_op_is_the_limit() {
        let found = limit(&[&one_op(7e4, 2e4), &one_op(8e4, 1e4)]).unwrap();
        assert_eq!((found.part, found.worker), (TimePart::Device, None));
        assert!((found.share - 0.75).abs() < 1e-9, "{found:?}");
        assert!((found.in_flight - 1.0).abs() < 1e-9, "{found:?}");
        let found = limit(&[&one_op(1e4, 6e4)]).unwrap();
        assert_eq!((found.part, found.worker), (TimePart::KernelCpu, None));
    }

    #[test]
    fn a_worker_that_hardly_sleeps_is_the_limit() {
        let found = limit(&[&one_op(1e3, 9.8e4)]).unwrap();
        let (cpu, wait) = found.worker.unwrap();
        assert!((cpu - 98.0).abs() < 1e-9 && wait == 0.0, "{found:?}");
    }

    #[test]
    fn the_device_can_work_while_a_worker_waits_for_a_cpu() {
        let starved = Costs {
            delay_ns: Some(9.4e4),
            ..one_op(5e4, 2e3)
        };
        let found = limit(&[&starved]).unwrap();
        assert!(
            found.worker.is_some_and(|(_, wait)| wait > 90.0),
            "{found:?}"
        );
        assert!((found.overlap - 0.46).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn trials_without_ops_have_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[&Costs::default()]), None);
    }
}
