//! The figures at the end.

use iodyno_model::{Direction, DirectionResult, Histogram, Trial, Workload};

use super::{EVENTS, Options, Totals, additions, clones, histogram, job, mib, ms};

/// Width of a line up to the end of its figure, columns.
const COLUMNS: usize = 53;

/// The histogram if requested, then rates, throughput, latencies and fairness in the format of sysbench 1.0, and below
/// them iodyno's additional figures. Rates are counts ÷ total time, which is the measured time; events and latencies
/// are of reads, writes and fsyncs together; with `file-fsync-all` a write and its fsync are one event. Begins with an
/// empty line, ends with a newline.
pub fn result(workload: &Workload, trial: &Trial, options: &Options) -> String {
    let totals = Totals::of(job(workload), trial);
    let merged = totals.merged();
    let histogram = match options.histogram {
        true => histogram(&merged),
        false => String::new(),
    };
    [
        histogram,
        rates(&totals),
        latency(&merged, totals.mean_ns(), options.percentile),
        fairness(trial, totals.synced_writes),
        additions::additions(workload, trial, &totals),
    ]
    .concat()
}

fn rates(totals: &Totals) -> String {
    let [reads, writes, fsyncs] = totals.ops.map(|ops| totals.per_second(ops));
    let [read, written, _] = totals.bytes.map(|bytes| mib(totals.per_second(bytes)));
    format!(
        "\nFile operations:\n    \
         reads/s:                      {reads:4.2}\n    \
         writes/s:                     {writes:4.2}\n    \
         fsyncs/s:                     {fsyncs:4.2}\n\
         \nThroughput:\n    \
         read, MiB/s:                  {read:4.2}\n    \
         written, MiB/s:               {written:4.2}\n\
         \nGeneral statistics:\n    \
         total time:                          {:.4}s\n    \
         total number of events:              {}\n",
        totals.seconds(),
        totals.events(),
    )
}

fn latency(merged: &Histogram, mean_ns: f64, percentile: f64) -> String {
    let line = |name: &str, ns: f64| {
        let name = format!("{name:>12}: ");
        format!("{name}{:>1$.2}\n", ms(ns), COLUMNS - name.len())
    };
    let at = match percentile > 0.0 {
        true => {
            let name = format!("        {percentile:>3}th percentile: ");
            let value = ms(merged.percentile_ns(percentile) as f64);
            format!("{name}{value:>0$.2}\n", COLUMNS.saturating_sub(name.len()))
        }
        false => "         percentile stats:               disabled\n".to_owned(),
    };
    format!(
        "\nLatency (ms):\n{}{}{}{at}{}",
        line("min", merged.min_ns() as f64),
        line("avg", mean_ns),
        line("max", merged.max_ns() as f64),
        line("sum", merged.sum_ns() as f64),
    )
}

/// Number of events and time within events per thread: mean and population standard deviation.
fn fairness(trial: &Trial, synced_writes: bool) -> String {
    let each = |figure: &dyn Fn(&DirectionResult) -> f64| -> Vec<f64> {
        clones(trial)
            .map(|clone| {
                let results = EVENTS.into_iter().filter_map(|kind| clone.direction(kind));
                results.map(figure).sum()
            })
            .collect()
    };
    let events =
        |result: &DirectionResult| match synced_writes && result.direction == Direction::Sync {
            true => 0.0,
            false => result.ops as f64,
        };
    let (events, events_deviation) = spread(&each(&events));
    let seconds = |result: &DirectionResult| result.service.sum_ns() as f64 / 1e9;
    let (time, time_deviation) = spread(&each(&seconds));
    format!(
        "\nThreads fairness:\n    \
         events (avg/stddev):           {events:.4}/{events_deviation:3.2}\n    \
         execution time (avg/stddev):   {time:.4}/{time_deviation:3.2}\n\n"
    )
}

/// Mean and population standard deviation; 0 for no values.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}
