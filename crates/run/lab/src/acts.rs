//! The actions of a plan on a host besides I/O on the paths of its targets: commands, settings, and other paths.
//!
//! A key is that of an experiment, after the name of a configuration, or `job`, the names of a workload and a job.
//! Names with characters other than letters, digits, `_` and `-` are quoted, so that keys are unique.
//!
//! A plan of another user must not do this without the permission of this host's user. Every type of the plan is
//! destructured without `..`, so that a new field does not compile until it is either listed or known to be harmless.

use std::collections::HashSet;
use std::fmt;

use iodyno_model::printable::shell_word;
use iodyno_model::{
    Blocks, Configuration, DmTarget, Engine, Files, FioOperations, FolderServer, IoPriority, Job,
    Layer, MdLayer, MirrorLayer, NfsLayer, NodeProgram, Operations, Pinning, Placement, Plan,
    PlannedNode, Provision, Replay, Sampling, Settling, SharedFiles, ShellCommand, Target,
    VdevGroup, Verify, VmDisk, VmImage, VmLayer, Work, Workload, ZfsLayer,
};

/// The kind of an [`Act`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActKind {
    /// A command runs, with these words.
    Runs,
    /// A setting of the host, of storage or of commands.
    Sets,
    /// A path is used.
    Uses,
}

impl ActKind {
    /// For lists.
    pub fn word(self) -> &'static str {
        match self {
            ActKind::Runs => "runs",
            ActKind::Sets => "sets",
            ActKind::Uses => "uses",
        }
    }
}

/// One action of a plan on a host. Its text, `disk.setup=make-disk /dev/sdx`, names it in `--allow`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Act {
    /// Its kind.
    pub kind: ActKind,
    /// Its configuration or workload, and the key in an experiment.
    pub key: String,
    /// The command, the value or the path.
    pub value: String,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// Everything that a plan does to a host, in order, without duplicates. The paths of targets, of files of jobs and of
/// logs are in [`crate::permission::named_by`].
pub(crate) fn acts(plan: &Plan) -> Vec<Act> {
    let Plan {
        schema: _,
        name: _,
        about: _,
        // Printed.
        command: _,
        nodes,
        configurations,
        workloads,
        rounds: _,
        looks: _,
        seed: _,
        order: _,
        // Never stored.
        destroy: _,
        question: _,
        stopping: _,
        fresh: _,
        retry: _,
        probe: _,
        settling,
        sampling,
        stuck_after_ns: _,
        table: _,
        imported: _,
    } = plan;
    let mut found = Found {
        fio: nodes.iter().any(PlannedNode::has_fio),
        real: on_host(plan),
        ..Found::default()
    };
    nodes.iter().for_each(|node| found.node(node));
    found.settling(settling);
    found.sampling(sampling);
    for configuration in configurations {
        found.configuration(configuration);
    }
    for workload in workloads {
        found.workload(workload);
    }
    found.acts
}

/// Whether any trial does something on a host. Trials in virtual time do not.
pub(crate) fn on_host(plan: &Plan) -> bool {
    let mut workloads = plan.workloads.iter();
    workloads.any(|workload| !workload.in_virtual_time())
}

/// Words that are keys where a name can be, too.
const RESERVED: [&str; 9] = [
    "cpus", "job", "layout", "node", "numa", "pool", "sampling", "settle", "trace",
];

