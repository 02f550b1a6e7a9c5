//! Reports and figures, on simulated devices: the page as a browser shows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Home, skip};

fn measured() -> Home {
    let home = Home::new();
    for (name, latency) in [("slow", "300us"), ("fast", "200us")] {
        let text = format!(
            "[t]\nioengine=sim\nsim_latency=lognormal:{latency}:0.3\nrw=randread\nbs=4k\nsize=16m\n\
             runtime=1500ms\ntime_based\n"
        );
        home.file(&format!("{name}.fio"), &text);
    }
    home.iodyno(&["run", "slow.fio", "fast.fio", "--seed", "7"])
        .succeeds();
    home
}

/// The figures of a page: their kinds, and their markup.
fn figures(page: &str) -> Vec<(&str, &str)> {
    let all = page.split("<figure class=\"chart\" data-kind=\"").skip(1);
    all.map(|rest| {
        let (kind, rest) = rest.split_once('"').unwrap();
        (kind, rest.split_once("</figure>").unwrap().0)
    })
    .collect()
}

/// The coordinates of the paths that begin so.
fn coordinates(markup: &str, begin: &str) -> Vec<Vec<f64>> {
    let paths = markup.split(begin).skip(1);
    paths
        .map(|rest| {
            let data = rest.split_once('"').unwrap().0.trim_end_matches("h0");
            let data = data.replace('m', "").replace('-', " -");
            let numbers = data.split_whitespace();
            numbers.map(|number| number.parse().unwrap()).collect()
        })
        .collect()
}

#[test]
fn the_page_has_the_figures_of_the_comparison() {
    let home = measured();
    home.iodyno(&["report", "last", "-o", "report.html"])
        .succeeds();
    let page = fs::read_to_string(home.work().join("report.html")).unwrap();
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    let ratio = &json["rows"][0]["cells"][0]["ratio"];
    let figures = figures(&page);
    let of_kind = |name: &str| figures.iter().find(|(kind, _)| *kind == name).unwrap().1;
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 2e-3 * b.abs(), "{a} {b}");
    // The axis is logarithmic.
    let forest = of_kind("verdicts");
    let dots = coordinates(forest, "<path class=\"dot\" d=\"");
    close(10_f64.powf(dots[0][0]), number(&ratio["value"]));
    let intervals = coordinates(forest, "<path d=\"");
    let [low, _, length, _] = intervals[0][..] else {
        panic!("{intervals:?}");
    };
    close(10_f64.powf(low), number(&ratio["low"]));
    close(10_f64.powf(low + length), number(&ratio["high"]));
    // A trial per round and side.
    let sides = of_kind("trials").split("<g class=\"curve\"").skip(1);
    let row = &json["rows"][0];
    for (drawn, side) in sides.zip([&row["baseline"], &row["cells"][0]["candidate"]]) {
        let values = side["values"].as_array().unwrap();
        let dots = coordinates(drawn, "<path class=\"dot\" d=\"");
        assert_eq!((dots.len(), values.len()), (10, 10));
        // The axis is in thousands, and coordinates increase downwards.
        for (dot, value) in dots.iter().zip(values) {
            close(dot[1] * -1000.0, number(value));
        }
    }
    // The table and the text have the figures of the comparison, too.
    let words = row["cells"][0]["words"].as_str().unwrap();
    let interval = words.split(['[', ']']).nth(1).unwrap();
    assert!(
        page.matches(interval).count() >= 3,
        "{interval}: sentence, table, and its Markdown"
    );
    assert!(page.len() < 500_000, "{}", page.len());
    // A report is not overwritten.
    home.iodyno(&["report", "last", "-o", "report.html"])
        .exits(2)
        .stderr_has("File exists");
    assert_eq!(
        fs::read_to_string(home.work().join("report.html")).unwrap(),
        page
    );
}

#[test]
fn a_report_can_be_pasted() {
    let home = measured();
    home.iodyno(&["report", "last", "--format", "markdown"])
        .succeeds()
        .prints("| configuration | slow | fast |")
        .prints("## Why")
        .prints("## Environment")
        .prints("iodyno run slow.fio fast.fio --seed 7");
    home.iodyno(&["report", "last", "--format", "asciidoc"])
        .succeeds()
        .prints("== Why")
        .prints("|===");
}

