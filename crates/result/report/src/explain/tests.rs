//! Explanations that are made up.

use iodyno_model::{
    Cause, Certainty, ComparedSides, Difference, Estimated, Explained, ExplainedFamily,
    Explanation, FactClass, Metric, Pairing, Quantity, Reasons, SeriesUnit, Stack, StackOf,
    TimePart, Verdict,
};

use super::{headline, json, markup, reasons, text};
use crate::Markup::{AsciiDoc, Html, Markdown};
use crate::Style;
use crate::style::width;

fn estimated(value: f64) -> Estimated {
    Estimated {
        value,
        interval: Some((value * 0.95, value * 1.05)),
        level: 0.95,
    }
}

fn quantity(name: &'static str, words: &str, unit: SeriesUnit, sides: (f64, f64)) -> Quantity {
    Quantity {
        name,
        words: words.to_owned(),
        unit,
        sides,
        difference: estimated(sides.1 - sides.0),
        certainty: Certainty::Certain,
        uncertain: (0.0, 0.0),
    }
}

fn part(part: TimePart, sides: (f64, f64)) -> (TimePart, Quantity) {
    (
        part,
        quantity(part.name(), part.words(), SeriesUnit::Nanos, sides),
    )
}

fn stack(of: StackOf, parts: Vec<(TimePart, Quantity)>) -> Stack {
    let sum = |side: fn(&(f64, f64)) -> f64| parts.iter().map(|(_, it)| side(&it.sides)).sum();
    let sides = (sum(|it| it.0), sum(|it| it.1));
    Stack {
        of,
        whole: quantity("whole", "together", SeriesUnit::Nanos, sides),
        parts,
    }
}

fn fact(name: &str, one: &str, other: &str) -> Cause {
    Cause::Fact(Difference {
        name: name.to_owned(),
        class: FactClass::Target,
        values: (one.to_owned(), other.to_owned()),
        axis: true,
    })
}

/// Little's law of ops in flight, with one stack.
fn of_stack(in_flight: (f64, f64), op: Stack) -> Reasons {
    let time = op.whole.clone();
    let rate = (
        in_flight.0 / time.sides.0 * 1e9,
        in_flight.1 / time.sides.1 * 1e9,
    );
    Reasons {
        rate: quantity("rate", "ops per second", SeriesUnit::PerSecond, rate),
        in_flight: quantity("in_flight", "ops in flight", SeriesUnit::Number, in_flight),
        time,
        rate_given: false,
        stacks: vec![op],
        worker: Vec::new(),
        worker_limited: (false, false),
        work: Vec::new(),
        most: Vec::new(),
        step: None,
        noise: false,
        causes: Vec::new(),
    }
}

/// One read at a time and sixteen.
fn depth() -> Reasons {
    let op = stack(
        StackOf::Op,
        vec![
            part(TimePart::Device, (20_100.0, 120_000.0)),
            part(TimePart::Above, (4_200.0, 16_000.0)),
        ],
    );
    let share = |of, sides| (of, quantity("share", "share", SeriesUnit::Percent, sides));
    Reasons {
        worker: vec![
            share(TimePart::KernelCpu, (10.0, 30.0)),
            share(TimePart::UserCpu, (5.0, 10.0)),
            share(TimePart::CpuWait, (0.0, 10.0)),
            share(TimePart::Asleep, (85.0, 50.0)),
        ],
        work: vec![
            quantity(
                "worker_cpu",
                "CPU time of the worker",
                SeriesUnit::Nanos,
                (3_600.0, 3_550.0),
            ),
            quantity(
                "job_bytes",
                "bytes that the job moves",
                SeriesUnit::Bytes,
                (4096.0, 4096.0),
            ),
        ],
        causes: vec![fact("depth", "1", "16")],
        ..of_stack((0.99, 15.3), op)
    }
}