/// A name as a part of a key.
fn part(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !name.is_empty() && name.chars().all(plain) && !RESERVED.contains(&name) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

#[derive(Default)]
struct Found {
    acts: Vec<Act>,
    known: HashSet<(ActKind, String, String)>,
    /// The configuration, or the workload and job.
    of: String,
    /// Some node has fio, which gets the options of jobs.
    fio: bool,
    /// See [`on_host`].
    real: bool,
}

impl Found {
    fn add(&mut self, kind: ActKind, key: &str, value: impl Into<String>) {
        let key = match self.of.as_str() {
            "" => key.to_owned(),
            of => format!("{of}.{key}"),
        };
        let value = value.into();
        if self.known.insert((kind, key.clone(), value.clone())) {
            self.acts.push(Act { kind, key, value });
        }
    }

    fn each<'a, T: ToString + 'a + ?Sized>(
        &mut self,
        kind: ActKind,
        key: &str,
        values: impl IntoIterator<Item = &'a T>,
    ) {
        for value in values {
            self.add(kind, key, value.to_string());
        }
    }

    fn paths<'a>(&mut self, key: &str, paths: impl IntoIterator<Item = &'a std::path::PathBuf>) {
        for path in paths {
            self.add(ActKind::Uses, key, path.display().to_string());
        }
    }

    fn settings<'a>(
        &mut self,
        key: &str,
        settings: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for (name, value) in settings {
            let key = format!("{key}.{}", part(name));
            self.add(ActKind::Sets, &key, value.as_str());
        }
    }

    fn node(&mut self, node: &PlannedNode) {
        let PlannedNode {
            name,
            at,
            sudo,
            only_sampled: _,
            program,
        } = node;
        let by = if *sudo { "sudo " } else { "" };
        let key = format!("node.{}", part(name));
        if let Some(NodeProgram { path, sha256: _ }) = program {
            let shown = path.display().to_string();
            self.add(ActKind::Runs, &format!("{key}.program"), shown);
        }
        self.add(ActKind::Runs, &key, format!("{by}{at}"));
    }

    fn settling(&mut self, settling: &Settling) {
        let Settling {
            drop_caches,
            idle_ns: _,
        } = settling;
        if *drop_caches && self.real {
            self.add(ActKind::Sets, "settle", "drop_caches");
        }
    }

    fn sampling(&mut self, sampling: &Sampling) {
        let Sampling {
            every_ns: _,
            // Names that are looked up among the processes.
            processes: _,
            made_for: _,
            stats,
            block_trace,
        } = sampling;
        self.paths("sampling.stats", stats);
        if *block_trace && self.real {
            // Programs in the kernel.
            self.add(ActKind::Runs, "trace", "block");
        }
    }

    fn configuration(&mut self, configuration: &Configuration) {
        let Configuration {
            name,
            target,
            again: _,
            dimensions: _,
            // Names of the plan's nodes.
            nodes: _,
        } = configuration;
        self.of = part(name);
        match target {
            // Paths: `named_by`.
            Target::AsWritten { folder: _ } | Target::Path(_) => {}
            Target::Made(provision) => self.provision(provision),
            Target::Simulated(_) => {}
        }
    }

    fn provision(&mut self, provision: &Provision) {
        let Provision {
            layers,
            fill: _,
            precondition_ns: _,
            sysctl,
            queue,
            env,
            setup,
            ready,
            teardown,
            // Names that are looked up among the processes.
            sample: _,
        } = provision;
        let made = |layer: &Layer| !matches!(layer, Layer::Directory { .. });
        if layers.iter().any(made) {
            let layers: Vec<String> = layers.iter().map(Layer::words).collect();
            self.add(ActKind::Runs, "target", layers.join(" on "));
        }
        self.settings("host.sysctl", sysctl);
        self.settings("host.queue", queue);
        self.settings("env", env);
        self.each(ActKind::Runs, "setup", setup);
        self.each(ActKind::Runs, "ready", ready);
        self.each(ActKind::Runs, "teardown", teardown);
        for layer in layers {
            self.layer(layer);
        }
    }

    fn layer(&mut self, layer: &Layer) {
        match layer {
            // Paths: `named_by`.
            Layer::Directory { path: _ } | Layer::Device { paths: _ } => {}
            Layer::File {
                size: _,
                count: _,
                allocate: _,
            } => {}
            Layer::Loop {
                direct: _,
                sector: _,
            } => {}
            Layer::Zram {
                size: _,
                count: _,
                algorithm,
            } => self.each(ActKind::Sets, "zram.algorithm", algorithm),
            Layer::Tmpfs { size: _ } => {}
            Layer::FileSystem { fs, mkfs, mount } => {
                self.each(ActKind::Runs, &format!("{}.mkfs", fs.name()), mkfs);
                self.each(ActKind::Sets, &format!("{}.mount", fs.name()), mount);
            }
            Layer::Zfs(zfs) => self.zfs(zfs),
            Layer::Overlay { mount } => self.each(ActKind::Sets, "overlay.mount", mount),
            Layer::Nfs(nfs) => {
                let NfsLayer {
                    version,
                    sync: _,
                    threads: _,
                    rsize: _,
                    wsize: _,
                    mount,
                } = nfs;
                self.add(ActKind::Sets, "nfs.version", version.as_str());
                self.each(ActKind::Sets, "nfs.mount", mount);
            }
            Layer::Throttle(_) => {}
            Layer::Delay {
                read_ns: _,
                write_ns: _,
                disks,
                pinning,
            } => {
                self.each(ActKind::Sets, "delay.disk", disks);
                self.pinning("delay", pinning);
            }
            Layer::Md(md) => {
                let MdLayer {
                    level: _,
                    layout,
                    chunk: _,
                    bitmap: _,
                    assume_clean: _,
                } = md;
                self.each(ActKind::Sets, "md.layout", layout);
            }
            Layer::Dm(dm) => match dm {
                DmTarget::Linear | DmTarget::LogWrites => {}
                DmTarget::Delay {
                    read_ns: _,
                    write_ns: _,
                    flush_ns: _,
                }
                | DmTarget::Flakey {
                    up_ns: _,
                    down_ns: _,
                    fault: _,
                } => {}
                DmTarget::Crypt {
                    cipher,
                    key_bits: _,
                    sector: _,
                } => self.add(ActKind::Sets, "dm.cipher", cipher.as_str()),
            },
            Layer::Mirror(mirror) => {
                let MirrorLayer {
                    policy,
                    delay,
                    queues: _,
                    pinning,
                } = mirror;
                self.add(ActKind::Sets, "mirror.policy", policy.as_str());
                self.each(ActKind::Sets, "mirror.delay", delay);
                self.pinning("mirror", pinning);
            }
            Layer::Virtiofs(server) => self.server("virtiofs", server),
            Layer::Fuse(server) => self.server("fuse", server),
            Layer::Vm(vm) => self.vm(vm),
        }
    }

    fn zfs(&mut self, zfs: &ZfsLayer) {
        let ZfsLayer {
            layout,
            pool,
            properties,
            volume: _,
            origin: _,
            count: _,
            pinning,
        } = zfs;
        for group in layout {
            let VdevGroup {
                redundancy,
                devices: _,
            } = group;
            self.each(ActKind::Sets, "zfs.layout", redundancy);
        }
        self.settings("zfs.pool", pool);
        self.settings("zfs", properties);
        self.pinning("zfs", pinning);
    }

    fn server(&mut self, key: &str, server: &FolderServer) {
        let FolderServer { command, pinning } = server;
        self.add(ActKind::Runs, &format!("{key}.server"), command.as_str());
        self.pinning(key, pinning);
    }

    fn pinning(&mut self, key: &str, pinning: &Pinning) {
        let Pinning { cpus, numa } = pinning;
        self.each(ActKind::Runs, &format!("{key}.cpus"), cpus);
        self.each(ActKind::Runs, &format!("{key}.numa"), numa);
    }

    fn vm(&mut self, vm: &VmLayer) {
        let VmLayer {
            guests: _,
            cpus: _,
            memory: _,
            accel: _,
            kernel,
            image,
            disks,
            share,
            pinning,
            side_by_side: _,
            names,
            boot_timeout_ns: _,
        } = vm;
        self.paths("vm.kernel", kernel);
        self.each(ActKind::Runs, "vm.share", share);
        self.each(ActKind::Sets, "vm.name", names);
        self.pinning("vm", pinning);
        if let Some(image) = image {
            let VmImage {
                path,
                format,
                user,
                key,
                kernel,
                initrd,
                append,
                program,
            } = image.as_ref();
            self.paths("vm.image", [path]);
            self.each(ActKind::Sets, "vm.image.format", format);
            self.add(ActKind::Runs, "vm.image.user", user.as_str());
            self.paths("vm.image.key", key);
            self.paths("vm.image.kernel", kernel);
            self.paths("vm.image.initrd", initrd);
            self.each(ActKind::Sets, "vm.image.append", append);
            self.paths("vm.image.program", program);
        }
        for disk in disks {
            let VmDisk {
                backend: _,
                interface: _,
                cache: _,
                aio: _,
                iothread: _,
                throttle: _,
                zone: _,
                origin: _,
                command,
            } = disk;
            self.each(ActKind::Runs, "vm.disk.command", command);
        }
    }

    fn workload(&mut self, workload: &Workload) {
        let Workload {
            name,
            // Printed.
            sources: _,
            jobs,
            // In formats of fio.
            global_options: _,
            again: _,
            metric: _,
            family: _,
            only: _,
            nodes: _,
            dimensions: _,
            rounds: _,
            stopping: _,
            files: _,
            search: _,
        } = workload;
        for job in jobs {
            self.of = format!("job.{}.{}", part(name), part(&job.name));
            self.job(job);
        }
    }

    fn job(&mut self, job: &Job) {
        let Job {
            name: _,
            description: _,
            place: _,
            clones: _,
            after: _,
            delay: _,
            exit_all: _,
            exit_what: _,
            work,
            end: _,
            pacing: _,
            buffers: _,
            errors: _,
            // Paths: `named_by`.
            logs: _,
            placement,
            reporting: _,
            // For a node with fio; otherwise in formats of fio.
            options,
            exec_prerun,
            exec_postrun,
            inherited: _,
        } = job;
        for (key, command) in [("exec_prerun", exec_prerun), ("exec_postrun", exec_postrun)] {
            self.each(ActKind::Runs, key, command);
        }
        if self.real {
            self.placement(placement);
        }
        if self.fio {
            let options = options.iter();
            let words = options.map(|(name, value)| shell_word(&format!("{name}={value}")));
            self.add(ActKind::Runs, "fio", words.collect::<Vec<_>>().join(" "));
        }
        match work {
            Work::Blocks(blocks) => self.blocks(blocks),
            Work::FileOperations(operations) => {
                let Operations {
                    about: _,
                    // Names of files in the trial's folder; the node checks that they are words.
                    sets: _,
                    cycle: _,
                    own_folders: _,
                    drain: _,
                    writing: _,
                    fio,
                    command,
                } = operations;
                if let Some(command) = command {
                    self.command(command);
                }
                if let Some(fio) = fio {
                    let FioOperations {
                        engine: _,
                        // `named_by`.
                        folder: _,
                        direction: _,
                        bytes: _,
                    } = fio;
                }
            }
            Work::SharedFiles(shared) => {
                let SharedFiles {
                    engine,
                    count: _,
                    lay_out: _,
                    create_only: _,
                    distribution: _,
                    seed: _,
                    mode: _,
                    file_size: _,
                    block: _,
                    merged: _,
                    read_write_ratio: _,
                    fsync_every: _,
                    fsync_all: _,
                    fsync_end: _,
                    data_only: _,
                    validate: _,
                } = shared;
                engine_of(engine);
            }
        }
    }

    fn command(&mut self, command: &ShellCommand) {
        let ShellCommand {
            run,
            prepare,
            cleanup,
            metrics: _,
            may_fail: _,
            timeout: _,
        } = command;
        self.add(ActKind::Runs, "command", run.as_str());
        self.each(ActKind::Runs, "prepare", prepare);
        self.each(ActKind::Runs, "cleanup", cleanup);
    }

    /// Priorities of its threads.
    fn placement(&mut self, placement: &Placement) {
        let Placement {
            // Affects only its own threads and memory.
            cpus: _,
            split: _,
            numa_cpu_nodes: _,
            numa_memory_nodes: _,
            numa_memory_policy: _,
            nice,
            io_priority: _,
            io_hint: _,
        } = placement;
        if *nice != 0 {
            self.add(ActKind::Sets, "nice", nice.to_string());
        }
        self.each(ActKind::Sets, "prio", placement.priority().as_ref());
    }

    fn blocks(&mut self, blocks: &Blocks) {
        let Blocks {
            engine,
            access: _,
            files,
            extent: _,
            passes: _,
            sync: _,
            verify,
            priorities,
            replay,
        } = blocks;
        if self.real {
            let own = priorities.iter().map(|share| share.priority);
            let own: Vec<IoPriority> = own.collect();
            self.each(ActKind::Sets, "cmdprio", &own);
        }
        engine_of(engine);
        files_of(files);
        if let Some(verify) = verify {
            verify_of(verify);
        }
        if let Some(replay) = replay {
            let Replay {
                traces,
                no_stall: _,
                time_percent: _,
                redirect,
                scale: _,
                align: _,
                skip: _,
            } = replay;
            self.paths("read_iolog", traces);
            self.paths("replay_redirect", redirect);
        }
    }
}

