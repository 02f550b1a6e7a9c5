//! Reads texts: the matrix, parameters, layers, and every error with its location.

use std::io;
use std::path::Path;

use iodyno_experiment::{Context, Experiment, read};
use iodyno_fio::Host;
use iodyno_model::{
    Diagnostic, DiskAio, DiskCache, DiskInterface, DmTarget, FilePolicy, FolderServer, Layer,
    MdLayer, MdLevel, Pinning, Target, VmDisk, VmLayer, Workload,
};

/// A host without files, except a job file.
struct NoHost;

impl Host for NoHost {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("exp/job.fio") => Ok("[j]\nrw=read\nsize=1m\n".to_owned()),
            Some("exp/bad.fio") => Ok("[j]\nrw=reed\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn memory_mb(&self) -> u64 {
        1024
    }
}

fn read_with(text: &str, settings: &[(&str, &str)]) -> Result<Experiment, Vec<Diagnostic>> {
    let settings: Vec<(String, String)> = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let context = Context {
        source: "exp/x.toml",
        folder: Path::new("/here"),
        settings: &settings,
        nodes: &[],
        host: &NoHost,
    };
    read(text, &context)
}

fn valid(text: &str) -> Experiment {
    read_with(text, &[]).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"))
}

/// The errors as `line:column message`.
fn faults(text: &str) -> Vec<String> {
    let faults = read_with(text, &[]).expect_err(text);
    let faults = faults.iter().map(|fault| match &fault.place {
        Some(place) => format!("{}:{} {}", place.line, place.column, fault.message),
        None => fault.message.clone(),
    });
    faults.collect()
}

fn names(workloads: &[Workload]) -> Vec<&str> {
    workloads.iter().map(|it| it.name.as_str()).collect()
}

const WORK: &str = "[workload.w]\nfs = \"create_empty\"\n";

fn with_target(lines: &str) -> String {
    format!("[configuration.c]\n{lines}\n{WORK}")
}

