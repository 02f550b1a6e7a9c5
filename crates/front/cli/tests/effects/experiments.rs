//! The keys of experiments.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::case::{Case, Language, Look, Through, case};
use crate::harness::iodyno;
use crate::looks::joined;
use crate::run::Run;

pub(crate) static LANGUAGE: Language = Language {
    name: "experiments",
    options: || keys(false),
    topics: &[FILE, TABLE, NODES, CONFIGURATION, WORKLOAD],
    arguments,
};

/// The keys of layers, or those that are of none.
pub(crate) fn keys(of_layers: bool) -> Vec<String> {
    let keys = iodyno_experiment::keys().filter(|(_, layer)| *layer == of_layers);
    keys.map(|(key, _)| key).collect()
}

/// Lines that begin with `--` are arguments, the others the text. One round without pauses unless a line overrides
/// that; the result in JSON, except that of a table.
pub(crate) fn arguments(folder: &Path, _: &Look, lines: &str) -> Vec<String> {
    let lines = lines.lines().map(str::trim);
    let (options, mut text): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.starts_with("--"));
    for preset in ["rounds = 1", "settle = false"] {
        if !text.iter().any(|line| line.starts_with(&preset[..6])) {
            text.insert(0, preset);
        }
    }
    let table = text.iter().any(|line| line.starts_with("table."));
    std::fs::write(folder.join("e.toml"), text.join("\n")).unwrap();
    let words = "run e.toml".split(' ').chain((!table).then_some("--json"));
    let options = options.iter().flat_map(|option| option.split(' '));
    words.chain(options).map(str::to_owned).collect()
}

/// A workload whose reads take this time each.
macro_rules! work {
    ($name:literal, $time:literal) => {
        concat!(
            "workload.",
            $name,
            ".fio = {ioengine='sim',sim_latency='constant:",
            $time,
            "',rw='read',bs='4k',size='16k'}\n"
        )
    };
}
/// Two workloads on this folder, the second a little slower.
macro_rules! two { ($($more:literal)?) => { concat!("configuration.c.target = '.'\n", work!("a", "1000us"), work!("b", "1010us"), $($more)?) }; }
/// One workload on this folder.
macro_rules! one { ($($more:literal)?) => { concat!("configuration.c.target = '.'\n", work!("a", "1000us"), $($more)?) }; }
/// A workload that reads a file.
macro_rules! real { ($($more:literal)?) => { concat!("workload.a.fio = {rw='read',bs='4k',size='16k'}\n", $($more)?) }; }

/// A command that prints `75`.
macro_rules! command {
    () => {
        "configuration.c.target = '.'\nworkload.a.command = 'echo 75'"
    };
}

/// A queue with one server, whose mean service time is 1 ms.
macro_rules! search { () => { "seed = 3\nconfiguration.c.target = '.'\nworkload.a.fio = {ioengine='sim',rw='randread',bs='4k',size='16m',sim_latency='exponential:1ms',sim_servers=1,time_based=1,iodepth=16}\nworkload.a.duration = '2s'" }; }
/// A workload that reads until it is stopped.
macro_rules! endless { ($more:literal) => { concat!("workload.a.fio = {rw='read',bs='4k',size='16k',rate_iops=100,time_based=1,runtime='1h'}\n", $more) }; }

