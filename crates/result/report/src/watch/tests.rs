use iodyno_judge::figures;
use iodyno_judge::testing::telemetry::{Named, SECOND, cpu_second, recording};
use iodyno_model::{
    FigureColumn, FigureRow, FigureTable, SeriesKind, SeriesRow, SeriesUnit, Telemetry,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{History, Key, Live, WatchView, json, screen};
use crate::Style;
use crate::series::tests::value;
use crate::style::width;

const EIGHTY: Style = Style {
    color: false,
    width: 80,
    unicode: true,
};

fn name(kind: &str, number: u64) -> &'static str {
    Box::leak(format!("{kind}{number}").into_boxed_str())
}

/// A host with this number of CPUs and disks, for this number of seconds.
fn host(cpus: u64, disks: u64, seconds: u32) -> Telemetry {
    let cpu = |second: u32| {
        let row = |number: u64| {
            let user = (u64::from(second) * 7 + number * 13) % 50;
            (
                name("CPU", number),
                cpu_second([user, 30, 58 - user, 10, 2]),
            )
        };
        (0..cpus).map(row).collect()
    };
    let interrupts = |_| {
        let row = |source, count: &dyn Fn(u64) -> u64| {
            let counts = (0..cpus).map(|cpu| (name("CPU", cpu), count(cpu)));
            (source, counts.collect::<Named>())
        };
        vec![
            row("36 virtio1-req.0", &|cpu| {
                if cpu + 1 == cpus { 12_345 } else { 0 }
            }),
            row("LOC", &|cpu| 250 * (1 + cpu % 3)),
        ]
    };
    let disk = |_| {
        let row = |number: u64| {
            let busy = 97 - 9 * number.min(10);
            let figures = vec![
                ("reads", 140 * busy),
                ("writes", 46 * busy),
                ("flushes", 12),
                ("read_bytes", 140 * busy * 4096),
                ("written_bytes", 46 * busy * 4096),
                ("read_time", 140 * busy * 346_000),
                ("write_time", 46 * busy * 1_120_000),
                ("busy_time", busy * SECOND / 100),
                ("queue_time", 7 * SECOND),
            ];
            (name("vd", number), figures)
        };
        (0..disks).map(row).collect()
    };
    recording()
        .seconds(SeriesKind::Cpu, seconds, cpu)
        .seconds(SeriesKind::Interrupts, seconds, interrupts)
        .serving("36 virtio1-req.0", "vd0")
        .seconds(SeriesKind::Load, seconds, |_| {
            let load = vec![
                ("load1", 152),
                ("load5", 98),
                ("load15", 75),
                ("running", 3),
                ("tasks", 412),
            ];
            vec![("", load)]
        })
        .seconds(SeriesKind::Disk, seconds, disk)
        .seconds(SeriesKind::Pressure, seconds, |_| {
            let io = vec![("some", SECOND * 92 / 100), ("full", SECOND / 3)];
            vec![
                ("cpu", vec![("some", SECOND / 50)]),
                ("io", io),
                ("memory", vec![]),
            ]
        })
        .seconds(SeriesKind::Memory, seconds, |_| {
            let memory = vec![
                ("available", 22_000_000_000),
                ("dirty", 12_345_678),
                ("free", 1 << 34),
            ];
            vec![("", memory)]
        })
        .seconds(SeriesKind::Reclaim, seconds, |_| vec![("", vec![])])
        .seconds(SeriesKind::Pool, seconds, |_| {
            let pool = || {
                vec![
                    ("alloc", 123_000_000_000),
                    ("reads", 7),
                    ("write_bandwidth", 795_000_000),
                ]
            };
            vec![
                ("tank", pool()),
                ("tank/mirror-0", pool()),
                ("tank/mirror-0/sda", pool()),
            ]
        })
        .seconds(SeriesKind::Process, seconds, |_| {
            let server = vec![
                ("user", SECOND / 2),
                ("system", SECOND),
                ("threads", 9),
                ("memory", 123 << 20),
            ];
            vec![("virtiofsd[1234]", server)]
        })
        .seconds(SeriesKind::Others, seconds, |_| {
            vec![
                ("rsync[99]", vec![("read_bytes", 1 << 20)]),
                ("sshd[7]", vec![]),
            ]
        })
        .done()
}

/// A screen, with the previous ones.
struct Picture {
    tables: Vec<FigureTable>,
    sources: Vec<SeriesRow>,
    history: History,
}

