//! Tests of figures in both forms.

use std::collections::BTreeSet;

use iodyno_judge::testing::observations::{observation, rounds};
use iodyno_judge::testing::operations::{create_empty_trial, frame};
use iodyno_judge::testing::telemetry::recording;
use iodyno_model::{
    Behaviour, Bound, Comparison, Direction, Estimated, Finding, FindingKind, Observation,
    Question, Regime, Search, SearchAnswer, SearchAxis, SearchPoint, SeriesKind, Weight,
};

use crate::figure::kinds::{
    Course, Distribution, curve, heatmap, latency, search, telemetry, throughput, trials, verdicts,
};
use crate::figure::{Content, Figure, Form, Format, Page, Point, Scale, Section, page, picture};

fn two_sides() -> (Comparison, Vec<Observation>) {
    let values = [
        100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9, 100.0,
    ];
    let mut all = rounds("ext4", "read", &values);
    all.extend(rounds("xfs", "read", &values.map(|value| value * 2.0)));
    let found = iodyno_judge::compare("test", &all, &Question::default(), &[]);
    (found.unwrap(), all)
}

/// A figure of every kind.
fn all() -> Vec<Figure> {
    let (comparison, observations) = two_sides();
    let (_, trial) = create_empty_trial();
    let directions = trial
        .parts
        .iter()
        .flat_map(|part| &part.clones)
        .flat_map(|it| &it.directions);
    let distributions: Vec<Distribution> = directions
        .map(|done| Distribution {
            panel: done.direction.name().to_owned(),
            name: "ext4".to_owned(),
            colour: 0,
            histogram: done.service.clone(),
        })
        .collect();
    let frames = || (0..30).map(|at| frame(at, &[(Direction::Op, 1000 + u64::from(at), 400_000)]));
    let course = Course {
        panel: "create".to_owned(),
        name: "ext4, trial 1".to_owned(),
        colour: 0,
        rates: Vec::new(),
        ramp: None,
        behaviour: Behaviour {
            regimes: [(0, 9), (9, 30)]
                .map(|(start, end)| Regime {
                    start_ns: start * 1_000_000_000,
                    end_ns: end * 1_000_000_000,
                    rate: 1000.0,
                    deviation: 1.0,
                })
                .into(),
            ..Behaviour::default()
        },
    };
    let depths = ["1", "2", "4", "8"].map(|depth| {
        let rate = depth.parse::<f64>().unwrap().min(3.0) * 100.0;
        let mut trial = observation("ext4", &format!("read-{depth}"), rate);
        trial
            .dimensions
            .insert("iodepth".to_owned(), depth.to_owned());
        trial
    });
    let axes = BTreeSet::from(["iodepth".to_owned()]);
    let curves = iodyno_judge::curves(&depths, &axes);
    vec![
        verdicts(&comparison).unwrap(),
        trials(&comparison, &observations).unwrap(),
        latency(&distributions).unwrap(),
        heatmap("trial 1", Direction::Op, &frames().collect::<Vec<_>>()).unwrap(),
        throughput(&[course.of_frames(&frames().collect::<Vec<_>>())]).unwrap(),
        curve(&curves).unwrap(),
        search(&[searched()]).unwrap(),
        host(&[]),
    ]
}

fn searched() -> SearchAnswer {
    let bound = Bound::parse("p99 < 2ms").unwrap();
    let point = |load: f64, value: f64| SearchPoint {
        load,
        kept: u32::from(value < 2e6),
        lost: u32::from(value >= 2e6),
        value: Some(value),
        attained: Some(load),
    };
    SearchAnswer {
        configuration: "ext4".to_owned(),
        workload: "read".to_owned(),
        search: Search {
            axis: SearchAxis::Rate,
            until: bound,
        },
        highest: Some(Estimated {
            value: 2000.0,
            interval: Some((1900.0, 2100.0)),
            level: 0.95,
        }),
        knee: None,
        trials: 3,
        complete: true,
        curve: vec![point(1000.0, 4e5), point(2000.0, 1.8e6), point(4000.0, 9e6)],
        notes: Vec::new(),
    }
}

/// The telemetry of ten seconds, with these findings.
fn host(findings: &[Finding]) -> Figure {
    let disk = |second: u32| vec![("vda", vec![("reads", 100 + u64::from(second))])];
    let series = recording().seconds(SeriesKind::Disk, 10, disk).done();
    let table = iodyno_judge::figures(&series, SeriesKind::Disk, None);
    telemetry("trial 1", &[table], findings).unwrap()
}

#[test]
fn a_finding_is_marked_at_its_time_and_numbered_in_the_notes() {
    let finding = |text: &str, spans_ns: &[(i64, i64)]| Finding {
        kind: FindingKind::OtherIo,
        weight: Weight::Warning,
        text: text.to_owned(),
        threshold: String::new(),
        remedy: None,
        spans_ns: spans_ns.to_vec(),
    };
    let second = 1_000_000_000;
    let early = (second, 3 * second);
    let figure = host(&[
        finding("rsync wrote", &[early, (6 * second, 7 * second)]),
        finding("the whole trial", &[]),
        finding("throttled", &[early]),
    ]);
    let marks: Vec<(f64, f64, &str)> = (figure.panels[0].marks.iter())
        .map(|mark| (mark.from, mark.to, mark.text.as_str()))
        .collect();
    assert_eq!(marks, [(1.0, 3.0, "[1][2]"), (6.0, 7.0, "")]);
    let notes = ["[1] rsync wrote", "the whole trial", "[2] throttled"];
    assert_eq!(figure.notes, notes);
}

