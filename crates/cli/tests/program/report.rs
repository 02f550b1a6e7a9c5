//! Reports and figures, on simulated devices: the page as a browser shows it.

use std::fs;
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

/// The data of a page's charts.
fn charts(page: &str) -> Vec<Value> {
    let (_, rest) = page
        .split_once("<script id=\"charts\" type=\"application/json\">")
        .unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
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
    let charts = charts(&page);
    let forest = charts.iter().find(|it| it["kind"] == "verdicts").unwrap();
    let trace = &forest["chart"]["data"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-4 * b.abs(), "{a} {b}");
    close(number(&trace["x"][0]), number(&ratio["value"]));
    close(
        number(&trace["error_x"]["array"][0]),
        number(&ratio["high"]) - number(&ratio["value"]),
    );
    // A trial per round and side.
    let trials = charts.iter().find(|it| it["kind"] == "trials").unwrap();
    for side in trials["chart"]["data"].as_array().unwrap() {
        assert_eq!(side["x"].as_array().unwrap().len(), 10);
    }
    // A report is not overwritten.
    home.iodyno(&["report", "last", "-o", "report.html"])
        .exits(2)
        .tells("File exists");
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
        .prints("## Environment")
        .prints("iodyno run slow.fio fast.fio --seed 7");
    home.iodyno(&["report", "last", "--format", "asciidoc"])
        .succeeds()
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
        .tells("let it end in `.svg` or `.png`");
    home.iodyno(&["plot", "last", "telemetry", "-o", "x.svg"])
        .exits(2)
        .tells("no telemetry is stored with it");
    home.iodyno(&["plot", "last", "curve", "-o", "x.svg"])
        .exits(2)
        .tells("no axis with at least three numeric values");
}

#[test]
fn a_browser_draws_every_chart_without_an_error() {
    let home = measured();
    home.iodyno(&["report", "last", "-o", "report.html"])
        .succeeds();
    let page = home.work().join("report.html");
    let count = charts(&fs::read_to_string(&page).unwrap()).len();
    let run = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            home.work().join("browser").display()
        ))
        .arg(format!("file://{}", page.display()))
        .output();
    let Ok(run) = run else {
        return skip("chromium is not installed");
    };
    let dom = String::from_utf8_lossy(&run.stdout);
    // Each chart has several layers, one of them for its title and legend.
    assert_eq!(
        dom.matches("class=\"plot js-plotly-plot\"").count(),
        count,
        "{}",
        run.status
    );
    let log = String::from_utf8_lossy(&run.stderr);
    let said: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_run_without_a_comparison_has_its_results() {
    let home = measured();
    home.iodyno(&["run", "slow.fio", "--seed", "7"]).succeeds();
    home.iodyno(&["report", "last", "-o", "one.html"])
        .succeeds();
    let page = fs::read_to_string(home.work().join("one.html")).unwrap();
    assert!(page.contains("randread"));
    let kinds: Vec<Value> = charts(&page)
        .into_iter()
        .map(|it| it["kind"].clone())
        .collect();
    assert!(kinds.contains(&"latency".into()), "{kinds:?}");
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
    let check = ["history", "reads", "--fail-on", "regression"];
    home.iodyno(&check).exits(5).prints("TOO FEW RUNS");
    run_on(&home, "mirror of sim:hdd x 3", 5);
    home.iodyno(&check).exits(0).prints("AS BEFORE");
    run_on(&home, "sim:hdd", 6);
    home.iodyno(&check).exits(1).prints("REGRESSION: run 7 has");
    run_on(&home, "sim:hdd", 7);
    let document = home
        .iodyno(&["history", "reads", "--json"])
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
    assert!(charts(&page).iter().any(|it| it["kind"] == "history"));

    home.iodyno(&["history", "read"])
        .exits(2)
        .tells("did you mean `reads`?");
    home.iodyno(&["history", "reads", "--metric", "iop"])
        .exits(2)
        .tells("its metrics are");
    home.iodyno(&["history", "reads", "--where", "rw=write"])
        .exits(2)
        .tells("meets the conditions");
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
        .tells("--output");
    let export = ["export", "last", "--format", "parquet", "-o", "tables"];
    home.iodyno(&export).succeeds().tells("20 trials written");
    // Nothing is replaced, and nothing is left of a failed export.
    home.iodyno(&export).exits(2).tells("File exists");
    home.iodyno(&["export", "last", "--format", "parquet", "-o", "no/tables"])
        .exits(2)
        .tells("no/tables");
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
    let page = include_str!("../../../../docs/reports.md");
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