/// Nothing: the export is a path of [`crate::permission::named_by`].
fn engine_of(engine: &Engine) {
    let Engine {
        kind: _,
        depth: _,
        depth_low: _,
        batch_submit: _,
        batch_complete_min: _,
        batch_complete_max: _,
        direct: _,
        o_sync: _,
        o_dsync: _,
        hipri: _,
        sqthread_poll: _,
        sqthread_poll_cpu: _,
        fixed_buffers: _,
        registered_files: _,
        force_async: _,
        force_async_every: _,
        nowait: _,
        atomic: _,
        sim: _,
        export: _,
        submit_apart: _,
    } = engine;
}

/// Nothing: the folders, names and formats are paths of [`crate::permission::named_by`].
fn files_of(files: &Files) {
    let Files {
        directories: _,
        names: _,
        format: _,
        count: _,
        size: _,
        service: _,
        service_ops: _,
        open: _,
        fallocate: _,
        overwrite: _,
        create_on_open: _,
        create_only: _,
        allow_create: _,
        read_only: _,
        fsync_on_layout: _,
        invalidate: _,
        pre_read: _,
        append: _,
        fsync_on_close: _,
        unlink: _,
        advise: _,
        advice: _,
    } = files;
}

/// Nothing: the folder of dumps is a path of [`crate::permission::named_by`], records are in the state folder.
fn verify_of(verify: &Verify) {
    let Verify {
        checksum: _,
        header: _,
        header_offset: _,
        pattern: _,
        interval: _,
        do_verify: _,
        only: _,
        backlog: _,
        backlog_batch: _,
        fatal: _,
        dump: _,
        check_sequence: _,
        check_seed: _,
        save_state: _,
        load_state: _,
        trim: _,
    } = verify;
}

#[cfg(test)]
mod tests;
