use iodyno_judge::testing::{self, operations as made};
use iodyno_model::{
    DeviceUse, Direction, EndedBy, ErrorCount, PercentilesOf, Step, StepTime, Trial,
    UnifiedReporting, Verify, Workload,
};
use serde_json::Value;

use super::{Context, banner, cannot_tell, json, normal, terse};
use Direction::{Read, Sync, Write};

fn context() -> Context {
    Context {
        now_unix_ms: 1_795_291_756_530,
        version: "0.1.0".to_owned(),
        pid: 4711,
        elapsed_s: 21,
        ..Context::default()
    }
}

/// Two clones of `a`, which also sync, then `b` in a separate group.
fn two_groups(together: bool) -> (Workload, Trial) {
    let mut first = testing::job("a");
    first.clones = 2;
    first.reporting.together = together;
    first.description = "mixed; and synced".to_owned();
    let mut second = testing::reader("b");
    (second.reporting.group, second.reporting.together) = (1, together);
    let mixed = |clone: u32| {
        let mut reads = testing::direction(Read, 40_000 + 1000 * u64::from(clone), 140_000);
        reads.submission = Some(testing::latencies(40_000, 2_800));
        let writes = testing::direction(Write, 20_000, 150_000);
        testing::clone(
            0,
            clone,
            vec![reads, writes, testing::direction(Sync, 600, 160_000)],
        )
    };
    let reader = testing::clone(1, 0, vec![testing::direction(Read, 10_000, 90_000)]);
    let trial = testing::trial(vec![testing::part(vec![mixed(0), mixed(1), reader])]);
    (testing::workload("w", vec![first, second]), trial)
}

fn parsed(together: bool, plus: bool) -> Value {
    let (workload, trial) = two_groups(together);
    serde_json::from_str(&json(&workload, &trial, &context(), plus)).unwrap()
}

#[test]
fn the_document_has_its_fixed_structure() {
    let (workload, trial) = two_groups(true);
    insta::assert_snapshot!(json(&workload, &trial, &context(), false));
}

#[test]
fn a_job_that_only_verifies_also_counts_the_writes_that_it_does_not_make() {
    let mut job = testing::reader("v");
    let blocks = job.work.blocks_mut().unwrap();
    (blocks.access.reads, blocks.access.writes) = (false, true);
    blocks.verify = Some(Verify {
        only: true,
        ..Verify::default()
    });
    let clone = testing::clone(0, 0, vec![testing::direction(Read, 500, 90_000)]);
    let trial = testing::trial(vec![testing::part(vec![clone])]);
    let workload = testing::workload("w", vec![job]);
    let text = json(&workload, &trial, &context(), false);
    let value: Value = serde_json::from_str(&text).unwrap();
    let (reads, writes) = (&value["jobs"][0]["read"], &value["jobs"][0]["write"]);
    assert_eq!(reads["total_ios"], 500);
    for key in ["total_ios", "io_bytes"] {
        assert_eq!(writes[key], reads[key], "{key}");
    }
    assert_eq!(writes["bw_bytes"], 0);
}

#[test]
fn a_job_without_stats_is_left_out() {
    let (mut workload, trial) = two_groups(true);
    workload.jobs[0].reporting.hidden = true;
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let jobs = document["jobs"].as_array().unwrap();
    let names: Vec<&Value> = jobs.iter().map(|job| &job["jobname"]).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(terse(&workload, &trial, 3).lines().count(), 1);
}

#[test]
fn group_reporting_adds_up_and_divides_by_the_longest_runtime() {
    let (workload, mut trial) = two_groups(true);
    trial.parts[0].clones[0].directions[0].runtime_ns = 10_000_000_000;
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let read = &document["jobs"][0]["read"];
    assert_eq!(read["total_ios"], 81_000);
    assert_eq!(read["runtime"], 20_000);
    assert_eq!(read["iops"], 4050.0);
    assert_eq!(read["bw_bytes"], 4050 * 4096);
    // Sums over the samples of the clones, in KiB/s.
    assert_eq!(read["bw_mean"], 4050.0 * 4.0);
    assert_eq!(read["bw_agg"], 100.0);
    assert_eq!(document["jobs"][0]["job_runtime"], 40_000);
    assert_eq!(document["jobs"][1]["job options"]["rw"], "randrw");
}

