//! Results of other tools: published write-ups, imported and judged.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Home, skip};

/// A write-up that the tests of `import` use as well.
fn write_up(home: &Home, name: &str) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../input/import/tests/data");
    std::fs::copy(data.join(name), home.work().join(name)).unwrap();
}

fn compared(home: &Home, arguments: &[&str]) -> Value {
    let mut command = vec!["compare", "last", "--json"];
    command.extend(arguments);
    home.iodyno(&command).succeeds().json()
}

fn row<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let rows = comparison["rows"].as_array().unwrap();
    let named = |row: &&Value| {
        let names = row["dimensions"].as_object().unwrap();
        names.values().any(|value| value == name)
    };
    rows.iter().find(named).unwrap()
}

#[test]
fn file_operations_of_two_file_systems_are_judged_from_three_runs() {
    let home = Home::new();
    write_up(&home, "ext4-zfs-fsbench.txt");
    home.iodyno(&["import", "ext4-zfs-fsbench.txt"])
        .succeeds()
        .prints("6 results printed twice, counted once");
    let text = home.iodyno(&["compare", "last"]).succeeds();
    for told in [
        "CANNOT DECIDE",
        "n=3, smallest possible p is 0.10",
        "ext4 has two regimes",
        "zfs has three regimes",
        "3 of 5 follow from their trials",
        "the text holds one run: 1814.5 ops/sec",
        "give 31.6 ± 4%, not 30.4 ± 3%",
    ] {
        assert!(text.stdout.contains(told), "{told}: {}", text.stdout);
    }
    assert!(!text.stdout.contains("FASTER"), "{}", text.stdout);
    let json = compared(&home, &[]);
    let cell = &row(&json, "create_empty")["cells"][0];
    assert_eq!(cell["n"], 3);
    assert!((cell["p"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{cell}");
    let without = &row(&json, "statfs_many_files")["cells"][0];
    assert_eq!(without["verdict"], "no_data", "{without}");
    home.iodyno(&["compare", "last", "--fail-on", "undecided"])
        .exits(5);
}

#[test]
fn a_striped_row_is_the_noise_floor_of_a_mirror() {
    let home = Home::new();
    write_up(&home, "zfs-mirror-table.txt");
    home.iodyno(&["import", "zfs-mirror-table.txt"]).succeeds();
    let json = compared(&home, &["--floor", "row=2 Striped"]);
    let floor = json["noise_floor"].as_f64().unwrap();
    assert!((floor - 255.0 / 243.0 + 1.0).abs() < 1e-3, "{floor}");
    assert_eq!(json["primaries"], 12);
    let ratio = |name: &str| {
        let cell = &row(&json, name)["cells"][0];
        cell["ratio"]["value"].as_f64().unwrap()
    };
    assert!((ratio("2 4-Way Mirror, Random 1MB") - 82.0 / 36.0).abs() < 1e-9);
    let families = compared(&home, &["--rows", "row", "--floor", "row=2 Striped"]);
    let four = &row(&families, "2 4-Way Mirror")["cells"][0];
    let expected: f64 = [816.0 / 562.0, 828.0 / 601.0, 82.0 / 36.0, 926.0 / 849.0f64]
        .iter()
        .product::<f64>()
        .powf(0.25);
    let ratio = four["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - expected).abs() < 1e-9, "{ratio} {expected}");
}

#[test]
fn concurrent_nodes_are_compared_separately_and_together() {
    let home = Home::new();
    write_up(&home, "falcon-zvol-tables.adoc");
    home.iodyno(&["import", "falcon-zvol-tables.adoc"])
        .succeeds();
    let json = compared(&home, &["--where", "workload=4k block bandwidth"]);
    let sum = &row(&json, "a+b+c+d")["cells"][0];
    let kib = (24.7 + 24.8 + 25.0 + 25.3) * 1024.0 / (4891.0 + 4922.0 + 4861.0 + 4854.0);
    let ratio = sum["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - kib).abs() < 1e-9, "{ratio} {kib}");
    assert_eq!(json["rows"].as_array().unwrap().len(), 5);
}

#[test]
fn tables_next_to_a_sysbench_run_are_shown_with_it() {
    let home = Home::new();
    write_up(&home, "zfs-sysbench.txt");
    home.iodyno(&["import", "zfs-sysbench.txt"])
        .succeeds()
        .prints("fsync-freq=100")
        .prints("since boot and set aside")
        .prints("99.7 % on CPU0");
    home.iodyno(&["show", "last"])
        .succeeds()
        .prints("20281233")
        .prints("zpool iostat of backup");
    home.iodyno(&["show", "last", "--format", "fio-json"])
        .exits(2);
    let list = home.iodyno(&["list"]).succeeds();
    assert!(list.stdout.contains("imported"), "{}", list.stdout);
    home.iodyno(&["run", "--resume", "last"])
        .exits(2)
        .stderr_has("imported");
}

#[test]
fn a_dry_run_stores_nothing_and_all_errors_are_reported() {
    let home = Home::new();
    write_up(&home, "fio-3.33-clones.json");
    home.iodyno(&["import", "--dry-run", "fio-3.33-clones.json"])
        .succeeds();
    assert!(!home.store().exists());
    home.file("prose.txt", "Nothing was measured on the 3rd of May.\n");
    home.iodyno(&["import", "prose.txt"])
        .exits(2)
        .stderr_has("no result was found");
    home.iodyno(&["import", "prose.txt", "missing.txt", "nowhere/x"])
        .exits(2)
        .stderr_has("missing.txt")
        .stderr_has("nowhere/x");
    home.iodyno(&[
        "import",
        "prose.txt",
        "--label",
        "{config",
        "--table",
        "colour",
    ])
    .exits(2)
    .stderr_has("no partner")
    .stderr_has("colour");
    home.iodyno(&[
        "import",
        "fio-3.33-clones.json",
        "--label",
        "{config}/{job}.{loop}.txt",
    ])
    .exits(2)
    .stderr_has("fio-3.33-clones.json");
    assert!(!home.store().exists());
}

#[test]
fn our_own_benchstat_export_is_imported_with_the_same_ratio() {
    let home = Home::new();
    write_up(&home, "ext4-zfs-fsbench.txt");
    home.iodyno(&["import", "ext4-zfs-fsbench.txt"]).succeeds();
    let before = compared(&home, &[]);
    let export = home
        .iodyno(&["compare", "last", "--format", "benchstat"])
        .succeeds();
    home.file("export.txt", &export.stdout);
    home.iodyno(&["import", "export.txt"]).succeeds();
    let after = compared(&home, &[]);
    let ratio = |json: &Value| {
        let cell = &row(json, "create_empty")["cells"][0];
        cell["ratio"]["value"].as_f64().unwrap()
    };
    assert!((ratio(&before) / ratio(&after) - 1.0).abs() < 1e-6);
    if Command::new("benchstat")
        .stdin(Stdio::null())
        .output()
        .is_err()
    {
        skip("benchstat is not installed: its reading of our export");
        return;
    }
    let read = Command::new("benchstat")
        .args(["-col", "config", "export.txt"])
        .current_dir(home.work())
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&read.stdout);
    assert!(table.contains("ext4") && table.contains("zfs"), "{table}");
    let warnings = String::from_utf8_lossy(&read.stderr);
    assert!(warnings.is_empty(), "{warnings}");
}

#[test]
fn sums_of_nodes_are_not_separate_results_and_commands_are_facts() {
    let home = Home::new();
    write_up(&home, "falcon-zvol-tables.adoc");
    let imported = home.iodyno(&["import", "falcon-zvol-tables.adoc", "--json"]);
    let imported = imported.succeeds().json();
    let json = compared(&home, &[]);
    assert_eq!(json["primaries"], 8, "four machines, two block sizes");
    let trials = imported["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 20, "with the sums");
}

#[test]
fn a_printed_comparison_without_its_trials_is_kept_and_shown() {
    let home = Home::new();
    let table = "name                  old ops/sec  new ops/sec  delta\n\
                 fsbench/create_empty     672 ± 5%    1117 ± 7%   ~     (p=0.100 n=3+3)\n";
    home.file("claims.txt", table);
    home.iodyno(&["import", "claims.txt"])
        .succeeds()
        .prints("cannot be checked");
    home.iodyno(&["compare", "last"])
        .succeeds()
        .prints("create_empty")
        .prints("cannot be checked");
    home.iodyno(&["compare", "last", "--fail-on", "undecided"])
        .exits(5);
}

#[test]
fn a_text_that_is_too_large_is_refused_with_its_limit() {
    let home = Home::new();
    let file = std::fs::File::create(home.work().join("large.txt")).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    home.iodyno(&["import", "large.txt"])
        .exits(2)
        .stderr_has("not a text file");
    home.iodyno(&["import", "/dev/zero"])
        .exits(2)
        .stderr_has("not a text file");
    let text = vec![b'x'; 8192];
    std::os::unix::fs::FileExt::write_all_at(&file, &text, 0).unwrap();
    home.iodyno(&["import", "large.txt"])
        .exits(2)
        .stderr_has("256 MiB")
        .stderr_has("import its parts");
}
