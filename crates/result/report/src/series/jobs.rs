//! The seconds of a trial's jobs, as lines of values.

use std::collections::BTreeSet;

use iodyno_model::{Direction, DirectionFrame, Frame, Workload};

use super::csv::LEADING;
use crate::csv::{number, record};

/// The columns after the leading ones that all series share; `subject` is the job's name.
const COLUMNS: &str = "step,running,direction,ops,bytes,errors,ops_per_s,bytes_per_s,latency,mean_ns,p50_ns,p99_ns,max_ns";

/// The names of the columns of [`jobs_csv`]. Ends with a newline.
pub fn jobs_csv_head() -> String {
    record(LEADING.into_iter().chain(COLUMNS.split(',')))
}

/// A line for each second, node, job and direction of a trial: also for a second without ops, if the job has such ops
/// in another one. `trial` is the trial's place in its run, from 1. `latency` is `response` where a rate was requested,
/// and `service` otherwise; without ops, the latencies are empty.
pub fn jobs_csv(
    (trial, round, configuration): (u32, u32, &str),
    workload: &Workload,
    frames: &[Frame],
) -> String {
    let mut text = String::new();
    for second in seconds(workload, frames) {
        let ns = |value: Option<u64>| value.map_or(String::new(), |ns| ns.to_string());
        let [ops_per_s, bytes_per_s] =
            [second.ops, second.bytes].map(|count| number(second.per_second(count)));
        let fields = [
            round.to_string(),
            configuration.to_owned(),
            workload.name.clone(),
            second.node.to_owned(),
            trial.to_string(),
            "job".to_owned(),
            second.at_s.to_string(),
            second.span_s.to_string(),
            second.job.to_owned(),
            second.step,
            second.running.to_string(),
            second.direction.to_owned(),
            second.ops.to_string(),
            second.bytes.to_string(),
            second.errors.to_string(),
            ops_per_s,
            bytes_per_s,
            second.latency.to_owned(),
            number(second.mean_ns),
            ns(second.p50_ns),
            ns(second.p99_ns),
            ns(second.max_ns),
        ];
        text += &record(fields.iter().map(String::as_str));
    }
    text
}

/// The work of a job in one direction in a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobSecond<'a> {
    /// Its node; empty if the plan names none.
    pub(crate) node: &'a str,
    /// The job's name.
    pub(crate) job: &'a str,
    /// End on the trial's clock, s.
    pub(crate) at_s: f64,
    /// Length, s.
    pub(crate) span_s: f64,
    /// `measure`, as JSON has it.
    pub(crate) step: String,
    /// Number of running clones.
    pub(crate) running: u32,
    /// `read`.
    pub(crate) direction: &'static str,
    /// Completed ops.
    pub(crate) ops: u64,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Failed ops.
    pub(crate) errors: u64,
    /// The kind of latency: `response` where a rate was requested, otherwise `service`; empty without ops.
    pub(crate) latency: &'static str,
    /// Mean latency, ns.
    pub(crate) mean_ns: Option<f64>,
    /// Median, ns.
    pub(crate) p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub(crate) p99_ns: Option<u64>,
    /// Largest latency, ns.
    pub(crate) max_ns: Option<u64>,
}

impl JobSecond<'_> {
    fn per_second(&self, count: u64) -> Option<f64> {
        (self.span_s > 0.0).then(|| count as f64 / self.span_s)
    }
}

/// Each second, node, job and direction of a trial: also a second without ops, if the job has such ops in another one.
pub(crate) fn seconds<'a>(workload: &'a Workload, frames: &'a [Frame]) -> Vec<JobSecond<'a>> {
    let mut done: BTreeSet<(u32, Direction)> = BTreeSet::new();
    for job in frames.iter().flat_map(|frame| &frame.jobs) {
        let directions = job.directions.iter().map(|share| share.direction);
        done.extend(directions.map(|direction| (job.job, direction)));
    }
    let mut seconds = Vec::new();
    for frame in frames {
        for (job, direction) in &done {
            let of_job = frame.jobs.iter().find(|of_job| of_job.job == *job);
            let mut shares = of_job.iter().flat_map(|of_job| &of_job.directions);
            let share = shares.find(|share| share.direction == *direction);
            let count = |of: fn(&DirectionFrame) -> u64| share.map_or(0, of);
            let response = share.and_then(|share| share.response.as_ref());
            let response = response.filter(|response| !response.is_empty());
            let histogram = response.or(share.map(|share| &share.service));
            let histogram = histogram.filter(|histogram| !histogram.is_empty());
            let name = workload.jobs.get(*job as usize).map(|job| &job.name);
            seconds.push(JobSecond {
                node: &frame.node,
                job: name.map_or("", String::as_str),
                at_s: frame.end_ns as f64 / 1e9,
                span_s: frame.span_ns() as f64 / 1e9,
                step: word(&frame.step),
                running: of_job.map_or(0, |of_job| of_job.running),
                direction: direction.name(),
                ops: count(|share| share.ops),
                bytes: count(|share| share.bytes),
                errors: count(|share| share.errors),
                latency: match (response, histogram) {
                    (Some(_), _) => "response",
                    (None, Some(_)) => "service",
                    (None, None) => "",
                },
                mean_ns: histogram.map(|histogram| histogram.mean_ns()),
                p50_ns: histogram.map(|histogram| histogram.percentile_ns(50.0)),
                p99_ns: histogram.map(|histogram| histogram.percentile_ns(99.0)),
                max_ns: histogram.map(|histogram| histogram.max_ns()),
            });
        }
    }
    seconds
}

/// `measure`, as JSON has it.
fn word(step: &iodyno_model::Step) -> String {
    let value = serde_json::to_value(step).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use iodyno_judge::testing;
    use iodyno_model::Direction::{Read, Write};

    use super::*;

    #[test]
    fn every_second_has_a_line_for_each_job_and_direction_even_without_ops() {
        let workload = testing::workload("t", ["reader", "writer"].map(testing::job).to_vec());
        let frames = [
            testing::frame(0, &[(0, Read, 100, 10_000), (1, Write, 50, 20_000)]),
            testing::frame(1, &[(0, Read, 200, 10_000)]),
        ];
        let mut frames = frames;
        frames[1].node = "b".to_owned();
        let text = jobs_csv_head() + &jobs_csv((1, 0, "here"), &workload, &frames);
        let records = crate::csv::parse(&text);
        assert_eq!(records.len(), 1 + 4);
        let column = |name: &str| records[0].iter().position(|known| known == name).unwrap();
        let told: Vec<[&str; 5]> = records[1..]
            .iter()
            .map(|record| {
                ["at_s", "subject", "direction", "ops", "latency"]
                    .map(|name| record[column(name)].as_str())
            })
            .collect();
        assert_eq!(
            told,
            [
                ["1", "reader", "read", "100", "service"],
                ["1", "writer", "write", "50", "service"],
                ["2", "reader", "read", "200", "service"],
                ["2", "writer", "write", "0", ""],
            ]
        );
        assert_eq!(
            (&*records[1][column("node")], &*records[3][column("node")]),
            ("", "b")
        );
        assert_eq!(records[1][column("bytes_per_s")], "409600");
        assert_eq!(records[4][column("max_ns")], "");
    }
}