#[test]
fn the_end_fsync_counts_as_runtime_as_with_fio() {
    let (workload, mut trial) = two_groups(true);
    trial.parts[0].steps.push(StepTime {
        step: Step::EndFsync,
        job: Some(0),
        start_ns: 20_000_000_000,
        span_ns: 5_000_000_000,
    });
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let (synced, other) = (&document["jobs"][0], &document["jobs"][1]);
    assert_eq!(synced["write"]["runtime"], 25_000);
    assert_eq!(synced["write"]["iops"], 1600.0);
    assert_eq!(synced["read"]["runtime"], 25_000);
    assert_eq!(synced["job_runtime"], 50_000);
    assert_eq!(other["read"]["runtime"], 20_000);
    // The samples cover the time in which ops ran.
    assert_eq!(synced["write"]["iops_mean"], 2000.0);
}

#[test]
fn without_group_reporting_every_clone_is_an_entry() {
    let document = parsed(false, false);
    let names: Vec<&str> = document["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["jobname"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "a", "b"]);
    assert_eq!(document["jobs"][1]["read"]["total_ios"], 41_000);
    let share = document["jobs"][0]["read"]["bw_agg"].as_f64().unwrap();
    assert!((share - 100.0 * 40.0 / 81.0).abs() < 0.01, "{share}");
}

#[test]
fn only_json_plus_has_bins_and_they_contain_every_op() {
    let plain = parsed(true, false);
    assert!(plain["jobs"][0]["read"]["clat_ns"]["bins"].is_null());
    let plus = parsed(true, true);
    for (entry, count) in [
        (&plus["jobs"][0]["read"]["clat_ns"], 81_000),
        (&plus["jobs"][0]["sync"]["lat_ns"], 1200),
    ] {
        let bins = entry["bins"].as_object().unwrap();
        let sum: u64 = bins.values().filter_map(Value::as_u64).sum();
        assert_eq!((sum, entry["N"].as_u64()), (count, Some(count)));
    }
    let empty = &plus["jobs"][0]["trim"]["clat_ns"];
    assert!(empty["bins"].is_null() && empty["percentile"].is_null());
    assert_eq!(empty["N"], 0);
}

#[test]
fn response_latency_is_a_separate_key_and_changes_nothing_else() {
    let (workload, mut trial) = two_groups(true);
    let reads = &mut trial.parts[0].clones[0].directions[0];
    reads.response = Some(testing::latencies(40_000, 900_000));
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let read = &document["jobs"][0]["read"];
    assert!(read["response_lat_ns"]["percentile"]["99.000000"].as_u64() > Some(3_000_000));
    assert_eq!(
        read["clat_ns"],
        parsed(true, false)["jobs"][0]["read"]["clat_ns"]
    );
    assert!(
        document["jobs"][0]["write"]
            .get("response_lat_ns")
            .is_none()
    );
}

#[test]
fn errors_are_printed_in_fios_form() {
    let (mut workload, mut trial) = two_groups(true);
    trial.parts[0].clones[1].errors = vec![ErrorCount {
        direction: Read,
        errno: 5,
        count: 3,
        first_file: "f".to_owned(),
        first_offset: 0,
        first_length: 0,
    }];
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["jobs"][0]["error"], 5);
    assert!(document["jobs"][0].get("total_err").is_none());
    workload.jobs[0].errors.continue_read = true;
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["jobs"][0]["total_err"], 3);
    assert_eq!(document["jobs"][0]["first_error"], 5);
    let human = normal(&workload, &trial, &context());
    assert!(human.contains("err= 5 (Input/output error)"), "{human}");
    assert!(human.contains("errors    : total=3, first_error=5/<Input/output error>"));
}

#[test]
fn a_job_that_failed_without_a_failed_op_has_an_error() {
    let (workload, mut trial) = two_groups(false);
    trial.parts[0].clones[1].ended = EndedBy::Error;
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let errors: Vec<&Value> = [0, 1, 2]
        .map(|index| &document["jobs"][index]["error"])
        .into();
    assert_eq!(errors, [0, 5, 0]);
}

