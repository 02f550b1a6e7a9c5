//! The progress of a trial: one line, redrawn each second.

use iodyno_model::{Direction, Frame, Histogram, Step};
use iodyno_units::{Bytes, Nanos, Rate, counted, grouped};

use crate::style::{Paint, Style, cut, ended, width};

/// The parts of a line about a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Its rate alone, and errors.
    Rate,
    /// With its bandwidth.
    Bandwidth,
    /// With its p99.
    Latency,
}

/// Bar, times, rates and p99 of the last frame, for a terminal: one line without a newline, at most as long as the
/// style's width. `total` is the planned time, if known.
///
/// A narrow terminal omits, in this order: half of the bar, p99, bandwidth, the later directions, the remaining time,
/// the bar.
pub fn line(frame: &Frame, elapsed: Nanos, total: Option<Nanos>, style: Style) -> String {
    let room = style.columns().saturating_sub(1);
    let times = times(frame, elapsed, total);
    let left = total
        .filter(|total| total.0 > elapsed.0)
        .map(|total| format!("{} left", whole_seconds(total.since(elapsed))));
    let share = total.map(|total| elapsed.0 as f64 / total.0.max(1) as f64);
    let text = |columns: usize, detail: Detail, directions: usize, left: Option<&String>| {
        let shown = share.filter(|_| columns > 0);
        let bar = shown.map(|share| bar(share, columns, style));
        let pieces = bar.into_iter().chain([times.clone()]);
        let rates = rates(frame, detail).into_iter().take(directions);
        let pieces: Vec<String> = pieces.chain(rates).chain(left.cloned()).collect();
        style.plain(&pieces.join("  "))
    };
    const ALL: usize = usize::MAX;
    let forms = [
        (18, Detail::Latency, ALL, left.as_ref()),
        (9, Detail::Latency, ALL, left.as_ref()),
        (9, Detail::Bandwidth, ALL, left.as_ref()),
        (9, Detail::Rate, ALL, left.as_ref()),
        (9, Detail::Rate, 1, left.as_ref()),
        (9, Detail::Rate, 1, None),
    ];
    let mut texts = forms
        .map(|(bar, detail, directions, left)| text(bar, detail, directions, left))
        .into_iter();
    let fitting = texts.find(|text| width(text) <= room);
    let drawn = fitting.unwrap_or_else(|| text(0, Detail::Rate, 1, None));
    let drawn = cut(&drawn, room);
    match drawn
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((bar, rest)) => format!("[{}]{rest}", style.paint(Paint::Green, bar)),
        None => drawn,
    }
}

/// The same for a log: without a bar, complete, one line without a newline.
pub fn plain_line(frame: &Frame, elapsed: Nanos, total: Option<Nanos>, style: Style) -> String {
    let pieces: Vec<String> = std::iter::once(times(frame, elapsed, total))
        .chain(rates(frame, Detail::Latency))
        .collect();
    style.plain(&pieces.join("  "))
}

/// A line that is shorter than the terminal, with a mark where it was cut.
pub fn fitted(text: &str, columns: usize) -> String {
    ended(text, columns.saturating_sub(1), Style::default())
}

/// From this time on, a layout has a rate: before, a few files or the page cache make it meaningless.
const RATED: Nanos = Nanos::from_millis(100);

/// Progress of the layout: bytes written, bytes in all, and the rate so far.
pub fn lay_out(done: Bytes, all: Bytes, elapsed: Nanos, style: Style) -> String {
    let rate = Bytes(Rate::of(done.0, elapsed).0 as u64).mib();
    let words = (
        done.to_string(),
        all.to_string(),
        format!("{rate:.0} MiB/s"),
    );
    laid_out((done.0, all.0), words, elapsed, style)
}

/// The progress of the layout in files, for files without data or with negligible data.
pub fn lay_out_files(done: u64, all: u64, elapsed: Nanos, style: Style) -> String {
    let rate = format!("{} files/s", Rate::of(done, elapsed));
    let words = (grouped(done), counted(all, "file"), rate);
    laid_out((done, all), words, elapsed, style)
}

/// `words`: what is done, all, and the rate.
fn laid_out(
    (done, all): (u64, u64),
    (done_words, all_words, rate_words): (String, String, String),
    elapsed: Nanos,
    style: Style,
) -> String {
    let rate = Rate::of(done, elapsed).0;
    let left = match rate > 0.0 && all > done {
        true => {
            let seconds = (all - done) as f64 / rate;
            format!("  {} left", whole_seconds(Nanos((seconds * 1e9) as u64)))
        }
        false => String::new(),
    };
    let so_far = match elapsed >= RATED {
        true => format!("  {rate_words}{left}"),
        false => String::new(),
    };
    let bar = bar(done as f64 / all.max(1) as f64, 18, style);
    let text = format!("{bar}  laying out {done_words} of {all_words}{so_far}");
    cut(&style.plain(&text), style.columns().saturating_sub(1))
}