#[test]
fn a_search_shows_its_bound_and_the_highest_load() {
    let figure = search(&[searched()]).unwrap();
    let panel = &figure.panels[0];
    assert_eq!(panel.curves[0].points.len(), 3);
    let marks: Vec<(bool, f64, f64)> = (panel.marks.iter())
        .map(|mark| (mark.vertical_axis, mark.from, mark.to))
        .collect();
    let bound = panel.y.place(2e6).unwrap();
    assert_eq!(marks, [(true, bound, bound), (false, 1900.0, 2100.0)]);
}

#[test]
fn a_page_has_no_characters_that_steer_a_terminal() {
    let name = "a\u{1b}]0;x\u{7}\u{9b}\u{202e}".to_owned();
    let made = page(&Page {
        title: name.clone(),
        about: name.clone(),
        facts: vec![(name.clone(), name.clone())],
        sections: vec![Section {
            title: name,
            content: all().into_iter().map(Content::Figure).collect(),
        }],
    });
    let steering = |c: char| c != '\n' && c != '\t' && iodyno_model::printable::steers(c);
    assert!(!made.contains(steering));
    assert!(made.contains("<h1>a?]0;x???</h1>"));
}

#[test]
fn a_picture_has_no_characters_that_steer_a_terminal() {
    for mut figure in all() {
        let name = "\u{1b}]0;x\u{7}\u{202e}";
        figure.title += name;
        for panel in &mut figure.panels {
            panel.title += name;
            panel.x.title += name;
            panel.y.title += name;
            (panel.curves.iter_mut()).for_each(|curve| curve.name += name);
            (panel.marks.iter_mut()).for_each(|mark| mark.text += name);
        }
        let svg = String::from_utf8(picture(&figure, Format::Svg).unwrap()).unwrap();
        let steering = |c: char| c != '\n' && iodyno_model::printable::steers(c);
        assert!(!svg.contains(steering), "{}", figure.kind.name());
        assert!(svg.contains("?]0;x??"), "{}", figure.kind.name());
    }
}

#[test]
fn every_kind_is_drawn_in_every_form() {
    for figure in all() {
        let name = figure.kind.name();
        let svg = String::from_utf8(picture(&figure, Format::Svg).unwrap()).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}"
        );
        assert!(svg.contains(&figure.title), "{name}: {}", figure.title);
        let png = picture(&figure, Format::Png).unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let mut reader = reader;
        reader.next_frame(&mut pixels).unwrap();
        // Something is drawn in colour.
        assert!(
            pixels.chunks(3).any(|it| it[0] != it[1] || it[1] != it[2]),
            "{name}"
        );
    }
}

/// A page with these figures.
fn page_of(figures: Vec<Figure>) -> String {
    page(&Page {
        title: "a report".to_owned(),
        about: String::new(),
        facts: Vec::new(),
        sections: vec![Section {
            title: "Figures".to_owned(),
            content: figures.into_iter().map(Content::Figure).collect(),
        }],
    })
}

#[test]
fn long_series_of_many_figures_fit_into_half_a_megabyte() {
    // Six trials of an hour, each with 16 figures of two disks.
    let mut figure = host(&[]);
    let mut panel = figure.panels[0].clone();
    let curve = &mut panel.curves[0];
    curve.points = (0..3600)
        .map(|second| {
            let noise = f64::from(second * 7919 % 4001);
            Point::new(f64::from(second) * 1.000_123, 1000.0 + noise / 7.0)
        })
        .collect();
    curve.points[1234].y = 9_000.0;
    let other = curve.clone();
    panel.curves.push(other);
    figure.panels = vec![panel; 16];
    let page = page_of(vec![figure; 6]);
    assert!(page.len() < 500_000, "{}", page.len());
    let thinned = "Of long lines, only the extremes of each period are drawn.";
    assert_eq!(page.matches(thinned).count(), 6);
}

#[test]
fn a_page_has_a_title_and_a_description_of_each_panel() {
    let page = page_of(all());
    let panels = all()
        .iter()
        .map(|figure| figure.panels.len())
        .sum::<usize>();
    assert_eq!(page.matches("role=\"img\"").count(), panels);
    assert_eq!(page.matches("<desc>").count(), panels);
    let described = "aria-label=\"Loads that the searches tried: read on ext4\"";
    assert!(page.contains(described));
    assert!(
        page.contains("; rate_iops 1000: kept in 1 of 1 trials"),
        "{page}"
    );
}