#[test]
fn directions_are_reported_as_one_where_the_job_asks() {
    let (mut workload, trial) = two_groups(true);
    let mut of = |unified| {
        workload.jobs[0].reporting.unified = unified;
        workload.jobs[1].reporting.unified = unified;
        let text = json(&workload, &trial, &context(), false);
        let document: Value = serde_json::from_str(&text).unwrap();
        let human = normal(&workload, &trial, &context());
        let fields = terse(&workload, &trial, 3)
            .lines()
            .next()
            .unwrap()
            .split(';')
            .count();
        (document["jobs"][0].clone(), human, fields)
    };
    let (separate, human, fields) = of(UnifiedReporting::None);
    assert!(separate.get("mixed").is_none() && !human.contains("mixed:"));
    let a_direction = 41;
    let (job, human, mixed_fields) = of(UnifiedReporting::Mixed);
    assert_eq!(job["mixed"]["total_ios"], 121_000);
    assert_eq!(job["mixed"]["runtime"], separate["read"]["runtime"]);
    assert!(
        job.get("read").is_none() && job.get("write").is_none(),
        "{job}"
    );
    assert!(
        human.contains("  mixed: IOPS=") && human.contains("  MIXED: bw="),
        "{human}"
    );
    assert!(!human.contains("  read: IOPS="), "{human}");
    assert_eq!(mixed_fields, fields - a_direction);
    let (job, human, both_fields) = of(UnifiedReporting::Both);
    assert_eq!(job["mixed"]["total_ios"], 121_000);
    assert_eq!(
        (&job["read"], &job["write"]),
        (&separate["read"], &separate["write"])
    );
    assert!(
        human.contains("  mixed: IOPS=") && human.contains("  read: IOPS="),
        "{human}"
    );
    assert_eq!(both_fields, fields + a_direction);
}

fn terse_lines(version: u8) -> Vec<Vec<String>> {
    let (workload, trial) = two_groups(true);
    let text = terse(&workload, &trial, version);
    let line = |line: &str| line.split(';').map(str::to_owned).collect();
    text.lines().map(line).collect()
}

#[test]
fn terse_has_every_field_at_its_place() {
    let lines = terse_lines(3);
    // 121 fields, 9 of one disk; the description of `a` comes last, its semicolon replaced.
    assert_eq!([lines[0].len(), lines[1].len()], [131, 130]);
    let first = &lines[0];
    for (field, expected) in [
        (1, "3"),
        (2, "fio-3.42"),
        (3, "a"),
        (6, "324000"),
        (7, "16200"),
        (8, "4050"),
        (9, "20000"),
        (30, "99.000000%=617"),
        (35, "0%=0"),
        (48, "8000"),
        (49, "2000"),
        (88, "7.500000%"),
        (97, "99.8%"),
        (122, "vda"),
        (130, "97.00%"),
        (131, "mixed_ and synced"),
    ] {
        assert_eq!(first[field - 1], expected, "field {field}");
    }
}

#[test]
fn each_terse_version_has_its_own_fields() {
    let third = terse_lines(3);
    // 41 fields of trims after those of writes.
    let fourth = terse_lines(4);
    assert_eq!([fourth[0].len(), fourth[1].len()], [172, 171]);
    assert_eq!(fourth[0][0], "4");
    assert_eq!(fourth[0][1..87], third[0][1..87]);
    assert_eq!(fourth[0][87..91], ["0", "0", "0", "0"]);
    assert_eq!(fourth[0][128..], third[0][87..]);
    // After the bandwidth of each direction: its samples, then the IOPS.
    let fifth = terse_lines(5);
    assert_eq!([fifth[0].len(), fifth[1].len()], [190, 189]);
    assert_eq!(fifth[0][0], "5");
    assert_eq!(fifth[0][5..46], third[0][5..46]);
    assert_eq!(fifth[0][46..50], ["80", "3645", "4252", "4050.000000"]);
    assert_eq!(fifth[0][51], "80");
    assert_eq!(fifth[0][52..93], third[0][46..87]);
    assert_eq!(fifth[0][140..145], ["0", "0", "0", "0.000000", "0.000000"]);
    assert_eq!(fifth[0][146..], third[0][87..]);
    // Without fio's version and disks; the description is a separate line.
    let second = terse_lines(2);
    assert_eq!(second.len(), 3);
    assert_eq!([second[0].len(), second[2].len()], [161, 161]);
    assert_eq!(second[0][..2], ["2", "a"]);
    assert_eq!(second[0][4..127], fourth[0][5..128]);
    assert_eq!(second[0][127..], third[0][87..121]);
    assert_eq!(second[1], ["", "mixed_ and synced"]);
}

