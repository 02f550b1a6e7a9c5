//! A trial's figures: one number per metric; figures that the data do not support are withheld.

use iodyno_model::{
    Better, CpuSummary, Direction, Figure, Job, Kind, Metric, Quantile, Row, Step, Summary, Trial,
    Unit, Withheld, Workload,
};
use iodyno_units::Nanos;

use super::{file_operations, is_finite};
use crate::summary::{VALUES_BEYOND_PERCENTILE, WINDOWS_PER_RESOLVED_PERCENTILE, all_rows};
use crate::work::{self, LARGE_BLOCK, MOVING, measured_ns};

/// If untimed steps take this fraction of the time, the completion time is mostly theirs.
const MOSTLY_UNTIMED: f64 = 0.5;

/// The measured figures, and the primary metric.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    pub(super) withheld: Vec<Withheld>,
    pub(super) primary: Option<Metric>,
}

pub(super) fn figures(
    workload: &Workload,
    trial: &Trial,
    summary: &Summary,
    kind: Kind,
) -> Measured {
    let rows = all_rows(workload, trial);
    let mut measured = Measured {
        figures: Vec::new(),
        withheld: Vec::new(),
        primary: None,
    };
    let timed = file_operations::timed_by_loop(workload, trial);
    // Everything else about a single execution follows from its time.
    let once = workload.runs_once();
    if once {
        measured.time(&rows);
    } else {
        measured.rates(workload, trial, &rows, timed);
        for row in &rows {
            measured.row(row, work::all_operations(workload), timed);
        }
    }
    if work::all_shared(workload)
        && let Some(together) = crate::summary::together(workload, trial)
    {
        measured.latency(&together);
    }
    if work::all_operations(workload) {
        let further = file_operations::figures(workload, trial);
        measured.figures.extend(further);
    }
    if is_finite(kind)
        && !once
        && let Some(ns) = completion_ns(trial)
    {
        measured.add(Metric::time(Metric::COMPLETION), ns as f64);
    }
    measured.cpu(workload, &summary.cpu);
    measured.servers(trial, summary);
    measured.primary = match (&workload.metric, work::all_operations(workload)) {
        (Some(planned), _) => Some(planned.clone()),
        (None, true) => Some(measured.best_of_cycles(workload, trial, kind)),
        (None, false) => measured.best(workload, &rows, kind),
    };
    measured
}

impl Measured {
    fn add(&mut self, metric: Metric, value: f64) {
        self.figures.push(Figure {
            metric,
            value,
            derived: None,
        });
    }

    /// The time of a single execution.
    fn time(&mut self, rows: &[Row]) {
        let ran = |row: &&Row| row.result.direction == Direction::Op && row.result.ops > 0;
        if let Some(row) = rows.iter().find(ran) {
            self.add(Metric::time("op.mean"), row.latency().0.mean_ns());
        }
    }

    fn cpu(&mut self, workload: &Workload, cpu: &CpuSummary) {
        match cpu.worker_ns_per_op() {
            Some(_) if workload.only_commands() => {
                let each = |ns: u64| ns as f64 / cpu.ops as f64;
                self.add(Metric::time(Metric::CPU_USER), each(cpu.worker_user_ns));
                self.add(Metric::time(Metric::CPU_SYSTEM), each(cpu.worker_system_ns));
            }
            Some(ns) => self.add(Metric::time(Metric::CPU_PER_OP), ns),
            None => {}
        }
    }

    /// What the processes under test used.
    fn servers(&mut self, trial: &Trial, summary: &Summary) {
        if let Some(ns) = summary.server_ns_per_op() {
            self.add(Metric::time(Metric::SERVER_CPU_PER_OP), ns);
        }
        if let Some(cores) = summary.server_cores() {
            let metric = Metric {
                name: Metric::SERVER_CORES.to_owned(),
                unit: Unit::Other(String::new()),
                better: Better::Lower,
            };
            self.add(metric, cores);
        }
        if let Some(requests) = crate::servers::requests_per_command(trial, &summary.servers) {
            let metric = Metric {
                name: Metric::REQUESTS_PER_COMMAND.to_owned(),
                unit: Unit::Other(String::new()),
                better: Better::Higher,
            };
            self.add(metric, requests);
        }
    }

