//! The histogram of latencies.

use iodyno_model::Histogram;

/// The factor between two bins.
const STEP: f64 = 1.03;

/// Width of the longest bar, columns.
const BAR: u64 = 40;

/// All latencies in bins of 3 %: for each bin its middle in ms, a bar and its count. Values below a microsecond have
/// more decimals. Empty without latencies.
pub fn histogram(latency: &Histogram) -> String {
    let mut steps: Vec<(i32, u64)> = Vec::new();
    for (low, high, count) in latency.bins() {
        let middle = low + (high - low) / 2;
        let step = ((middle.max(1) as f64).ln() / STEP.ln()).round() as i32;
        match steps.last_mut() {
            Some((last, sum)) if *last == step => *sum += count,
            _ => steps.push((step, count)),
        }
    }
    let Some(largest) = steps.iter().map(|(_, count)| *count).max() else {
        return String::new();
    };
    let mut text = "Latency histogram (values are in milliseconds)\n       \
                    value  ------------- distribution ------------- count\n"
        .to_owned();
    for (step, count) in steps {
        let value = STEP.powi(step) / 1e6;
        let width = (count as f64 * BAR as f64 / largest as f64).round() as usize;
        let bar = "*".repeat(width);
        text += &format!("{} |{bar:<40} {count}\n", milliseconds(value));
    }
    text + " \n"
}

/// Three decimals, or more if neighbouring bins would be printed as the same number.
fn milliseconds(value: f64) -> String {
    let decimals = match value {
        value if value < 0.001 => 6,
        value if value < 0.01 => 5,
        value if value < 0.1 => 4,
        _ => 3,
    };
    format!("{value:>12.decimals$}")
}