#[test]
fn percentiles_are_of_the_latencies_that_the_job_names() {
    let (mut workload, mut trial) = two_groups(true);
    let reads = &mut trial.parts[0].clones[0].directions[0];
    reads.completion = Some(testing::latencies(40_000, 137_000));
    for job in &mut workload.jobs {
        job.reporting.percentiles_of = PercentilesOf {
            submission: true,
            completion: false,
            total: true,
        };
    }
    let text = json(&workload, &trial, &context(), true);
    let document: Value = serde_json::from_str(&text).unwrap();
    let read = &document["jobs"][0]["read"];
    for key in ["slat_ns", "lat_ns"] {
        assert!(read[key]["percentile"]["99.000000"].is_u64(), "{key}");
        let bins = read[key]["bins"].as_object().unwrap();
        let sum: u64 = bins.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), read[key]["N"].as_u64(), "{key}");
    }
    assert!(read["clat_ns"].get("percentile").is_none());
    assert!(document["jobs"][0]["sync"]["lat_ns"]["percentile"].is_object());
    let human = normal(&workload, &trial, &context());
    assert!(human.contains("    slat percentiles ("), "{human}");
    assert!(human.contains("    lat percentiles ("), "{human}");
    assert!(!human.contains("clat percentiles"), "{human}");
    // The 13th is p99 of the total latency.
    let total = read["lat_ns"]["percentile"]["99.000000"].as_u64().unwrap();
    let line = terse(&workload, &trial, 3);
    let field = line.split(';').nth(29).unwrap();
    assert_eq!(field, format!("99.000000%={}", total / 1000));
    workload.jobs[0].reporting.percentiles_of.total = false;
    let line = terse(&workload, &trial, 3);
    assert_eq!(line.split(';').nth(29), Some("0%=0"));
}

#[test]
fn normal_output_follows_the_units_of_the_job() {
    let (mut workload, trial) = two_groups(true);
    workload.jobs[1].reporting.bits = true;
    workload.jobs[1].reporting.decimal = true;
    workload.jobs[1].reporting.digits = 6;
    let text = normal(&workload, &trial, &context());
    for line in [
        "  read: IOPS=4050, BW=15.8MiB/s (16.6MB/s)(316MiB/20000msec)",
        "  read: IOPS=500, BW=16384kbit/s (16000Kibit/s)(40960kB/20000msec)",
        "   READ: bw=16384kbit/s (16000Kibit/s), 16384kbit/s-16384kbit/s (16000Kibit/s-16000Kibit/s), io=40960kB (40000KiB), run=20000-20000msec",
    ] {
        assert!(text.lines().any(|got| got == line), "{line}\n{text}");
    }
}

#[test]
fn the_global_options_are_part_of_the_document() {
    let (mut workload, trial) = two_groups(true);
    assert!(!json(&workload, &trial, &context(), false).contains("global options"));
    workload.global_options.insert("bs".into(), "4k".into());
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["global options"]["bs"], "4k");
}

