//! Options of the files: names, locations and layout.

use iodyno_model::{Fallocate, FileAdvice, FileService};
use iodyno_options::{Problem, Unit::*, differs, ignored, refused};

use super::access::{Centred, normal, pareto, zipf};
use crate::draft::Draft;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("filename", Paths, "Files or devices shared by all clones; adds to those already named.", filename).sets(&["files.names"]),
    honoured("directory", Paths, "Folders of the files, assigned to clones in turn.",
        |draft, value| value.names().map(|it| draft.blocks.files.directories = it.into_iter().map(Into::into).collect())),
    honoured("filename_format", Text, "Format of file names: `$jobname`, `$jobnum`, `$filenum`.",
        filename_format).default("$jobname.$jobnum.$filenum"),
    ignored("unique_filename", Boolean, "Distinct names for the clients of a server.", "there is no client and server"),
    honoured("nrfiles", Count, "Number of files per clone; `size` is divided among them.",
        |draft, value| value.count(1, 1 << 24).map(|it| draft.blocks.files.count = it)).alias(&["nr_files"]).default("1").sets(&["files.count"]),
    honoured("openfiles", Count, "Number of files in use at a time: the next one is used when one is done. All files are opened before the start; a trial with more files than the host permits (`ulimit -Hn`) is refused.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.blocks.files.open = it)).sets(&["files.open"]),
    honoured("file_service_type", Words(SERVICES), "How the file of the next op is chosen; `:N`: after N ops. The laws prefer the first files, or those in the middle.",
        file_service_type).default("roundrobin").sets(&["files.service", "files.service_ops"]),
    honoured("fallocate", Words(&["none", "native", "posix", "keep", "truncate", "0", "1"]), "How space is reserved before files are written.",
        fallocate).default("native").sets(&["files.fallocate"]),
    honoured("fadvise_hint", Words(&["1", "0", "random", "sequential", "noreuse"]), "Advice to the kernel. 1: whether `rw` is random or sequential; 0: none.",
        fadvise_hint).default("1").sets(&["files.advise", "files.advice"]),
    honoured("overwrite", Boolean, "Lays out files before a job that writes to them, too. An existing file that is long enough is kept.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.overwrite = it)).default("0").sets(&["files.overwrite"]),
    honoured("create_on_open", Boolean, "New files are empty when the job starts: no space is reserved, and nothing is laid out.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.create_on_open = it)).default("0").sets(&["files.create_on_open"]),
    honoured("create_only", Boolean, "Lays out the files, then ends.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.create_only = it)).default("0").sets(&["files.create_only"]),
    honoured("allow_file_create", Boolean, "Whether missing files may be created.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.allow_create = it)).default("1").sets(&["files.allow_create"]),
    honoured("create_fsync", Boolean, "Syncs files after layout.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.fsync_on_layout = it)).default("1").sets(&["files.fsync_on_layout"]),
    ignored("create_serialize", Boolean, "Lays out the files of one job after the other.", "files are laid out before the measurement, and timed separately"),
    honoured("invalidate", Boolean, "Drops cached pages of the files when the job starts, and before each further pass over a file and before a verify pass (not with `direct=1`).",
        |draft, value| value.boolean().map(|it| draft.blocks.files.invalidate = it)).default("1").sets(&["files.invalidate"]),
    honoured("fsync_on_close", Boolean, "fsync before each close.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.fsync_on_close = it)).default("0").sets(&["files.fsync_on_close"]),
    honoured("unlink", Boolean, "Removes the job's files after the trial.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.unlink = it)).default("0").sets(&["files.unlink"]),
    refused("unlink_each_loop", Boolean, "Removes files after each pass.", "files are kept until the job ends", "use `unlink=1`, which removes them at the end").neutral(&["0"]),
    honoured("filesize", Amount, "File size if it is not `size` / `nrfiles`; a range gives random sizes.", filesize).sets(&["files.size"]),
    honoured("file_append", Boolean, "The region begins at the end of each file.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.append = it)).default("0").sets(&["files.append"]),
    honoured("fill_device", Boolean, "Writes until the file system or device is full (or `size` is done), which is not an error.",
        |draft, value| value.boolean().map(|it| draft.job.end.until_full = it)).alias(&["fill_fs"]).default("0").sets(&["end.until_full"]),
    ignored("filetype", Words(&["none", "file", "block", "char"]), "Kind of the files.", "the kind is detected"),
    differs("lockfile", Words(&["none", "exclusive", "readwrite"]), "Locks files around each op.", "files are not locked").neutral(&["none"]),
    honoured("opendir", Text, "Adds all files below a folder; links and other kinds are left out.", opendir),
    ignored("allow_mounted_write", Boolean, "Writes to a device that is mounted.", "a device in use is never written").neutral(&["0"]),
    honoured("pre_read", Boolean, "Reads the files into the cache before the job; implies `invalidate=0`.",
        |draft, value| value.boolean().map(|it| draft.blocks.files.pre_read = it)).default("0").sets(&["files.pre_read"]),
    differs("write_hint", Words(&["none", "short", "medium", "long", "extreme"]), "Tells the device the expected life time of data.", "the device gets no hint").neutral(&["none"]),
];

fn filename(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    for name in value.names()? {
        if name == "-" {
            return Err(
                Problem::refusal("standard input and output are not storage")
                    .hint("name a file or a device"),
            );
        }
        draft.blocks.files.names.push(name.into());
    }
    Ok(())
}

fn opendir(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let folder = value.string()?;
    let found = value.files_below(folder).map_err(|error| {
        Problem::error(format!("the files of `{folder}` cannot be listed: {error}"))
    })?;
    if found.is_empty() {
        return Err(Problem::error(format!("`{folder}` contains no files")));
    }
    draft.blocks.files.names.extend(found);
    Ok(())
}

fn filename_format(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    if value.text.contains("$clientuid") {
        return Err(Problem::refusal("`$clientuid` is not supported")
            .hint("use `$jobname`, `$jobnum` and `$filenum`"));
    }
    draft.blocks.files.format = value.string()?.to_owned();
    Ok(())
}

const SERVICES: &[&str] = &[
    "roundrobin",
    "sequential",
    "random",
    "zipf:θ",
    "pareto:h",
    "normal:dev",
    "gauss:dev",
];

fn file_service_type(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    #[derive(Clone, Copy)]
    enum Kind {
        Turns(FileService),
        Zipf,
        Pareto,
        Normal,
    }
    let (kind, after) = value.word(&[
        ("roundrobin", Kind::Turns(FileService::RoundRobin)),
        ("sequential", Kind::Turns(FileService::Sequential)),
        ("random", Kind::Turns(FileService::Random)),
        ("zipf", Kind::Zipf),
        ("pareto", Kind::Pareto),
        ("normal", Kind::Normal),
        ("gauss", Kind::Normal),
    ])?;
    let files = &mut draft.blocks.files;
    files.service_ops = 1;
    let centred = |(parameter, center): Centred| match center {
        None => Ok(parameter),
        Some(_) => Err(Problem::refusal(
            "the centre of the law by which files are chosen cannot be set",
        )
        .hint("leave the second number out")),
    };
    files.service = match kind {
        Kind::Turns(service) => {
            if let Some(ops) = after {
                files.service_ops = value.count_of(ops, 0, u64::from(u32::MAX))?.max(1) as u32;
            }
            service
        }
        Kind::Zipf => FileService::Zipf(centred(zipf(value, after)?)?),
        Kind::Pareto => FileService::Pareto(centred(pareto(value, after)?)?),
        Kind::Normal => FileService::Normal(centred(normal(value, after)?)?),
    };
    Ok(())
}

fn fallocate(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.blocks.files.fallocate = value.choice(&[
        ("none", Fallocate::None),
        ("native", Fallocate::Native),
        ("posix", Fallocate::Posix),
        ("keep", Fallocate::KeepSize),
        ("truncate", Fallocate::Truncate),
        ("0", Fallocate::None),
        ("1", Fallocate::Posix),
    ])?;
    Ok(())
}

fn fadvise_hint(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let files = &mut draft.blocks.files;
    (files.advise, files.advice) = value.choice(&[
        ("1", (true, None)),
        ("0", (false, None)),
        ("random", (true, Some(FileAdvice::Random))),
        ("sequential", (true, Some(FileAdvice::Sequential))),
        ("noreuse", (true, Some(FileAdvice::NoReuse))),
    ])?;
    Ok(())
}

fn filesize(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let (low, high) =
        value.range_of(value.single()?, |token| value.amount_of(token).map(Ordered))?;
    draft.blocks.files.size = Some((low.0, high.0));
    Ok(())
}

/// An amount that can be ordered; bytes and percentages cannot be compared with each other.
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