#[rustfmt::skip]
const FILE: &[Case] = &[
    case("name", NAME, one!(), &[("", "e"), ("name = 'mine'", "mine")]),
    case("about", ABOUT, one!("--dry-run"), &[("", "null"), ("about = 'this'", "this")]),
    case("question", QUESTION, one!("--dry-run"), &[("", "null"), ("question = 'why?'", "why?")]),
    case("baseline", COMPARED, two!("rounds = 6"), &[("", "workload with a: completion: b different_but_small;"), ("baseline = 'b'", "workload with b: completion: a different_but_small;")]),
    case("compare", COMPARED, "rounds = 2\nconfiguration.c.target = '.'\nworkload.'${t}-${s}' = {fio = {ioengine='sim',sim_latency='constant:${t}us',rw='read',bs='4k',size='${s}k'}, axis.t = [100, 200], axis.s = [8, 16]}", &[("", "workload with 100-8: completion: 100-16 cannot_decide 200-8 cannot_decide 200-16 cannot_decide;"), ("compare = 't'", "t with 100: completion: 200 cannot_decide; completion: 200 cannot_decide;"), ("compare = 's'", "s with 8: completion: 16 cannot_decide; completion: 16 cannot_decide;")]),
    case("rounds", TRIALS, one!(), &[("rounds = 1", "0:a@c(4)"), ("rounds = 3", "0:a@c(4) 1:a@c(4) 2:a@c(4)")]),
    case("seed", TIME, "configuration.c.target = '.'\nworkload.a.fio = {ioengine='sim',sim_latency='exponential:1ms',rw='randread',bs='4k',size='1m'}", &[("seed = 1", "256 ops in 279 ms"), ("seed = 2", "256 ops in 260 ms"), ("seed = 1", "256 ops in 279 ms")]),
    case("max_time", COUNT, "rounds = 6\nconfiguration.c.target = '.'\nworkload.a.fio = {ioengine='null',rw='read',size='4k',time_based=1,runtime='300ms'}", &[("", "6 trials"), ("max_time = '700ms'", "fewer")]),
    case("stop", COUNT, two!("rounds = 12"), &[("", "24 trials"), ("stop = '50%'", "fewer")]),
    case("aa", TRIALS, two!("seed = 1"), &[("", "0:a@c(4) 0:b@c(4)"), ("aa = true", "0:a@c(4) 0:a (again)@c(4) 0:b@c(4)")]),
    case("probe", PROBED, two!(), &[("", "none"), ("probe = true", "probed")]),
    case("retry", TRIALS, one!("workload.z.fio = {ioengine='sim',sim_faults='eio:2',rw='read',size='16k'}\nseed = 1"), &[("", "0:a@c(4) 0:z@c(1)"), ("retry = 2", "0:a@c(4) 0:z@c(1) 0:z@c(1) 0:z@c(1)")]),
    case("settle", SETTLES, real!("rounds = 2\nconfiguration.c.target = '.'"), &[("settle = false", "none"), ("settle = true", "drops the page cache")]).unless(no_root).long(),
    case("metric", COMPARED, two!("rounds = 6"), &[("", "workload with a: completion: b different_but_small;"), ("metric = ['read.mean', 'iops']", "workload with a: read.mean: b different_but_small; iops: b different_but_small;")]),
    case("margin", COMPARED, two!("rounds = 6"), &[("", "workload with a: completion: b different_but_small;"), ("margin = '0.1%'", "workload with a: completion: b slower;")]),
    case("fresh", MADE, real!("configuration.c.target = 'directory on .'\nworkload.b.fio = {rw='read',bs='4k',size='16k'}\nrounds = 2"), &[("", "2 folders"), ("fresh = 'trial'", "4 folders"), ("fresh = 'experiment'", "1 folders")]),
    case("params", TRIALS, "configuration.c.target = '.'\nworkload.a.fio = {ioengine='sim',rw='read',bs='4k',size='${n}k'}", &[("params.n = 8", "0:a@c(2)"), ("params.n = 16", "0:a@c(4)"), ("params.n = {about = 'KiB', default = 4}", "0:a@c(1)"), ("params.n = 8\n--set n=32", "0:a@c(8)")]),
    case("preset", TRIALS, "configuration.c.target = '.'\nworkload.a.fio = {ioengine='sim',rw='read',bs='4k',size='${n}k'}\nparams.n = 8\n--set scale=full", &[("preset.full.n = 16", "0:a@c(4)"), ("preset.full.n = 32", "0:a@c(8)")]),
];