/// A device that takes three times as long.
fn slow_device() -> Reasons {
    let op = stack(
        StackOf::Op,
        vec![
            part(TimePart::Device, (80_000.0, 240_000.0)),
            part(TimePart::KernelCpu, (8_000.0, 8_000.0)),
            part(TimePart::UserCpu, (2_000.0, 2_000.0)),
            part(TimePart::CpuWait, (0.0, 1_000.0)),
            part(TimePart::Unknown, (10_000.0, 9_000.0)),
        ],
    );
    Reasons {
        most: vec![(TimePart::Device, 160_000.0)],
        causes: vec![
            fact("delay.read", "none", "3.00 ms"),
            Cause::Series(quantity(
                "other_cpus",
                "CPUs used by other processes",
                SeriesUnit::Number,
                (0.1, 1.9),
            )),
        ],
        ..of_stack((1.0, 0.99), op)
    }
}

fn sides(row: &str, ratio: f64, verdict: Verdict) -> ComparedSides {
    ComparedSides {
        row: vec![row.to_owned()],
        columns: ("ext4".to_owned(), "zfs <b>".to_owned()),
        metric: Metric::iops(Metric::IOPS),
        ratio: Some(estimated(ratio)),
        by_numbers: verdict.clone(),
        verdict,
    }
}

fn explained(ratio: f64, reasons: Reasons) -> Explained {
    let verdict = if ratio > 1.0 {
        Verdict::Faster
    } else {
        Verdict::Slower
    };
    Explained {
        of: sides("randread", ratio, verdict),
        pairing: Pairing::Paired,
        n: 12,
        reasons: Ok(reasons),
        lacking: vec!["queue and device apart: `--trace block`".to_owned()],
    }
}

fn explanation(comparisons: Vec<Explained>) -> Explanation {
    Explanation {
        name: "test, run 1".to_owned(),
        comparisons,
        families: Vec::new(),
    }
}

fn one() -> Explanation {
    explanation(vec![explained(0.38, slow_device())])
}

fn style(width: usize) -> Style {
    Style {
        color: false,
        width,
        unicode: true,
    }
}

#[test]
fn the_sentence_is_littles_law() {
    let sentence = |ratio, reasons| headline(&explained(ratio, reasons));
    assert_eq!(
        sentence(2.75, depth()),
        "zfs <b> is 2.75×: 15.3 ops in flight instead of 0.99, each taking 5.6 × as long (24.3 → 136 µs). \
         Candidate cause: depth: 1 → 16"
    );
    assert_eq!(
        sentence(0.38, slow_device()),
        "zfs <b> is 0.380×: each op takes 2.6 × as long (100 → 260 µs), mostly at the device (+160 µs). Candidate causes: \
         delay.read: none → 3.00 ms; CPUs used by other processes: 0.10 → 1.90"
    );
    let op = |sides| stack(StackOf::Op, vec![part(TimePart::Above, sides)]);
    for (ratio, in_flight, time, expected) in [
        (
            20.0_f64,
            (1.0, 1.0),
            (100_000.0, 5_000.0),
            "each op is 20 × as fast (100 → 5.00 µs)",
        ),
        (
            3.96,
            (1.0, 4.0),
            (1e6, 1.01e6),
            "4 ops in flight instead of 1, each taking about as long (1.00 → 1.01 ms)",
        ),
        (
            8.00,
            (1.0, 4.0),
            (1e6, 5e5),
            "4 ops in flight instead of 1, each 2.0 × as fast (1.00 ms → 500 µs)",
        ),
    ] {
        let found = sentence(ratio, of_stack(in_flight, op(time)));
        assert_eq!(
            found,
            format!(
                "zfs <b> is {}×: {expected}",
                iodyno_units::significant(ratio)
            )
        );
    }
}

#[test]
fn a_busy_worker_is_the_limit() {
    let mut busy = depth();
    busy.worker_limited = (true, true);
    busy.work[0].sides = (4_000.0, 3_200.0);
    let expected = "zfs <b> is 2.75×: the worker is the limit (40 % of its time is CPU, 10 % waiting for a CPU), and an op costs \
                    4.00 → 3.20 µs of CPU time. Candidate cause";
    let found = headline(&explained(2.75, busy));
    assert!(found.starts_with(expected), "{found}");
    let mut one_side = depth();
    one_side.worker_limited = (false, true);
    let found = headline(&explained(2.75, one_side));
    assert!(
        found.contains("; in zfs <b> the worker is the limit (40 %"),
        "{found}"
    );
}

