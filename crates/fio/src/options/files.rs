//! Options that say which files there are, where, and how they are made.

use iodyno_model::{Fallocate, FileService};

use crate::option::{OptionSpec, Unit};
use crate::value::Fault;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "filename",
        Unit::Paths,
        "Files or devices shared by all clones; adds to those already named.",
        |draft, value| {
            for name in value.names()? {
                if name == "-" {
                    return Err(Fault::refusal("standard input and output are no storage")
                        .hint("name a file or a device"));
                }
                draft.job.files.names.push(name.into());
            }
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "directory",
        Unit::Paths,
        "Folders the files lie in, dealt out to clones in turn.",
        |draft, value| {
            draft.job.files.directories = value.names()?.into_iter().map(Into::into).collect();
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "filename_format",
        Unit::Text,
        "How files are named: `$jobname`, `$jobnum`, `$filenum`.",
        |draft, value| {
            if value.text.contains("$clientuid") {
                return Err(Fault::refusal("`$clientuid` is not supported")
                    .hint("use `$jobname`, `$jobnum` and `$filenum`"));
            }
            draft.job.files.format = value.string()?.to_owned();
            Ok(())
        },
    )
    .default("$jobname.$jobnum.$filenum"),
    OptionSpec::ignored(
        "unique_filename",
        Unit::Boolean,
        "Distinct names for the clients of a server.",
        "there are no such clients",
    ),
    OptionSpec::honoured(
        "nrfiles",
        Unit::Count,
        "Files of each clone; `size` is divided among them.",
        |draft, value| {
            draft.job.files.count = value.count(1, 1 << 24)?;
            Ok(())
        },
    )
    .alias(&["nr_files"])
    .default("1"),
    OptionSpec::ignored(
        "openfiles",
        Unit::Count,
        "Files open at once.",
        "all files stay open; a trial with more of them than the host allows (`ulimit -Hn`) is refused",
    ),
    OptionSpec::honoured(
        "file_service_type",
        Unit::Words(&["roundrobin", "sequential", "random"]),
        "Which file the next op goes to; `:N` stays for N ops.",
        |draft, value| {
            let (service, after) = value.word(&[
                ("roundrobin", Some(FileService::RoundRobin)),
                ("sequential", Some(FileService::Sequential)),
                ("random", Some(FileService::Random)),
                ("zipf", None),
                ("pareto", None),
                ("normal", None),
                ("gauss", None),
            ])?;
            let Some(service) = service else {
                return Err(Fault::refusal(format!(
                    "files cannot be chosen by the `{}` distribution",
                    value.text
                ))
                .hint("use `random`, or one large file with `random_distribution`"));
            };
            draft.job.files.service = service;
            draft.job.files.service_ops = match after {
                Some(ops) => value.count_of(ops, 1, u64::from(u32::MAX))? as u32,
                None => 1,
            };
            Ok(())
        },
    )
    .default("roundrobin"),
    OptionSpec::honoured(
        "fallocate",
        Unit::Words(&["none", "native", "posix", "keep", "truncate", "0", "1"]),
        "How space is reserved before files are written.",
        |draft, value| {
            draft.job.files.fallocate = value.choice(&[
                ("none", Fallocate::None),
                ("native", Fallocate::Native),
                ("posix", Fallocate::Posix),
                ("keep", Fallocate::KeepSize),
                ("truncate", Fallocate::Truncate),
                ("0", Fallocate::None),
                ("1", Fallocate::Posix),
            ])?;
            Ok(())
        },
    )
    .default("native"),
    OptionSpec::honoured(
        "fadvise_hint",
        Unit::Words(&["1", "0", "random", "sequential", "noreuse"]),
        "Tells the kernel whether the access is random or sequential.",
        |draft, value| {
            let (advise, exact) = value.choice(&[
                ("1", (true, true)),
                ("0", (false, true)),
                ("random", (true, false)),
                ("sequential", (true, false)),
                ("noreuse", (false, false)),
            ])?;
            draft.job.files.advise = advise;
            if !exact {
                value.remark(
                    Fault::warning("the advice always follows `rw`, or there is none")
                        .hint("write `fadvise_hint=1` or `0`"),
                );
            }
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "overwrite",
        Unit::Boolean,
        "Files are written out before a job that writes to them, too.",
        |draft, value| {
            draft.job.files.overwrite = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "create_on_open",
        Unit::Boolean,
        "Files are made when first opened, within the measurement.",
        |draft, value| {
            draft.job.files.create_on_open = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "create_only",
        Unit::Boolean,
        "Lays the files out and ends.",
        |draft, value| {
            draft.job.files.create_only = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "allow_file_create",
        Unit::Boolean,
        "Missing files may be made.",
        |draft, value| {
            draft.job.files.allow_create = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "create_fsync",
        Unit::Boolean,
        "Files are made durable once laid out.",
        |draft, value| {
            draft.job.files.fsync_on_layout = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::ignored(
        "create_serialize",
        Unit::Boolean,
        "Files are laid out one job after the other.",
        "files are laid out before the measurement begins, and timed apart",
    ),
    OptionSpec::honoured(
        "invalidate",
        Unit::Boolean,
        "Cached pages are dropped, once, when the job begins.",
        |draft, value| {
            draft.job.files.invalidate = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "fsync_on_close",
        Unit::Boolean,
        "fsync before each close.",
        |draft, value| {
            draft.job.files.fsync_on_close = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "unlink",
        Unit::Boolean,
        "The job's files are removed after the trial.",
        |draft, value| {
            draft.job.files.unlink = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::refused(
        "unlink_each_loop",
        Unit::Boolean,
        "Files are removed after each pass.",
        "files live as long as the job",
        "`unlink=1`, which removes them at the end",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "filesize",
        Unit::Amount,
        "The files' length where it is not `size` / `nrfiles`; a range is drawn from.",
        |draft, value| {
            let (low, high) =
                value.range_of(value.single()?, |token| value.amount_of(token).map(Ordered))?;
            draft.job.files.size = Some((low.0, high.0));
            Ok(())
        },
    ),
    OptionSpec::refused(
        "file_append",
        Unit::Boolean,
        "Goes on at the end of the file.",
        "the region of a job begins where `offset` says",
        "`offset`",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "fill_device",
        Unit::Boolean,
        "Writes until the file system or device is full (or `size` is done), which is no error.",
        |draft, value| {
            draft.job.end.until_full = value.boolean()?;
            Ok(())
        },
    )
    .alias(&["fill_fs"])
    .default("0"),
    OptionSpec::ignored(
        "filetype",
        Unit::Words(&["none", "file", "block", "char"]),
        "What kind the files are.",
        "the kind is looked up",
    ),
    OptionSpec::refused(
        "lockfile",
        Unit::Words(&["none", "exclusive", "readwrite"]),
        "Locks files around each op.",
        "files are not locked",
        "jobs with files of their own",
    )
    .neutral(&["none"]),
    OptionSpec::refused(
        "opendir",
        Unit::Text,
        "Takes every file below a folder.",
        "only files that a job names are touched",
        "`filename` with the files' names",
    ),
    OptionSpec::refused(
        "allow_mounted_write",
        Unit::Boolean,
        "Writes to a device that is mounted.",
        "a device in use is never written",
        "a file on it, or a device of its own",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "pre_read",
        Unit::Boolean,
        "Reads the files into the cache first.",
        "the cache is not filled on purpose",
        "a job before it that reads the same `filename`, and `invalidate=0`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "write_hint",
        Unit::Words(&["none", "short", "medium", "long", "extreme"]),
        "Tells the device how long data will live.",
        "life-time hints are not given",
        "leaving it out",
    )
    .neutral(&["none"]),
];

/// Amounts in order: only within bytes and within percentages.
struct Ordered(iodyno_model::Amount);

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.0 == other.0
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        use iodyno_model::Amount::{Bytes, Percent};
        match (self.0, other.0) {
            (Bytes(left), Bytes(right)) => left.partial_cmp(&right),
            (Percent(left), Percent(right)) => left.partial_cmp(&right),
            _ => None,
        }
    }
}