#[rustfmt::skip]
const TABLE: &[Case] = &[
    case("table.rows", CLOSING, "configuration = {c.target = '.', d.target = '.'}\ntable.title = 'X'\ntable.metric = 'iops'\nworkload.'w${t}' = {fio = {ioengine='sim',sim_latency='constant:${t}us',rw='read',bs='4k',size='8k'}, axis.t = [100, 200]}", &[("", "c d IOPS IOPS w100 10.0k 10.0k ? w200 5.00k 5.00k ? compared with c: ? undecided"), ("table.rows = 't'", "c d IOPS IOPS 100 10.0k 10.0k ? 200 5.00k 5.00k ? compared with c: ? undecided")]),
    case("table.columns", CLOSING, "configuration = {c.target = '.', d.target = '.'}\ntable.title = 'X'\ntable.metric = 'iops'\nworkload.'w${t}' = {fio = {ioengine='sim',sim_latency='constant:${t}us',rw='read',bs='4k',size='8k'}, axis.t = [100, 200]}", &[("", "c d IOPS IOPS w100 10.0k 10.0k ? w200 5.00k 5.00k ? compared with c: ? undecided"), ("table.columns = 't'\ntable.rows = 'configuration'", "100 200 IOPS IOPS c 10.0k 5.00k d 10.0k ? 5.00k ? compared with c: ? undecided")]),
    case("table.metric", CLOSING, two!("table.title = 'X'"), &[("", "a b ms ms c 4.00 4.04 ? compared with a: ? undecided"), ("table.metric = 'read.mean'", "a b ms ms c read.mean 1.00 1.01 ? compared with a: ? undecided")]),
    case("table.unit", CLOSING, two!("table.title = 'X'\ntable.metric = 'bandwidth'"), &[("table.unit = 'MB/s'", "a b MB/s MB/s c 4.10 4.06 ? compared with a: ? undecided"), ("table.unit = 'MiB/s'", "a b MiB/s MiB/s c 3.91 3.87 ? compared with a: ? undecided")]),
    case("table.digits", CLOSING, two!("table.title = 'X'\ntable.metric = 'iops'"), &[("", "a b IOPS IOPS c 1.00k 990 ? compared with a: ? undecided"), ("table.digits = 0", "a b IOPS IOPS c 1000 990 ? compared with a: ? undecided"), ("table.digits = 6", "a b IOPS IOPS c 1000.000000 990.099010 ? compared with a: ? undecided")]),
    case("table.mean", CLOSING, two!("table.title = 'X'\ntable.metric = 'iops'"), &[("", "a b IOPS IOPS c 1.00k 990 ? compared with a: ? undecided"), ("table.mean = true", "a b median mean median mean IOPS IOPS IOPS IOPS c 1.00k 1.00k 990 ? 990 compared with a: ? undecided")]),
    case("table.title", TITLE, two!("table.metric = 'iops'"), &[("", "none"), ("table.title = 'X'", "X")]),
    case("table.regret", REGRET, concat!("configuration.c.target = '.'\nconfiguration.d.target = '.'\nrounds = 6\n", work!("a", "1ms"), "table.title = 'X'"), &[("", "none"), ("table.regret = true", "worst")]),
];

#[rustfmt::skip]
const NODES: &[Case] = &[
    case("node.at", PLACES, one!(), &[("", "local"), ("node.a.at = 'local'", "a"), ("node = {a.at = 'local', b.at = 'local'}", "a b")]),
    case("node.jobs", WORKING, one!(), &[("node = {a.at = 'local', b.at = 'local'}", "2"), ("node = {a.at = 'local', b = {at = 'local', jobs = false}}", "1")]),
    case("node.sudo", SUDO, one!(), &[("node.a.at = 'ssh://there'", "none"), ("node.a = {at = 'ssh://there', sudo = true}", "sudo -n env iodyno node")]).after(stand_ins),
];