impl Picture {
    fn of(telemetry: &Telemetry) -> Picture {
        let interrupts = telemetry.of(SeriesKind::Interrupts).last();
        let mut picture = Picture {
            tables: Vec::new(),
            sources: interrupts.map_or(Vec::new(), |(shape, _)| shape.subjects.clone()),
            history: History::default(),
        };
        let mut times: Vec<i64> = telemetry
            .samples
            .iter()
            .map(|sample| sample.at_ns)
            .collect();
        times.dedup();
        for at_ns in times {
            let mut one = telemetry.clone();
            one.samples.retain(|sample| sample.at_ns == at_ns);
            one.gaps.retain(|gap| gap.at_ns == at_ns);
            let kinds = one.kinds();
            let tables = kinds.into_iter().map(|kind| figures(&one, kind, None));
            picture.tables = tables.collect();
            picture.history.push(&picture.tables);
        }
        picture
    }

    fn view(&self) -> WatchView<'_> {
        WatchView {
            host: "bench",
            kernel: "6.18.0",
            unix_ms: 1_795_291_756_530,
            utc_offset_s: 3600,
            every_ns: SECOND,
            tables: &self.tables,
            sources: &self.sources,
            history: &self.history,
        }
    }

    fn drawn(&self, style: Style, height: usize) -> String {
        screen(&self.view(), style, height).join("\n")
    }
}

#[test]
fn a_small_host_fits_on_a_small_terminal() {
    let picture = Picture::of(&host(2, 2, 30));
    insta::assert_snapshot!(picture.drawn(EIGHTY, 24));
}

#[test]
fn the_smallest_terminal_shows_the_most_important_values_and_ascii_works() {
    let style = Style {
        width: 60,
        unicode: false,
        ..EIGHTY
    };
    let picture = Picture::of(&host(16, 9, 30));
    let drawn = picture.drawn(style, 16);
    assert!(drawn.is_ascii(), "{drawn}");
    insta::assert_snapshot!(drawn);
}

#[test]
fn many_cpus_have_a_bar_each_if_there_is_room() {
    let style = Style {
        width: 160,
        ..EIGHTY
    };
    let picture = Picture::of(&host(64, 3, 30));
    insta::assert_snapshot!(picture.drawn(style, 50));
}

#[test]
fn without_a_height_everything_is_shown() {
    let picture = Picture::of(&host(40, 30, 2));
    let drawn = picture.drawn(EIGHTY, usize::MAX);
    for number in 0..30 {
        assert!(drawn.contains(&format!("\nvd{number} ")), "{drawn}");
    }
    for number in 0..40 {
        assert!(drawn.contains(&format!("CPU{number} ")), "{drawn}");
    }
    assert!(!drawn.contains("more"), "{drawn}");
}

#[test]
fn the_recently_busiest_disks_are_first_and_keep_their_position() {
    let mut telemetry = host(2, 4, 20);
    let names = |telemetry: &Telemetry| -> Vec<String> {
        let drawn = Picture::of(telemetry).drawn(EIGHTY, 60);
        let lines = drawn.lines().filter(|line| line.starts_with("vd"));
        lines.map(|line| line[..3].to_owned()).collect()
    };
    assert_eq!(names(&telemetry), ["vd0", "vd1", "vd2", "vd3"]);
    // A single idle second of the busiest disk does not change the order.
    let shape = telemetry.of(SeriesKind::Disk).last().unwrap().0.clone();
    let busy = shape.column("busy_time").unwrap();
    let mut samples = telemetry.samples.iter_mut().rev();
    let last = samples.find(|sample| sample.shape == shape.number).unwrap();
    last.values[busy] = Some(0);
    assert_eq!(names(&telemetry), ["vd0", "vd1", "vd2", "vd3"]);
    for sample in &mut telemetry.samples {
        if sample.shape == shape.number {
            sample.values[busy] = Some(0);
        }
    }
    assert_eq!(names(&telemetry), ["vd1", "vd2", "vd3", "vd0"]);
}

#[test]
fn lines_keep_their_position_between_screens() {
    let labels = |seconds: u32| -> Vec<String> {
        let drawn = Picture::of(&host(2, 2, seconds)).drawn(EIGHTY, 40);
        let label = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        drawn.lines().map(label).collect()
    };
    let first = labels(1);
    for seconds in 2..6 {
        assert_eq!(labels(seconds), first);
    }
}