#[test]
fn a_time_that_changed_against_the_figure_does_not_explain_it() {
    let mut it = explained(4.87, slow_device());
    for name in [Metric::COMPLETION, "op.mean"] {
        it.of.metric = Metric::time(name);
        let expected = format!(
            "zfs <b> is 4.87× by {name}, and not by the mean time of an op, which is 2.6 × as long (100 → 260 µs)"
        );
        assert_eq!(headline(&it), expected);
    }
}

#[test]
fn a_given_rate_and_a_latency_leave_only_the_time_of_an_op() {
    let mut open = slow_device();
    open.rate_given = true;
    let mut it = explained(0.5, open);
    it.of.metric = Metric::time("read.p99");
    let expected = "zfs <b> is 0.500× by read.p99: the rate is given, and the mean time of an op is 2.6 × as long (100 → 260 µs), \
                    mostly at the device (+160 µs)";
    assert!(headline(&it).starts_with(expected), "{}", headline(&it));
}

#[test]
fn syncs_are_named_with_the_op_and_noise_is_said_in_one_line() {
    let op = stack(
        StackOf::Op,
        vec![
            part(TimePart::Above, (5_000.0, 6_000.0)),
            part(TimePart::SyncDevice, (0.0, 700_000.0)),
            part(TimePart::SyncAbove, (0.0, 200_000.0)),
        ],
    );
    let synced = Reasons {
        most: vec![(TimePart::SyncDevice, 700_000.0)],
        ..of_stack((1.0, 1.0), op.clone())
    };
    let found = headline(&explained(0.006, synced));
    let expected = "each op with its syncs takes 181 × as long (5.00 → 906 µs), mostly in syncs at the device (+700 µs)";
    assert!(found.contains(expected), "{found}");
    let noise = Reasons {
        noise: true,
        ..of_stack((1.0, 1.0), op)
    };
    let found = headline(&explained(0.006, noise));
    assert!(
        found.ends_with("; which part takes the time cannot be told from 12 rounds"),
        "{found}"
    );
}