#[rustfmt::skip]
const CONFIGURATION: &[Case] = &[
    case("configuration.target", MADE, real!(), &[("configuration.c.target = '.'", "0 folders"), ("configuration.c.target = 'directory on .'", "1 folders")]),
    case("configuration.layers", MADE, real!(), &[("configuration.c.target = '.'", "0 folders"), ("configuration.c.layers = [{kind='directory', path='.'}]", "1 folders")]),
    case("configuration.fill", WRITTEN, real!("configuration.c.target = 'file on .'\nconfiguration.c.file.size = '1MiB'"), &[("", "nothing"), ("configuration.c.fill = '512KiB'", "512 KiB")]),
    case("configuration.precondition", IMAGE, endless!("configuration.c.target = 'file on .'\nconfiguration.c.file.size = '1MiB'"), &[("", "zeros"), ("configuration.c.precondition = '1s'", "data")]),
    case("configuration.env", LEFT, one!("configuration.c.setup = 'touch \"x$A\"'"), &[("", "x"), ("configuration.c.env = {A = 'z'}", "xz")]),
    case("configuration.setup", LEFT, one!(), &[("", ""), ("configuration.c.setup = 'touch made'", "made")]),
    case("configuration.ready", LEFT, one!("configuration.c.setup = 'true'"), &[("", ""), ("configuration.c.ready = 'test -e once || ! touch once'", "once")]),
    case("configuration.teardown", LEFT, one!("configuration.c.setup = 'touch made'"), &[("", "made"), ("configuration.c.teardown = 'rm made'", "")]),
    case("configuration.sample", SAMPLED, "configuration.c.target = '.'\nworkload.a.fio = {ioengine='null',rw='read',size='4k',time_based=1,runtime='1s'}", &[("", "none"), ("configuration.c.sample = ['iodyno']", "sampled")]),
    case("configuration.nodes", PLACES, one!("node = {a.at = 'local', b.at = 'local'}"), &[("", "a b"), ("configuration.c.nodes = ['b']", "b")]),
    case("configuration.axis", TRIALS, concat!(work!("a", "1ms"), "seed = 1"), &[("configuration.c.target = '.'", "0:a@c(4)"), ("configuration.'c${t}' = {axis.t = {x = {target='.'}, y = {target='directory on .'}}}", "0:a@cx(4) 0:a@cy(4)")]),
    case("configuration.zip", TRIALS, concat!(work!("a", "1ms"), "seed = 1"), &[("configuration.'c${t}${u}' = {axis.t = {x = {target='.'}, y = {target='directory on .'}}, axis.u = {v = {sample='v'}, w = {sample='w'}}}", "0:a@cxv(4) 0:a@cxw(4) 0:a@cyv(4) 0:a@cyw(4)"), ("configuration.'c${t}${u}' = {axis.t = {x = {target='.'}, y = {target='directory on .'}}, axis.u = {v = {sample='v'}, w = {sample='w'}}, zip = ['t', 'u']}", "0:a@cxv(4) 0:a@cyw(4)")]),
    case("configuration.exclude", TRIALS, concat!(work!("a", "1ms"), "seed = 1"), &[("configuration.'c${t}' = {axis.t = {x = {target='.'}, y = {target='directory on .'}}}", "0:a@cx(4) 0:a@cy(4)"), ("configuration.'c${t}' = {axis.t = {x = {target='.'}, y = {target='directory on .'}}, exclude = [{t = 'x'}]}", "0:a@cy(4)")]),
    case("sim.stripe", TIME, "configuration.c.target = '2 x mirror of sim:hdd x 2'\nseed = 1\nworkload.a.fio = {ioengine='io_uring',rw='read',bs='64k',size='16m',iodepth=16}", &[("", "256 ops in 68 ms"), ("configuration.c.sim.stripe = '4MiB'", "256 ops in 84 ms")]),
    case("sim.aggregation", TIME, "configuration.c.target = 'sim:flash'\nseed = 1\nworkload.a.fio = {ioengine='io_uring',rw='read',bs='4k',size='4m',iodepth=64}", &[("", "1024 ops in 3 ms"), ("configuration.c.sim.aggregation = '4KiB'", "1024 ops in 17 ms")]),
    case("sim.record", TIME, "configuration.c.target = 'sim:hdd'\nseed = 1\nworkload.a.fio = {rw='randread',bs='4k',size='1m'}", &[("", "256 ops in 1061 ms"), ("configuration.c.sim.record = '128KiB'", "256 ops in 657 ms")]),
    case("sim.prefetch", TIME, "configuration.c.target = 'sim:hdd'\nseed = 1\nworkload.a.fio = {rw='read',bs='64k',size='4m'}\nconfiguration.c.sim.record = '128KiB'", &[("", "64 ops in 39 ms"), ("configuration.c.sim.prefetch = '8MiB'", "64 ops in 44 ms")]),
    case("host.sysctl", SYSCTL, endless!("configuration.c.target = 'directory on .'"), &[("", "another"), ("configuration.c.host.sysctl = {vm.stat_interval = 3}", "3")]).unless(no_root),
    case("host.queue", QUEUE, endless!("configuration.c.target = 'ext4 on loop on file on .'\nconfiguration.c.file.size = '16MiB'"), &[("", "another"), ("configuration.c.host.queue = {read_ahead_kb = '12'}", "12")]).unless(no_ext4),
];

