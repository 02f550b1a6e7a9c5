//! The names of a clone's files.
//!
//! fio's rules: named files are shared by all clones; otherwise the names follow a format in which `$jobnum` is the
//! number of the clone within its job, from 0. Folders are assigned to clones in turn, and a name, even an
//! absolute one, is always *below* its folder.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use iodyno_model::{Files, SharedFiles, Target};

/// How a target changes a job's file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base<'a> {
    /// The job's own names; relative names are relative to this folder.
    Written(&'a Path),
    /// Everything below this folder.
    Below(&'a Path),
    /// This file or device replaces all of them.
    Only(&'a Path),
}

impl<'a> Base<'a> {
    /// `is_folder` returns whether the path of a [`Target::Path`] is a folder.
    pub(super) fn of(target: &'a Target, is_folder: impl Fn(&Path) -> bool) -> Base<'a> {
        match target {
            Target::AsWritten { folder } => Base::Written(folder),
            // The names have no meaning.
            Target::Simulated(_) => Base::Written(target.path()),
            Target::Path(path) if is_folder(path) => Base::Below(path),
            Target::Path(_) | Target::Made(_) => Base::Only(target.path()),
        }
    }
}

/// The files of a clone of the job of this name, in order, each as often as it is named. `is_special` returns whether a
/// path is a device (a job without `filename=` may be named after one).
///
/// # Errors
/// Two files of different names would be the same file below the target: its path.
pub(super) fn paths(
    job: &str,
    files: &Files,
    clone: u32,
    base: Base<'_>,
    is_special: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, PathBuf> {
    if let Base::Only(path) = base {
        return Ok(vec![path.to_owned()]);
    }
    let named_after = Path::new(job);
    let names: Vec<PathBuf> = if !files.names.is_empty() {
        files.names.clone()
    } else if files.count == 1 && named_after.is_absolute() && is_special(named_after) {
        vec![named_after.to_owned()]
    } else {
        let of_clone = clone.to_string();
        let may_be_path = files.directories.is_empty() && matches!(base, Base::Written(_));
        let job = name_in_files(job, &files.format, may_be_path);
        (0..files.count.max(1))
            .map(|number| formatted(&files.format, &job, [&of_clone, &number.to_string()]).into())
            .collect()
    };
    let folder = match files.directories.len() {
        0 => None,
        count => Some(&files.directories[clone as usize % count]),
    };
    let mut named: HashMap<PathBuf, &Path> = HashMap::new();
    let mut paths = Vec::with_capacity(names.len());
    for name in &names {
        let path = placed(base, folder.map(PathBuf::as_path), name);
        let first = named.entry(path.clone()).or_insert(name);
        // Two files of the job must not become one.
        if *first != name && matches!(base, Base::Below(_)) {
            return Err(path);
        }
        paths.push(path);
    }
    Ok(paths)
}

/// The files of a job on shared files, in order: the same for all clones.
pub(super) fn shared(rule: &SharedFiles, base: Base<'_>) -> Vec<PathBuf> {
    let names = (0..rule.count.max(1)).map(SharedFiles::file_name);
    names
        .map(|name| placed(base, None, Path::new(&name)))
        .collect()
}

/// The folder below which the missing folders of a clone's files are created: the job's `directory`, or that of
/// relative names. `None`: a single path replaces them. The folder itself must exist, because it may be a mount point.
pub(super) fn root(files: &Files, clone: u32, base: Base<'_>) -> Option<PathBuf> {
    let folder = match files.directories.len() {
        0 => None,
        count => Some(files.directories[clone as usize % count].as_path()),
    };
    match base {
        Base::Only(_) => None,
        base => Some(placed(base, folder, Path::new(""))),
    }
}

pub(super) fn placed(base: Base<'_>, folder: Option<&Path>, name: &Path) -> PathBuf {
    match (base, folder) {
        (Base::Written(from), None) => from.join(name),
        (Base::Written(from), Some(folder)) => from.join(folder).join(relative(name)),
        // A target's folder replaces the job's own: of an absolute path only the name is kept.
        (Base::Below(target), folder) => {
            let folder = folder.filter(|folder| folder.is_relative());
            let name = match name.is_absolute() {
                true => name.file_name().map_or(name, Path::new),
                false => name,
            };
            target
                .join(relative(folder.unwrap_or(Path::new(""))))
                .join(relative(name))
        }
        (Base::Only(path), _) => path.to_owned(),
    }
}

/// The path of a job's folder.
pub(super) fn folder(base: Base<'_>, folder: &Path) -> PathBuf {
    match base {
        Base::Written(from) => from.join(folder),
        Base::Below(target) if folder.is_relative() => target.join(relative(folder)),
        // The target replaces the job's own folder.
        Base::Below(target) | Base::Only(target) => target.to_owned(),
    }
}

/// The path without a leading `/` and without any `..` that would lead out of the folder below which it is placed.
fn relative(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

/// The folders and names of a job's files as a target changes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedNames {
    /// In place of `directory`.
    pub directories: Vec<PathBuf>,
    /// In place of `filename`.
    pub files: Vec<PathBuf>,
}

/// The folders and names of a job's files on a target, without looking at the files; `None` if they are as written.
/// `is_folder`: whether the target is a folder.
pub fn placed_names(
    target: &Target,
    files: &Files,
    is_folder: impl Fn(&Path) -> bool,
) -> Option<PlacedNames> {
    let base = Base::of(target, is_folder);
    let mut placed_names = PlacedNames::default();
    match base {
        Base::Written(_) => return None,
        Base::Only(path) => placed_names.files = vec![path.to_owned()],
        Base::Below(_) => {
            let folders = files.directories.iter();
            placed_names.directories = folders.map(|own| folder(base, own)).collect();
            let names = files.names.iter().map(|name| match name.is_absolute() {
                true => placed(base, files.directories.first().map(PathBuf::as_path), name),
                false => name.clone(),
            });
            placed_names.files = names.collect();
        }
    }
    Some(placed_names)
}

/// fio's default, used if a job file sets an empty format.
const FORMAT: &str = "$jobname.$jobnum.$filenum";

/// The generated name of the files of a job without `filename`, with `$jobnum` and `$filenum` in place of numbers.
pub fn made_up_name(files: &Files, job: &str) -> PathBuf {
    let job = name_in_files(job, &files.format, files.directories.is_empty());
    PathBuf::from(formatted(&files.format, &job, ["$jobnum", "$filenum"]))
}

/// The job's part of file names. As in fio, an absolute name is a path, except below /dev, where no file is created.
/// Other `/` are replaced, because they would require a folder.
fn name_in_files(job: &str, format: &str, may_be_path: bool) -> String {
    let begins = format.is_empty() || format.to_ascii_lowercase().starts_with("$jobname");
    match may_be_path && begins && job.starts_with('/') && !Path::new(job).starts_with("/dev") {
        true => job.to_owned(),
        false => job.replace('/', "_"),
    }
}

/// Variables are case-insensitive. `$clientuid` is empty, because no client exists. `numbers`: of the clone, and of the
/// file.
fn formatted(format: &str, job: &str, numbers: [&str; 2]) -> String {
    let words: [(&str, String); 4] = [
        ("$jobname", job.to_owned()),
        ("$jobnum", numbers[0].to_owned()),
        ("$filenum", numbers[1].to_owned()),
        ("$clientuid", String::new()),
    ];
    let mut rest = if format.is_empty() { FORMAT } else { format };
    let mut name = String::new();
    'next: while let Some(first) = rest.chars().next() {
        for (word, value) in &words {
            if let Some(start) = rest.get(..word.len())
                && start.eq_ignore_ascii_case(word)
            {
                name.push_str(value);
                rest = &rest[word.len()..];
                continue 'next;
            }
        }
        name.push(first);
        rest = &rest[first.len_utf8()..];
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, files: Files, clone: u32, base: Base<'_>, expected: &[&str]) {
        let special = |path: &Path| path == Path::new("/dev/sdz");
        let found = paths(name, &files, clone, base, special).unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn files_are_named_as_fio_names_them() {
        let here = Base::Written(Path::new("/cwd"));
        let default = Files::default;
        let format = |format: &str| Files {
            format: format.to_owned(),
            ..Files::default()
        };
        check("x", default(), 0, here, &["/cwd/x.0.0"]);
        check("x", default(), 3, here, &["/cwd/x.3.0"]);
        check("a/b", default(), 0, here, &["/cwd/a_b.0.0"]);
        check("/dev/sdz", default(), 2, here, &["/dev/sdz"]);
        check("/dev/sdy", default(), 0, here, &["/cwd/_dev_sdy.0.0"]);
        check("/mnt/x", default(), 1, here, &["/mnt/x.1.0"]);
        check("/mnt/x", format("a$jobname"), 0, here, &["/cwd/a_mnt_x"]);
        check(
            "/mnt/x",
            default(),
            0,
            Base::Below(Path::new("/t")),
            &["/t/_mnt_x.0.0"],
        );
        check("x", format(""), 1, here, &["/cwd/x.1.0"]);
        check(
            "x",
            format("$FileNum-$jobname-é$x$clientuid"),
            1,
            here,
            &["/cwd/0-x-é$x"],
        );
        check("$jobnum", format("$jobname"), 1, here, &["/cwd/$jobnum"]);
        let three = Files {
            count: 3,
            ..Files::default()
        };
        check(
            "x",
            three,
            1,
            here,
            &["/cwd/x.1.0", "/cwd/x.1.1", "/cwd/x.1.2"],
        );
    }

    #[test]
    fn folders_are_assigned_in_turn_and_contain_even_absolute_names() {
        let files = |directories: &[&str], names: &[&str]| Files {
            directories: directories.iter().map(PathBuf::from).collect(),
            names: names.iter().map(PathBuf::from).collect(),
            ..Files::default()
        };
        let here = Base::Written(Path::new("/cwd"));
        let below = Base::Below(Path::new("/mnt/t"));
        let dirs = ["/d", "e"];
        check("x", files(&dirs, &[]), 0, here, &["/d/x.0.0"]);
        check("x", files(&dirs, &[]), 1, here, &["/cwd/e/x.1.0"]);
        check("x", files(&dirs, &[]), 2, here, &["/d/x.2.0"]);
        check("x", files(&["/d"], &["/dev/sda"]), 0, here, &["/d/dev/sda"]);
        check("x", files(&["/d"], &["../../a"]), 0, here, &["/d/a"]);
        check(
            "x",
            files(&[], &["/a/f", "g"]),
            5,
            here,
            &["/a/f", "/cwd/g"],
        );
        check(
            "x",
            files(&[], &["/a/f", "g/h"]),
            5,
            below,
            &["/mnt/t/f", "/mnt/t/g/h"],
        );
        check("x", files(&dirs, &["f"]), 0, below, &["/mnt/t/f"]);
        check("x", files(&dirs, &["f"]), 1, below, &["/mnt/t/e/f"]);
        check("x", files(&["../.."], &[]), 0, below, &["/mnt/t/x.0.0"]);
        let only = Base::Only(Path::new("/dev/sdb"));
        check("x", files(&dirs, &["f", "g"]), 1, only, &["/dev/sdb"]);
    }

    #[test]
    fn a_file_may_be_named_twice() {
        let here = Base::Written(Path::new("/cwd"));
        let below = Base::Below(Path::new("/mnt/t"));
        let format = Files {
            count: 2,
            format: "$jobname".to_owned(),
            ..Files::default()
        };
        check("x", format.clone(), 0, here, &["/cwd/x", "/cwd/x"]);
        check("x", format, 0, below, &["/mnt/t/x", "/mnt/t/x"]);
        let named = |names: &[&str]| Files {
            names: names.iter().map(PathBuf::from).collect(),
            ..Files::default()
        };
        check("x", named(&["a", "./a"]), 0, here, &["/cwd/a", "/cwd/a"]);
        let twice = &["/mnt/t/a", "/mnt/t/a"];
        check("x", named(&["/d/a", "/d/a"]), 0, below, twice);
        // These are two files, and would be one below the target.
        assert_eq!(
            paths("x", &named(&["/d/a", "/e/a"]), 0, below, |_| false),
            Err(PathBuf::from("/mnt/t/a"))
        );
    }
}