#[test]
fn figures_are_drawn_as_pictures() {
    let home = measured();
    for kind in ["verdicts", "trials", "latency", "series", "heatmap"] {
        let name = format!("{kind}.svg");
        home.iodyno(&["plot", "last", kind, "-o", &name]).succeeds();
        let svg = fs::read_to_string(home.work().join(&name)).unwrap();
        assert!(svg.contains("</svg>"), "{kind}");
    }
    home.iodyno(&["plot", "last", "trials", "-o", "t.png"])
        .succeeds();
    assert!(
        fs::read(home.work().join("t.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    home.iodyno(&["plot", "last", "trials", "-o", "t.pdf"])
        .exits(2)
        .stderr_has("let it end in `.svg` or `.png`");
    home.iodyno(&["plot", "last", "telemetry", "-o", "x.svg"])
        .exits(2)
        .stderr_has("it has no telemetry with at least two samples");
    home.iodyno(&["plot", "last", "curve", "-o", "x.svg"])
        .exits(2)
        .stderr_has("no axis with at least three numeric values");
}

/// A page in a browser after its scripts have run, and the lines of its console. `None` without a browser.
fn browse(home: &Home, page: &Path) -> Option<(String, Vec<String>)> {
    let run = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            home.work().join("browser").display()
        ))
        .arg(format!("file://{}", page.display()))
        .output();
    let run = run.ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let log = text(&run.stderr);
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    let console = console.map(str::to_owned).collect();
    Some((text(&run.stdout), console))
}

/// Asserts that the scripts of a page run without a message on the console. Returns the page as the browser has it.
fn runs_in_a_browser(home: &Home, name: &str) -> Option<String> {
    let Some((dom, console)) = browse(home, &home.work().join(name)) else {
        skip("chromium is not installed");
        return None;
    };
    assert!(dom.contains("id=\"tip\""), "{dom}");
    assert!(console.is_empty(), "{console:?}");
    Some(dom)
}

/// Moves the pointer over the figure of the trials, chooses the range of rounds 3 to 6, resets it, and hides a side.
const PROBE: &str = r##"<script>
const scene = document.querySelector("[data-kind=trials] .scene");
const box = scene.getBoundingClientRect();
const area = scene.querySelector(".area");
const view = () => area.getAttribute("viewBox").split(" ").map(Number);
const [left, , width] = view();
const point = (type, round) => scene.dispatchEvent(new PointerEvent(type, {
  bubbles: true, clientX: box.left + ((round - left) / width) * box.width, clientY: box.top + 60,
}));
const lines = () => Array.from(document.querySelectorAll("#tip div"), (line) => line.textContent);
const ticks = () => Array.from(scene.querySelectorAll(".tick"), (tick) => tick.textContent);
const seen = { before: ticks() };
point("pointermove", 4.2);
seen.tip = lines();
point("pointerdown", 2.5);
point("pointermove", 6.5);
seen.chosen = Number(area.querySelector(".chosen").getAttribute("width"));
point("pointerup", 6.5);
[seen.zoomed, seen.ticks] = [view(), ticks()];
scene.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
[seen.reset, seen.after] = [view(), ticks()];
document.querySelector("[data-kind=trials] button.key").click();
seen.hidden = getComputedStyle(area.querySelector(".curve")).display;
point("pointermove", 4.2);
seen.rest = lines();
point("pointerleave", 4.2);
seen.left = document.getElementById("tip").hidden;
document.title = "probe " + JSON.stringify(seen) + " end";
</script></body>"##;

#[test]
fn a_page_shows_values_under_the_pointer_and_zooms() {
    let home = measured();
    home.iodyno(&["report", "last", "-o", "report.html"])
        .succeeds();
    let page = fs::read_to_string(home.work().join("report.html")).unwrap();
    home.file("probed.html", &page.replace("</body>", PROBE));
    let Some(dom) = runs_in_a_browser(&home, "probed.html") else {
        return;
    };
    let seen = dom.split_once("<title>probe ").unwrap().1;
    let seen = seen.split_once(" end</title>").unwrap().0;
    let seen: Value = serde_json::from_str(seen).unwrap();
    let tip: Vec<&str> = seen["tip"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    assert!(tip[1].starts_with("slow, round 4: "), "{tip:?}");
    assert!(tip[2].starts_with("fast, round 4: "), "{tip:?}");
    assert_eq!(tip.len(), 3);
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 0.01, "{seen}");
    };
    close(&seen["chosen"], 4.0);
    close(&seen["zoomed"][0], 2.5);
    close(&seen["zoomed"][2], 4.0);
    assert_eq!(seen["ticks"], serde_json::json!(["3", "4", "5", "6"]));
    close(&seen["reset"][2], 9.72);
    // The script labels an axis as the page did.
    assert_eq!(seen["after"], seen["before"]);
    assert_eq!(seen["hidden"], "none");
    let rest = seen["rest"].as_array().unwrap();
    assert_eq!(rest[1..], [seen["tip"][2].clone()]);
    assert_eq!(seen["left"], true);
}