#[rustfmt::skip]
const WORKLOAD: &[Case] = &[
    case("workload.fio", TRIALS, "configuration.c.target = '.'", &[("workload.a.fio = 'a.fio'", "0:a@c(2)"), ("workload.a.fio = ['a.fio', 'b.fio']\nseed = 1", "0:a@c(2) 0:b@c(4)"), ("workload.a.fio = {ioengine='sim',size='8k'}", "0:a@c(2)")]).after(jobs),
    case("workload.fs", TRIALS, "configuration.c.target = '.'\nseed = 1", &[("workload.a.fs = {names='create_empty', max-ops=3}", "0:a@c(3)"), ("workload.a.fs = {max-ops=5, cycle=[{op='statfs',timed=true}]}", "0:a@c(5)")]),
    case("workload.fileio", TRIALS, "configuration.c.target = '.'", &[("workload.a.fileio = {file-test-mode='seqrd',file-num=2,file-total-size='32K',file-block-size=4096,events=3,time=0}", "0:a@c(3)"), ("workload.a.fileio = {file-test-mode='seqrd',file-num=2,file-total-size='32K',file-block-size=4096,events=5,time=0}", "0:a@c(5)")]),
    case("workload.command", LEFT, "configuration.c.target = '.'", &[("workload.a.command = 'touch ../../x'", "x"), ("workload.a.command = 'touch ../../y'", "y")]),
    case("workload.prepare", LEFT, command!(), &[("", ""), ("workload.a.prepare = 'touch ../../made'", "made")]),
    case("workload.cleanup", LEFT, command!(), &[("", ""), ("workload.a.cleanup = 'touch ../../made'", "made")]),
    case("workload.repeat", TRIALS, command!(), &[("", "0:a@c(1)"), ("workload.a.repeat = 3", "0:a@c(3)")]),
    case("workload.may_fail", CODE, "configuration.c.target = '.'\nworkload.a.command = 'false'", &[("", "4"), ("workload.a.may_fail = true", "0")]),
    case("workload.timeout", CODE, "configuration.c.target = '.'\nworkload.a.command = 'sleep 0.5'", &[("", "0"), ("workload.a.timeout = '100ms'", "4")]),
    case("metric.regex", PRINTED, command!(), &[("workload.a.metric.m = {regex='[0-9]$',better='less'}", "5 lower"), ("workload.a.metric.m = {regex='[0-9]+',better='less'}", "75 lower")]),
    case("metric.json", PRINTED, "configuration.c.target = '.'\nworkload.a.command = 'echo [3,4]'", &[("workload.a.metric.m = {json='/0',better='less'}", "3 lower"), ("workload.a.metric.m = {json='/1',better='less'}", "4 lower")]),
    case("metric.unit", PRINTED, command!(), &[("workload.a.metric.m = {regex='7',better='less'}", "7 lower"), ("workload.a.metric.m = {regex='7',better='less',unit='us'}", "7000 ns lower")]),
    case("metric.better", PRINTED, command!(), &[("workload.a.metric.m = {regex='7',better='less'}", "7 lower"), ("workload.a.metric.m = {regex='7',better='more'}", "7 higher")]),
    case("workload.primary", COMPARED, two!("rounds = 6"), &[("", "workload with a: completion: b different_but_small;"), ("workload.a.primary = 'read.mean'\nworkload.b.primary = 'read.mean'", "workload with a: read.mean: b different_but_small;")]),
    case("workload.duration", TIME, one!(), &[("", "4 ops in 4 ms"), ("workload.a.duration = '2s'", "2000 ops in 2000 ms")]),
    case("workload.rounds", TRIALS, two!("rounds = 3\nseed = 1"), &[("", "0:a@c(4) 0:b@c(4) 1:a@c(4) 1:b@c(4) 2:a@c(4) 2:b@c(4)"), ("workload.b.rounds = 1", "0:a@c(4) 0:b@c(4) 1:a@c(4) 2:a@c(4)")]),
    case("workload.stop", TRIALS, concat!("configuration.c.target = '.'\nconfiguration.d.target = '.'\n", work!("a", "1ms"), work!("b", "1ms"), "rounds = 9\nseed = 1"), &[("", "0:a@c(4) 0:b@c(4) 0:a@d(4) 0:b@d(4) 1:a@c(4) 1:b@c(4) 1:a@d(4) 1:b@d(4) 2:a@c(4) 2:b@c(4) 2:a@d(4) 2:b@d(4) 3:a@c(4) 3:b@c(4) 3:a@d(4) 3:b@d(4) 4:a@c(4) 4:b@c(4) 4:a@d(4) 4:b@d(4) 5:a@c(4) 5:b@c(4) 5:a@d(4) 5:b@d(4) 6:a@c(4) 6:b@c(4) 6:a@d(4) 6:b@d(4) 7:a@c(4) 7:b@c(4) 7:a@d(4) 7:b@d(4) 8:a@c(4) 8:b@c(4) 8:a@d(4) 8:b@d(4)"), ("workload.b.stop = '50%'", "0:a@c(4) 0:b@c(4) 0:a@d(4) 0:b@d(4) 1:a@c(4) 1:b@c(4) 1:a@d(4) 1:b@d(4) 2:a@c(4) 2:b@c(4) 2:a@d(4) 2:b@d(4) 3:a@c(4) 3:b@c(4) 3:a@d(4) 3:b@d(4) 4:a@c(4) 4:b@c(4) 4:a@d(4) 4:b@d(4) 5:a@c(4) 5:b@c(4) 5:a@d(4) 5:b@d(4) 6:a@c(4) 6:b@c(4) 6:a@d(4) 6:b@d(4) 7:a@c(4) 7:a@d(4) 8:a@c(4) 8:a@d(4)")]),
    case("workload.max_time", TRIALS, two!("rounds = 4\nseed = 1"), &[("", "0:a@c(4) 0:b@c(4) 1:a@c(4) 1:b@c(4) 2:a@c(4) 2:b@c(4) 3:a@c(4) 3:b@c(4)"), ("workload.b.max_time = '5ms'", "0:a@c(4) 0:b@c(4) 1:a@c(4) 2:a@c(4) 3:a@c(4)")]),
    case("workload.files", LAID_OUT, real!("configuration.c.target = 'directory on .'\nfresh = 'experiment'\nworkload.b.fio = {rw='read',bs='4k',size='16k'}\nworkload.a.family = 'f'\nworkload.b.family = 'f'"), &[("", "2 files"), ("workload.a.files = 'shared'\nworkload.b.files = 'shared'", "1 files")]),
    case("workload.family", COMPARED, "rounds = 6\nconfiguration = {c.target = '.', d.target = '.'}\nworkload.a.fio = {ioengine='sim',size='8k'}\nworkload.b.fio = {ioengine='sim',size='16k'}", &[("", "configuration with c: completion: d cannot_decide; completion: d cannot_decide;"), ("workload.a.family = 'f'\nworkload.b.family = 'f'", "configuration with c: family completion: d equivalent; completion: d cannot_decide; completion: d cannot_decide;")]),
    case("workload.only", TRIALS, "configuration = {c.target = '.', d.target = '.'}\nseed = 1\nworkload.a.fio = {ioengine='sim',size='8k'}", &[("", "0:a@c(2) 0:a@d(2)"), ("workload.a.only = 'd'", "0:a@d(2)")]),
    case("workload.nodes", PLACES, one!("node = {a.at = 'local', b.at = 'local'}"), &[("", "a b"), ("workload.a.nodes = ['b']", "b")]),
    case("workload.axis", TRIALS, "configuration.c.target = '.'\nseed = 1", &[("workload.a.fio = {ioengine='sim',size='8k'}", "0:a@c(2)"), ("workload.'a${size}' = {fio = {ioengine='sim'}, axis.size = ['8k', '16k']}", "0:a8k@c(2) 0:a16k@c(4)")]),
    case("workload.zip", TRIALS, "configuration.c.target = '.'\nseed = 1", &[("workload.'a${size}${bs}' = {fio = {ioengine='sim'}, axis.size = ['8k', '16k'], axis.bs = ['1k', '2k']}", "0:a8k1k@c(8) 0:a8k2k@c(4) 0:a16k1k@c(16) 0:a16k2k@c(8)"), ("workload.'a${size}${bs}' = {fio = {ioengine='sim'}, axis.size = ['8k', '16k'], axis.bs = ['1k', '2k'], zip = ['size', 'bs']}", "0:a8k1k@c(8) 0:a16k2k@c(8)")]),
    case("workload.exclude", TRIALS, "configuration.c.target = '.'\nseed = 1", &[("workload.'a${size}' = {fio = {ioengine='sim'}, axis.size = ['8k', '16k']}", "0:a8k@c(2) 0:a16k@c(4)"), ("workload.'a${size}' = {fio = {ioengine='sim'}, axis.size = ['8k', '16k'], exclude = [{size='16k'}]}", "0:a8k@c(2)")]),
    case("search.axis", SEARCHED, search!(), &[("workload.a.search = {axis='rate_iops', until='p99 < 20ms'}", "rate_iops 921"), ("workload.a.search = {axis='iodepth', until='p99 < 20ms'}", "iodepth 11")]),
    case("search.until", SEARCHED, search!(), &[("workload.a.search = {axis='rate_iops', until='p99 < 20ms'}", "rate_iops 921"), ("workload.a.search = {axis='rate_iops', until='p99 < 10ms'}", "rate_iops 735")]),
];