/// The next picture of a live display.
fn live(live: &mut Live, telemetry: &Telemetry, height: usize) -> Vec<String> {
    live.screen(&Picture::of(telemetry).view(), EIGHTY, height)
}

fn place(lines: &[String], label: &str) -> usize {
    let line = lines.iter().position(|line| line.starts_with(label));
    line.unwrap_or_else(|| panic!("no {label} in\n{}", lines.join("\n")))
}

/// Without rows of others, or with this number.
fn with_others(number: usize) -> Telemetry {
    let mut telemetry = host(2, 4, 3);
    let others = recording().seconds(SeriesKind::Others, 3, |_| {
        let row = |place| (name("rsync", place as u64), vec![("read_bytes", 1 << 20)]);
        (0..number).map(row).collect()
    });
    let shapes = &telemetry.shapes;
    let old = shapes.iter().find(|shape| shape.kind == SeriesKind::Others);
    let old = old.unwrap().number;
    telemetry.samples.retain(|sample| sample.shape != old);
    if number > 0 {
        let others = others.done();
        let shape = telemetry
            .shapes
            .iter_mut()
            .find(|shape| shape.number == old);
        shape
            .unwrap()
            .subjects
            .clone_from(&others.shapes[0].subjects);
        telemetry
            .samples
            .extend(others.samples.into_iter().map(|mut sample| {
                sample.shape = old;
                sample
            }));
        telemetry.samples.sort_by_key(|sample| sample.at_ns);
    }
    telemetry
}

#[test]
fn live_lines_keep_their_places_when_others_and_reclaim_come_and_go() {
    for height in [24, 30, 50] {
        let mut display = Live::default();
        let places = |lines: &[String]| {
            let labels = [
                "disk",
                "interrupts",
                "pressure",
                "memory",
                "process",
                "pool",
            ];
            labels.map(|label| place(lines, label))
        };
        let first = places(&live(&mut display, &with_others(0), height));
        for others in [1, 7, 0, 30, 2] {
            let lines = live(&mut display, &with_others(others), height);
            assert_eq!(places(&lines), first, "{height}: {others} others");
            assert_eq!(lines.len(), height);
            assert!(lines[height - 1].ends_with("q quit"), "{lines:?}");
        }
        // A disk that appears moves the lines once; they stay there when it disappears.
        let more = places(&live(&mut display, &host(2, 6, 3), height));
        let fewer = places(&live(&mut display, &with_others(3), height));
        assert_eq!(more, fewer, "{height}");
    }
}

#[test]
fn other_processes_stay_until_their_next_scan() {
    let telemetry = with_others(2);
    let scanned = Picture::of(&telemetry);
    let view = scanned.view();
    let tables = |kept: fn(&FigureTable) -> bool| -> Vec<FigureTable> {
        view.tables
            .iter()
            .filter(|table| kept(table))
            .cloned()
            .collect()
    };
    let between = tables(|table| table.kind != SeriesKind::Others);
    let mut display = Live::default();
    let rows = |display: &mut Live, tables: &[FigureTable]| {
        let view = WatchView {
            tables,
            ..view.clone()
        };
        let lines = display.screen(&view, EIGHTY, 24);
        lines
            .iter()
            .filter(|line| line.starts_with("rsync"))
            .count()
    };
    assert_eq!(rows(&mut display, &between), 0);
    assert_eq!(rows(&mut display, view.tables), 2);
    assert_eq!(rows(&mut display, &between), 2);
}

#[test]
fn idle_loop_devices_are_hidden_until_a_key_shows_them() {
    let loops = |_| {
        let row = |name, reads| (name, vec![("reads", reads), ("read_bytes", reads * 4096)]);
        vec![row("vda", 0), row("loop0", 0), row("loop1", 7)]
    };
    let telemetry = recording().seconds(SeriesKind::Disk, 3, loops).done();
    let mut display = Live::default();
    let disks = |display: &mut Live| -> Vec<String> {
        let lines = live(display, &telemetry, 24);
        let words = lines.iter().filter_map(|line| line.split(' ').next());
        let disks = words.filter(|word| word.starts_with("loop") || *word == "vda");
        disks.map(str::to_owned).collect()
    };
    assert_eq!(disks(&mut display), ["vda", "loop1"]);
    assert!(display.press(Key::Char('i')));
    assert_eq!(disks(&mut display), ["vda", "loop0", "loop1"]);
    // Without keys everything is shown.
    let plain = Picture::of(&telemetry).drawn(EIGHTY, usize::MAX);
    assert!(plain.contains("\nloop0 "), "{plain}");
}