/// File names, descriptions and imported texts come from others.
#[test]
fn a_browser_takes_names_and_imported_texts_for_text() {
    const NAME: &str =
        "<img src=x onerror=document.title=1><script>document.title=1</script>%{x}|`";
    let home = Home::new();
    let quoted = serde_json::to_string(NAME).unwrap();
    let text = format!(
        "name = \"plan\"\nabout = {quoted}\nrounds = 2\n[configuration.a]\ntarget = \"sim:hdd\"\n\
         [configuration.\"b<b>&amp;\"]\ntarget = \"sim:flash\"\n[workload.{quoted}]\n\
         fio = {{ rw = \"randread\", bs = \"4k\", size = \"1g\", description = {quoted} }}\nduration = \"2s\"\n"
    );
    home.file("plan.toml", &text);
    home.iodyno(&["run", "plan.toml", "-q"]).succeeds();
    home.iodyno(&["name", "1", NAME]).succeeds();
    let output = format!(
        "{NAME}: (groupid=0, jobs=1): err= 0: pid=7: {NAME}\n  read: IOPS=100, BW=400KiB/s (410kB/s)(4000KiB/10000msec)\n"
    );
    home.file("<img src=y onerror=document.title=1>.txt", &output);
    home.iodyno(&["import", "<img src=y onerror=document.title=1>.txt"])
        .succeeds();
    for run in ["1", "2"] {
        let file = format!("{run}.html");
        home.iodyno(&["report", run, "-o", &file]).succeeds();
        let page = fs::read_to_string(home.work().join(&file)).unwrap();
        assert!(page.contains("&lt;img"));
        let Some(dom) = runs_in_a_browser(&home, &file) else {
            return;
        };
        let body = dom.split("<script").map(|part| {
            let (_, text) = part.split_once("</script>").unwrap_or(("", part));
            text
        });
        let body = body.collect::<String>();
        assert!(body.contains("&lt;img") && !body.contains("<img"));
        assert!(!dom.contains("<title>1<"));
    }
}

#[test]
fn a_run_without_a_comparison_has_its_results() {
    let home = measured();
    home.iodyno(&["run", "slow.fio", "--seed", "7"]).succeeds();
    home.iodyno(&["report", "last", "-o", "one.html"])
        .succeeds();
    let page = fs::read_to_string(home.work().join("one.html")).unwrap();
    assert!(page.contains("randread"));
    let found = figures(&page);
    assert!(found.iter().any(|(kind, _)| *kind == "latency"), "{page}");
    home.iodyno(&["report", "last", "--format", "markdown"])
        .succeeds()
        .prints("randread");
}

/// Runs the same work on a simulated target.
fn run_on(home: &Home, target: &str, seed: u32) {
    let text = format!(
        "name = \"nightly\"\nrounds = 1\nseed = {seed}\n[configuration.disks]\ntarget = \"{target}\"\n[workload.reads]\n\
         fio = {{ rw = \"randread\", bs = \"4k\", size = \"1g\", ioengine = \"libaio\", iodepth = 16 }}\n\
         duration = \"500ms\"\n"
    );
    home.file("nightly.toml", &text);
    home.iodyno(&["run", "nightly.toml", "-q"]).succeeds();
}