fn jobs(folder: &Path) {
    for (name, size) in [("a.fio", 8), ("b.fio", 16)] {
        let text = format!("[t]\nioengine=sim\nsize={size}k\n");
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Replacements of ssh and sudo: they run the command here, and sudo's also records it.
fn stand_ins(folder: &Path) {
    let ssh = "while [ \"$1\" != -- ]; do shift; done; shift 2; exec sh -c \"$*\"";
    let sudo = "echo \"$*\" > \"$HOME/work/by-sudo\"; shift; exec \"$@\"";
    for (name, script) in [("ssh", ssh), ("sudo", sudo)] {
        stand_in(folder, name, script);
    }
    symlink(iodyno(), folder.join("bin/iodyno")).unwrap();
}

/// A script that replaces a program.
pub(crate) fn stand_in(folder: &Path, name: &str, script: &str) {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let path = bin.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

pub(crate) fn no_root() -> Option<&'static str> {
    (!crate::harness::root()).then_some("only root may do this")
}

pub(crate) fn no_loop() -> Option<&'static str> {
    let missing = !Path::new("/dev/loop-control").exists();
    no_root().or_else(|| missing.then_some("this host cannot attach loop devices"))
}

/// A loop device with ext4.
pub(crate) fn no_ext4() -> Option<&'static str> {
    no_loop().or_else(|| without("mkfs.ext4", "mkfs.ext4 is not installed"))
}

