//! `run --node`: several nodes in virtual time, with exact results, and nodes that are reached by ssh in network
//! namespaces.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Home, Running, alive, iodyno, root, skip, stop, wait_for};

const SIMULATED: &str = "[t]\nioengine=sim\nsim_latency=constant:100us\nrw=randread\nbs=4k\nsize=16m\nruntime=3\ntime_based\n";

#[test]
fn the_results_of_several_nodes_are_merged_with_a_row_for_each() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    home.iodyno(&["run", "s.fio", "--node", "a=local", "--node", "b=local"])
        .succeeds()
        .prints("a  started first, 3.00 s")
        .prints(
            "starts 0 ns apart (± 0 ns), ends 0 ns apart, 20.0k ops/s while all measured (3.00 s)",
        );
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 60_000);
    assert_eq!(trial["groups"][0]["clones"], 2);
    let nodes: Vec<(&Value, &Value)> = trial["by_node"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (&node["name"], &node["rows"][0]["ops"]))
        .collect();
    assert_eq!(
        nodes,
        [(&json!("a"), &json!(30_000)), (&json!("b"), &json!(30_000))]
    );
    assert_eq!(trial["common_window"]["ops_per_s"], 20_000.0);
    // Each frame is that of one node.
    let of = |name: &str| -> u64 {
        let frames = trial["series"].as_array().unwrap().iter();
        let own = frames.filter(|frame| frame["node"] == name);
        own.map(|frame| frame["rows"][0]["ops"].as_u64().unwrap())
            .sum()
    };
    assert_eq!((of("a"), of("b")), (30_000, 30_000));
    let csv = home.iodyno(&["show", "last", "--format", "csv"]).succeeds();
    assert!(csv.stdout.starts_with("round,configuration,workload,node,"));
    let named = |name: &str| {
        csv.stdout
            .lines()
            .filter(|line| line.contains(name))
            .count()
    };
    assert_eq!((named(",a,1,job,"), named(",b,1,job,")), (3, 3));
    let names: Vec<&Value> = trial["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| &n["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn closing_tables_have_a_row_for_each_node() {
    let home = Home::new();
    let text = "rounds = 2\nsettle = false\n[node.east]\nat = \"local\"\n[node.west]\nat = \"local\"\n\
                [configuration.one]\ntarget = \".\"\n[configuration.two]\ntarget = \".\"\n[workload.w]\n\
                fio = { rw = \"read\", size = \"1m\", ioengine = \"null\" }\n";
    let layout = "[table]\nrows = [\"node\"]\ncolumns = [\"configuration\"]\nmetric = [\"iops\"]\n";
    home.file("n.toml", &format!("{text}{layout}"));
    home.file("t.toml", layout);
    let rows = |text: &str| {
        for name in ["east", "west"] {
            assert!(text.contains(name), "{text}");
        }
    };
    rows(&home.iodyno(&["run", "n.toml"]).succeeds().stdout);
    rows(
        &home
            .iodyno(&["compare", "last", "--layout"])
            .succeeds()
            .stdout,
    );
    rows(
        &home
            .iodyno(&["compare", "last", "--table", "t.toml"])
            .succeeds()
            .stdout,
    );
    let report = ["report", "last", "--format", "markdown"];
    rows(&home.iodyno(&report).succeeds().stdout);
    let json = home
        .iodyno(&["compare", "last", "--json"])
        .succeeds()
        .json();
    rows(&json["table"].to_string());
}

#[test]
fn file_operations_run_on_several_nodes_with_rows_for_each() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("d")).unwrap();
    let arguments = ["fs", "run", "create_empty", "--dir", "d", "--max-ops", "50"];
    let nodes = ["--node", "a=local", "--node", "b=local"];
    let ran = home.iodyno(&[&arguments[..], &nodes].concat()).succeeds();
    assert!(
        !ran.stderr.contains("another iodyno trial"),
        "{}",
        ran.stderr
    );
    let opening = "Running benchmark: create_empty";
    assert_eq!(ran.stdout.matches(opening).count(), 1, "{}", ran.stdout);
    ran.prints("starts ")
        .prints("\nBenchmarkfsbench/create_empty/threads=2 100 ");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    for (place, name) in ["a", "b"].into_iter().enumerate() {
        let node = &trial["by_node"][place];
        assert_eq!(
            (&node["name"], &node["rows"][0]["ops"]),
            (&json!(name), &json!(50))
        );
    }
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 100);
    home.iodyno(&["fs", "run", "create_empty", "--dir", "d", "--node", "local"])
        .exits(2)
        .stderr_has("`--node local` has no name");
}