fn times(frame: &Frame, elapsed: Nanos, total: Option<Nanos>) -> String {
    let step = match frame.step {
        Step::Ramp => "ramp ",
        Step::Drain => "drain ",
        Step::VerifyPass => "verify ",
        _ => "",
    };
    match total {
        Some(total) if elapsed <= total => format!(
            "{step}{} of {}",
            whole_seconds(elapsed),
            whole_seconds(total)
        ),
        // Ops that were issued in time have not completed.
        Some(total) if frame.step == Step::Measure => format!(
            "{} of {0}, waiting for I/O for {}",
            whole_seconds(total),
            whole_seconds(elapsed.since(total))
        ),
        _ => format!("{step}{}", whole_seconds(elapsed)),
    }
}

/// `read 138.4k IOPS 541 MiB/s p99 1.19 ms` for each direction with ops. For file operations only the whole cycle, and
/// other directions with errors.
fn rates(frame: &Frame, detail: Detail) -> Vec<String> {
    let seconds = frame.end_ns.saturating_sub(frame.start_ns) as f64 / 1e9;
    let cycles = frame.of(Direction::Op).next().is_some();
    let failed = |direction| frame.of(direction).any(|share| share.errors > 0);
    Direction::EVERY
        .into_iter()
        .filter(|direction| !cycles || *direction == Direction::Op || failed(*direction))
        .filter_map(|direction| rate(frame, direction, seconds, detail))
        .collect()
}

fn rate(frame: &Frame, direction: Direction, seconds: f64, detail: Detail) -> Option<String> {
    let (mut ops, mut bytes, mut errors) = (0, 0, 0);
    let mut latency = Histogram::default();
    for share in frame.of(direction) {
        ops += share.ops;
        bytes += share.bytes;
        errors += share.errors;
        latency.merge(primary(&share.response, &share.service));
    }
    if ops == 0 && errors == 0 {
        return None;
    }
    let per_second = |count: u64| match seconds > 0.0 {
        true => count as f64 / seconds,
        false => 0.0,
    };
    let rate = Rate(per_second(ops));
    let mut text = match direction {
        Direction::Read | Direction::Write | Direction::Trim | Direction::Sync => {
            format!("{} {rate} IOPS", direction.name())
        }
        _ => format!("{} {rate}/s", direction.name()),
    };
    if bytes > 0 && detail >= Detail::Bandwidth {
        let rate = per_second(bytes) / f64::from(1 << 20);
        text += &match rate >= 10.0 {
            true => format!(" {rate:.0} MiB/s"),
            false => format!(" {rate:.1} MiB/s"),
        };
    }
    if !latency.is_empty() && detail >= Detail::Latency {
        text += &format!(" p99 {}", Nanos(latency.percentile_ns(99.0)));
    }
    if errors > 0 {
        text += &format!(" {}", counted(errors, "error"));
    }
    Some(text)
}

/// The latency that counts: response latency if there is one, service latency otherwise.
pub(crate) fn primary<'a>(
    response: &'a Option<Histogram>,
    service: &'a Histogram,
) -> &'a Histogram {
    let response = response.as_ref().filter(|response| !response.is_empty());
    response.unwrap_or(service)
}

fn bar(share: f64, columns: usize, style: Style) -> String {
    let full = (share.clamp(0.0, 1.0) * columns as f64).floor() as usize;
    let (done, open) = if style.unicode {
        ("█", "░")
    } else {
        ("#", "-")
    };
    format!("[{}{}]", done.repeat(full), open.repeat(columns - full))
}