    /// A rate over the measured time. With untimed steps that count it is that of the timed steps, and the rate of the
    /// loop has the longer name.
    fn rate(&mut self, metric: Metric, value: f64, timed: Option<f64>, of_loop: Option<&str>) {
        let Some(timed) = timed else {
            return self.add(metric, value);
        };
        let whole = of_loop.map(|name| Metric {
            name: name.to_owned(),
            ..metric.clone()
        });
        self.figures.push(Figure {
            metric,
            value: value * timed,
            derived: Some("the time of timed steps alone".to_owned()),
        });
        if let Some(whole) = whole {
            self.add(whole, value);
        }
    }

    /// All ops that count, and the bytes moved, over the time in which any clone was measured.
    fn rates(&mut self, workload: &Workload, trial: &Trial, rows: &[Row], timed: Option<f64>) {
        let span_ns = measured_ns(trial);
        let counts = |row: &&Row| moves(row) || row.result.direction == Direction::Op;
        if span_ns == 0 || !rows.iter().any(|row| counts(&row)) {
            return;
        }
        let seconds = span_ns as f64 / 1e9;
        let clones = work::clones(trial);
        let ops: u64 = clones.map(|clone| work::ops(workload, clone)).sum();
        let moving = rows.iter().filter(|row| moves(row));
        let bytes: u64 = moving.map(|row| row.result.bytes).sum();
        let (iops, of_loop) = (Metric::iops(Metric::IOPS), Some(Metric::LOOP_RATE));
        self.rate(iops, ops as f64 / seconds, timed, of_loop);
        if bytes > 0 || !work::all_operations(workload) {
            let metric = Metric::bandwidth(Metric::BANDWIDTH);
            let of_loop = Some(Metric::LOOP_BANDWIDTH);
            self.rate(metric, bytes as f64 / seconds, timed, of_loop);
        }
    }

    /// Steps run at the rate of the cycle, so the rate is given once.
    fn row(&mut self, row: &Row, of_cycles: bool, timed: Option<f64>) {
        let name = row.result.direction.name();
        let is_step = of_cycles && row.result.direction != Direction::Op;
        if row.result.runtime_ns > 0 {
            if !is_step {
                let metric = Metric::iops(format!("{name}.iops"));
                self.rate(metric, row.iops(), timed, None);
            }
            if moves(row) {
                let metric = Metric::bandwidth(format!("{name}.bandwidth"));
                self.rate(metric, row.bytes_per_s(), timed, None);
            }
        }
        self.latency(row);
    }

    fn latency(&mut self, row: &Row) {
        let name = row.result.direction.name();
        let (histogram, quantiles) = row.latency();
        if histogram.is_empty() {
            return;
        }
        self.add(Metric::time(format!("{name}.mean")), histogram.mean_ns());
        for quantile in quantiles {
            let metric = Metric::time(format!("{name}.p{}", quantile.percent));
            match against(quantile, histogram.count()) {
                None => self.add(metric, quantile.ns as f64),
                Some(why) => self.withheld.push(Withheld {
                    metric: metric.name,
                    why,
                }),
            }
        }
        if row.result.direction == Direction::Op {
            let smallest = histogram.min_ns() as f64;
            self.add(Metric::time(format!("{name}.min")), smallest);
        }
        let largest = histogram.max_ns() as f64;
        self.add(Metric::time(format!("{name}.max")), largest);
    }

    fn has(&self, metric: &str) -> bool {
        self.figures
            .iter()
            .any(|figure| figure.metric.name == metric)
    }

    /// For plans of older versions, which do not contain the metric. A fixed amount of work is compared by its
    /// completion unless most of it is untimed; work at a requested rate by its response latency; otherwise by the rate
    /// of cycles, or by the op time if untimed steps affect the rate.
    fn best_of_cycles(&self, workload: &Workload, trial: &Trial, kind: Kind) -> Metric {
        let untimed = work::untimed_share(workload, trial);
        let scheduled = workload.jobs.iter().all(|job| job.scheduled());
        match () {
            () if is_finite(kind) && untimed < MOSTLY_UNTIMED => Metric::time(Metric::COMPLETION),
            () if scheduled => self.tail(Direction::Op),
            () if work::untimed_counts(workload, trial) => Metric::time("op.mean"),
            () => Metric::iops(Metric::IOPS),
        }
    }