#[test]
fn sysbench_fileio_runs_on_several_nodes_and_prints_one_result() {
    let home = Home::new();
    let options = ["--file-total-size=1M", "--file-num=4"];
    home.iodyno(&[&["fileio"], &options[..], &["prepare"]].concat())
        .succeeds();
    let nodes = ["--node", "a=local", "--node", "b=local"];
    let reads = ["--file-test-mode=rndrd", "--events=100", "--time=0", "run"];
    let ran = home
        .iodyno(&[&["fileio"], &nodes[..], &options, &reads].concat())
        .succeeds()
        .prints("total number of events:              200")
        .stderr_has("a  started")
        .stderr_has("starts ");
    assert_eq!(ran.stdout.matches("Threads started!").count(), 1);
    // Nothing is removed before all nodes are known to be this host.
    let remote = ["--node", "c=ssh://ada@h:2222"];
    home.iodyno(&[&["fileio"], &nodes[..], &remote, &options, &["cleanup"]].concat())
        .exits(2)
        .stderr_has("`cleanup` does not work on node `c`, which is not this host")
        .stderr_has("ssh -p 2222 ada@h 'iodyno fileio --on ")
        .stderr_has(" --file-total-size=1M --file-num=4 cleanup'`");
    home.iodyno(&[&["fileio"], &options[..], &nodes, &["cleanup"]].concat())
        .exits(2)
        .stderr_has("`--node` belongs directly after `iodyno fileio`, before sysbench's arguments")
        .stderr_has("`iodyno fileio --node a=local --node b=local --file-total-size=1M --file-num=4 cleanup`");
    assert!(home.work().join("test_file.3").exists());
    home.iodyno(&[&["fileio"], &nodes[..], &options, &["cleanup"]].concat())
        .succeeds();
    assert!(!home.work().join("test_file.3").exists());
}

#[test]
fn node_is_a_dimension_of_comparisons() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    home.iodyno(&[
        "run", "s.fio", "--node", "a=local", "--node", "b=local", "--rounds", "10",
    ])
    .succeeds();
    let compared = home
        .iodyno(&["compare", "last", "--cols", "node", "--format", "json"])
        .succeeds()
        .json();
    assert_eq!(compared["question"]["columns"], "node");
    assert_eq!(
        (&compared["baseline"], &compared["candidates"][0]["name"]),
        (&json!("a"), &json!("b"))
    );
    // All trials are alike: without a difference there is no FASTER and no SLOWER.
    home.iodyno(&["compare", "last", "--cols", "node"])
        .prints("b");
    home.iodyno(&["compare", "last", "--cols", "node,job"])
        .exits(2)
        .stderr_has("`job` and `node` cannot be compared at once");
}

#[test]
fn a_run_on_nodes_is_exported_resumed_and_shown() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    home.iodyno(&["run", "s.fio", "--node", "a=local", "--node", "b=local"])
        .succeeds();
    home.iodyno(&["run", "--resume", "last", "--rounds", "2"])
        .succeeds();
    home.iodyno(&["export", "last", "--output", "run.jsonl"])
        .succeeds();
    home.iodyno(&["--store", "other.db", "import", "run.jsonl"])
        .succeeds();
    let shown = home
        .iodyno(&["--store", "other.db", "show", "last", "--json"])
        .succeeds()
        .json();
    assert_eq!(shown["trials"][1]["by_node"][1]["rows"][0]["ops"], 30_000);
    // Its nodes were named in another store.
    home.iodyno(&[
        "--store", "other.db", "run", "--resume", "last", "--rounds", "3",
    ])
    .exits(2)
    .stderr_has("run 1 was imported: all that it does on this host has to be allowed again")
    .stderr_has("runs: node.a=local");
}

#[test]
fn wrong_nodes_are_told_all_at_once_and_nothing_is_run() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    home.iodyno(&[
        "run",
        "s.fio",
        "--node",
        "local",
        "--node",
        "b=ssh://-oProxyCommand=touch",
    ])
    .exits(2)
    .stderr_has("`--node local` has no name")
    .stderr_has("the host begins with `-`");
    assert!(!home.store().exists());
}