/// Why a case without this program is skipped.
pub(crate) fn without(program: &str, why: &'static str) -> Option<&'static str> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let installed = path
        .split(':')
        .any(|folder| Path::new(folder).join(program).exists());
    (!installed).then_some(why)
}

fn array(run: &Run, pointer: &str) -> Vec<Value> {
    run.value(pointer).as_array().cloned().unwrap_or_default()
}

fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Each trial in its order: round, workload, configuration, number of ops.
const TRIALS: Look = Look::output("trials", |run| {
    let trials = array(run, "/trials");
    let shown = trials.iter().map(|trial| {
        let rows = trial.pointer("/groups/0/rows").and_then(Value::as_array);
        let ops = rows
            .and_then(|rows| rows.first())
            .map_or(0, |row| row["ops"].as_u64().unwrap_or(0));
        let [workload, configuration] =
            ["workload", "configuration"].map(|name| word(&trial[name]));
        format!("{}:{workload}@{configuration}({ops})", trial["round"])
    });
    match trials.is_empty() {
        true => run.fault(),
        false => joined(shown),
    }
});

/// The value of the first metric that a command printed.
const PRINTED: Look = Look::output("trials", |run| {
    let value = run.value("/trials/0/groups/0/operations/executed/0/values/0");
    let words = ["value", "unit", "better"].map(|key| match &value[key] {
        Value::Number(number) => number.as_f64().unwrap_or(0.0).to_string(),
        other => word(other),
    });
    joined(words.into_iter().filter(|word| !word.is_empty()))
});

const CODE: Look = Look::output("exit code", |run| run.done.code.to_string());

const COUNT: Look = Look::output("trials", |run| match array(run, "/trials").len() {
    0 => run.fault(),
    count @ (6 | 24) => format!("{count} trials"),
    _ => "fewer".to_owned(),
});

/// The compared sides, the metric, and the rule of judgement.
const COMPARED: Look = Look::output("comparison", |run| {
    let comparison = run.value("/comparison");
    let rows = comparison["rows"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let cells = row["cells"].as_array().cloned().unwrap_or_default();
        let cells = cells.iter().map(|cell| {
            format!(
                "{} {}",
                word(&cell["candidate"]["column"]),
                word(&cell["verdict"])
            )
        });
        let family = if row["family"] == true { "family " } else { "" };
        format!(
            "{family}{}: {};",
            word(&row["metric"]["name"]),
            joined(cells)
        )
    };
    match rows.is_empty() {
        true => run.fault(),
        false => format!(
            "{} with {}: {}",
            word(&comparison["question"]["columns"]),
            word(&comparison["baseline"]),
            joined(rows.iter().map(row))
        ),
    }
});

const NAME: Look = Look::output("output", |run| run.text("/run/name"));
const ABOUT: Look = Look::output("output", |run| run.text("/about"));

const QUESTION: Look = Look::output("output", |run| run.text("/question/words"));

const PROBED: Look = Look::output("output", |run| {
    let probed = run.done.stderr.contains("probe: 2 trials in ");
    if probed { "probed" } else { "none" }.to_owned()
});

/// How long each trial took, and its ops.
const TIME: Look = Look::output("virtual time", |run| {
    let trials = array(run, "/trials");
    let time = |trial: &Value| {
        let row = trial
            .pointer("/groups/0/rows/0")
            .cloned()
            .unwrap_or_default();
        format!(
            "{} ops in {} ms",
            row["ops"],
            row["runtime_ns"].as_u64().unwrap_or(0) / 1_000_000
        )
    };
    match trials.is_empty() {
        true => run.fault(),
        false => joined(trials.iter().map(time)),
    }
});

/// The nodes of the first trial.
const PLACES: Look = Look::output("trials", |run| {
    let nodes = array(run, "/trials/0/nodes");
    match nodes.is_empty() {
        true => run.fault(),
        false => joined(nodes.iter().map(|node| word(&node["name"]))),
    }
});