#[test]
fn keys_sort_filter_pause_explain_and_quit() {
    let telemetry = host(2, 12, 3);
    let mut display = Live::default();
    let mut disks = |keys: &str| -> String {
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '\x1b' => Key::Escape,
                '\x08' => Key::Backspace,
                key => Key::Char(key),
            };
            assert!(display.press(key), "{key:?} ends it");
        }
        let lines = live(&mut display, &telemetry, 60);
        let words = lines.iter().filter_map(|line| line.split(' ').next());
        let disks = words.filter(|word| word.starts_with("vd"));
        disks.collect::<Vec<_>>().join(" ")
    };
    let all = "vd0 vd1 vd2 vd3 vd4 vd5 vd6 vd7 vd8 vd9 vd10 vd11";
    assert_eq!(disks(""), all);
    assert_eq!(disks("s"), all);
    assert_eq!(disks("s"), all, "numbers are sorted by their value");
    assert_eq!(disks("/VD1"), "vd1 vd10 vd11");
    assert_eq!(disks("1q\x08\x08\n"), "vd1 vd10 vd11");
    assert_eq!(disks("/0\n"), "vd10");
    assert_eq!(disks("/\x1b"), all);
    assert!(!display.is_paused() && display.press(Key::Char('p')) && display.is_paused());
    let lines = live(&mut display, &telemetry, 24);
    assert!(lines[23].starts_with("PAUSED") && lines[23].contains("sort: name"));
    assert!(display.press(Key::Char('h')));
    insta::assert_snapshot!(live(&mut display, &telemetry, 24).join("\n"));
    // Any key closes the help and does nothing else.
    assert!(display.press(Key::Char('p')) && display.is_paused());
    for key in [Key::Char('q'), Key::Escape] {
        assert!(!display.clone().press(key), "{key:?}");
    }
}

#[test]
fn a_live_picture_of_a_small_host_fits_on_a_small_terminal() {
    let mut display = Live::default();
    insta::assert_snapshot!(live(&mut display, &with_others(0), 24).join("\n"));
}

#[test]
fn appeared_and_disappeared_devices_are_listed_for_some_time() {
    let telemetry = host(2, 1, 40);
    let last = |gap: u32| {
        let mut telemetry = telemetry.clone();
        let gaps = recording()
            .gap(gap, SeriesKind::Disk, "vdb has gone")
            .gap(gap, SeriesKind::Cpu, "CPU1 has gone")
            .done()
            .gaps;
        telemetry.gaps = gaps;
        let drawn = Picture::of(&telemetry).drawn(EIGHTY, 40);
        drawn.lines().last().unwrap().to_owned()
    };
    assert_eq!(last(30), "! vdb has gone (and 1 more)");
    assert!(last(5).starts_with("rsync[99]"));
}

#[test]
fn a_long_remark_leaves_the_help_and_the_filter_visible() {
    let mut telemetry = host(2, 1, 40);
    let names = (0..20).map(|number| format!("loop{number}"));
    let remark = format!("{} disappeared", names.collect::<Vec<_>>().join(", "));
    telemetry.gaps = recording().gap(38, SeriesKind::Disk, &remark).done().gaps;
    let mut display = Live::default();
    let mut foot = || live(&mut display, &telemetry, 24).pop().unwrap();
    assert!(
        foot().starts_with("! loop0, loop1") && foot().ends_with("…  h help"),
        "{}",
        foot()
    );
    "/vd"
        .chars()
        .for_each(|key| assert!(display.press(Key::Char(key))));
    assert!(display.press(Key::Enter));
    let foot = live(&mut display, &telemetry, 24).pop().unwrap();
    assert!(foot.ends_with("…  / filter: vd  h help"), "{foot}");
    assert!(crate::style::width(&foot) < 80, "{foot}");
}

#[test]
fn reclaim_has_a_line_while_memory_is_short() {
    let calm = Picture::of(&host(1, 1, 3)).drawn(EIGHTY, 40);
    assert!(!calm.contains("reclaim"), "{calm}");
    let mut telemetry = host(1, 1, 3);
    let shape = telemetry.of(SeriesKind::Reclaim).last().unwrap().0.clone();
    let scanned = shape.column("scanned_direct").unwrap();
    for sample in &mut telemetry.samples {
        if sample.shape == shape.number {
            sample.values[scanned] = Some(5 << 20);
            break;
        }
    }
    let short = Picture::of(&telemetry).drawn(EIGHTY, 40);
    assert!(short.contains("reclaim"), "{short}");
}

