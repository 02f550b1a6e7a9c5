//! Warns of options that are valid but whose effect may be unexpected.

use iodyno_model::{Amount, Content, Diagnostic, EngineKind, Job, Order, Severity, SimDevice};
use iodyno_units::{Bytes, list};

use super::draft::Draft;
use super::options::engine_options;
use super::text::Report;

/// A pass of at least this number of bytes is not considered small.
const SMALL: u64 = 4 << 30;

/// Warns of surprising options of a job.
pub(super) fn check(draft: &Draft, job: &Job, report: &mut Report) {
    // If the engine or the access pattern is invalid, further checks would be guesses.
    if draft.failed.contains("ioengine") || draft.failed.contains("rw") {
        return;
    }
    // Their work is that of file operations.
    if job.work.blocks().is_none() {
        return;
    }
    let mut trap = Trap { draft, job, report };
    // The trace determines the rest.
    if job.work.replay().is_some() {
        trap.engine();
        return trap.engine_options();
    }
    trap.size();
    trap.twice();
    trap.engine();
    trap.engine_options();
    trap.blocks();
    trap.access();
    trap.clones();
    trap.end();
    trap.zones();
    trap.durability();
    trap.buffers();
    trap.verify();
    trap.logs();
}

/// `io_uring, libaio and pvsync2`.
fn names(engines: &[EngineKind]) -> String {
    let names: Vec<&str> = engines.iter().map(|kind| kind.name()).collect();
    list(&names)
}

struct Trap<'a> {
    draft: &'a Draft,
    job: &'a Job,
    report: &'a mut Report,
}