#[test]
fn a_comparison_is_one_page_of_80_columns() {
    let mut full = slow_device();
    let more = [TimePart::Queue, TimePart::Layers, TimePart::Server];
    full.stacks[0]
        .parts
        .extend(more.map(|it| part(it, (1e3, 2e3))));
    full.stacks[0]
        .parts
        .retain(|(it, _)| *it != TimePart::Unknown);
    full.worker = depth().worker;
    let sync = vec![
        part(TimePart::Requests(1), (1e5, 2e5)),
        part(TimePart::Requests(3), (3e5, 2e5)),
        part(TimePart::SyncAbove, (1e4, 2e4)),
    ];
    full.stacks.push(stack(StackOf::Sync((1.0, 1.0)), sync));
    let background = vec![
        part(TimePart::Requests(0), (1e5, 2e5)),
        part(TimePart::Requests(1), (3e5, 2e5)),
    ];
    full.stacks.push(stack(StackOf::Background, background));
    for name in [
        "device_reads",
        "device_read_bytes",
        "device_writes",
        "device_written_bytes",
        "device_flushes",
        "switches",
        "syncs",
    ] {
        full.work.push(quantity(
            name,
            "write requests at the device",
            SeriesUnit::Number,
            (1.0, 2.0),
        ));
    }
    let all = explanation(vec![explained(0.38, full)]);
    for columns in [80, 100, 120] {
        let text = text(&all, style(columns));
        assert!(
            text.lines().count() <= 40,
            "{}\n{text}",
            text.lines().count()
        );
        for line in text.lines() {
            assert!(width(line) <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn bars_have_the_lengths_of_their_parts() {
    let text = text(&one(), style(80));
    let bar = |side: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("  {side}")))
            .unwrap()
    };
    let count = |line: &str, mark: char| line.chars().filter(|it| *it == mark).count();
    let (first, second) = (bar("ext4 "), bar("zfs <b>"));
    // The larger one is 60 long.
    assert_eq!(count(second, '█'), 55);
    assert_eq!(count(first, '█'), 18);
    assert!(
        first.ends_with("100 µs") && second.ends_with("260 µs"),
        "{text}"
    );
    let ascii = Style {
        unicode: false,
        ..style(80)
    };
    let text = super::text(&self::one(), ascii);
    assert!(text.is_ascii(), "{text}");
}

#[test]
fn a_page_has_bars_and_names_cannot_become_markup() {
    let page = markup(&one(), Html);
    for expected in [
        "<svg",
        "zfs &lt;b&gt;",
        "device: 240&nbsp;µs",
        "<td class=\"number\">240&nbsp;µs</td>",
    ] {
        let plain = expected.replace("&nbsp;", " ");
        assert!(
            page.contains(expected) || page.contains(&plain),
            "{expected}\n{page}"
        );
    }
    assert!(!page.contains("<b>"), "{page}");
    for markup in [Markdown, AsciiDoc].map(|it| markup(&one(), it)) {
        assert!(markup.contains("each op takes 2.6 × as long"), "{markup}");
    }
}

#[test]
fn json_has_all_numbers_and_parts_add_up() {
    let document: serde_json::Value = serde_json::from_str(&json(&one())).unwrap();
    assert_eq!(document["schema"], "iodyno.explanation/2");
    let reasons = &document["comparisons"][0]["reasons"];
    assert_eq!(reasons["most"][0], "device");
    let stack = &reasons["stacks"][0];
    let parts = stack["parts"].as_array().unwrap().iter();
    let sum: f64 = parts
        .map(|it| it["quantity"]["candidate"].as_f64().unwrap())
        .sum();
    assert_eq!(sum, stack["whole"]["candidate"].as_f64().unwrap());
    let fact = &reasons["candidate_causes"][0]["fact"];
    assert_eq!(fact["name"], "delay.read");
    assert_eq!(fact["under_test"], true);
    assert_eq!(stack["parts"][0]["quantity"]["certainty"], "certain");
}

#[test]
fn uncertain_figures_are_marked_in_text_and_given_in_json() {
    let mut all = one();
    let reasons = all.comparisons[0].reasons.as_mut().unwrap();
    // 40 of 260 µs are many, 4 are few.
    reasons.stacks[0].parts[0].1.uncertain = (4_000.0, 40_000.0);
    let text = text(&all, style(80));
    let device = text.lines().find(|line| line.starts_with("█ device "));
    let figures = "80.0 µs  ~240 µs";
    assert!(device.is_some_and(|line| line.contains(figures)), "{text}");
    let document: serde_json::Value = serde_json::from_str(&json(&all)).unwrap();
    let parts = &document["comparisons"][0]["reasons"]["stacks"][0]["parts"];
    let uncertain = |place: usize| &parts[place]["quantity"]["uncertain"];
    assert_eq!(uncertain(0), &serde_json::json!([4000.0, 40000.0]));
    assert!(uncertain(1).is_null());
}

#[test]
fn long_values_of_a_cause_begin_where_they_differ() {
    let mut all = slow_device();
    let command = |policy: &str| {
        format!(
            "iodyno serve fs {{folder}} --socket {{socket}} --stats {{stats}} --dispatch {policy} --delay 200us"
        )
    };
    all.causes = vec![fact(
        "virtiofs.command",
        &command("inline"),
        &command("pool:16"),
    )];
    let found = headline(&explained(0.38, all));
    let expected = "virtiofs.command: … --dispatch inline … → … --dispatch pool:16 …";
    assert!(found.contains(expected), "{found}");
}

/// A family of three workloads, two of which are slower at the device.
fn family() -> Explanation {
    let member = |name: &str| Explained {
        of: sides(name, 0.38, Verdict::Slower),
        ..explained(0.38, slow_device())
    };
    let mut all = explanation(vec![member("one"), member("two"), member("three")]);
    all.families = vec![ExplainedFamily {
        of: sides("psync", 0.4, Verdict::Slower),
        members: all.comparisons.iter().map(|it| it.of.row.clone()).collect(),
        stack: Some(slow_device().stacks.remove(0)),
        most: Some((TimePart::Device, 2)),
        largest: None,
        causes: vec![fact("delay.read", "none", "3.00 ms")],
    }];
    all
}

#[test]
fn a_family_has_one_section_with_its_members() {
    let text = text(&family(), style(200));
    let sentence = "zfs <b> is 0.400× (geometric mean); in 2 of 3 workloads the difference is mostly at the device. Candidate cause: \
                    delay.read: none → 3.00 ms";
    assert!(text.contains(sentence), "{text}");
    assert_eq!(text.matches(" against ").count(), 1, "{text}");
    for member in ["one", "two", "three"] {
        assert!(text.contains(&format!("\n{member} ")), "{text}");
    }
    let mut without = family();
    (without.families[0].most, without.families[0].largest) =
        (None, Some((TimePart::Device, 128_000.0)));
    let sentence_without =
        "; over all workloads, the time of an op differs most at the device (+128 µs)";
    let text_without = super::text(&without, style(200));
    assert!(text_without.contains(sentence_without), "{text_without}");
    let why = reasons(&family(), style(400));
    assert_eq!(why, format!("why: psync: {sentence}\n"));
    let document: serde_json::Value = serde_json::from_str(&json(&family())).unwrap();
    assert_eq!(document["families"][0]["most"], "device");
    assert_eq!(
        document["families"][0]["stack"]["parts"][0]["part"],
        "device"
    );
}

#[test]
fn a_cycle_is_explained_by_its_step_and_the_part() {
    let mut cycle = slow_device();
    cycle.stacks.push(stack(
        StackOf::Cycle,
        vec![part(TimePart::Step("sync"), (1e5, 2.6e5))],
    ));
    cycle.step = Some((TimePart::Step("sync"), 1.5e5));
    let found = headline(&explained(0.38, cycle));
    let expected = "each cycle takes 2.6 × as long (100 → 260 µs), mostly in sync (+150 µs): at the device (+160 µs)";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn comparisons_without_numbers_are_remarks_by_their_reason() {
    let mut all = one();
    all.comparisons[0].reasons = Err("imported trials have no CPU times".to_owned());
    let one = text(&all, style(200));
    assert!(
        one.ends_with("SLOWER; not explained: imported trials have no CPU times\n"),
        "{one}"
    );
    all.comparisons.push(all.comparisons[0].clone());
    assert_eq!(
        text(&all, style(200)),
        "test, run 1\n\n! 2 comparisons are not explained: imported trials have no CPU times\n"
    );
    assert_eq!(reasons(&all, style(200)), "");
}

#[test]
fn undecided_comparisons_are_not_told_as_results() {
    let mut all = one();
    all.comparisons[0].of.verdict = Verdict::inconclusive(None);
    let found = text(&all, style(300));
    assert!(
        found.contains("\nundecided after 12 rounds: 0.380× so far\n"),
        "{found}"
    );
    assert_eq!(reasons(&all, style(200)), "");
    // What is not comparable is a result if its numbers decide.
    all.comparisons[0].of.verdict = Verdict::NotComparable {
        reasons: vec!["differing cpus_allowed".to_owned()],
    };
    assert!(reasons(&all, style(300)).contains("zfs <b> is 0.380×: each op"));
    all.comparisons[0].of.by_numbers = Verdict::Equivalent;
    assert!(text(&all, style(300)).contains("\nno difference to explain\n"));
}

#[test]
fn small_figures_are_not_cut() {
    let mut all = one();
    let reasons = all.comparisons[0].reasons.as_mut().unwrap();
    reasons.work = vec![quantity(
        "moves",
        "moves",
        SeriesUnit::Number,
        (0.000_040_2, 2.0),
    )];
    let text = text(&all, style(80));
    assert!(text.contains("4.0e-5"), "{text}");
}