/// `8 s`, `2 min 05 s`, `1 h 02 min`.
fn whole_seconds(span: Nanos) -> String {
    match span.0 / 1_000_000_000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => span.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use iodyno_judge::testing::{self, operations as made};
    use iodyno_model::Direction::{self, Read, Sync, Write};
    use iodyno_units::{Bytes, Nanos};

    use super::{Step, lay_out, lay_out_files, line, plain_line, width};
    use crate::Style;

    const TOTAL: Option<Nanos> = Some(Nanos::from_secs(20));

    fn mixed() -> iodyno_model::Frame {
        testing::frame(
            11,
            &[
                (0, Read, 138_400, 268_000),
                (0, Write, 46_100, 275_000),
                (1, Read, 10, 1000),
            ],
        )
    }

    #[test]
    fn prints_progress_rates_and_remaining_time() {
        let elapsed = Nanos::from_secs(12);
        let style = Style {
            width: 140,
            ..Style::default()
        };
        assert_eq!(
            line(&mixed(), elapsed, TOTAL, style),
            "[██████████░░░░░░░░]  12 s of 20 s  read 138.4k IOPS 541 MiB/s p99 1.18 ms  \
             write 46.1k IOPS 180 MiB/s p99 1.20 ms  8 s left"
        );
        let ascii = Style {
            unicode: false,
            ..style
        };
        assert!(line(&mixed(), elapsed, TOTAL, ascii).starts_with("[##########--------]  12 s"));
        let colour = Style {
            color: true,
            ..style
        };
        assert!(line(&mixed(), elapsed, TOTAL, colour).starts_with("[\x1b[32m██████████"));
        assert_eq!(
            plain_line(&mixed(), elapsed, None, style),
            "12 s  read 138.4k IOPS 541 MiB/s p99 1.18 ms  write 46.1k IOPS 180 MiB/s p99 1.20 ms"
        );
    }

    #[test]
    fn eighty_columns_show_bar_and_time_left_whatever_the_figures() {
        let style = Style {
            width: 80,
            ..Style::default()
        };
        let elapsed = Nanos::from_secs(12);
        for (ops, expected) in [
            (
                671,
                "[█████░░░░]  12 s of 20 s  read 671 IOPS  write 671 IOPS  8 s left",
            ),
            (
                138_412,
                "[█████░░░░]  12 s of 20 s  read 138.4k IOPS  write 138.4k IOPS  8 s left",
            ),
            (
                12_345_678,
                "[█████░░░░]  12 s of 20 s  read 12.3M IOPS  write 12.3M IOPS  8 s left",
            ),
        ] {
            let frame = testing::frame(11, &[(0, Read, ops, 268_000), (0, Write, ops, 275_000)]);
            let text = line(&frame, elapsed, TOTAL, style);
            assert_eq!(text, expected);
            assert!(width(&text) < 80, "{text}");
        }
    }

    #[test]
    fn a_narrow_terminal_never_gets_a_second_line() {
        for columns in [0, 40, 60, 80, 100, 200] {
            let style = Style {
                width: columns,
                ..Style::default()
            };
            let text = line(&mixed(), Nanos::from_secs(12), TOTAL, style);
            assert!(width(&text) < columns.max(40), "{text}");
            assert!(text.contains("12 s of 20 s"), "{text}");
        }
    }

    #[test]
    fn unusual_frames_have_a_valid_line() {
        let style = Style::default();
        let empty = testing::frame(0, &[]);
        assert_eq!(plain_line(&empty, Nanos(0), TOTAL, style), "0 s of 20 s");
        let mut failing = testing::frame(0, &[(0, Sync, 0, 1)]);
        failing.jobs[0].directions[0].errors = 3;
        failing.end_ns = failing.start_ns;
        assert_eq!(
            plain_line(&failing, Nanos::from_secs(3700), None, style),
            "1 h 01 min  sync 0 IOPS 3 errors"
        );
        // Longer than planned: the bar is full.
        let late = line(&empty, Nanos::from_secs(30), TOTAL, style);
        assert_eq!(
            late,
            "[██████████████████]  20 s of 20 s, waiting for I/O for 10 s"
        );
        let mut verifies = empty.clone();
        verifies.step = Step::VerifyPass;
        let late = plain_line(&verifies, Nanos::from_secs(30), TOTAL, style);
        assert_eq!(late, "verify 30 s");
    }

    #[test]
    fn laying_out_prints_the_remaining_time() {
        let style = Style {
            unicode: false,
            ..Style::default()
        };
        let (done, all) = (Bytes(1 << 30), Bytes(4 << 30));
        assert_eq!(
            lay_out(done, all, Nanos::from_secs(2), style),
            "[####--------------]  laying out 1 GiB of 4 GiB  512 MiB/s  6 s left"
        );
        assert_eq!(
            lay_out(Bytes(1 << 30), Bytes(1 << 30), Nanos(600), style),
            "[##################]  laying out 1 GiB of 1 GiB"
        );
        assert_eq!(
            lay_out(Bytes(0), Bytes(0), Nanos(0), style),
            "[------------------]  laying out 0 B of 0 B"
        );
    }

    #[test]
    fn file_operations_print_the_whole_cycle_and_only_failed_steps() {
        let style = Style::default();
        let mut frame = made::frame(3, &[(Direction::Op, 671, 0), (Direction::Create, 671, 0)]);
        let elapsed = Nanos::from_secs(4);
        assert_eq!(
            plain_line(&frame, elapsed, None, style),
            "4 s  op 671/s p99 10.0 µs"
        );
        frame.jobs[0].directions[1].errors = 1;
        assert_eq!(
            plain_line(&frame, elapsed, None, style),
            "4 s  op 671/s p99 10.0 µs  create 671/s p99 10.0 µs 1 error"
        );
    }

    #[test]
    fn laying_out_files_prints_their_number() {
        let style = Style::default();
        assert_eq!(
            lay_out_files(2_500, 10_000, Nanos::from_secs(10), style),
            "[████░░░░░░░░░░░░░░]  laying out 2500 of 10 000 files  250 files/s  30 s left"
        );
        assert_eq!(
            lay_out_files(0, 0, Nanos(0), style),
            "[░░░░░░░░░░░░░░░░░░]  laying out 0 of 0 files"
        );
    }
}
