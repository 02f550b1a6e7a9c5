//! The seconds of a trial's jobs, as lines of values.

use std::collections::BTreeSet;

use iodyno_model::{Direction, DirectionFrame, Frame, Workload};

use super::csv::LEADING;
use crate::csv::{number, record};

/// The columns after the leading ones that all series share; `subject` is the job's name.
const COLUMNS: [&str; 13] = [
    "step",
    "running",
    "direction",
    "ops",
    "bytes",
    "errors",
    "ops_per_s",
    "bytes_per_s",
    "latency",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "max_ns",
];

/// The names of the columns of [`jobs_csv`]. Ends with a newline.
pub fn jobs_csv_head() -> String {
    record(LEADING.into_iter().chain(COLUMNS))
}

/// A line for each second, node, job and direction of a trial: also for a second without ops, if the job has such ops in another
/// one. `trial` is the trial's place in its run, from 1. `latency` is `response` where a rate was requested, and `service`
/// otherwise; without ops, the latencies are empty.
pub fn jobs_csv(
    (trial, round, configuration): (u32, u32, &str),
    workload: &Workload,
    frames: &[Frame],
) -> String {
    let mut done: BTreeSet<(u32, Direction)> = BTreeSet::new();
    for job in frames.iter().flat_map(|frame| &frame.jobs) {
        let directions = job.directions.iter().map(|share| share.direction);
        done.extend(directions.map(|direction| (job.job, direction)));
    }
    let mut text = String::new();
    for frame in frames {
        let span_s = frame.span_ns() as f64 / 1e9;
        let leading = [
            round.to_string(),
            configuration.to_owned(),
            workload.name.clone(),
            frame.node.clone(),
            trial.to_string(),
            "job".to_owned(),
            (frame.end_ns as f64 / 1e9).to_string(),
            span_s.to_string(),
        ];
        for (job, direction) in &done {
            let of_job = frame.jobs.iter().find(|of_job| of_job.job == *job);
            let mut shares = of_job.iter().flat_map(|of_job| &of_job.directions);
            let share = shares.find(|share| share.direction == *direction);
            let name = workload.jobs.get(*job as usize).map(|job| &job.name);
            let running = of_job.map_or(0, |of_job| of_job.running);
            let mut fields = leading.to_vec();
            fields.push(name.cloned().unwrap_or_default());
            fields.push(word(&frame.step));
            fields.push(running.to_string());
            fields.push(direction.name().to_owned());
            fields.extend(values(share, span_s));
            text += &record(fields.iter().map(String::as_str));
        }
    }
    text
}

/// `measure`, as JSON has it.
fn word(step: &iodyno_model::Step) -> String {
    let value = serde_json::to_value(step).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn values(share: Option<&DirectionFrame>, span_s: f64) -> [String; 10] {
    let count = |of: fn(&DirectionFrame) -> u64| share.map_or(0, of);
    let [ops, bytes, errors] = [
        count(|share| share.ops),
        count(|share| share.bytes),
        count(|share| share.errors),
    ];
    let per_second = |count: u64| number((span_s > 0.0).then(|| count as f64 / span_s));
    let response = share.and_then(|share| share.response.as_ref());
    let response = response.filter(|response| !response.is_empty());
    let histogram = response.or(share.map(|share| &share.service));
    let histogram = histogram.filter(|histogram| !histogram.is_empty());
    let ns = |value: Option<u64>| value.map_or(String::new(), |ns| ns.to_string());
    [
        ops.to_string(),
        bytes.to_string(),
        errors.to_string(),
        per_second(ops),
        per_second(bytes),
        match (response, histogram) {
            (Some(_), _) => "response",
            (None, Some(_)) => "service",
            (None, None) => "",
        }
        .to_owned(),
        number(histogram.map(|histogram| histogram.mean_ns())),
        ns(histogram.map(|histogram| histogram.percentile_ns(50.0))),
        ns(histogram.map(|histogram| histogram.percentile_ns(99.0))),
        ns(histogram.map(|histogram| histogram.max_ns())),
    ]
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