#[test]
fn the_plan_names_the_nodes() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    home.iodyno(&["run", "s.fio", "--node", "a=local", "--dry-run"])
        .succeeds()
        .prints("node       a: local");
}

#[test]
fn an_experiment_has_nodes_of_its_own() {
    let home = Home::new();
    home.file("s.fio", SIMULATED);
    let text = "[node.a]\nat = \"local\"\n[node.b]\nat = \"local\"\n[node.host]\nat = \"local\"\njobs = false\n\
                [workload.both]\nfio = \"s.fio\"\n[workload.one]\nfio = \"s.fio\"\nnodes = \"b\"\n";
    home.file("x.toml", text);
    home.iodyno(&["run", "x.toml", "--rounds", "2", "--dry-run"])
        .prints("a round takes at least 6.00 s, and 2 rounds 12.0 s of virtual time");
    home.iodyno(&["run", "x.toml", "--rounds", "1"]).succeeds();
    home.iodyno(&["list"]).succeeds().prints("simulated");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trials = shown["trials"].as_array().unwrap();
    let of = |name: &str| {
        trials
            .iter()
            .find(|trial| trial["workload"] == name)
            .unwrap()
    };
    let nodes = |trial: &Value| -> Vec<String> {
        let nodes = trial["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| node["name"].as_str().unwrap().to_owned())
            .collect()
    };
    // In virtual time, no host is sampled.
    assert_eq!(nodes(of("both")), ["a", "b"]);
    assert_eq!(nodes(of("one")), ["b"]);
    assert_eq!(of("one")["groups"][0]["rows"][0]["ops"], 30_000);
    // A flag takes the place of an address.
    home.iodyno(&["run", "x.toml", "--node", "a=ssh://-x"])
        .exits(2);
    home.iodyno(&["run", "x.toml", "--node", "c=local"])
        .exits(2)
        .stderr_has("`--node c`: the experiment has no such node");
}

#[test]
fn a_node_without_jobs_is_sampled_until_the_others_have_ended() {
    let home = Home::new();
    home.file("n.fio", SECONDS);
    let text = "[node.a]\nat = \"local\"\n[node.host]\nat = \"local\"\njobs = false\n\
                [workload.w]\nfio = \"n.fio\"\n";
    home.file("x.toml", text);
    home.iodyno(&["run", "x.toml", "--rounds", "1", "--no-settle"])
        .succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(
        trial["outcome"]["state"], "completed",
        "{}",
        trial["outcome"]
    );
    assert_eq!(trial["nodes"][1]["name"], "host");
    assert_eq!(trial["sampled_nodes"][0]["name"], "host");
    assert!(trial["sampled_nodes"][0]["busy_cpus"].as_f64().unwrap() > 0.0);
    // Its frames are not results, and it is not slow.
    let frames = trial["series"].as_array().unwrap();
    assert!(frames.iter().all(|frame| frame["node"] == "a"));
    let findings = trial["findings"].as_array().unwrap();
    assert!(
        !findings.iter().any(|it| it["kind"] == "node_differs"),
        "{findings:?}"
    );
    let series = home
        .iodyno(&["show", "last", "--series", "cpu", "--json"])
        .succeeds()
        .json();
    assert_eq!(series["trials"][1]["node"], "host", "{series}");
    home.iodyno(&["show", "last", "--series", "cpu"])
        .prints(", node host");
}

/// A network namespace with an sshd. Removed when dropped.
struct Host {
    name: String,
    /// Its end of the link, in this namespace.
    link: String,
    address: String,
    sshd: Child,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
        ip(&["netns", "delete", &self.name]);
        ip(&["link", "delete", &self.link]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let ended = Command::new("ip")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ended.is_ok_and(|status| status.success())
}

/// Hosts that are reached by ssh, and the keys for it.
struct Lab {
    home: Home,
    hosts: Vec<Host>,
    keys: PathBuf,
    /// The files of ssh and its server. A path with blanks would need quoting in each of them.
    place: tempfile::TempDir,
}

/// `None`, with a message: something is missing for it.
fn lab(hosts: u32, installed: bool) -> Option<Lab> {
    let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    let Some(sshd) = sshd.filter(|_| root()) else {
        skip("hosts cannot be made: root and sshd (openssh-server) are needed");
        return None;
    };
    let home = Home::new();
    let place = tempfile::tempdir().unwrap();
    let keys = place.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    std::fs::create_dir_all("/run/sshd").unwrap();
    for key in ["client", "host", "other"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(keys.join(key))
            .status();
        if !made.is_ok_and(|status| status.success()) {
            skip("hosts cannot be made: ssh-keygen is needed");
            return None;
        }
    }
    let bin = home.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    // ssh takes the folder of its configuration from the user database, and not from HOME.
    let wrapper = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
        keys.join("config").display()
    );
    script(&bin.join("ssh"), &wrapper);
    let there = place.path().join("there");
    std::fs::create_dir(&there).unwrap();
    if installed {
        std::os::unix::fs::symlink(iodyno(), there.join("iodyno")).unwrap();
    }
    let mut lab = Lab {
        home,
        hosts: Vec::new(),
        keys,
        place,
    };
    let mut known = String::new();
    for number in 0..hosts {
        let Some(host) = lab.host(sshd, number, &there) else {
            skip("hosts cannot be made: `ip netns` does not work here");
            return None;
        };
        let key = std::fs::read_to_string(lab.keys.join("host.pub")).unwrap();
        let _ = writeln!(known, "{} {key}", host.address);
        lab.hosts.push(host);
    }
    std::fs::write(lab.keys.join("known"), known).unwrap();
    let config = format!(
        "Host *\n IdentityFile {keys}/client\n IdentitiesOnly yes\n UserKnownHostsFile {keys}/known\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n",
        keys = lab.keys.display()
    );
    std::fs::write(lab.keys.join("config"), config).unwrap();
    Some(lab)
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

impl Lab {
    fn host(&self, sshd: &str, number: u32, there: &Path) -> Option<Host> {
        // Tests run at the same time: each has its own names and addresses.
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let unique = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let process = std::process::id();
        let (name, link, peer) = (
            format!("iodyno-{process}-{unique}"),
            format!("iod{:x}h{unique}", process & 0xffff),
            format!("iod{:x}p{unique}", process & 0xffff),
        );
        let subnet = format!("10.{}.{}", 128 + (process & 0x7f), unique & 0xff);
        let address = format!("{subnet}.2");
        let made = ip(&["netns", "add", &name])
            && ip(&["link", "add", &link, "type", "veth", "peer", "name", &peer])
            && ip(&["link", "set", &peer, "netns", &name])
            && ip(&["addr", "add", &format!("{subnet}.1/24"), "dev", &link])
            && ip(&["link", "set", &link, "up"])
            && ip(&[
                "-n",
                &name,
                "addr",
                "add",
                &format!("{address}/24"),
                "dev",
                &peer,
            ])
            && ip(&["-n", &name, "link", "set", &peer, "up"])
            && ip(&["-n", &name, "link", "set", "lo", "up"]);
        if !made {
            ip(&["netns", "delete", &name]);
            ip(&["link", "delete", &link]);
            return None;
        }
        let config = self.keys.join(format!("sshd-{number}"));
        let text = format!(
            "Port 22\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/client.pub\nUsePAM no\nStrictModes no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\nSetEnv PATH={there}:/usr/bin:/bin XDG_CACHE_HOME={cache}\n",
            keys = self.keys.display(),
            there = there.display(),
            cache = self.cache().display(),
        );
        std::fs::write(&config, text).unwrap();
        let sshd = Command::new("ip")
            .args(["netns", "exec", &name, sshd, "-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let host = Host {
            name,
            link,
            address,
            sshd,
        };
        wait_for("sshd to listen", || {
            std::net::TcpStream::connect((host.address.as_str(), 22)).ok()
        });
        Some(host)
    }

    /// The cache of the user of the hosts.
    fn cache(&self) -> PathBuf {
        self.place.path().join("cache")
    }

    fn start(&self, arguments: &[&str]) -> Running {
        self.home.start(arguments)
    }

    /// `--node` flags for all hosts, named `a`, `b`, ….
    fn nodes(&self) -> Vec<String> {
        let named = self.hosts.iter().zip('a'..);
        named
            .flat_map(|(host, name)| {
                [
                    "--node".to_owned(),
                    format!("{name}=ssh://{}", host.address),
                ]
            })
            .collect()
    }

    /// Runs a job in a folder of the nodes.
    fn run(&self, job: &str, flags: &[&str]) -> Running {
        self.home.file("j.fio", job);
        let on = format!("d={}", self.data().display());
        let nodes = self.nodes();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        self.start(
            &[
                &["run", "j.fio", "--no-settle", "--on", &on],
                nodes.as_slice(),
                flags,
            ]
            .concat(),
        )
    }

    /// The folder of the nodes, which they share here: jobs with files must name them differently.
    fn data(&self) -> PathBuf {
        let data = self.home.work().join("data");
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    /// The node processes on a host that run a trial.
    fn processes(&self, host: &Host) -> Vec<Pid> {
        let listed = Command::new("ip")
            .args(["netns", "pids", &host.name])
            .output()
            .unwrap();
        let pids = String::from_utf8_lossy(&listed.stdout).into_owned();
        let pids = pids
            .split_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        let is_node = |pid: &Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            line.is_ok_and(|line| {
                line.starts_with(b"iodyno\0node")
                    || line.windows(12).any(|w| w == b"iodyno\0node\0")
            })
        };
        pids.filter(|pid| alive(*pid) && is_node(pid)).collect()
    }

    /// The process of the trial on a host, once the store has its results.
    fn measuring(&self, running: &Running, host: &Host) -> Pid {
        running.wait_until_it_measures(&self.home);
        running.wait_for("a node", || self.processes(host).first().copied())
    }

    fn shown(&self) -> Value {
        self.home
            .iodyno(&["show", "last", "--json"])
            .succeeds()
            .json()
    }

    /// Waits until no process of a node is left on any host, and no file in their folder.
    fn nothing_is_left(&self) {
        for host in &self.hosts {
            wait_for("the nodes to end", || {
                self.processes(host).is_empty().then_some(())
            });
        }
        let left: Vec<_> = std::fs::read_dir(self.data()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

const SECONDS: &str = "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=16m\nruntime=2\ntime_based\n";
const ENDLESS: &str = "[t]\nioengine=null\nrw=randread\nbs=4k\nsize=16m\nruntime=1h\ntime_based\n";

#[test]
fn two_hosts_run_a_trial_at_once_by_ssh() {
    let Some(lab) = lab(2, true) else { return };
    lab.run(SECONDS, &[]).done().succeeds();
    let shown = lab.shown();
    let trial = &shown["trials"][0];
    assert_eq!(trial["outcome"]["state"], "completed");
    let ops = |node: usize| trial["by_node"][node]["rows"][0]["ops"].as_u64().unwrap();
    assert!(ops(0) > 0 && ops(1) > 0);
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], ops(0) + ops(1));
    for node in trial["nodes"].as_array().unwrap() {
        // The clock was read before and after, and is that of this host.
        for (offset, error) in [
            ("clock_offset_ns", "clock_error_ns"),
            ("clock_offset_after_ns", "clock_error_after_ns"),
        ] {
            let offset = node[offset].as_i64().unwrap().unsigned_abs();
            assert!(offset <= node[error].as_u64().unwrap(), "{node}");
        }
    }
    lab.nothing_is_left();
}

#[test]
fn a_node_that_is_killed_ends_the_trial_and_keeps_all_results() {
    let Some(lab) = lab(2, true) else { return };
    let running = lab.run(ENDLESS, &[]);
    let node = lab.measuring(&running, &lab.hosts[1]);
    kill_process(node, Signal::KILL).unwrap();
    running.done().exits(4);
    let shown = lab.shown();
    let trial = &shown["trials"][0];
    let reason = trial["outcome"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("node `a`: ended because another node was lost"),
        "{reason}"
    );
    assert!(
        reason.contains("node `b`: the node was killed by SIGKILL"),
        "{reason}"
    );
    let measured = |node: usize| trial["by_node"][node]["rows"][0]["ops"].as_u64().unwrap();
    assert!(measured(0) > 0 && measured(1) > 0);
    assert_eq!(trial["by_node"].as_array().unwrap().len(), 2, "{trial}");
    lab.nothing_is_left();
}

#[test]
fn a_node_that_is_stopped_is_lost_and_its_process_is_killed() {
    let Some(lab) = lab(1, true) else { return };
    let running = lab.run(ENDLESS, &[]);
    let node = lab.measuring(&running, &lab.hosts[0]);
    stop(node);
    running.done().exits(4);
    let shown = lab.shown();
    let trial = &shown["trials"][0];
    let reason = trial["outcome"]["reason"].as_str().unwrap();
    assert!(reason.contains("did not answer for"), "{reason}");
    assert!(trial["groups"][0]["rows"][0]["ops"].as_u64().unwrap() > 0);
    lab.nothing_is_left();
}

/// An experiment on both hosts of a lab, on an ext4 that is made on each of them, in their folder.
fn on_made_storage(lab: &Lab, job: &str, rounds: &str) -> Running {
    lab.home.file("j.fio", job);
    let mut text = format!(
        "[configuration.made]\ntarget = \"ext4 on loop on file on {}\"\nfile.size = \"48MiB\"\n[workload.w]\nfio = \"j.fio\"\n",
        lab.data().display()
    );
    for (host, name) in lab.hosts.iter().zip('a'..) {
        let _ = writeln!(text, "[node.{name}]\nat = \"ssh://{}\"", host.address);
    }
    lab.home.file("x.toml", &text);
    lab.start(&["run", "x.toml", "--rounds", rounds, "--no-settle"])
}

#[test]
fn storage_is_made_and_undone_on_each_node() {
    let Some(lab) = lab(2, true) else { return };
    let job = "[t]\nrw=randwrite\nbs=4k\nsize=1m\n";
    let done = on_made_storage(&lab, job, "2").done();
    if done.stderr.contains("loop") {
        return skip(&done.stderr);
    }
    done.succeeds();
    let shown = lab.shown();
    for trial in shown["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"]["state"], "completed", "{trial}");
        for node in 0..2 {
            assert_eq!(trial["by_node"][node]["rows"][0]["ops"], 256, "{trial}");
        }
    }
    lab.nothing_is_left();
}

#[test]
fn a_node_undoes_its_storage_when_the_process_that_asked_for_it_is_killed() {
    let Some(lab) = lab(2, true) else { return };
    let job = "[t]\nrw=randread\nbs=4k\nsize=1m\nruntime=1h\ntime_based\n";
    let running = on_made_storage(&lab, job, "1");
    running.wait_until_it_measures(&lab.home);
    running.signal(Signal::KILL);
    running.done();
    lab.nothing_is_left();
}

#[test]
fn clean_undoes_the_storage_of_a_node_whose_processes_were_killed() {
    let Some(lab) = lab(1, true) else { return };
    let job = "[t]\nrw=randread\nbs=4k\nsize=1m\nruntime=1h\ntime_based\n";
    let running = on_made_storage(&lab, job, "1");
    running.wait_until_it_measures(&lab.home);
    let left = || std::fs::read_dir(lab.data()).unwrap().count();
    let address = format!("a=ssh://{}", lab.hosts[0].address);
    let clean = || lab.start(&["clean", "--node", &address]).done().succeeds();
    // In use by a process that lives.
    clean();
    assert!(left() > 0);
    // First this side, so that it does not undo it.
    stop(running.pid());
    for node in lab.processes(&lab.hosts[0]) {
        kill_process(node, Signal::KILL).unwrap();
    }
    running.signal(Signal::KILL);
    running.done();
    assert!(left() > 0);
    clean().prints("a: ");
    lab.nothing_is_left();
}

#[test]
fn a_cut_network_ends_the_trial_and_the_node_ends_by_itself() {
    let Some(lab) = lab(1, true) else { return };
    let running = lab.run(ENDLESS, &[]);
    lab.measuring(&running, &lab.hosts[0]);
    assert!(ip(&["link", "set", &lab.hosts[0].link, "down"]));
    running.done().exits(4);
    let shown = lab.shown();
    let reason = shown["trials"][0]["outcome"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("did not answer for") || reason.contains("was lost"),
        "{reason}"
    );
    assert!(
        shown["trials"][0]["groups"][0]["rows"][0]["ops"]
            .as_u64()
            .unwrap()
            > 0
    );
    lab.nothing_is_left();
}

#[test]
fn a_wrong_host_key_is_an_error_with_the_words_of_ssh() {
    let Some(lab) = lab(1, true) else { return };
    let other = std::fs::read_to_string(lab.keys.join("other.pub")).unwrap();
    let known = format!("{} {other}", lab.hosts[0].address);
    std::fs::write(lab.keys.join("known"), known).unwrap();
    lab.run(SECONDS, &[])
        .done()
        .exits(1)
        .stderr_has("node `a`: cannot connect to ssh://")
        .stderr_has("Host key verification failed")
        .stderr_has(&format!(
            "`ssh ssh://{} true` has to work",
            lab.hosts[0].address
        ));
    assert!(!lab.home.store().exists());
}

#[test]
fn a_login_shell_that_prints_something_is_an_error_with_what_it_prints() {
    let Some(lab) = lab(1, true) else { return };
    let key = std::fs::read_to_string(lab.keys.join("client.pub")).unwrap();
    let allowed = |prints: &str| {
        let text = format!("command=\"{prints}; exec sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"\" {key}");
        std::fs::write(lab.keys.join("client.pub"), text).unwrap();
    };
    for prints in ["echo Welcome", "printf Welcome"] {
        allowed(prints);
        lab.run(SECONDS, &[])
            .done()
            .exits(1)
            .stderr_has("prints `Welcome` before each command")
            .stderr_has("has to print nothing");
    }
    allowed("true");
    lab.run(SECONDS, &[]).done().succeeds();
}

#[test]
fn a_resumed_run_uses_the_program_of_its_nodes_or_is_refused() {
    let Some(lab) = lab(1, false) else { return };
    let program = lab.home.work().join("program");
    let link = || std::os::unix::fs::symlink(iodyno(), &program).unwrap();
    link();
    lab.run(SECONDS, &["--node-binary", "program"])
        .done()
        .succeeds();
    let copies = lab.cache().join("iodyno/nodes");
    std::fs::remove_dir_all(&copies).unwrap();
    let resume = |more: &[&str]| {
        lab.start(&[&["run", "--resume", "last", "--rounds", "2"], more].concat())
            .done()
    };
    std::fs::remove_file(&program).unwrap();
    resume(&[])
        .exits(2)
        .stderr_has("cannot read `")
        .stderr_has("the program of node `a` in this run");
    std::fs::write(&program, "another").unwrap();
    for more in [&[][..], &["--node-binary", "program"]] {
        resume(more)
            .exits(2)
            .stderr_has("is not the program of node `a` in this run: its content differs");
    }
    assert!(!copies.exists());
    std::fs::remove_file(&program).unwrap();
    link();
    resume(&[]).succeeds();
    assert_eq!(std::fs::read_dir(&copies).unwrap().count(), 1);
    lab.nothing_is_left();
}

#[test]
fn a_host_without_this_version_gets_a_copy_in_its_cache() {
    let Some(lab) = lab(1, false) else { return };
    lab.run(SECONDS, &[])
        .done()
        .exits(1)
        .stderr_has("there is none for")
        .stderr_has("make static");
    // Another version is not used.
    let there = lab.place.path().join("there/iodyno");
    let hello = r#"{"say":"hello","version":1,"iodyno":"0.0.1","pid":1}"#;
    script(
        &there,
        &format!(
            "#!/bin/sh\nprintf '\\{:03o}\\0\\0\\0{hello}'; cat >/dev/null\n",
            hello.len()
        ),
    );
    lab.run(SECONDS, &[])
        .done()
        .exits(1)
        .stderr_has("iodyno 0.0.1 is installed there");
    let binary = iodyno();
    lab.run(SECONDS, &["--node-binary", binary])
        .done()
        .succeeds();
    let copies = || -> Vec<PathBuf> {
        let nodes = std::fs::read_dir(lab.cache().join("iodyno/nodes")).unwrap();
        nodes
            .flatten()
            .map(|sum| sum.path().join("iodyno"))
            .collect()
    };
    let [copy] = &copies()[..] else {
        panic!("{:?}", copies());
    };
    let original = std::fs::read(binary).unwrap();
    assert!(std::fs::read(copy).unwrap() == original);
    // A damaged copy is replaced.
    std::fs::write(copy, b"damaged").unwrap();
    lab.run(SECONDS, &["--node-binary", binary])
        .done()
        .succeeds();
    assert!(std::fs::read(copy).unwrap() == original);
    lab.nothing_is_left();
}