fn layers(lines: &str) -> Vec<Layer> {
    let experiment = valid(&with_target(lines));
    match &experiment.configurations[0].target {
        Target::Made(provision) => provision.layers.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_of_the_documentation_is_read() {
    let experiment = valid(
        r#"
name = "zfs-vs-ext4"
baseline = "ext4"
max_time = "12h"
params.disk = "/dev/nvme1n1"

[configuration.ext4]
target = "ext4 on ${disk}"
ext4.mount = "noatime"

[configuration.zfs]
target = "zfs on ${disk}"
zfs.compression = "off"

[workload.timed]
fs = ["create_empty", "write_sync_10MB", "statfs_many_files"]
duration = "60s"

[workload.deletes]
fs = ["delete_10k_2MB", "delete_100k_2MB", "delete_10k_2k_200MB"]

[workload."${rw}-${ioengine}${multi}"]
fio = { size = "4G", bs = "4k", direct = 1, iodepth = 16, runtime = 20, rwmixread = 75 }
files = "shared"
family = "${ioengine}${multi}"
axis.ioengine = ["psync", "libaio"]
axis.rw = { seqread = "read", randread = "randread", seqwrite = "write", randwrite = "randwrite", randrw = "randrw" }
axis.multi = { "" = { numjobs = 1 }, "-multi" = { numjobs = 4, group_reporting = 1 } }
"#,
    );
    assert_eq!(experiment.name, "zfs-vs-ext4");
    assert_eq!(experiment.max_time.unwrap().0, 12 * 3600 * 1_000_000_000);
    let configurations: Vec<&str> = experiment
        .configurations
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(configurations, ["ext4", "zfs"]);
    let all = names(&experiment.workloads);
    assert_eq!(all.len(), 6 + 20);
    assert_eq!(
        all[..3],
        ["create_empty", "write_sync_10MB", "statfs_many_files"]
    );
    assert_eq!(
        all[6..9],
        ["seqread-psync", "seqread-psync-multi", "randread-psync"]
    );
    let multi = &experiment.workloads[7];
    assert_eq!(multi.family.as_deref(), Some("psync-multi"));
    assert_eq!(multi.files, FilePolicy::Shared);
    let job = &multi.jobs[0];
    assert_eq!((job.clones, job.name.as_str()), (4, "seqread-psync-multi"));
    assert_eq!(multi.dimensions["rw"], "seqread");
    assert_eq!(multi.dimensions["multi"], "-multi");
    assert_eq!(multi.dimensions["ioengine"], "psync");
    let runtime = experiment.workloads[0].jobs[0].end.runtime.unwrap();
    assert_eq!(runtime.secs(), 60.0);
    assert_eq!(experiment.workloads[0].sources[0].name, "create_empty.toml");
}

#[test]
fn ten_mistakes_give_ten_messages() {
    let found = faults(
        r#"nam = "x"
rounds = "many"
max_time = 12
fresh = "sometimes"
baseline = "ext5"
destroy = ["/dev/sda"]

[configuration.ext4]
target = "ext4 on ${dsk}"
ext4.muont = "noatime"

[configuration.zfs]
target = "zfs"
zfs.layout = "3 mirrors"

[workload.timed]
fs = ["create_emtpy"]
duration = "60"

[workload.blocks]
fio = { rw = "reed", size = "1m", iodepht = 4 }
"#,
    );
    assert_eq!(
        found,
        [
            "1:1 unknown key `nam`",
            "2:10 `rounds` is a whole number, not the string \"many\"",
            "3:12 `max_time` is a time with its unit, not the number 12",
            "4:9 `fresh` cannot be \"sometimes\"",
            "5:12 the baseline `ext5` is not a configuration",
            "6:1 `destroy` cannot be part of a file: permission is given for one invocation",
            "9:10 `dsk` is neither a parameter nor an axis",
            "10:6 unknown key `muont`",
            "13:10 `zfs` needs devices or files below it",
            "14:14 `zfs.layout` cannot be \"3 mirrors\"",
            "17:7 there are no file operations named `create_emtpy`",
            "18:12 `duration`: `60` has no unit; write `60s`",
            "21:14 `reed` is not one of its values",
            "21:35 unknown option `iodepht`",
        ]
    );
}

#[test]
fn a_misspelt_parameter_is_one_error() {
    let settings = "params.size = \"1m\"\n[configuration.c]\ntarget = \"file on /x\"\nfile.size = \"${siz}\"\n\
        [workload.\"${nam}\"]\nfio = { rw = \"${x}${y}\", size = \"${sise}\" }\naxis.iodepth = [1, 2]\n\
        [workload.f]\nfileio = { file-test-mode = \"${mode}\" }\nduration = \"${time}\"\n";
    assert_eq!(
        faults(settings),
        [
            "4:13 `siz` is neither a parameter nor an axis",
            "5:11 `nam` is neither a parameter nor an axis",
            "6:14 `x` is neither a parameter nor an axis",
            "6:14 `y` is neither a parameter nor an axis",
            "6:33 `sise` is neither a parameter nor an axis",
            "9:29 `mode` is neither a parameter nor an axis",
            "10:12 `time` is neither a parameter nor an axis",
        ]
    );
}

#[test]
fn numbers_that_cannot_be_used_get_a_hint() {
    for (line, fault, hint) in [
        (
            "rounds = 1.5",
            "1:10 `rounds` is a whole number, not the number 1.5",
            "write it without a fraction: `2`",
        ),
        (
            "rounds = '10'",
            "1:10 `rounds` is a whole number, not the string \"10\"",
            "write it without quotes: `10`",
        ),
        (
            "max_time = '0s'",
            "1:12 `max_time` is too short",
            "it is at least 1.00 ms",
        ),
    ] {
        let text = format!("{line}\n{WORK}");
        let said = read_with(&text, &[]).expect_err(line);
        assert_eq!(faults(&text), [fault]);
        assert_eq!(said[0].hint.as_deref(), Some(hint), "{line}");
    }
    for tool in ["fio = { rw = 'read', size = '1m' }", "fs = 'create_empty'"] {
        let text = format!("[workload.w]\n{tool}\nduration = '0s'\n");
        assert_eq!(faults(&text), ["3:12 `duration` is too short"], "{tool}");
    }
}

#[test]
fn the_size_of_a_sector_is_a_number_of_bytes_with_or_without_quotes() {
    let with = |sector: &str| {
        format!("target = \"loop on file on /x\"\nfile.size = \"1GiB\"\nloop.sector = {sector}")
    };
    for (sector, expected) in [
        ("4096", Some(4096)),
        ("\"4096\"", Some(4096)),
        ("\"4KiB\"", Some(4096)),
        ("512", Some(512)),
        ("\"4000\"", None),
        ("\"8KiB\"", None),
        ("true", None),
    ] {
        match expected {
            Some(expected) => {
                let Layer::Loop { sector, .. } = layers(&with(sector))[0] else {
                    panic!("the top layer is a loop device");
                };
                assert_eq!(sector, Some(expected));
            }
            None => {
                let found = faults(&with_target(&with(sector)));
                assert_eq!(found.len(), 1, "{found:?}");
                assert!(found[0].starts_with("4:15 `loop.sector` is the size of a sector"));
            }
        }
    }
}

#[test]
fn a_search_is_not_a_baseline() {
    let text = "baseline = 'load'\n[configuration.c]\ntarget = '/x'\n[workload.load]\n\
        fio = { rw = 'read', size = '1m' }\nsearch = { axis = 'rate_iops', until = 'p99 < 2ms' }\n\
        [workload.other]\nfs = 'create_empty'\n";
    assert_eq!(faults(text), ["1:12 the baseline `load` is not a workload"]);
}

#[test]
fn layers_are_built_from_the_top_down() {
    let found = layers(
        "target = \"zfs on throttle on loop on file on img\"\nzfs.layout = \"2 x mirror 3\"\nzfs.sync = \"disabled\"\n\
         zfs.pool.ashift = 12\nthrottle.read_bandwidth = \"100MiB\"\nfile.size = \"1GiB\"",
    );
    let [
        Layer::Zfs(zfs),
        Layer::Throttle(limits),
        Layer::Loop {
            direct,
            sector: None,
        },
        file,
        folder,
    ] = found.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!((zfs.layout.len(), zfs.layout[1].devices), (2, 3));
    assert_eq!(zfs.pool["ashift"], "12");
    assert_eq!(zfs.properties["sync"], "disabled");
    assert_eq!((limits.read_bandwidth, limits.write_iops), (100 << 20, 0));
    assert!(direct);
    // As many files as the pool has devices.
    let (size, count, allocate) = (1 << 30, 6, true);
    let path = "/here/img".into();
    assert_eq!(
        *file,
        Layer::File {
            size,
            count,
            allocate
        }
    );
    assert_eq!(*folder, Layer::Directory { path });
}

#[test]
fn what_a_path_is_follows_from_the_layer_on_it() {
    for (target, device) in [
        ("ext4 on /x/y", true),
        ("zfs on throttle on /x/y", true),
        ("btrfs on device on /x/y", true),
        ("overlay on /x/y", false),
        ("directory on /x/y", false),
        ("throttle on directory on /x/y", false),
    ] {
        let lines = format!(
            "target = \"{target}\"\n{}",
            match target.contains("throttle") {
                true => "throttle.read_iops = 10",
                false => "",
            }
        );
        let found = layers(&lines);
        let lowest = found.last().unwrap();
        assert_eq!(
            matches!(lowest, Layer::Device { .. }),
            device,
            "{target}: {lowest:?}"
        );
    }
    let path = valid(&with_target("target = \"/x/y\""));
    assert_eq!(path.configurations[0].target, Target::Path("/x/y".into()));
    let filled = valid(&with_target(
        "target = \"/x/y\"\nhost.sysctl.vm.dirty_ratio = 10",
    ));
    let Target::Made(made) = &filled.configurations[0].target else {
        panic!("settings are applied to an existing folder, too");
    };
    assert_eq!(made.sysctl["vm.dirty_ratio"], "10");
}

#[test]
fn a_kind_that_occurs_twice_is_listed() {
    let found = layers(
        "layers = [{ kind = \"ext4\" }, { kind = \"loop\", direct = false }, { kind = \"file\", size = \"1GiB\" }, \
         { kind = \"ext4\", mount = \"noatime,discard\" }, { kind = \"zram\", size = \"2GiB\" }]",
    );
    assert_eq!(found.len(), 5);
    let twice = faults(&with_target(
        "target = \"ext4 on loop on file on ext4 on zram\"\nzram.size = \"1GiB\"\nfile.size = \"1GiB\"",
    ));
    assert_eq!(twice, ["2:10 `ext4` is twice in the target"]);
}

#[test]
fn layers_that_do_not_fit_are_errors() {
    for (lines, expected) in [
        ("target = \"ext4\"", "2:10 `ext4` needs devices below it"),
        (
            "target = \"ext4 on file on /x\"\nfile.size = \"1GiB\"",
            "2:10 `ext4` needs devices below it",
        ),
        (
            "target = \"loop on /x\"",
            "2:10 `loop` needs files below it",
        ),
        (
            "target = \"tmpfs on /x\"\ntmpfs.size = \"1GiB\"",
            "2:10 `tmpfs` has nothing below it",
        ),
        (
            "target = \"extt on /x\"",
            "2:10 `extt` is not a kind of layer",
        ),
        (
            "target = \"ext4 on /dev/x\"\nxfs.mkfs = \"-f\"",
            "3:1 `xfs` has no effect: it is not a layer of `target`",
        ),
        (
            "target = \"ext4 on loop on file on /x\"",
            "1:1 `file` lacks `size`",
        ),
        ("target = \"throttle on /x\"", "1:1 `throttle` has no limit"),
        (
            "target = \"vm on vm on /dev/x\"",
            "2:10 `vm` is twice in the target",
        ),
        (
            "layers = [{ kind = \"vm\" }, { kind = \"vm\" }, { kind = \"device\", paths = [\"/dev/x\"] }]",
            "2:10 `vm` cannot be made in a virtual machine",
        ),
        (
            "target = \"delay on vm on /dev/x\"\ndelay.read = \"1ms\"",
            "2:10 `delay` cannot be made in a virtual machine",
        ),
        (
            "target = \"dm on /dev/x\"\ndm = { target = \"crypt\", key_bits = 77 }",
            "3:26 `aes-xts-plain64` has no keys of 77 bits",
        ),
        (
            "target = \"dm on /dev/x\"\ndm = { target = \"crypt\", cipher = \"aes-cbc-essiv:sha256\" }",
            "3:26 `aes-cbc-essiv:sha256` has no keys of 512 bits",
        ),
        (
            "target = \"md on zram\"\nzram.size = \"1g\"\nmd.level = \"raid5\"",
            "4:12 `md.level` cannot be \"raid5\"",
        ),
        ("fill = \"1GiB\"", "1:1 a configuration lacks `target`"),
        (
            "target = \"/x\"\nlayers = []",
            "3:10 there are both `target` and `layers`",
        ),
        (
            "target = \"zfs on file on /x\"\nzfs.layout = \"mirror 2\"\nfile = { size = \"1GiB\", count = 3 }",
            "4:25 `zfs.layout` has 2 devices, and `file.count` is 3",
        ),
    ] {
        let found = faults(&with_target(lines));
        assert_eq!(found.len(), 1, "{lines}: {found:?}");
        let found = found[0].split_once(' ').unwrap();
        let expected = expected.split_once(' ').unwrap();
        assert_eq!(found.1, expected.1, "{lines}");
        if expected.0 != "1:1" {
            assert_eq!(found.0, expected.0, "{lines}");
        }
    }
}

#[test]
fn a_parameter_can_be_an_array_of_the_values_of_an_axis_or_of_those_left_out() {
    let text = "params = { depths = [1, 16], without = [] }\n\
        preset.quick = { depths = [4], without = [\"write\"] }\nname = \"at ${depths}\"\n\
        [workload.\"${rw}-${iodepth}\"]\nfio = { size = \"4k\" }\naxis.rw = [\"read\", \"write\"]\n\
        axis.iodepth = \"${depths}\"\nexclude = [{ rw = \"${without}\" }]\n";
    for (settings, name, workloads) in [
        (
            &[][..],
            "at 1,16",
            &["read-1", "read-16", "write-1", "write-16"][..],
        ),
        (&[("scale", "quick")], "at 4", &["read-4"]),
        (
            &[("scale", "quick"), ("depths", "2, 8")],
            "at 2,8",
            &["read-2", "read-8"],
        ),
        (
            &[("without", "read"), ("depths", "1")],
            "at 1",
            &["write-1"],
        ),
    ] {
        let found = read_with(text, settings).unwrap();
        let names: Vec<&str> = found.workloads.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((found.name.as_str(), names.as_slice()), (name, workloads));
        let depth = &found.workloads[0].jobs[0].options["iodepth"];
        assert_eq!(*depth, found.workloads[0].dimensions["iodepth"]);
    }
    let wrong = read_with(text, &[("depths", "many")]).unwrap_err();
    let place = wrong[0].place.as_ref().unwrap();
    assert_eq!(wrong[0].message, "`many` is not a number");
    assert!(place.text.contains("axis.iodepth"), "{place:?}");
}

#[test]
fn a_string_without_its_end_leaves_an_experiment_one() {
    let rest = "\n[configuration.c]\ntarget = \"/x\"\n[workload.w]\nfio = { rw = \"read\" }\n";
    for open in [
        "question = \"Is it faster?",
        "question = \"\"\"Is it faster?",
        "question = \"Is it faster?'",
    ] {
        let text = format!("name = \"x\"\n{open}{rest}");
        assert!(iodyno_experiment::is_experiment(&text), "{open}");
        let faults = read_with(&text, &[]).unwrap_err();
        let place = faults[0].place.as_ref().unwrap();
        assert!(place.line >= 2, "{faults:?}");
    }
    let operations =
        "name = \"x\"\nabout = \"y\n[[files]]\nname = \"node\"\n[[cycle]]\nop = \"create\"\n";
    assert!(!iodyno_experiment::is_experiment(operations));
}

#[test]
fn texts_are_not_empty() {
    for key in ["name", "about", "question"] {
        let text = format!("{key} = \" \"\n{WORK}");
        let faults = read_with(&text, &[]).unwrap_err();
        assert_eq!(faults[0].message, format!("`{key}` is empty"));
    }
}

#[test]
fn parameters_keep_their_types_and_a_preset_gives_several() {
    let text = "params = { n = 3, size = \"4k\", about = { about = \"any\", default = \"x\" } }\n\
        preset.full = { n = 30, size = \"1m\" }\nrounds = \"${n}\"\nname = \"${about}-${n}\"\n\
        [workload.w]\nfio = { rw = \"read\", size = \"${size}\" }\n";
    let size = |experiment: &Experiment| {
        let job = &experiment.workloads[0].jobs[0];
        job.options["size"].clone()
    };
    for (settings, rounds, name, expected) in [
        (&[][..], 3, "x-3", "4k"),
        (&[("scale", "full")], 30, "x-30", "1m"),
        (&[("scale", "full"), ("n", "7")], 7, "x-7", "1m"),
        (&[("about", "y")], 3, "y-3", "4k"),
    ] {
        let found = read_with(text, settings).unwrap();
        assert_eq!(found.rounds, Some(rounds));
        assert_eq!(
            (found.name.as_str(), size(&found).as_str()),
            (name, expected)
        );
    }
    for (setting, expected) in [
        (("m", "1"), "`--set m=1`: unknown parameter `m`"),
        (("scale", "ful"), "`--set scale=ful`: unknown preset `ful`"),
    ] {
        let found = read_with(text, &[setting]).unwrap_err();
        assert_eq!(found[0].message, expected);
        assert!(found[0].hint.is_some());
    }
    let wrong = read_with(text, &[("n", "many")]).unwrap_err();
    assert!(
        wrong[0].message.contains("`rounds` is a whole number"),
        "{wrong:?}"
    );
}

#[test]
fn a_parameter_without_a_value_has_to_be_given() {
    let text = format!(
        "params.disk = {{ about = \"device\" }}\n[configuration.c]\ntarget = \"ext4 on ${{disk}}\"\n{WORK}"
    );
    assert_eq!(
        faults(&text),
        ["1:8 the parameter `disk` has no value (device)"]
    );
    assert!(read_with(&text, &[("disk", "/dev/x")]).is_ok());
}

#[test]
fn axes_cross_zip_and_exclude() {
    let work = |lines: &str| {
        valid(&format!(
            "[workload.\"${{rw}}-${{bs}}\"]\nfio.size = \"1m\"\n{lines}\n"
        ))
        .workloads
    };
    let crossed = work("axis = { rw = [\"read\", \"write\"], bs = [\"4k\", \"1m\"] }");
    assert_eq!(
        names(&crossed),
        ["read-4k", "read-1m", "write-4k", "write-1m"]
    );
    assert_eq!(crossed[1].jobs[0].options["bs"], "1m");
    let zipped = work(
        "axis = { rw = [\"read\", \"write\"], bs = [\"4k\", \"1m\"] }\nzip = [\"rw\", \"bs\"]",
    );
    assert_eq!(names(&zipped), ["read-4k", "write-1m"]);
    let excluded = work(
        "axis = { rw = [\"read\", \"write\"], bs = [\"4k\", \"1m\"] }\nexclude = [{ rw = \"read\", bs = [\"1m\"] }]",
    );
    assert_eq!(names(&excluded), ["read-4k", "write-4k", "write-1m"]);
}

#[test]
fn axes_of_configurations_set_their_keys_and_become_dimensions() {
    let experiment = valid(&format!(
        "[configuration.\"${{base}}-${{zfs.sync}}\"]\ntarget = \"zfs on ${{base}}\"\nfile.size = \"1GiB\"\n\
         axis.base = {{ f = \"file on /x\", l = \"loop on file on /x\" }}\n\
         axis.\"zfs.sync\" = [\"standard\", \"disabled\"]\n{WORK}"
    ));
    let all: Vec<&str> = experiment
        .configurations
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(
        all,
        ["f-standard", "f-disabled", "l-standard", "l-disabled"]
    );
    let last = &experiment.configurations[3];
    assert_eq!(
        (
            last.dimensions["base"].as_str(),
            last.dimensions["zfs.sync"].as_str()
        ),
        ("l", "disabled")
    );
    let Some(Layer::Zfs(zfs)) = last.provision().and_then(|made| made.layers.first()) else {
        panic!("{last:?}");
    };
    assert_eq!(zfs.properties["sync"], "disabled");
    assert_eq!(last.provision().unwrap().layers.len(), 4);
}

#[test]
fn faults_of_the_matrix_are_reported() {
    for (lines, expected) in [
        ("axis.bs = []", "4:11 the axis `bs` has no values"),
        (
            "axis.bs = 4",
            "4:11 `bs` is an axis: an array, or a table of labels, not the number 4",
        ),
        (
            "axis.bs = [\"4k\", \"4k\"]",
            "4:18 `4k` is twice in the axis `bs`",
        ),
        (
            "axis.size2 = [\"4k\", \"8k\"]",
            "4:6 the axis `size2` has no effect: `size2` is not a key",
        ),
        (
            "axis.threads = [1, 4]",
            "4:6 the axis `threads` has no effect: the option is ignored, clones are always threads of one process",
        ),
        (
            "axis.bs = [\"4k\", \"8k\"]\nzip = [\"rw\"]",
            "5:8 unknown axis `rw`",
        ),
        (
            "axis.bs = [\"4k\", \"8k\"]\nexclude = [{ bs = \"1m\" }]",
            "5:19 the axis `bs` has no label `1m`",
        ),
        ("axis.bs = [\"4k\", \"5x\"]", "4:18 "),
        ("zip = [\"bs\"]", "4:1 `zip` has no effect without `axis`"),
    ] {
        let found = faults(&format!(
            "\n[workload.\"w${{bs}}\"]\nfio = {{ rw = \"read\", size = \"1m\" }}\n{lines}\n"
        ));
        let found: Vec<&String> = found
            .iter()
            .filter(|fault| !fault.contains("`bs` is neither"))
            .collect();
        assert!(
            found.iter().any(|fault| fault.starts_with(expected)),
            "{lines}: {found:?}"
        );
    }
    let same = faults(
        "[workload.w]\nfio = { rw = \"read\", size = \"1m\" }\naxis.bs = [\"4k\", \"8k\"]\n",
    );
    assert_eq!(same, ["1:11 two workloads are named `w`"]);
}

#[test]
fn job_files_and_sysbench_are_read_by_their_crates() {
    let experiment = valid(
        "[workload.a]\nfio = [\"job.fio\"]\nduration = \"3s\"\n\
         [workload.b]\nfio = \"job.fio\"\n\
         [workload.\"${fio}-${bs}\"]\nfio = [\"job.fio\"]\naxis.bs = [\"4k\"]\n\
         [workload.\"s${threads}\"]\nfileio = { file-test-mode = \"rndrw\", file_total_size = \"1G\", validate = true }\nduration = \"2s\"\naxis.threads = [1, 16]\n",
    );
    assert_eq!(
        names(&experiment.workloads),
        ["job", "b", "job-4k", "s1", "s16"]
    );
    let runtime = |index: usize| {
        experiment.workloads[index].jobs[0]
            .end
            .runtime
            .map(|it| it.secs())
    };
    assert_eq!(
        (runtime(0), runtime(1), runtime(3)),
        (Some(3.0), None, Some(2.0))
    );
    assert_eq!(experiment.workloads[4].jobs[0].clones, 16);
    let found = faults(
        "[workload.a]\nfio = \"bad.fio\"\n[workload.b]\nfileio = { file-test-mode = \"rndx\", thread = 3 }\n\
         [workload.c]\nfio = \"none.fio\"\n[workload.d]\nfio = \"job.fio\"\nfs = \"create_empty\"\n[workload.e]\n",
    );
    let starts = [
        "4:12 ",
        "4:37 ",
        "6:7 cannot read `exp/none.fio`",
        "9:1 a workload has `fio` and `fs`",
        "10:1 a workload lacks",
        // In exp/bad.fio.
        "2:4 `reed` is not one of its values",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found} {start}");
    }
}

#[test]
fn file_operations_have_options_or_steps() {
    let experiment = valid(
        "[workload.w]\nfs = { names = [\"delete_10k_2MB\"], files = 7, file-size = \"4k\" }\n\
         [workload.own]\nduration = \"2s\"\nfs = { cycle = [{ op = \"create\", timed = true }, { op = \"close\", timed = false }] }\n\
         [workload.\"c${threads}\"]\nfs = \"create_empty\"\naxis.threads = [1, 2]\n\
         [workload.sets]\nfs = { names = \"delete_10k_2k_200MB\", files = { small = 8, large = 2 } }\n",
    );
    assert_eq!(
        names(&experiment.workloads),
        ["delete_10k_2MB", "own", "c1", "c2", "sets"]
    );
    let operations = |index: usize| {
        experiment.workloads[index].jobs[0]
            .work
            .file_operations()
            .unwrap()
    };
    assert_eq!(
        (operations(0).sets[0].count, operations(0).sets[0].size),
        (7, 4096)
    );
    assert_eq!(operations(1).cycle.len(), 2);
    assert_eq!(experiment.workloads[3].jobs[0].clones, 2);
    let counts: Vec<u64> = operations(4).sets.iter().map(|set| set.count).collect();
    assert_eq!(counts, [8, 2]);
    let found = faults(
        "[workload.w]\nfs = { names = [\"create_empty\"], fils = 7 }\n[workload.v]\nfs = { cycle = [{ op = \"creat\", timed = true }] }\n",
    );
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn mistakes_are_named_with_their_place() {
    const C: &str = "[configuration.c]\ntarget = \"/x\"\n";
    const JOB: &str = "fio = { rw = \"read\", size = \"1m\" }\n";
    let layer = |lines: &str| format!("[configuration.c]\n{lines}\n{WORK}");
    for (text, expected) in [
        // Wrong types and units.
        (
            format!("aa = \"yes\"\nsettle = 1\n{C}{WORK}"),
            &[
                "1:6 `aa` is `true` or `false`, not the string \"yes\"",
                "2:10 `settle` is `true` or `false`, not the number 1",
            ][..],
        ),
        (
            format!("configuration = \"ext4\"\n{WORK}"),
            &["1:17 `configuration` is a table of tables, not the string \"ext4\""],
        ),
        (
            "[configuration]\ntarget = \".\"\n[workload]\nfs = \"x\"\n".to_owned(),
            &[
                "2:10 `configuration.target` is not a configuration with its name, but the string \".\"",
                "4:6 `workload.fs` is not a workload with its name, but the string \"x\"",
            ],
        ),
        (
            layer("target = \"loop on file on /x\"\nfile.size = \"12q\"\nfill = \"1 gig\""),
            &[
                "3:13 `file.size`: cannot read `12q` as a size: `4096`, `4KiB`, `1.5GiB`, `2GB`",
                "4:8 `fill`: cannot read `1 gig` as a size: `4096`, `4KiB`, `1.5GiB`, `2GB`",
            ],
        ),
        // Misspelt options of layers.
        (
            layer("target = \"zfs on zram\"\nzram.siez = \"1GiB\"\nzfs.recordsze = \"8K\""),
            &["3:6 unknown key `siez`", "4:5 unknown key `recordsze`"],
        ),
        (
            layer("layers = [\"ext4\", { kind = \"zrm\" }, { size = \"1G\" }]"),
            &[
                "2:11 `layers` is an array of tables, not the string \"ext4\"",
                "2:28 `kind` cannot be \"zrm\"",
                "2:37 a layer lacks `kind`",
            ],
        ),
        (layer("layers = []"), &["2:10 `layers` is empty"]),
        // The grammar of targets.
        (layer("target = \"\""), &["2:10 `target` lacks a layer"]),
        (
            layer("target = \"ext4 on\""),
            &["2:10 `ext4 on` is not a kind of layer"],
        ),
        (
            layer("target = \"ext4 onn loop on file on /x\""),
            &["2:10 `ext4 onn loop` is not a kind of layer"],
        ),
        (
            layer("target = \"ext4,loop,file\""),
            &["2:10 `ext4,loop,file` is not a kind of layer"],
        ),
        // Parameters.
        (
            format!(
                "params.a = \"${{b}}\"\nparams.b = \"x${{a}}\"\n[configuration.c]\ntarget = \"/${{a}}\"\n{WORK}"
            ),
            &[
                "1:12 the value of the parameter `a` depends on itself",
                "2:12 the value of the parameter `b` depends on itself",
            ],
        ),
        (
            format!("{C}[workload.\"w-${{bs}}\"]\nfs = \"create_empty\"\n"),
            &["3:11 `bs` is neither a parameter nor an axis"],
        ),
        // Axes.
        (
            format!(
                "params.bs = \"4k\"\n[workload.\"w${{bs}}\"]\n{JOB}axis.bs = [\"4k\", \"8k\"]\n"
            ),
            &["4:6 `bs` is both a parameter and an axis"],
        ),
        (
            format!(
                "[workload.\"w${{bs}}${{m}}\"]\n{JOB}axis.bs = [\"4k\", \"8k\"]\naxis.m = {{ a = {{ bs = \"1k\" }} }}\n"
            ),
            &["4:6 the axes `bs` and `m` both set `bs`"],
        ),
        (
            "[configuration.\"c${x}\"]\ntarget = \"/${x}\"\naxis.x = [\"a\", \"b\"]\n[workload.\"w${x}\"]\nfio = { rw = \"read\", size = \"${x}m\" }\naxis.x = [1, 2]\n".to_owned(),
            &["4:11 both a configuration and a workload have the axis `x`"],
        ),
        (
            format!("[workload.\"w${{bs}}\"]\n{JOB}axis.bs = []\n"),
            &["3:11 the axis `bs` has no values"],
        ),
        (
            format!(
                "[workload.\"w${{bs}}\"]\n{JOB}axis.bs = [\"4k\"]\nexclude = [{{ bs = \"4k\" }}]\n"
            ),
            &["4:11 `exclude` leaves out all combinations"],
        ),
        (
            format!(
                "[workload.\"w${{bs}}\"]\n{JOB}axis.bs = [\"4k\"]\nexclude = {{ bs = \"4k\" }}\nzip = [\"bs\"]\n"
            ),
            &[
                "4:11 `exclude` is an array, not a table",
                "5:7 `zip` has no effect on a single axis",
            ],
        ),
        (
            "[workload.\"w${bs}${rw}\"]\nfio.size = \"1m\"\naxis.bs = [\"4k\", \"8k\"]\naxis.rw = [\"read\"]\nzip = [\"bs\", \"rw\"]\n".to_owned(),
            &["5:7 the axes of `zip` differ in length: `bs` has 2 values, `rw` has 1 value"],
        ),
        // Names.
        (
            format!("{C}[workload.w]\nfs = \"create_empty\"\nonly = \"d\"\n"),
            &["5:8 unknown configuration `d`"],
        ),
        (
            format!(
                "[table]\nrows = \"wrkload\"\ncolumns = [\"bss\", \"bs\"]\nunit = \"MB\"\n{C}{WORK}"
            ),
            &[
                "2:8 `wrkload` is not a dimension of the trials",
                "3:12 `bss` is not a dimension of the trials",
                "4:8 `table.unit` cannot be \"MB\"",
            ],
        ),
        // Keys without effect.
        (
            format!("{C}[workload.w]\n{JOB}files = \"rollback\"\n"),
            &["5:1 the target of `c` has no snapshots"],
        ),
        (
            format!("{C}{WORK}search = {{ axis = \"iodepth\", until = \"p99 < 2ms\" }}\n"),
            &["5:12 `search.axis` cannot be \"iodepth\": only jobs of fio have a depth"],
        ),
        // Texts that are not valid TOML; tabs, line ends and byte order marks.
        (
            format!("rounds = 3\nrounds = 4\n{C}{WORK}"),
            &["2:1 `rounds` is defined twice"],
        ),
        (
            format!("\u{feff}rounds = 'x'\r\n{C}{WORK}"),
            &["1:10 `rounds` is a whole number, not the string \"x\""],
        ),
        (
            format!("\trounds\t=\t'x'\n{C}{WORK}"),
            &["1:11 `rounds` is a whole number, not the string \"x\""],
        ),
    ] {
        assert_eq!(faults(&text), expected, "{text}");
    }
}

#[test]
fn deep_nesting_and_long_texts_are_read() {
    let deep = format!("a = {}{}\n{WORK}", "[".repeat(3000), "]".repeat(3000));
    assert!(faults(&deep).len() > 1);
    let long = format!("{WORK}{}", "# a long comment\n".repeat(100_000));
    assert_eq!(valid(&long).workloads.len(), 1);
}

#[test]
fn keys_without_effect_are_warned_of() {
    let warnings = |text: &str| -> Vec<String> {
        let found = valid(text).warnings;
        let found = found.iter().map(|said| {
            let place = said.place.as_ref().unwrap();
            format!("{}:{} {}", place.line, place.column, said.message)
        });
        found.collect()
    };
    assert_eq!(
        warnings(&format!(
            "params.m = 1\nparams.n = 1\nname = \"x${{n}}\"\n{WORK}"
        )),
        ["1:8 the parameter `m` has no effect"]
    );
    assert_eq!(
        warnings("[workload.w]\nfs = \"create_empty\"\nfamily = \"f\"\n"),
        ["3:1 the family `f` has a single workload"]
    );
    assert_eq!(
        warnings("[workload.w]\nfs = [\"create_empty\", \"delete_10k_2MB\"]\nduration = \"5s\"\n"),
        ["3:1 the duration does not apply to `delete_10k_2MB`, which ends when `files` is empty"]
    );
}

#[test]
fn parameters_are_replaced_in_parameters() {
    let found = valid(
        "params = { n = \"${m}\", m = 3, folder = \"/x/${name}-$${n}\", name = \"y${n}\" }\nrounds = \"${n}\"\nname = \"${folder}\"\n\
         [workload.w]\nfs = \"create_empty\"\n",
    );
    assert_eq!((found.rounds, found.name.as_str()), (Some(3), "/x/y3-${n}"));
}

#[test]
fn misspelt_sections_are_those_of_an_experiment() {
    let text = "[config.c]\ntarget = \".\"\n[workloads.w]\nfs = \"create_empty\"\n";
    assert!(iodyno_experiment::is_experiment(text));
    let found = read_with(text, &[]).unwrap_err();
    let hints: Vec<&str> = found
        .iter()
        .filter_map(|said| said.hint.as_deref())
        .collect();
    assert_eq!(
        hints,
        ["did you mean `configuration`?", "did you mean `workload`?"]
    );
}

#[test]
fn unknown_metrics_are_reported_together_and_with_their_place() {
    let work = "[workload.w]\nfio = { rw = \"write\", size = \"1m\" }\n";
    let text = format!(
        "metric = [\"iops\", \"foo\"]\ntable.metric = [\"p99\", \"iopz\"]\n{work}primary = \"writ.p99\"\n\
         search = {{ axis = \"numjobs\", until = \"x99 < 2ms\" }}\nfils = 1\n"
    );
    assert_eq!(
        faults(&text),
        [
            "1:19 `foo` is not a metric",
            "2:24 `iopz` is not a metric",
            "5:11 `writ.p99` is not a metric",
            "5:11 `primary` has no effect: the trials of a search are not compared",
            "6:38 `x99` is not a metric",
            "7:1 unknown key `fils`",
        ]
    );
    valid(&format!(
        "metric = \"all\"\ntable.metric = \"p99\"\n{work}primary = \"write.p99\"\n"
    ));
}

#[test]
fn an_image_has_whole_sectors_and_a_size_its_unit() {
    let found = layers("target = \"loop on file on /x\"\nfile.size = \"500MB\"");
    assert!(matches!(
        found[1],
        Layer::File {
            size: 500_002_816,
            ..
        }
    ));
    let found = layers("target = \"loop on file on /x\"\nfile.size = 1048576");
    assert!(matches!(
        found[1],
        Layer::File {
            size: 1_048_576,
            ..
        }
    ));
    let text =
        format!("{WORK}[configuration.c]\ntarget = \"loop on file on /x\"\nfile.size = \"64\"\n");
    assert_eq!(faults(&text), ["5:13 `file.size` lacks its unit"]);
}

#[test]
fn an_empty_list_of_configurations_is_an_error() {
    let text = format!("{WORK}only = []\n");
    assert_eq!(faults(&text), ["3:8 `only` is empty"]);
}

#[test]
fn sizes_are_written_as_in_fio_too() {
    let found = layers("target = \"loop on file on /x\"\nfile.size = \"128m\"");
    assert!(matches!(found[1], Layer::File { size, .. } if size == 128 << 20));
}

#[test]
fn the_percentile_of_a_search_is_measured() {
    let found = valid(
        "[workload.w]\nfio = { rw = \"read\", size = \"1m\" }\nsearch = { axis = \"rate_iops\", until = \"p98 < 2ms\" }\n",
    );
    let percentiles = &found.workloads[0].jobs[0].reporting.percentiles;
    assert!(percentiles.contains(&98.0), "{percentiles:?}");
}

#[test]
fn a_search_has_an_axis_and_a_bound() {
    let work = |search: &str| {
        format!("[workload.w]\nfio = {{ rw = \"read\", size = \"1m\" }}\nsearch = {search}\n")
    };
    let found = valid(&work("{ axis = \"rate_iops\", until = \"p99 < 2ms\" }"));
    assert_eq!(found.workloads[0].search.as_ref().unwrap().until.limit, 2e6);
    for wrong in [
        "{ axis = \"rate\", until = \"p99 < 2ms\" }",
        "{ axis = \"rate_iops\" }",
        "{ axis = \"rate_iops\", until = \"p99 2ms\" }",
        "3",
    ] {
        assert_eq!(faults(&work(wrong)).len(), 1, "{wrong}");
    }
}

#[test]
fn an_experiment_is_recognised_also_with_errors() {
    for (text, expected) in [
        ("[workload.w]\nfs = \"create_empty\"", true),
        ("params.x = \n[configuration.c]", true),
        ("duration = \"1s\"\n[[cycle]]\nop = \"create\"", false),
        ("", false),
    ] {
        assert_eq!(iodyno_experiment::is_experiment(text), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(lines in proptest::collection::vec(proptest::sample::select(LINES), 0..12)) {
        let _ = read_with(&lines.join("\n"), &[("a", "1")]);
    }
}

const LINES: &[&str] = &[
    "params.a = 1",
    "params = { a = {} }",
    "preset.x.a = 2",
    "rounds = \"${a}\"",
    "[configuration.c]",
    "[configuration.\"${b}\"]",
    "target = \"ext4 on loop on file on ${a}/x\"",
    "target = \"zfs on zram\"",
    "zfs.layout = \"99999999 x mirror 99999999\"",
    "file.size = \"1GiB\"",
    "layers = [{ kind = \"file\" }, 3]",
    "[workload.w]",
    "[workload.\"${b}\"]",
    "fio = { rw = \"read\" }",
    "fio = [1]",
    "fs = \"create_empty\"",
    "fs = { names = [] }",
    "fileio = { threads = 0 }",
    "axis.b = [1, 2]",
    "axis.b = { x = { y = 1 } }",
    "axis = 3",
    "zip = [[\"b\"]]",
    "exclude = [{ b = 1 }]",
    "family = \"${b}\"",
    "= 3",
    "[",
    "\"é\" = '",
    "destroy = 3",
    "search = {}",
];

#[test]
fn servers_of_layers_are_pinned() {
    let found = layers(
        "target = \"zfs on delay on file on /x\"\nfile.size = \"1GiB\"\nzfs.cpus = \"0-3\"\ndelay = { read = \"1ms\", numa = \"0\" }",
    );
    let (Layer::Zfs(zfs), Layer::Delay { pinning, .. }) = (&found[0], &found[1]) else {
        panic!("{found:?}");
    };
    assert_eq!(zfs.pinning.cpus.as_deref(), Some("0-3"));
    assert!(zfs.properties.is_empty());
    assert_eq!(pinning.numa.as_deref(), Some("0"));
    let wrong = faults(&with_target(
        "target = \"zfs on zram\"\nzram.size = \"1GiB\"\nzfs.cpus = \"all\"",
    ));
    assert_eq!(wrong, ["4:12 `all` is not a list of numbers"]);
}

#[test]
fn arrays_and_mapped_devices_have_the_devices_that_they_need_below_them() {
    let count = |lines: &str| {
        let found = layers(&format!("{lines}\nfile.size = \"1GiB\""));
        found.iter().find_map(|layer| match layer {
            Layer::File { count, .. } => Some(*count),
            _ => None,
        })
    };
    for (target, expected) in [
        ("ext4 on dm on loop on file on /x\"", 1),
        ("dm on loop on file on /x\"\ndm.target = \"log-writes\"", 2),
        ("ext4 on md on loop on file on /x\"", 2),
        ("ext4 on md on loop on file on /x\"\nfile.count = 3", 3),
        ("md on loop on file on /x\"\nmd.level = \"raid10\"", 4),
        ("ext4 on md on vm on file on /x\"\nvm.guests = 3", 6),
        (
            "md on dm on loop on file on /x\"\ndm.target = \"log-writes\"",
            4,
        ),
        (
            "zfs on dm on loop on file on /x\"\nzfs.layout = \"mirror 2\"",
            2,
        ),
        (
            "vm on zfs on file on /x\"\nzfs.volume = \"1GiB\"\nvm.guests = 4",
            1,
        ),
    ] {
        assert_eq!(
            count(&format!("target = \"{target}")),
            Some(expected),
            "{target}"
        );
    }
    let found = layers(
        "target = \"md on dm on loop on file on /x\"\nfile.size = \"1GiB\"\n\
         md = { level = \"raid10\", layout = \"f2\", chunk = \"64KiB\", assume_clean = true }\n\
         dm = { target = \"delay\", read = \"2ms\", write = \"3ms\" }",
    );
    let array = MdLayer {
        level: MdLevel::Raid10,
        layout: Some("f2".to_owned()),
        chunk: Some(64 << 10),
        bitmap: false,
        assume_clean: true,
    };
    let delay = DmTarget::Delay {
        read_ns: 2_000_000,
        write_ns: 3_000_000,
        flush_ns: 3_000_000,
    };
    assert_eq!(found[..2], [Layer::Md(array), Layer::Dm(delay)]);
    for (lines, expected) in [
        (
            "target = \"md on loop on file on /x\"\nfile = { size = \"1GiB\", count = 1 }",
            "3:25 `md` needs at least 2, and `file.count` is 1",
        ),
        (
            "target = \"md on vm on file on /x\"\nvm.guests = 2\nfile = { size = \"1GiB\", count = 2 }",
            "4:25 `md` needs at least 4, and `file.count` is 2",
        ),
        (
            "target = \"md on /x\"\nmd.chunk = \"64KiB\"",
            "3:4 `md.chunk` has no effect with `raid1`",
        ),
        (
            "target = \"md on /x\"\nmd = { level = \"raid10\", layout = \"x2\" }",
            "3:35 `md.layout` cannot be \"x2\"",
        ),
        (
            "target = \"dm on /x\"\ndm = { target = \"crypt\", read = \"1ms\" }",
            "3:26 `dm.read` has no effect with the target `crypt`",
        ),
        (
            "target = \"dm on /x\"\ndm = { target = \"flakey\", up = \"1s\" }",
            "3:6 `dm.target = \"flakey\"` lacks `dm.up` or `dm.down`",
        ),
        (
            "target = \"dm on /x\"\ndm = { target = \"flakey\", up = \"500ms\", down = \"1s\" }",
            "3:27 `dm.up` cannot be 500 ms",
        ),
        (
            "target = \"dm on /x\"\ndm = { target = \"delay\", read = \"0s\" }",
            "3:6 `dm.target = \"delay\"` delays nothing",
        ),
        (
            "target = \"delay on /x\"\ndelay.read = \"500us\"",
            "3:7 `delay.read` cannot be 500 µs",
        ),
        (
            "target = \"ext4 on vm on file on /x\"\nfile.size = \"1GiB\"\nvm.disk = { interface = \"nvme\", zone = \"4MiB\" }",
            "2:10 `ext4` cannot use disks with zones",
        ),
        (
            "target = \"nfs on ext4 on zram\"\nzram.size = \"1GiB\"",
            "2:10 `nfs` is made in virtual machines only",
        ),
        (
            "target = \"ext4 on /x\"\nenv = { \"A B\" = 1 }",
            "3:9 `A B` is not a name of an environment variable",
        ),
        (
            "target = \"ext4 on /x\"\nsample = [\"\"]",
            "3:11 an empty name of a server process matches none",
        ),
        (
            "target = \"dm on file on /x\"\nfile.size = \"1GiB\"",
            "2:10 `dm` needs devices below it",
        ),
    ] {
        assert_eq!(faults(&with_target(lines)), [expected], "{lines}");
    }
}

#[test]
fn virtual_machines_lie_on_files_or_devices_and_have_a_disk_each() {
    let found = layers(
        "target = \"ext4 on vm on loop on file on /x\"\nfile.size = \"1GiB\"\nvm.guests = 4\nvm.kernel = \"/k\"\n\
         vm.side_by_side = true\nvm.host_cpus = \"0-3\"\n\
         vm.disk = { interface = \"virtio-scsi\", cache = \"directsync\", aio = \"native\", iothread = true }",
    );
    let (Layer::Vm(vm), Layer::File { count, .. }) = (&found[1], &found[3]) else {
        panic!("{found:?}");
    };
    assert_eq!(*count, 4);
    let disk = VmDisk {
        interface: DiskInterface::VirtioScsi,
        cache: DiskCache::DirectSync,
        aio: DiskAio::Native,
        iothread: true,
        ..VmDisk::default()
    };
    let expected = VmLayer {
        guests: 4,
        kernel: Some("/k".into()),
        disks: vec![disk],
        pinning: Pinning {
            cpus: Some("0-3".to_owned()),
            numa: None,
        },
        side_by_side: true,
        ..VmLayer::default()
    };
    assert_eq!(*vm, expected);
    let shared = layers("target = \"vm on /x\"\nvm.share = \"fsd {socket} {folder}\"");
    assert_eq!(shared[1], Layer::Directory { path: "/x".into() });
    let own = layers("target = \"vm on /x\"\nvm.image = { path = \"/i/d.qcow2\", user = \"ada\" }");
    let Layer::Vm(VmLayer {
        image: Some(image), ..
    }) = &own[0]
    else {
        panic!("{own:?}");
    };
    assert_eq!((image.format(), image.user.as_str()), ("qcow2", "ada"));
    let plain = layers("target = \"vm on file on /x\"\nfile.size = \"1GiB\"");
    assert_eq!(plain[0], Layer::Vm(VmLayer::default()));
    for (target, message) in [
        (
            "vm on /x\"\nvm.disk = { interface = \"nvme\", iothread = true }\nvm.kernel = \"/k",
            "3:33 `vm.disk.iothread` has no effect with `nvme`",
        ),
        (
            "vm on /x\"\nvm.accel = \"xen",
            "3:12 `vm.accel` cannot be \"xen\"",
        ),
        (
            "vm on tmpfs\"\ntmpfs.size = \"1GiB",
            "2:10 `vm` is on a folder, and no server shares it with the guests",
        ),
        (
            "vm on file on /x\"\nfile.size = \"1GiB\"\nvm.share = \"fsd {socket} {folder}",
            "4:4 `vm.share` shares folders, and there are devices or files below `vm`",
        ),
        (
            "vm on /x\"\nvm.share = \"fsd {socket}",
            "3:12 `vm.share` lacks `{folder}`: `fsd {socket}`",
        ),
        (
            "vm on /x\"\nvm.disk = { cache = \"writeback\", aio = \"native\" }\nvm.accel = \"tcg",
            "3:34 qemu has no `aio=native` with `cache=writeback`",
        ),
        (
            "vm on /x\"\nvm.share = \"fsd {socket} {folder} {stats} {Stat} {\\\"a\\\":1} {stat}",
            "3:12 unknown name `{stat}` in `vm.share`",
        ),
        (
            "vm on /x\"\nvm.disk = { interface = \"vhost-user-blk\", command = \"d {socket} {folder}\" }\nvm.accel = \"tcg",
            "3:43 unknown name `{folder}` in `vm.disk.command`",
        ),
        (
            "vm on /x\"\nvm.disk = { zone = \"4MiB\" }\nvm.accel = \"tcg",
            "3:13 a disk with `interface=virtio-blk` has no zones",
        ),
        (
            "vm on file on /x\"\nfile.size = \"1GiB\"\nvm.disk.origin = \"clone",
            "1:1 `vm.disk.origin` has no effect: a clone or copy of an empty disk has no content",
        ),
        (
            "vm on loop on file on /x\"\nfile.size = \"1GiB\"\nfill = \"1MiB\"\nvm.disk.origin = \"clone",
            "1:1 `vm.disk.origin = \"clone\"` needs image files",
        ),
        (
            "vm on /x\"\nvm.image.user = \"ada",
            "3:4 `vm.image` lacks `path`",
        ),
        (
            "vm on /x\"\nvm.kernel = \"/k\"\nvm.image.path = \"/i",
            "3:4 `vm.kernel` has no effect with `vm.image`",
        ),
        (
            "vm on /x\"\nvm.image = { path = \"/i\", append = \"quiet\" }\nvm.accel = \"tcg",
            "3:27 `vm.image.append` has no effect without `vm.image.kernel`",
        ),
        (
            "vm on /x\"\nvm.disk.interface = \"vhost-user-blk",
            "3:9 `vm.disk.interface = \"vhost-user-blk\"` lacks the command of its server",
        ),
        (
            "vm on /x\"\nvm.disk = { interface = \"vhost-user-blk\", command = \"d {socket} {file}\", aio = \"native\" }\nvm.accel = \"tcg",
            "3:74 `vm.disk.aio` has no effect with `vhost-user-blk`",
        ),
        (
            "vm on /x\"\nvm.disk.command = \"blkd {socket} {file}",
            "3:9 `vm.disk.command` has no effect with `interface=virtio-blk`",
        ),
        (
            "vm on file on /x\"\nfile.size = \"1GiB\"\nfile.count = 3\nvm.guests = 2\nvm.accel = \"tcg",
            "4:6 `vm.guests` is 2, and `file.count` is 3: not a multiple of it",
        ),
        (
            "vm on md on loop on file on /x\"\nfile.size = \"1GiB\"\nvm.guests = 4\nvm.accel = \"tcg",
            "4:4 `vm.guests` is 4, and `md` below gives a device",
        ),
        (
            "vm on zfs on file on /x\"\nfile.size = \"1GiB\"\nzfs = { volume = \"1GiB\", count = 3 }\nvm.guests = 2\nvm.accel = \"tcg",
            "4:26 `vm.guests` is 2, and `zfs.count` is 3: not a multiple of it",
        ),
        (
            "zfs on file on /x\"\nfile.size = \"1GiB\"\nzfs.count = 2\nzfs.sync = \"always",
            "4:5 `zfs.count` has no effect: there is one dataset",
        ),
        (
            "vm on /x\"\nvm.disk = { chache = \"none\" }\nvm.accel = \"tcg",
            "3:13 unknown key `chache`",
        ),
    ] {
        let found = faults(&with_target(&format!("target = \"{target}\"")));
        assert!(
            found.len() == 1 && found[0].starts_with(message),
            "{target}: {found:?}"
        );
    }
}

#[test]
fn only_storage_of_its_own_is_preconditioned() {
    let made = valid(&with_target(
        "target = \"ext4 on /dev/x\"\nprecondition = \"1h\"",
    ));
    let provision = made.configurations[0].provision().unwrap();
    assert_eq!(provision.precondition_ns, 3_600_000_000_000);
    for target in ["/x", "directory on /x", "overlay on /x"] {
        let found = faults(&with_target(&format!(
            "target = \"{target}\"\nprecondition = \"1h\""
        )));
        assert_eq!(found.len(), 1, "{target}: {found:?}");
        assert!(found[0].starts_with("3:1 "), "{found:?}");
    }
}

const THREADS: &str = r#"
[configuration.here]
target = "/data"

[workload.prepare]
fileio = { command = "prepare", file-total-size = "128M" }

[workload."${file-test-mode}-${threads}"]
fileio = { file-total-size = "128M" }
axis.file-test-mode = ["rndrd", "rndwr"]
axis.threads = [1, 16]
"#;

#[test]
fn an_array_in_place_of_one_value_is_reported_once_with_the_axis_to_write() {
    let text = format!(
        "[configuration.c]\ntarget = \"mirror on file on /d\"\nfile.size = \"1MiB\"\n\
         mirror.policy = [\"modulo\", \"adaptive\"]\n{WORK}family = [\"a\", \"b\"]\n"
    );
    let faults = read_with(&text, &[]).unwrap_err();
    let told = |name: &str| -> Vec<&Diagnostic> {
        let named = faults.iter().filter(|it| it.message.contains(name));
        named.collect()
    };
    for (name, axis) in [
        ("`mirror.policy`", "`axis.\"mirror.policy\"`"),
        ("`family`", "`axis.family`"),
    ] {
        let found = told(name);
        let message = format!("{name} is one value, not an array");
        assert_eq!(found.len(), 1, "{faults:?}");
        assert_eq!(found[0].message, message);
        let hint = format!("for a trial of each value, write the array as {axis}");
        assert_eq!(found[0].hint.as_deref(), Some(hint.as_str()));
    }
    // A value that cannot have an axis does not get this hint.
    let faults = read_with(&format!("baseline = [\"a\"]\n{WORK}"), &[]).unwrap_err();
    assert!(!faults.iter().any(|it| it.message.contains("one value")));
    // The axis that is named is accepted.
    let axis = text
        .replace("mirror.policy =", "axis.\"mirror.policy\" =")
        .replace("n.c]", "n.\"c-${mirror.policy}\"]")
        .replace("family = [\"a\", \"b\"]\n", "");
    assert_eq!(valid(&axis).configurations.len(), 2);
}

#[test]
fn every_unknown_layer_of_a_target_is_reported() {
    assert_eq!(
        faults(&format!(
            "[configuration.a]\ntarget = \"ext5 on lop on file on /x\"\n{WORK}"
        )),
        [
            "2:10 `ext5` is not a kind of layer",
            "2:10 `lop` is not a kind of layer"
        ]
    );
}

#[test]
fn the_compared_dimension_is_a_configuration_a_workload_or_an_axis() {
    let with = |keys: &str| valid(&format!("{keys}{THREADS}"));
    let experiment = with("compare = \"threads\"\nbaseline = \"16\"\n");
    assert_eq!(experiment.compare.as_deref(), Some("threads"));
    assert_eq!(
        with("compare = \"workload\"\n").compare.as_deref(),
        Some("workload")
    );
    assert_eq!(
        faults(&format!("compare = \"thread\"\n{THREADS}")),
        ["1:11 unknown axis `thread`"]
    );
    assert_eq!(
        faults(&format!(
            "compare = \"threads\"\nbaseline = \"2\"\n{THREADS}"
        )),
        ["2:12 the baseline `2` is not a value of `threads`"]
    );
    let one = THREADS.replace("[1, 16]", "[16]");
    assert_eq!(
        faults(&format!("compare = \"threads\"\n{one}")),
        ["1:11 `threads` has one value, `16`"]
    );
    // An error of a workload does not make its axis unknown.
    let broken = THREADS.replace("\"128M\"", "\"much\"");
    let keys = "compare = \"threads\"\nbaseline = \"16\"\ntable.rows = [\"threads\"]\n";
    let found = faults(&format!("{keys}{broken}"));
    assert!(found.iter().all(|it| it.contains("much")), "{found:?}");
}

const TWO_NODES: &str = "[node.a]\nat = \"ssh://10.0.0.1\"\nsudo = true\n[node.b]\nat = \"local\"\n[node.host]\nat = \"ssh://h\"\njobs = false\n";

#[test]
fn nodes_are_read_and_named_by_configurations_and_workloads() {
    let text = format!(
        "{TWO_NODES}[configuration.c]\ntarget = \"/x\"\nnodes = [\"a\", \"b\"]\n[configuration.d]\ntarget = \"/x\"\n\
         [workload.w]\nfs = \"create_empty\"\nnodes = \"b\"\n"
    );
    let experiment = valid(&text);
    let nodes: Vec<(&str, &str, bool, bool)> = experiment
        .nodes
        .iter()
        .map(|it| (&*it.name, &*it.at, it.sudo, it.only_sampled))
        .collect();
    assert_eq!(
        nodes,
        [
            ("a", "ssh://10.0.0.1", true, false),
            ("b", "local", false, false),
            ("host", "ssh://h", false, true)
        ]
    );
    assert_eq!(experiment.configurations[0].nodes, ["a", "b"]);
    let plan = iodyno_model::Plan {
        nodes: experiment.nodes,
        ..iodyno_model::Plan::new("p", experiment.configurations, experiment.workloads)
    };
    assert_eq!((plan.nodes_of(0), plan.nodes_of(1)), (vec![1], vec![1]));
}

#[test]
fn every_error_of_nodes_has_its_place() {
    for (lines, expected) in [
        (
            "[node.a]\nat = \"h\"\n",
            "2:6 `h` is not an address: it does not begin with `ssh://`",
        ),
        ("[node.a]\nsudo = true\n", "1:1 the node `a` lacks `at`"),
        (
            "[node.\"a b\"]\nat = \"local\"\n",
            "1:7 \"a b\" cannot be the name of a node: it has other characters than letters, digits, `.`, `_` and `-`",
        ),
        (
            "[node.a]\nat = \"local\"\nsudo = true\n",
            "3:1 `sudo` has no effect on `a`, which is this host",
        ),
        (
            "[node.a]\nat = \"local\"\njobs = false\n",
            "1:2 no node has jobs",
        ),
        (
            "[node.a]\nat = \"local\"\nport = 1\n",
            "3:1 unknown key `port`",
        ),
    ] {
        assert_eq!(faults(&format!("{lines}{WORK}")), [expected], "{lines}");
    }
    for (nodes, expected) in [
        ("\"c\"", "unknown node `c`"),
        ("[]", "`nodes` is empty"),
        ("[\"a\", \"a\"]", "`a` is twice in `nodes`"),
        ("\"host\"", "the node `host` has no jobs"),
    ] {
        let found = faults(&format!("{TWO_NODES}{WORK}nodes = {nodes}\n"));
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
    let apart = format!(
        "{TWO_NODES}[configuration.c]\ntarget = \"/x\"\nnodes = \"a\"\n{WORK}nodes = \"b\"\n"
    );
    assert_eq!(
        faults(&apart),
        ["12:11 `w` and the configuration `c` have no node in common"]
    );
    let with_fio = "[node.a]\nat = \"local?fio\"\n[configuration.c]\ntarget = \"ext4 on zram\"\nzram.size = \"1g\"\n";
    assert_eq!(
        faults(&format!("{with_fio}{WORK}")),
        ["6:11 `c` has storage that is made, which the node `a` does not do: fio does its I/O"]
    );
    assert_eq!(
        faults(&format!("{WORK}nodes = \"a\"\n")),
        ["3:9 unknown node `a`"]
    );
}

#[test]
fn nvme_commands_need_an_nvme_device() {
    let job = "[workload.w]\nfio = { rw = \"read\", ioengine = \"io_uring_cmd\", size = \"1m\" }\n";
    for (target, good) in [
        ("target = \"device on /dev/x\"", true),
        (
            "target = \"vm on /dev/x\"\nvm.disk.interface = \"nvme\"",
            true,
        ),
        ("target = \"vm on /dev/x\"", false),
        ("target = \"ext4 on vm on /dev/x\"", false),
        ("target = \"zram\"\nzram.size = \"1g\"", false),
    ] {
        let text = format!("[configuration.c]\n{target}\n{job}");
        match read_with(&text, &[]) {
            Ok(_) => assert!(good, "{target}"),
            Err(faults) => assert!(
                !good && faults.len() == 1 && faults[0].message.contains("needs an NVMe device"),
                "{target}: {faults:?}"
            ),
        }
    }
}

#[test]
fn keys_without_effect_are_errors() {
    let job = |keys: &str| {
        let table = "fio = { rw = \"read\", ioengine = \"psync\", size = \"1m\", runtime = 1, time_based = 1 }";
        format!("[workload.w]\n{table}\n{keys}\n")
    };
    let matrix = |keys: &str| format!("[configuration.\"${{a}}\"]\n{keys}\n{WORK}");
    let mut missing = Vec::new();
    for (text, expected) in [
        // Layers.
        (
            matrix("target = \"ext4 on zram\"\nzram.size = \"1g\"\naxis.a.x = { zfs = { sync = \"always\" } }\naxis.a.y = {}"),
            "4 `zfs` has no effect: it is not a layer of `target`",
        ),
        (
            with_target("target = \"file on /x\"\nfile.size = \"1m\"\ndirectory.path = \"/y\""),
            "4 `directory` has no effect: `target` is not `directory` without a path",
        ),
        (
            with_target("target = \"/x\"\nhost.queue.scheduler = \"none\""),
            "3 `host.queue` has no effect: no layer of the target is a device",
        ),
        (
            with_target("target = \"tmpfs\"\ntmpfs.size = \"1m\"\nhost.queue.scheduler = \"none\""),
            "4 `host.queue` has no effect: no layer of the target is a device",
        ),
        (
            with_target("target = \"zfs on file on /x\"\nfile.size = \"1g\"\nzfs.volume = \"1m\"\nzfs.recordsize = \"8K\""),
            "5 `zfs.recordsize` has no effect: a volume does not have this property",
        ),
        (
            with_target("target = \"zfs on file on /x\"\nfile.size = \"1g\"\nzfs.volblocksize = \"8K\""),
            "4 `zfs.volblocksize` has no effect: a dataset does not have this property",
        ),
        // Times.
        (
            job("duration = \"2s\""),
            "2 both `duration` and `runtime` give the measured time",
        ),
        (
            "[workload.\"w${runtime}\"]\nfio = \"job.fio\"\nduration = \"2s\"\naxis.runtime = [1, 2]\n".to_owned(),
            "4 both `duration` and `runtime` give the measured time",
        ),
        (
            "[workload.w]\nfileio = { file-test-mode = \"rndrd\", max-time = 3 }\nduration = \"2s\"\n".to_owned(),
            "2 both `duration` and `max-time` give the measured time",
        ),
        (
            "[workload.w]\nfileio = { command = \"prepare\" }\nduration = \"2s\"\n".to_owned(),
            "3 `duration` has no effect: `prepare` creates the files and ends",
        ),
        // Files.
        (
            "[workload.w]\nfs = \"create_empty\"\nfiles = \"shared\"\n".to_owned(),
            "3 `files` has no effect: file operations create their files in each trial",
        ),
        (
            job("files = \"shared\"\nfamily = \"f\"").replace("size =", "filename_format = \"$jobname.x\", size ="),
            "3 the workloads of the family cannot share files: `filename_format` contains `$jobname`",
        ),
        // Metrics of ops that the workload does not issue, also beside one that does.
        (
            job("primary = \"write.p99\"") + WORK.replace(".w]", ".v]").as_str(),
            "3 no job issues `write`: there is no `write.p99`",
        ),
        (
            job("search = { axis = \"rate_iops\", until = \"write.p99 < 2ms\" }"),
            "3 no job issues `write`: there is no `write.p99`",
        ),
        (
            format!("[table]\nmetric = [\"iops\", \"trim.p50\"]\n{}", job("")),
            "2 no job issues `trim`: there is no `trim.p50`",
        ),
        (
            format!("metric = \"write.p99\"\n{}", job("")),
            "1 no job issues `write`: there is no `write.p99`",
        ),
        // Searches.
        (
            job("search = { axis = \"iodepth\", until = \"p99 < 2ms\" }"),
            "3 `search.axis` cannot be \"iodepth\": psync does one op at a time",
        ),
        (
            job("primary = \"iops\"\nsearch = { axis = \"rate_iops\", until = \"p99 < 2ms\" }"),
            "3 `primary` has no effect: the trials of a search are not compared",
        ),
        // Axes that would replace a dimension of every trial.
        (
            "[workload.\"w${workload}\"]\nfs = { names = \"create_empty\", threads = \"${workload}\" }\naxis.workload = [1, 2]\n".to_owned(),
            "3 an axis cannot be named `workload`",
        ),
    ] {
        let found = read_with(&text, &[]).expect_err(&text);
        let found: Vec<String> = found
            .iter()
            .map(|fault| {
                let line = fault.place.as_ref().map_or(0, |place| place.line);
                format!("{line} {}", fault.message)
            })
            .collect();
        if !found.contains(&expected.to_owned()) {
            missing.push(format!("{expected}: {found:?}"));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    // Some target of the section has the layer; the workload has the op.
    valid(&matrix(
        "zram.size = \"1g\"\nzfs.sync = \"always\"\naxis.a = { x = { target = \"ext4 on zram\" }, y = { target = \"zfs on zram\" } }",
    ));
    valid(&job("primary = \"read.p99\""));
    valid(&job("primary = \"sync.p99\""));
    let fileio =
        "[workload.w]\nfileio = { file-test-mode = \"rndrw\", file-total-size = \"16M\" }\n";
    for metric in ["op.p95", "read.p99", "write.mean"] {
        valid(&format!("{fileio}primary = \"{metric}\"\n"));
    }
}

#[test]
fn settings_on_a_path_alone_make_a_folder_in_it_with_a_warning() {
    let warnings = |lines: &str| -> Vec<String> {
        let found = valid(&with_target(lines)).warnings;
        found.into_iter().map(|said| said.message).collect()
    };
    assert_eq!(
        warnings("target = \"/x\"\nhost.sysctl.\"vm.dirty_ratio\" = 10"),
        ["with `host`, the trials use a new folder in `/x`, which is made as `fresh` says"]
    );
    for quiet in [
        "target = \"/x\"",
        "target = \"directory on /x\"\nfill = \"1m\"",
        "target = \"/x\"\nsetup = \"mount /x\"\nenv.A = \"1\"",
    ] {
        assert_eq!(warnings(quiet), Vec::<String>::new());
    }
}

const SIMULATED: &str = "[workload.w]\nfio = { rw = 'read', size = '1g', ioengine = 'io_uring', iodepth = 4, direct = 1 }\n";

#[test]
fn a_simulated_target_replaces_the_engine_and_keeps_the_depth() {
    let text = format!(
        "[configuration.'m-${{policy}}']\ntarget = '2 x mirror of sim:hdd x 2 + sim:hdd*2'\n\
         mirror = {{ policy = '${{policy}}', queues = 4 }}\n\
         sim = {{ record = '128KiB', prefetch = '16MiB', stripe = '1MiB', aggregation = '128KiB' }}\n\
         axis.policy = ['modulo', 'adaptive']\n{SIMULATED}"
    );
    let experiment = valid(&text);
    let target = experiment.configurations[1].simulated().unwrap();
    assert_eq!(target.to_string(), "2 x mirror of sim:hdd x 2 + sim:hdd*2");
    assert_eq!(
        (target.policy(), target.queues, target.count),
        (Some("adaptive"), 4, 2)
    );
    assert_eq!((target.stripe, target.aggregation), (1 << 20, 128 << 10));
    let records = target.records.unwrap();
    assert_eq!((records.length, records.prefetch), (128 << 10, 16 << 20));
    let workload = &experiment.workloads[0];
    let engine = workload.jobs[0].work.engine().unwrap();
    assert_eq!((engine.kind.name(), engine.depth), ("sim", 4));
    assert!(workload.in_virtual_time());
}

#[test]
fn keys_for_real_storage_are_refused_on_a_simulated_target_and_the_reverse() {
    for (configuration, expected) in [
        (
            "target = 'sim:hdd'\nmirror.policy = 'modulo'",
            "`mirror` has no effect: `target` is not a mirror",
        ),
        (
            "target = 'mirror of sim:hdd x 2'\nmirror.legs = 3",
            "`mirror.legs` has no effect",
        ),
        (
            "target = 'mirror of sim:hdd x 2'\nfile.size = '1GiB'",
            "`file` has no effect",
        ),
        (
            "target = 'sim:hdd'\nfill = '1GiB'",
            "`fill` has no effect: the target is simulated",
        ),
        (
            "target = 'sim:hdd'\nsim.prefetch = '1MiB'",
            "`sim.prefetch` has no effect without `sim.record`",
        ),
        (
            "target = 'sim:hdd'\nsim = { record = '128KiB', stripe = '192KiB' }",
            "is not a multiple of `sim.record`",
        ),
        ("target = 'sim:ssd'", "`ssd` is not a simulated disk"),
        (
            "target = '/mnt'\nsim.record = '128KiB'",
            "`sim` has no effect",
        ),
        (
            "target = 'ext4 on mirror on file on /mnt'\nfile.size = '1GiB'\nmirror.queues = 2",
            "`mirror.queues` needs the mirror as the top layer",
        ),
        (
            "target = 'mirror on file on /mnt'\nfile.size = '1GiB'\nmirror.queues = 64",
            "a real mirror has at most 63 queues",
        ),
        (
            "target = 'mirror on file on /mnt'\nfile.size = '1GiB'\nmirror.queues = 2\nfill = '1MiB'",
            "`fill` cannot be used with `mirror.queues`",
        ),
        (
            "target = 'mirror on file on /mnt'\nfile.size = '1GiB'\nmirror.delay = 'hdd + disk'",
            "`disk` is not a simulated disk",
        ),
        (
            "target = 'mirror on file on /mnt'\nfile.size = '1GiB'\nmirror = { legs = 3, delay = 'hdd + hdd*2' }",
            "`mirror.delay` names 2 disks, and `mirror.legs` is 3",
        ),
        (
            "target = 'delay on file on /mnt'\nfile.size = '1GiB'\ndelay = { read = '2ms', disk = 'hdd' }",
            "`delay.read` has no effect with `delay.disk`",
        ),
        (
            "target = 'delay on file on /mnt'\nfile.size = '1GiB'\ndelay.disk = 'drum'",
            "`drum` is not a simulated disk",
        ),
        (
            "target = 'sim:hdd'\n[configuration.d]\ntarget = '/mnt'",
            "`c` and `d` are simulated and real storage",
        ),
    ] {
        let found = faults(&format!("[configuration.c]\n{configuration}\n{SIMULATED}"));
        assert_eq!(found.len(), 1, "{configuration}: {found:?}");
        assert!(found[0].contains(expected), "{configuration}: {found:?}");
    }
    for (workload, expected) in [
        ("fs = 'create_empty'", "cannot run on a simulated target"),
        (
            "fio = { rw = 'write', size = '1m', verify = 'crc32c' }",
            "keeps no data that could be verified",
        ),
        (
            "fio = { rw = 'read', size = '1m', ioengine = 'sim', sim_device = 'hdd' }",
            "the target is simulated",
        ),
    ] {
        let text = format!("[configuration.c]\ntarget = 'sim:hdd'\n[workload.w]\n{workload}\n");
        let found = faults(&text);
        assert!(found[0].contains(expected), "{workload}: {found:?}");
    }
}

#[test]
fn the_server_of_a_folder_has_a_usual_command_and_names_its_places() {
    let with = |lines: &str| {
        format!("[configuration.c]\n{lines}\n[workload.w]\nfio = {{ size = \"1m\" }}\n")
    };
    let layers = |lines: &str| match &valid(&with(lines)).configurations[0].target {
        Target::Made(provision) => provision.layers.clone(),
        other => panic!("{other:?}"),
    };
    let usual = layers("target = \"virtiofs on /x\"");
    let [Layer::Virtiofs(server), Layer::Directory { .. }] = usual.as_slice() else {
        panic!("{usual:?}");
    };
    assert_eq!(server.command, FolderServer::VIRTIOFS);
    let own = layers(
        "target = \"fuse on tmpfs\"\ntmpfs.size = \"1GiB\"\nfuse = { server = \"f {mount} {folder}\", cpus = \"1\" }",
    );
    let [Layer::Fuse(server), Layer::Tmpfs { .. }] = own.as_slice() else {
        panic!("{own:?}");
    };
    assert_eq!(
        (server.command.as_str(), server.pinning.cpus.as_deref()),
        ("f {mount} {folder}", Some("1"))
    );
    let typing = with("target = \"fuse on /x\"\nfuse.server = \"fsd {folder} {mount} {stat}\"");
    let found = read_with(&typing, &[]).unwrap_err();
    let hint = found[0].hint.as_deref();
    assert_eq!(hint, Some("known are `{folder}`, `{mount}` and `{stats}`"));
    for (lines, message) in [
        (
            "target = \"virtiofs on /x\"\nvirtiofs.server = \"fsd {folder}\"",
            "3:19 `virtiofs.server` lacks `{socket}`: `fsd {folder}`",
        ),
        (
            "target = \"fuse on /x\"\nfuse.server = \"fsd {folder} {socket}\"",
            "3:15 unknown name `{socket}` in `fuse.server`: `fsd {folder} {socket}`",
        ),
        (
            "target = \"fuse on /x\"\nfuse.server = \"fsd {folder}\"",
            "3:15 `fuse.server` lacks `{mount}`: `fsd {folder}`",
        ),
        (
            "target = \"virtiofs on /x\"\nvirtiofs.server = \"fsd {folder} {socket} --stats={stat}\"",
            "3:19 unknown name `{stat}` in `virtiofs.server`: `fsd {folder} {socket} --stats={stat}`",
        ),
        (
            "target = \"virtiofs on file on /x\"\nfile.size = \"1GiB\"",
            "2:10 `virtiofs` needs a folder below it",
        ),
        (
            "target = \"overlay on virtiofs on /x\"",
            "2:10 `virtiofs` is not the top layer of the target",
        ),
        (
            "target = \"fuse on ext4 on vm on file on /x\"\nfile.size = \"1GiB\"",
            "2:10 `fuse` cannot be made in a virtual machine",
        ),
        (
            "target = \"virtiofs on /x\"\nvirtiofs.dispatch = \"inline\"",
            "3:10 unknown key `dispatch`",
        ),
    ] {
        let found = faults(&with(lines));
        assert!(found.iter().any(|it| it.starts_with(message)), "{found:?}");
    }
}

#[test]
fn jobs_are_clients_of_a_mirror_with_queues_if_they_can_be() {
    let with = |work: &str| {
        format!(
            "[configuration.c]\ntarget = \"mirror on file on /x\"\nmirror.queues = 2\nfile.size = \"1GiB\"\n[workload.w]\n{work}\n"
        )
    };
    valid(&with(
        "fio = { ioengine = \"libaio\", iodepth = 16, size = \"1m\" }",
    ));
    for (work, why) in [
        ("fs = \"create_empty\"", "only jobs of fio can"),
        (
            "fio = { ioengine = \"mmap\", size = \"1m\" }",
            "the engine `mmap`",
        ),
        (
            "fio = { ioengine = \"vhost-user-blk\", uri = \"vhost-user-blk:///s\", size = \"1m\" }",
            "`uri` names another server",
        ),
    ] {
        let found = faults(&with(work));
        let message = format!("`w` cannot be a client of the mirror of `c`: {why}");
        assert!(found.iter().any(|it| it.contains(&message)), "{found:?}");
    }
}

#[test]
fn work_that_no_client_of_virtio_fs_can_do_is_an_error_where_it_runs() {
    let with = |work: &str| {
        format!(
            "[configuration.c]\ntarget = \"virtiofs on /x\"\n[configuration.d]\ntarget = \"directory on /x\"\n{work}"
        )
    };
    for (work, message) in [
        (
            "[workload.w]\nfs = \"create_empty\"\n",
            "`w` cannot be a client of the virtio-fs server of `c`: only jobs of fio can",
        ),
        (
            "[workload.w]\nfio = { ioengine = \"mmap\", size = \"1m\" }\n",
            "`w` cannot be a client of the virtio-fs server of `c`: the engine `mmap` does not send its requests to one",
        ),
        (
            "[workload.w]\nfio = { ioengine = \"virtiofs\", uri = \"virtiofs:///s\", size = \"1m\" }\n",
            "`w` cannot be a client of the virtio-fs server of `c`: `uri` names another server",
        ),
    ] {
        let found = faults(&with(work));
        assert!(found.iter().any(|it| it.contains(message)), "{found:?}");
        valid(&with(
            &work.replace("[workload.w]\n", "[workload.w]\nonly = \"d\"\n"),
        ));
    }
    valid(&with(
        "[workload.w]\nfio = { ioengine = \"libaio\", iodepth = 16, size = \"1m\" }\n",
    ));
}