#[test]
fn before_the_first_sample_there_is_only_a_head() {
    let picture = Picture::of(&Telemetry::default());
    let drawn = picture.drawn(EIGHTY, 24);
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(lines[0].starts_with("bench  6.18.0") && lines[0].ends_with("21:09:16  every 1 s"));
    assert_eq!(lines[1..], ["no samples yet"]);
}

#[test]
fn colours_mark_high_values_and_do_not_change_the_text() {
    let picture = Picture::of(&host(12, 2, 30));
    let plain = picture.drawn(EIGHTY, 40);
    let mut coloured = picture.drawn(
        Style {
            color: true,
            ..EIGHTY
        },
        40,
    );
    assert!(coloured.contains("\x1b[31m97.0\x1b[0m"), "{coloured}");
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        coloured = coloured.replace(&format!("\x1b[{code}m"), "");
    }
    let trimmed: Vec<&str> = coloured.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
}

#[test]
fn screens_as_json_are_one_line_each() {
    let picture = Picture::of(&host(2, 1, 2));
    let text = json(&picture.view());
    assert_eq!(text.lines().count(), 1);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "iodyno.watch/1");
    assert_eq!(document["host"], "bench");
    let kinds = document["series"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.filter_map(|table| table["kind"].as_str()).collect();
    assert_eq!(kinds[..3], ["cpu", "interrupts", "load"]);
    assert_eq!(document["series"][0]["rows"][0]["subject"], "all");
}

/// A table with the columns that the screen uses, with arbitrary values.
fn table() -> impl Strategy<Value = FigureTable> {
    let kind = prop::sample::select(SeriesKind::ALL.to_vec());
    let row = ("\\PC{0,30}", prop::collection::vec(value(), 0..24));
    let remarks = prop::collection::vec("\\PC{0,120}", 0..3);
    (kind, prop::collection::vec(row, 0..40), remarks).prop_map(|(kind, rows, remarks)| {
        let mut table = figures(&Telemetry::default(), kind, None);
        let cpu = |number: u64| FigureColumn {
            name: format!("CPU{number}"),
            unit: SeriesUnit::PerSecond,
        };
        if kind == SeriesKind::Interrupts {
            table.columns.extend((0..20).map(cpu));
        }
        table.rows = (rows.into_iter().enumerate())
            .map(|(number, (subject, values))| FigureRow {
                at_ns: 1,
                span_ns: SECOND,
                subject: if number == 0 {
                    "all".to_owned()
                } else {
                    subject
                },
                values,
            })
            .collect();
        table.remarks = remarks.into_iter().map(|text| (1, text)).collect();
        table
    })
}

proptest! {
    #[test]
    fn a_screen_fits_into_its_terminal_for_any_values(
        tables in prop::collection::vec(table(), 0..8),
        columns in 40usize..220, height in 1usize..70, unicode in any::<bool>(),
        serves in "\\PC{0,12}",
    ) {
        let mut history = History::default();
        history.push(&tables);
        history.push(&tables);
        let rows = tables.iter().flat_map(|table| &table.rows);
        let sources: Vec<SeriesRow> = rows
            .map(|row| SeriesRow { serves: Some(serves.clone()), ..SeriesRow::new(&row.subject) })
            .collect();
        let picture = Picture { tables, sources, history };
        let style = Style { color: false, width: columns, unicode };
        let lines = screen(&picture.view(), style, height);
        prop_assert!(lines.len() <= height);
        for line in &lines {
            prop_assert!(width(line) < columns, "{line}");
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        screen(&picture.view(), Style { color: true, ..style }, height);
        let mut display = Live::default();
        for keys in [&[][..], &[Key::Char('i'), Key::Char('s')], &[Key::Char('/')], &[Key::Enter, Key::Char('?')]] {
            for key in keys {
                display.press(*key);
            }
            let lines = display.screen(&picture.view(), style, height);
            prop_assert!(lines.len() <= height);
            for line in &lines {
                prop_assert!(width(line) < columns, "{line}");
            }
        }
        let parsed: Value = serde_json::from_str(&json(&picture.view())).unwrap();
        prop_assert!(parsed["series"].is_array());
    }
}