/// The last command line given to sudo, without the variables and the folder of the program.
const SUDO: Look = Look::output("processes", |run| {
    let names = run.names();
    if run.done.code != 0 {
        return run.fault();
    }
    if !names.iter().any(|name| name == "by-sudo") {
        return "none".to_owned();
    }
    let text = String::from_utf8_lossy(&run.file("by-sudo")).into_owned();
    let words = text.split_whitespace().filter(|word| !word.contains('='));
    let words: Vec<&str> = words.filter_map(|word| word.rsplit('/').next()).collect();
    format!("sudo {}", words.join(" "))
});

/// The number of clones of the first trial on all nodes together.
const WORKING: Look = Look::output("trials", |run| run.text("/trials/0/groups/0/clones"));

/// The closing table without its title.
const CLOSING: Look = Look::output("output", |run| {
    let (_, table) = run.done.stdout.split_once("\nX\n").unwrap_or_default();
    let (table, _) = table.split_once("\n\n").unwrap_or((table, ""));
    match table.is_empty() {
        true => format!("{} {}", run.done.stdout, run.fault()),
        false => table.to_owned(),
    }
});

const TITLE: Look = Look::output("output", |run| {
    if run.done.stdout.contains("\nX\n") {
        "X"
    } else {
        "none"
    }
    .to_owned()
});

const REGRET: Look = Look::output("output", |run| {
    if run.done.stdout.contains("worst") {
        "worst"
    } else {
        "none"
    }
    .to_owned()
});

/// The highest load that keeps the bound.
const SEARCHED: Look = Look::output("virtual time", |run| {
    let search = run.value("/searches/0");
    let load = search["highest"]["value"].as_f64().map(|load| load.round());
    match load {
        Some(load) => format!("{} {load}", word(&search["axis"])),
        None => format!("{search} {}", run.fault()),
    }
});

/// Whether the page cache is dropped.
const SETTLES: Look = Look::calls("system calls", |run| {
    let drops = run
        .calls
        .iter()
        .any(|call| call.arguments.iter().any(|it| it.contains("drop_caches")));
    if drops {
        "drops the page cache"
    } else {
        "none"
    }
    .to_owned()
});

/// How many folders are made for targets.
const MADE: Look = Look::calls("system calls", |run| {
    let made = run
        .calls
        .iter()
        .filter(|call| call.name.starts_with("mkdir") && call.file.is_some());
    format!("{} folders", made.count())
});

/// The files of the folder besides the experiment.
const LEFT: Look = Look::output("files", |run| {
    joined(run.names().into_iter().filter(|name| name != "e.toml"))
});

/// How many files are laid out.
const LAID_OUT: Look = Look::calls("system calls", |run| {
    let laid_out = run
        .calls
        .iter()
        .filter(|call| call.name == "fallocate" && call.file.is_some());
    format!("{} files", laid_out.count())
});

/// How much is written to the image.
const WRITTEN: Look = Look::calls("system calls", |run| {
    let image = |call: &&crate::strace::Call| {
        call.file
            .as_deref()
            .is_some_and(|file| file.ends_with("disk0.img"))
            && call.name.contains("write")
    };
    let bytes = run
        .calls
        .iter()
        .filter(image)
        .filter_map(|call| call.arguments[2].parse::<u64>().ok());
    match bytes.sum::<u64>() >> 10 {
        0 => "nothing".to_owned(),
        1024.. => "more than the image".to_owned(),
        kib => format!("{kib} KiB"),
    }
});

const SAMPLED: Look = Look::output("trials", |run| {
    match array(run, "/trials/0/servers").is_empty() {
        true => "none",
        false => "sampled",
    }
    .to_owned()
});

const SYSCTL: Look = during(
    "/proc/sys",
    "[ $(cat /proc/sys/vm/stat_interval) = 3 ] && echo 3 || echo another",
);

const IMAGE: Look = during(
    "content",
    "sleep 4; [ $(cat iodyno-*/disk0.img | tr -d '\\0' | wc -c) = 0 ] && echo zeros || echo data",
);

/// Of the loop device on the image.
const QUEUE: Look = during(
    "/sys/block",
    "cd /sys/block/$LOOP/queue; [ $(cat read_ahead_kb) = 12 ] && echo 12 || echo another",
);

/// The output of a script during a trial. `LOOP` is the name of the loop device on a file of the folder.
pub(crate) const fn during(seen: &'static str, script: &'static str) -> Look {
    let through = Through::During(script);
    Look {
        seen,
        through,
        of: |run| run.during.clone(),
    }
}

/// The first output of a script before the trial.
pub(crate) const fn starting(seen: &'static str, script: &'static str) -> Look {
    let through = Through::Starting(script);
    Look {
        seen,
        through,
        of: |run| run.during.clone(),
    }
}