impl Trap<'_> {
    fn logs(&mut self) {
        let logs = &self.job.logs;
        if logs.histogram.is_some() && logs.histogram_ms == 0 {
            self.warn(
                "write_hist_log",
                "the log of histograms stays empty without `log_hist_msec`",
                "add `log_hist_msec=1000`",
            );
        }
    }

    /// Reports at `option`, or at the job's name if the option was not given.
    fn say(&mut self, severity: Severity, option: &str, message: String, hint: &str) {
        let place = self
            .draft
            .place(option)
            .or(self.job.place.as_ref())
            .cloned();
        self.report.push(Diagnostic {
            severity,
            message,
            place,
            hint: Some(hint.to_owned()),
        });
    }

    fn warn(&mut self, option: &str, message: impl Into<String>, hint: &str) {
        self.say(Severity::Warning, option, message.into(), hint);
    }

    /// Reports a warning that fio prints as well, so that `--warnings-fatal` makes it an error.
    fn say_as_fio(&mut self, severity: Severity, option: &str, message: &str, hint: &str) {
        self.report.fatal_warnings.insert(message.to_owned());
        self.say(severity, option, message.to_owned(), hint);
    }

    fn note(&mut self, option: &str, message: impl Into<String>, hint: &str) {
        self.say(Severity::Note, option, message.into(), hint);
    }

    fn size(&mut self) {
        let known = self.draft.has("size") || self.draft.has("filesize");
        let known = known || self.draft.blocks.engine.kind.has_export();
        if known || self.job.end.until_full || self.draft.cpu_load || self.report.runs_nothing {
            return;
        }
        let files = &self.draft.blocks.files;
        let named = !files.names.is_empty() || self.draft.has("filename");
        if self.draft.blocks.engine.kind.without_files() {
            self.say(
                Severity::Error,
                "ioengine",
                "the job has no size, and its engine uses no files".to_owned(),
                "add `size=1g`",
            );
        } else if !named && files.allow_create && !self.job.name.starts_with("/dev/") {
            self.warn(
                "filename",
                "without `size` the job's files must exist, and their whole length is used",
                "add `size=1g` to create missing files, or name a file or device with `filename=`",
            );
        } else if !files.names.iter().all(|name| name.starts_with("/dev")) {
            self.note(
                "filename",
                "without `size` the whole length of the existing file is used",
                "add `size=…` to create it if it is missing",
            );
        }
    }

    fn twice(&mut self) {
        let names = &self.draft.blocks.files.names;
        let first = |index: usize| names[..index].contains(&names[index]);
        if let Some(index) = (0..names.len()).find(|index| first(*index)) {
            let name = names[index].display().to_string();
            self.warn(
                "filename",
                format!(
                    "`{name}` is named twice: as in fio, it is one file that is processed twice"
                ),
                "name each file once; names in a global section count for each job",
            );
        }
    }

    fn engine(&mut self) {
        let engine = &self.draft.blocks.engine;
        let name = engine.kind.name();
        if engine.kind.synchronous() && self.draft.depth > 1 {
            self.warn(
                "iodepth",
                format!("`iodepth` has no effect: {name} does one op at a time"),
                "use `ioengine=io_uring` or `libaio`, or more clones (`numjobs`)",
            );
        }
        if engine.kind == EngineKind::Libaio && !engine.direct && engine.depth > 1 {
            self.warn(
                "ioengine",
                "libaio without `direct=1` does buffered ops one at a time, within submission",
                "add `direct=1`, or use `ioengine=io_uring`",
            );
        }
        let flags = [
            ("direct", engine.direct),
            ("sync", engine.o_sync || engine.o_dsync),
        ];
        for (flag, set) in flags {
            if engine.kind == EngineKind::Mmap && set {
                self.warn(
                    flag,
                    format!("`{flag}` has no effect on a mapped file: it is the page cache"),
                    "leave it out, or use another engine",
                );
            }
        }
        if engine.direct && self.draft.has("direct") && self.draft.has("buffered") {
            self.note(
                "buffered",
                "`direct` and `buffered` are one setting; the last of them counts",
                "leave one of them out",
            );
        }
    }

    /// Checks for options of one engine that are given to another.
    fn engine_options(&mut self) {
        let kind = self.draft.blocks.engine.kind;
        for (option, engines) in engine_options() {
            let option = option.name;
            if self.draft.written.contains_key(option) && !engines.contains(&kind) {
                let names = names(engines);
                self.warn(
                    option,
                    format!(
                        "`{option}` has no effect: it is for {names}, not {}",
                        kind.name()
                    ),
                    "leave it out, or change `ioengine`",
                );
            }
        }
        if kind != EngineKind::Sim || self.draft.sim.device == SimDevice::Law {
            return;
        }
        for option in ["sim_latency", "sim_servers", "sim_faults"] {
            if self.draft.written.contains_key(option) {
                self.warn(
                    option,
                    format!("`{option}` has no effect: it is for `sim_device=law`"),
                    "leave it out, or change `sim_device`",
                );
            }
        }
    }

    fn blocks(&mut self) {
        let access = &self.draft.blocks.access;
        let option = ["bssplit", "bsrange", "bs"]
            .into_iter()
            .find(|name| self.draft.has(name))
            .unwrap_or("bs");
        let (smallest, largest) = (access.min_block(), access.max_block());
        if let Some(Amount::Bytes(size)) = self.draft.blocks.extent.size
            && largest > size
        {
            let (largest, size) = (Bytes(largest), Bytes(size));
            let message = format!("a block ({largest}) is larger than the job's `size` ({size})");
            match smallest > size.0 {
                true => self.say(
                    Severity::Error,
                    option,
                    message,
                    "raise `size` or lower `bs`",
                ),
                false => self.warn(
                    option,
                    message + ": it is cut",
                    "raise `size` or lower `bs`",
                ),
            }
        }
        if self.draft.blocks.engine.direct
            && !self.draft.blocks.engine.kind.without_files()
            && smallest % 512 != 0
        {
            self.warn(
                option,
                format!("direct I/O of {smallest} bytes fails: sectors have 512 bytes or 4096"),
                "make `bs` a multiple of 512, or leave `direct` out",
            );
        }
    }

    fn access(&mut self) {
        let access = &self.draft.blocks.access;
        let mixed = access.reads && access.writes;
        let mix = ["rwmixread", "rwmixwrite"]
            .into_iter()
            .find(|name| self.draft.written.contains_key(name));
        if let Some(option) = mix.filter(|_| !mixed) {
            self.warn(
                option,
                format!("`{option}` has no effect: the job does not mix reads and writes"),
                "write `rw=randrw` or `rw=rw`",
            );
        }
        let random = access.order == Order::Random;
        let uniform = self.draft.uniform();
        if !uniform && random && !self.draft.no_random_map {
            self.note(
                "random_distribution",
                "this distribution accesses blocks more than once: it implies `norandommap`",
                "add `norandommap` to say so",
            );
        }
        let only_random = [
            "norandommap",
            "random_distribution",
            "percentage_random",
            "ba",
        ];
        for option in only_random {
            if !random && self.draft.written.contains_key(option) {
                let message = format!("`{option}` has no effect: the job is sequential");
                self.note(option, message, "write a random `rw`, or leave it out");
            }
        }
        let align_breaks_map = random
            && uniform
            && !access.random_map
            && !self.draft.no_random_map
            && self.draft.has("ba");
        if align_breaks_map {
            self.say_as_fio(
                Severity::Note,
                "ba",
                "an alignment other than the block size implies `norandommap`",
                "add `norandommap` to say so",
            );
        }
    }

    fn clones(&mut self) {
        let clones = self.job.clones;
        if clones < 2 {
            return;
        }
        let sequential = self.draft.blocks.access.order == Order::Sequential;
        let shared = !self.draft.blocks.files.names.is_empty();
        let apart = self.draft.has("offset_increment");
        let own = self.draft.blocks.files.format.contains("$jobnum");
        if !shared && !own {
            self.warn(
                "filename_format",
                format!(
                    "all {clones} clones use the same files; in fio, those after the first do nothing"
                ),
                "add `$jobnum` so that each has files of its own",
            );
        }
        if shared && sequential && !apart {
            self.warn(
                "numjobs",
                format!(
                    "all {clones} clones access the same blocks of `filename`, one after the other"
                ),
                "add `offset_increment=…`, or leave `filename` out so that each has a file",
            );
        }
        if let (Some(Amount::Bytes(size)), false) = (self.draft.blocks.extent.size, shared) {
            let all = Bytes(size.saturating_mul(u64::from(clones)));
            self.note(
                "numjobs",
                format!(
                    "`size` is for each clone: {clones} × {} = {all}",
                    Bytes(size)
                ),
                "divide it by the number of clones if that was meant",
            );
        }
        if self.job.pacing.scheduled() {
            let option = if self.draft.has("rate_iops") {
                "rate_iops"
            } else {
                "rate"
            };
            self.note(
                option,
                format!("the rate is for each clone: {clones} times as much in all"),
                "divide it by the number of clones if that was meant",
            );
        }
    }

    fn end(&mut self) {
        if self.draft.has("steadystate") && self.draft.steady.window.0 == 0 {
            self.warn(
                "steadystate",
                "`steadystate` has no effect without a window",
                "add `steadystate_duration=30s`",
            );
        }
        let end = &self.job.end;
        let passes = &self.draft.blocks.passes;
        let Some(Amount::Bytes(size)) = passes.io_size.or(self.draft.blocks.extent.size) else {
            return;
        };
        let pass = size.saturating_mul(passes.loops);
        if end.ramp.0 > 0 && !passes.time_based {
            self.note(
                "ramp_time",
                format!("the bytes of the ramp count towards its {}", Bytes(pass)),
                "add `time_based`, or make `size` large enough for both",
            );
        }
        if end.runtime.is_some() && !passes.time_based && pass <= SMALL {
            self.note(
                "runtime",
                format!(
                    "the job ends after {} even if that is before `runtime`",
                    Bytes(pass)
                ),
                "add `time_based` to continue until then",
            );
        }
        if self.draft.blocks.files.append && (passes.time_based || passes.loops > 1) {
            self.note(
                "file_append",
                "each pass after the first overwrites what the first one appended",
                "use a larger `size`, and a single pass",
            );
        }
        if passes.time_based && self.draft.has("number_ios") {
            self.note(
                "number_ios",
                "`number_ios` has no effect with `time_based`, as in fio",
                "leave `time_based` out",
            );
        }
    }

    fn zones(&mut self) {
        let extent = &self.draft.blocks.extent;
        if extent.zone_size > 0 && self.draft.zone_mode.is_none() {
            self.warn(
                "zonesize",
                "`zonesize` without `zonemode` is read as `zonemode=strided`; fio 3.42 refuses it",
                "add `zonemode=strided`",
            );
        }
        let extent = &self.draft.blocks.extent;
        if extent.zone_range > 0 && extent.zone_range < extent.zone_size {
            let (range, size) = (Bytes(extent.zone_range), Bytes(extent.zone_size));
            self.warn(
                "zonesize",
                format!("`zonesize` is larger than `zonerange`: {size} are processed within the {range} of each zone"),
                "make `zonerange` at least `zonesize` if each block is meant once",
            );
        }
    }

    fn durability(&mut self) {
        if self.draft.blocks.access.writes {
            return;
        }
        for option in ["fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync"] {
            let value = self
                .draft
                .written
                .get(option)
                .map(|written| written.value.as_str());
            if value.is_some_and(|value| !matches!(value, "0" | "none")) {
                let message = format!("`{option}` has no effect: the job writes nothing");
                self.warn(option, message, "leave it out");
            }
        }
    }

    fn buffers(&mut self) {
        let zeroes = self.job.buffers.content == Content::Zero;
        if zeroes && self.draft.blocks.access.writes {
            let option = match self.draft.zero_buffers {
                true => "zero_buffers",
                false => "buffer_compress_percentage",
            };
            self.warn(
                option,
                "storage with compression stores almost nothing for zeroes",
                "leave it out for incompressible data",
            );
        }
    }

    fn verify(&mut self) {
        let Some(verify) = &self.draft.blocks.verify else {
            return;
        };
        let access = &self.draft.blocks.access;
        // Written blocks are checked afterwards, or by the job's own reads.
        let checked = verify.do_verify || access.reads;
        let headers = verify.checksum.has_header() && checked;
        let repeats = access.order == Order::Random && !access.random_map;
        if access.writes && repeats && headers && self.draft.blocks.engine.depth > 1 {
            self.warn(
                "verify",
                "blocks written more than once while in flight may be reported as bad",
                "leave `norandommap` out, or use `iodepth=1`",
            );
        }
        let shared = self.job.clones > 1 && !self.draft.blocks.files.names.is_empty();
        let tolerant = !verify.check_sequence && (access.repeatable || !verify.check_seed);
        if access.writes && checked && shared && !tolerant && !self.draft.has("offset_increment") {
            self.say_as_fio(
                Severity::Warning,
                "verify",
                "clones write the same blocks of `filename` and will report each other's as bad",
                "add `offset_increment=…` or `verify_write_sequence=0`, or leave `filename` out",
            );
        }
        let never = access.writes
            && !access.reads
            && verify.do_verify
            && self.draft.blocks.passes.time_based
            && verify.backlog == 0;
        if never {
            self.say_as_fio(
                Severity::Note,
                "verify",
                "the blocks are checked after `runtime`, in additional time",
                "add `verify_backlog=1024` to check within it",
            );
        }
    }
}