#[test]
fn ratios_and_their_intervals_are_those_of_the_comparison() {
    let (comparison, _) = two_sides();
    let figure = verdicts(&comparison).unwrap();
    let ratio = comparison.rows[0].cells[0].ratio.unwrap();
    let curve = &figure.panels[0].curves[0];
    assert_eq!(
        (curve.name.as_str(), curve.form),
        ("faster", Form::Intervals)
    );
    assert_eq!(
        (curve.points[0].x, curve.points[0].interval),
        (ratio.value, ratio.interval)
    );
    assert_eq!(
        figure.panels[0].y.scale,
        Scale::Names(vec!["read".to_owned()])
    );
    // Its position is its logarithm.
    assert_eq!(curve.points[0].x, 2.0);
    assert!(page_of(vec![figure]).contains("d=\"m.301 0h0\""));
}

#[test]
fn axes_have_labels_where_values_are() {
    let (comparison, observations) = two_sides();
    // Ratios between 0.98 and 1.05 are between the labels 1 and 2 of a logarithmic axis.
    let figure = verdicts(&comparison).unwrap();
    let ticks = figure.panels[0].x.ticks(0.98_f64.log10(), 1.05_f64.log10());
    assert!(ticks.len() > 3, "{ticks:?}");
    // Rounds are whole numbers.
    let figure = trials(&comparison, &observations).unwrap();
    let ticks = figure.panels[0].x.ticks(0.6, 3.4);
    let texts: Vec<&str> = ticks.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["1", "2", "3"]);
}

#[test]
fn several_subjects_of_a_panel_are_named_in_their_colours() {
    let mut figure = host(&[]);
    let curves = &mut figure.panels[0].curves;
    curves.truncate(1);
    let mut other = curves[0].clone();
    (other.name, other.colour) = ("<b>".to_owned(), 1);
    curves.push(other);
    let first = curves[0].name.clone();
    let keys = figure.keys(&figure.panels[0]);
    let colours = [(0, 114, 178), (213, 94, 0)];
    let expected = [
        (colours[0], true, first),
        (colours[1], false, "<b>".to_owned()),
    ];
    assert_eq!(keys, expected);
    assert!(page_of(vec![figure]).contains("</i>&lt;b&gt;</button>"));
}

#[test]
fn one_trial_a_side_is_not_drawn() {
    let (comparison, mut observations) = two_sides();
    observations.retain(|trial| trial.round == Some(0));
    assert_eq!(trials(&comparison, &observations), None);
}

#[test]
fn every_trial_is_a_point_in_its_round() {
    let (comparison, observations) = two_sides();
    let figure = trials(&comparison, &observations).unwrap();
    let panel = &figure.panels[0];
    let names: Vec<&str> = panel.curves.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["ext4", "xfs"]);
    for curve in &panel.curves {
        let rounds: Vec<f64> = curve.points.iter().map(|it| it.x).collect();
        assert_eq!(rounds, (1..=10).map(f64::from).collect::<Vec<f64>>());
    }
    assert_eq!(panel.curves[1].points[1].y, 202.0);
}

#[test]
fn regimes_are_steps_at_their_means() {
    let figure = &all()[4];
    let steps = figure.panels[0]
        .curves
        .iter()
        .find(|it| it.form == Form::Steps)
        .unwrap();
    let places: Vec<f64> = steps.points.iter().map(|it| it.x).collect();
    assert_eq!(places, [0.0, 9.0, 30.0]);
}

/// Names come from users, files and other programs.
#[test]
fn names_cannot_become_markup() {
    const NAME: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & \"'";
    let (mut comparison, mut observations) = two_sides();
    comparison.rows[0].name = vec![NAME.to_owned()];
    comparison.columns[1] = NAME.to_owned();
    comparison.rows[0].cells[0].side.column = NAME.to_owned();
    for trial in &mut observations {
        trial
            .dimensions
            .insert("workload".to_owned(), NAME.to_owned());
        let xfs = trial.dimension("configuration") == "xfs";
        if xfs {
            trial
                .dimensions
                .insert("configuration".to_owned(), NAME.to_owned());
        }
    }
    let figures = [
        verdicts(&comparison).unwrap(),
        trials(&comparison, &observations).unwrap(),
    ];
    let content = figures.clone().into_iter().map(Content::Figure);
    let others = [
        Content::Paragraph(NAME.to_owned()),
        Content::List(vec![NAME.to_owned()]),
        Content::Preformatted(NAME.to_owned()),
        Content::Table {
            html: crate::compare::markup(&comparison, &Default::default(), crate::Markup::Html),
            markdown: NAME.to_owned(),
        },
    ];
    let text = page(&Page {
        title: NAME.to_owned(),
        about: NAME.to_owned(),
        facts: vec![(NAME.to_owned(), NAME.to_owned())],
        sections: vec![Section {
            title: NAME.to_owned(),
            content: content.chain(others).collect(),
        }],
    });
    assert_eq!(text.matches("<script").count(), 2);
    assert_eq!(text.matches("</script").count(), 2);
    assert!(!text.contains("<img"));
    for figure in figures {
        let svg = String::from_utf8(picture(&figure, Format::Svg).unwrap()).unwrap();
        assert!(!svg.contains("<img") && !svg.contains("<script"));
    }
}