#[test]
fn normal_output_matches_the_usual_greps() {
    let (workload, trial) = two_groups(true);
    let text = banner(&workload) + &normal(&workload, &trial, &context());
    for line in [
        "Starting 3 threads",
        "a: (groupid=0, jobs=2): err= 0: pid=4711: Sat Nov 21 20:09:16 2026",
        "  read: IOPS=4050, BW=15.8MiB/s (16.6MB/s)(316MiB/20000msec)",
        "    clat percentiles (usec):",
        "Run status group 1 (all jobs):",
        "Disk stats (read/write):",
    ] {
        assert!(text.lines().any(|got| got == line), "{line}\n{text}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_job_without_results_yet_has_an_entry() {
    let (workload, mut trial) = two_groups(true);
    trial.parts.clear();
    let text = json(&workload, &trial, &context(), true);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(document["jobs"][1]["read"]["iops"], 0.0);
    assert_eq!(terse(&workload, &trial, 3).lines().count(), 2);
    assert!(!normal(&workload, &trial, &context()).contains("groupid"));
}

#[test]
fn file_operations_have_no_output_in_fios_formats() {
    let (workload, trial) = made::write_sync_trial();
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["jobs"].as_array().unwrap().len(), 0);
    let note = document["iodyno note"].as_str().unwrap();
    assert!(note.contains("write_sync_10MB"), "{note}");
    assert_eq!(terse(&workload, &trial, 3), "");
    assert!(!normal(&workload, &trial, &context()).contains("IOPS="));
    let (workload, trial) = made::fileio_trial();
    assert_eq!(cannot_tell(&workload), None);
    let document: Value =
        serde_json::from_str(&json(&workload, &trial, &context(), false)).unwrap();
    assert!(document.get("iodyno note").is_none());
    assert_eq!(document["jobs"][0]["read"]["total_ios"], 30_000);
}

#[test]
fn the_idle_share_of_the_cpus_is_shown_on_request() {
    let (workload, mut trial) = two_groups(false);
    let host = &mut trial.parts[0].host;
    (host.user_ns, host.system_ns, host.irq_ns, host.steal_ns) = (400, 300, 200, 100);
    (host.idle_ns, host.iowait_ns) = (2000, 1000);
    let document = |context: &Context| -> Value {
        serde_json::from_str(&json(&workload, &trial, context, false)).unwrap()
    };
    assert!(document(&context())["cpu_idleness"].is_null());
    assert!(!normal(&workload, &trial, &context()).contains("CPU idleness"));
    let asked = Context {
        cpu_idleness: true,
        ..context()
    };
    assert_eq!(document(&asked)["cpu_idleness"]["system"], 75.0);
    let text = normal(&workload, &trial, &asked);
    assert!(
        text.ends_with("\nCPU idleness:\n  system: 75.00%\n"),
        "{text}"
    );
}

#[test]
fn percentiles_have_as_many_decimals_as_distinguish_them() {
    let (mut workload, trial) = two_groups(true);
    for (list, shown, keys) in [
        (
            vec![99.9999, 100.0],
            ["99.9999th=[", "100.0000th=["],
            ["99.999900", "100.000000"],
        ),
        (
            vec![50.0, 99.0],
            [" 50th=[", " 99th=["],
            ["50.000000", "99.000000"],
        ),
        (
            vec![99.99999999, 100.0],
            ["99.99999999th=[", "100.00000000th=["],
            ["99.99999999", "100.00000000"],
        ),
    ] {
        for job in &mut workload.jobs {
            job.reporting.percentiles = list.clone();
        }
        let human = normal(&workload, &trial, &context());
        let document: Value =
            serde_json::from_str(&json(&workload, &trial, &context(), false)).unwrap();
        let found = &document["jobs"][0]["read"]["clat_ns"]["percentile"];
        assert_eq!(found.as_object().unwrap().len(), 2, "{found}");
        let line = terse(&workload, &trial, 3);
        for (shown, key) in shown.iter().zip(keys) {
            assert!(human.contains(shown), "{shown}: {human}");
            assert!(found[key].is_u64(), "{key}: {found}");
            assert!(line.contains(&format!(";{key}%=")), "{key}: {line}");
        }
    }
}

#[test]
fn job_options_are_those_of_the_jobs_own_section() {
    let (mut workload, trial) = two_groups(true);
    let options = [("bs", "4k"), ("rw", "read"), ("size", "1m")];
    workload.jobs[0].options = options
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    workload.jobs[0].inherited = ["bs".to_owned(), "size".to_owned()].into();
    workload.jobs[1].options.clear();
    let text = json(&workload, &trial, &context(), false);
    let document: Value = serde_json::from_str(&text).unwrap();
    let own = serde_json::json!({"rw": "read"});
    assert_eq!(document["jobs"][0]["job options"], own);
    assert!(document["jobs"][1].get("job options").is_none());
}

#[test]
fn names_of_devices_stay_on_their_line() {
    let (workload, mut trial) = two_groups(false);
    trial.parts[0].host.devices = vec![DeviceUse {
        name: "sda\nforged: 1\u{1b}[2J".to_owned(),
        ..DeviceUse::default()
    }];
    let text = normal(&workload, &trial, &context());
    assert!(text.contains("\n  sda forged: 1?[2J: ios="), "{text}");
}