#[test]
fn a_run_on_slower_disks_is_a_regression_of_the_history() {
    let home = Home::new();
    for seed in 0..5 {
        run_on(&home, "mirror of sim:hdd x 3", seed);
    }
    let check = ["history", "reads", "--fail-on", "regression,undecided"];
    home.iodyno(&check).exits(5).prints("TOO FEW RUNS");
    run_on(&home, "mirror of sim:hdd x 3", 5);
    home.iodyno(&check).exits(0).prints("AS BEFORE");
    run_on(&home, "sim:hdd", 6);
    // The runs on another target form a separate history, unless a common one is requested.
    home.iodyno(&check)
        .exits(5)
        .prints("target unlike that of others: simulated target sim:hdd")
        .prints("TOO FEW RUNS: run 7 cannot be judged");
    let any_target = [&check[..], &["--any-target"]].concat();
    home.iodyno(&any_target)
        .exits(1)
        .prints("REGRESSION: run 7 has");
    run_on(&home, "sim:hdd", 7);
    let document = home
        .iodyno(&["history", "reads", "--json"])
        .succeeds()
        .json();
    let lengths = document["histories"].as_array().unwrap().iter();
    let lengths: Vec<usize> = lengths
        .map(|it| it["runs"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, [2, 6]);
    let document = home
        .iodyno(&["history", "reads", "--any-target", "--json"])
        .succeeds()
        .json();
    let history = &document["histories"][0];
    assert_eq!(document["histories"].as_array().unwrap().len(), 1);
    assert_eq!(history["runs"].as_array().unwrap().len(), 8);
    let change = &history["changes"][0];
    assert_eq!(change["first_after"], 6, "{history}");
    let differs = change["differs"].as_array().unwrap();
    let simulated = differs.iter().find(|it| it["name"] == "simulated target");
    assert_eq!(simulated.unwrap()["after"], "sim:hdd", "{differs:?}");

    home.iodyno(&["plot", "last", "history", "-o", "history.svg"])
        .succeeds();
    let picture = fs::read_to_string(home.work().join("history.svg")).unwrap();
    assert!(picture.contains("run, from the oldest"));
    home.iodyno(&["report", "last", "-o", "report.html"])
        .succeeds();
    let page = fs::read_to_string(home.work().join("report.html")).unwrap();
    assert!(figures(&page).iter().any(|(kind, _)| *kind == "history"));

    home.iodyno(&["history", "read"])
        .exits(2)
        .stderr_has("did you mean `reads`?");
    home.iodyno(&["history", "reads", "--metric", "iop"])
        .exits(2)
        .stderr_has("its metrics are");
    home.iodyno(&["history", "reads", "--where", "rw=write"])
        .exits(2)
        .stderr_has("meets the conditions");
}

/// The Python programs of a page of the manual.
fn programs(page: &str) -> Vec<&str> {
    let blocks = page.split("```python\n").skip(1);
    blocks
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect()
}

#[test]
fn exported_tables_are_read_by_the_programs_of_the_manual() {
    let home = measured();
    home.iodyno(&["export", "last", "--format", "parquet"])
        .exits(2)
        .stderr_has("--output");
    let export = ["export", "last", "--format", "parquet", "-o", "tables"];
    home.iodyno(&export)
        .succeeds()
        .stderr_has("20 trials written");
    // Nothing is replaced, and nothing is left of a failed export.
    home.iodyno(&export).exits(2).stderr_has("File exists");
    home.iodyno(&["export", "last", "--format", "parquet", "-o", "no/tables"])
        .exits(2)
        .stderr_has("no/tables");
    let names = fs::read_dir(home.work()).unwrap().flatten();
    let names: Vec<_> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("unfinished")),
        "{names:?}"
    );

    let packages = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/python");
    if !packages.join("complete").exists() {
        return skip("pandas, polars and duckdb are not installed");
    }
    let page = include_str!("../../../../../docs/reports.md");
    let printed: Vec<String> = (programs(page).into_iter())
        .map(|program| {
            let done = Command::new("python3")
                .args(["-c", program])
                .current_dir(home.work())
                .env("PYTHONPATH", &packages)
                .env("PYTHONIOENCODING", "utf-8")
                .output()
                .unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(done.status.success(), "{program}: {}", text(&done.stderr));
            text(&done.stdout)
        })
        .collect();
    let [pandas, polars, duckdb] = printed.as_slice() else {
        panic!("{printed:?}");
    };
    // The values are those of `compare`.
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    let median = |side: &Value| {
        let mut values: Vec<f64> = side["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
            .collect();
        values.sort_by(f64::total_cmp);
        (values[4] + values[5]) / 2.0
    };
    let expected = median(&json["rows"][0]["baseline"]);
    let line = pandas.lines().find(|line| line.contains("slow")).unwrap();
    let value: f64 = line.split_whitespace().last().unwrap().parse().unwrap();
    assert!((value / expected - 1.0).abs() < 1e-4, "{pandas} {expected}");
    assert!(polars.contains("configuration"), "{polars}");
    assert!(
        duckdb.contains("slow") && duckdb.contains("fast"),
        "{duckdb}"
    );
}