    /// The 99th percentile of an op, or its mean if the percentile is withheld.
    fn tail(&self, direction: Direction) -> Metric {
        let name = direction.name();
        let tail = format!("{name}.p99");
        Metric::time(match self.has(&tail) {
            true => tail,
            false => format!("{name}.mean"),
        })
    }

    /// A fixed amount of work is compared by its completion; work at a requested rate by its response latency;
    /// otherwise by IOPS, or by bandwidth if the blocks are large.
    fn best(&self, workload: &Workload, rows: &[Row], kind: Kind) -> Option<Metric> {
        // How long a replay at the trace's own times takes is decided by the trace.
        let replayed = |job: &Job| job.work.replay().is_some() && job.scheduled();
        let by_trace = !workload.jobs.is_empty() && workload.jobs.iter().all(replayed);
        if is_finite(kind) && !by_trace {
            return Some(Metric::time(Metric::COMPLETION));
        }
        let paced = |job: &Job| job.scheduled();
        let busiest = rows
            .iter()
            .filter(|row| moves(row))
            // The first of equal values, as in tables.
            .min_by_key(|row| std::cmp::Reverse(row.result.ops));
        if let Some(row) = busiest
            && !workload.jobs.is_empty()
            && workload.jobs.iter().all(paced)
        {
            return Some(self.tail(match work::all_shared(workload) {
                true => Direction::Op,
                false => row.result.direction,
            }));
        }
        let moving = || rows.iter().filter(|row| moves(row));
        let ops: u64 = moving().map(|row| row.result.ops).sum();
        let bytes: u64 = moving().map(|row| row.result.bytes).sum();
        match ops > 0 && bytes as f64 / ops as f64 >= LARGE_BLOCK {
            true => Some(Metric::bandwidth(Metric::BANDWIDTH)),
            false => Some(Metric::iops(Metric::IOPS)),
        }
    }
}

fn moves(row: &Row) -> bool {
    MOVING.contains(&row.result.direction)
}

/// The reason why the data do not support a percentile, if any.
fn against(quantile: &Quantile, count: u64) -> Option<String> {
    let few = quantile.few.then(|| {
        let beyond = (100.0 - quantile.percent) / 100.0 * count as f64;
        format!(
            "{count} ops, of which {beyond:.1} lie beyond it, fewer than {VALUES_BEYOND_PERCENTILE:.0}: too few for a reliable value"
        )
    });
    let limited = quantile.resolution_limited.then(|| {
        let least = (quantile.least_ns).map(|least| format!("; it was at least {}", Nanos(least)));
        format!(
            "an upper limit: {} is below {WINDOWS_PER_RESOLVED_PERCENTILE} × the time for which its completions may \
             be unseen{}",
            Nanos(quantile.ns),
            least.unwrap_or_default()
        )
    });
    match (few, limited) {
        (Some(few), Some(limited)) => Some(format!("{few}; {limited}")),
        (few, limited) => few.or(limited),
    }
}

/// The completion time: from the start of the first clone (including its ramp) until all work was on the storage as
/// the jobs request: including drain and end fsync, without verification. For older trials, in which clones did not
/// record that instant, their steps are used; the result is too early by at most the difference between the ends of
/// one job's clones.
pub(crate) fn completion_ns(trial: &Trial) -> Option<u64> {
    let parts = trial.parts.iter();
    let spans = parts.filter_map(|part| {
        let ran = || part.clones.iter().filter(|clone| clone.runtime_ns > 0);
        let ramps = part.steps.iter().filter(|step| step.step == Step::Ramp);
        let start = ran()
            .map(|clone| clone.start_ns)
            .chain(ramps.map(|step| u64::try_from(step.start_ns).unwrap_or(0)))
            .min()?;
        let measured = ran().map(|clone| clone.start_ns.saturating_add(clone.runtime_ns));
        let last_steps = part
            .steps
            .iter()
            .filter(|step| matches!(step.step, Step::Drain | Step::EndFsync))
            .map(|step| {
                u64::try_from(step.start_ns)
                    .unwrap_or(0)
                    .saturating_add(step.span_ns)
            });
        let done = ran().filter_map(|clone| clone.done_ns);
        let end = measured.chain(last_steps).chain(done).max()?;
        Some((start, end))
    });
    let (start, end) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (end > start).then_some(end - start)
}
