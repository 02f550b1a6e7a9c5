//! The initramfs of a guest: this program as init, kernel modules, and programs with their libraries.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::Xxh3;

use crate::guest::cpio::{self, Entries, Entry};
use crate::guest::{GuestError, elf, modules};

/// This program in the guest, without the leading slash.
pub(crate) const PROGRAM: &str = "usr/bin/iodyno";
/// The list of modules to load, in order.
pub(crate) const MODULE_LIST: &str = "etc/iodyno/modules";
/// Files of the host that programs in the guest use as well, where they exist.
const SETTINGS: [&str; 1] = ["/etc/mke2fs.conf"];
/// Images that were not used for this time are removed from the cache.
const UNUSED: Duration = Duration::from_secs(14 * 24 * 3600);
/// The number of images that are kept besides a new one: each version of the program has its own.
const KEPT: usize = 7;

/// The folder for what is kept between runs: `/var/cache/iodyno` for root, otherwise `iodyno` in the user's cache
/// folder. `lookup` reads an environment variable. `None` if it is not known where that is.
pub fn cache_folder(is_root: bool, lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from("/var/cache/iodyno"));
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    let own = lookup("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let home = || lookup("HOME").map(PathBuf::from).filter(absolute);
    let folder = own.or_else(|| Some(home()?.join(".cache")));
    Some(folder?.join("iodyno"))
}

/// What a guest contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The program iodyno.
    pub program: PathBuf,
    /// Files of kernel modules, in the order in which they are loaded.
    pub modules: Vec<PathBuf>,
    /// Other programs.
    pub programs: Vec<PathBuf>,
    /// The folder of the kernel's own programs and libraries, see [`Kernel::tools`](crate::guest::Kernel::tools).
    pub tools: Option<PathBuf>,
}

impl Image {
    /// Returns the file of the initramfs. It is built unless the cache contains one of the same files.
    ///
    /// # Errors
    /// A file cannot be read, a library is missing, or the cache cannot be written.
    pub fn build(&self, cache: &Path) -> Result<PathBuf, GuestError> {
        let mut files = BTreeSet::new();
        for program in std::iter::once(&self.program).chain(&self.programs) {
            files.extend(libraries(program, self.tools.as_deref())?);
        }
        files.extend(self.programs.iter().cloned());
        files.extend(
            SETTINGS
                .map(PathBuf::from)
                .into_iter()
                .filter(|path| path.is_file()),
        );
        let folder = cache.join("initramfs");
        let path = folder.join(format!("{:016x}.cpio", self.hash(&files)?));
        if let Ok(file) = File::open(&path) {
            // When it was last used.
            let _ = file.set_modified(SystemTime::now());
            return Ok(path);
        }
        let failed = |error| GuestError::file("write", &path, error);
        let mut make = fs::DirBuilder::new();
        make.recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        remove_unused(&folder);
        // Two processes may build the same image.
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let result = self.write(&files, &temporary);
        if let Err(error) = result.and_then(|()| fs::rename(&temporary, &path).map_err(failed)) {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        tracing::debug!(image = %path.display(), "built an initramfs");
        Ok(path)
    }

    /// Identifies the content: the files by path, inode, length and time of change.
    fn hash(&self, files: &BTreeSet<PathBuf>) -> Result<u64, GuestError> {
        let mut hash = Xxh3::new();
        hash.update(env!("CARGO_PKG_VERSION").as_bytes());
        let all = std::iter::once(&self.program).chain(&self.modules);
        for path in all.chain(files) {
            let about =
                fs::metadata(path).map_err(|error| GuestError::file("read", path, error))?;
            let numbers = [
                about.dev(),
                about.ino(),
                about.len(),
                about.mtime() as u64,
                about.mtime_nsec() as u64,
            ];
            hash.update(path.as_os_str().as_encoded_bytes());
            for number in numbers {
                hash.update(&number.to_le_bytes());
            }
        }
        Ok(hash.digest())
    }

    /// Where a file of the host is in the guest, without the leading slash: at the same path, except that the kernel's
    /// own programs come before the host's, and their libraries are where every program looks for them.
    fn place(&self, file: &Path) -> String {
        let own = |folder: &str, place: &str| {
            let inner = file.strip_prefix(self.tools.as_ref()?.join(folder)).ok()?;
            Some(format!("{place}/{}", inner.display()))
        };
        own("sbin", "usr/local/sbin")
            .or_else(|| own("lib", "usr/lib"))
            .unwrap_or_else(|| {
                let place = file.strip_prefix("/").unwrap_or(file);
                place.to_string_lossy().into_owned()
            })
    }

    fn write(&self, files: &BTreeSet<PathBuf>, path: &Path) -> Result<(), GuestError> {
        let mut entries = Entries::new();
        entries.insert("init".to_owned(), Entry::Link(format!("/{PROGRAM}")));
        let mut program = fs::read(&self.program)
            .map_err(|error| GuestError::file("read", &self.program, error))?;
        elf::strip(&mut program);
        entries.insert(PROGRAM.to_owned(), Entry::Bytes(program));
        for folder in ["dev", "proc", "sys", "run", "tmp", "root", "var/lib"] {
            entries.insert(folder.to_owned(), Entry::Folder);
        }
        for file in files {
            entries.insert(self.place(file), Entry::Copy(file.clone()));
        }
        let mut list = String::new();
        for module in &self.modules {
            let name = module.file_stem().unwrap_or_default().to_string_lossy();
            let name = name.strip_suffix(".ko").unwrap_or(&name);
            let place = format!("lib/modules/{name}.ko");
            list += &format!("/{place}\n");
            entries.insert(place, Entry::Bytes(modules::content(module)?));
        }
        entries.insert(MODULE_LIST.to_owned(), Entry::Bytes(list.into_bytes()));
        let failed = |error| GuestError::file("write", path, error);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
        cpio::write(&cpio::with_folders(entries), &mut file).map_err(failed)?;
        file.flush().map_err(failed)
    }
}

/// The dynamic linker and the libraries of a program, by ldd(1); none if it is linked statically. Programs of the
/// kernel use the libraries beside them.
fn libraries(program: &Path, tools: Option<&Path>) -> Result<Vec<PathBuf>, GuestError> {
    let failed = |why: String| GuestError::Failed {
        command: format!("ldd {}", program.display()),
        why,
    };
    let mut command = Command::new("ldd");
    command.arg(program).stdin(Stdio::null()).env("LC_ALL", "C");
    if let Some(folder) = tools.filter(|folder| program.starts_with(folder)) {
        command.env("LD_LIBRARY_PATH", folder.join("lib"));
    }
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let fixed = ["not a dynamic executable", "statically linked"];
    if fixed
        .iter()
        .any(|words| errors.contains(words) || text.contains(words))
    {
        return Ok(Vec::new());
    }
    if !output.status.success() {
        return Err(failed(errors.trim().to_owned()));
    }
    let missing: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("not found"))
        .collect();
    match missing.is_empty() {
        true => Ok(listed_by_ldd(&text)),
        false => Err(failed(missing.join(";").trim().to_owned())),
    }
}

/// The files in ldd's output: `libc.so.6 => /lib/libc.so.6 (0x…)`, or the dynamic linker `/lib64/ld.so (0x…)`.
fn listed_by_ldd(text: &str) -> Vec<PathBuf> {
    let paths = text.lines().filter_map(|line| {
        let line = line.trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    paths.collect()
}

/// Removes images that have not been used for long or are too many, and what an interrupted build left behind. qemu
/// reads an image when it starts, and does not need it afterwards.
fn remove_unused(folder: &Path) {
    let ending = |path: &Path, end: &str| path.to_string_lossy().ends_with(end);
    let mut found: Vec<(Duration, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let used = entry.metadata().and_then(|file| file.modified()).ok();
        let age = used.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        found.push((age, entry.path()));
    }
    found.retain(|(_, path)| [".cpio", ".tmp"].iter().any(|end| ending(path, end)));
    found.sort();
    let mut images = 0;
    for (age, path) in found {
        images += usize::from(ending(&path, ".cpio"));
        if age > UNUSED || ending(&path, ".cpio") && images > KEPT {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_ldd_gives_libraries_and_the_dynamic_linker() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = listed_by_ldd(text);
        assert_eq!(
            found,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }

    #[test]
    fn the_cache_folder_is_that_of_the_user() {
        let of = |values: &[(&str, &str)]| {
            let lookup = |name: &str| {
                let found = values.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            cache_folder(false, lookup).map(|path| path.display().to_string())
        };
        assert_eq!(
            of(&[("HOME", "/home/ada")]).unwrap(),
            "/home/ada/.cache/iodyno"
        );
        let both = [("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/cache")];
        assert_eq!(of(&both).unwrap(), "/cache/iodyno");
        assert_eq!(of(&[("XDG_CACHE_HOME", "relative")]), None);
        assert!(cache_folder(true, |_| None).is_some());
    }

    #[test]
    fn an_image_is_built_once_and_again_when_a_file_changes() {
        let temp = tempfile::tempdir().unwrap();
        let module = temp.path().join("first.ko");
        fs::write(&module, "module").unwrap();
        let image = Image {
            program: std::env::current_exe().unwrap(),
            modules: vec![module.clone()],
            programs: vec![PathBuf::from("/bin/true")],
            tools: None,
        };
        let built = image.build(temp.path()).unwrap();
        let content = fs::read(&built).unwrap();
        let has = |name: &str| {
            content
                .windows(name.len())
                .any(|part| part == name.as_bytes())
        };
        assert!(has("usr/bin/iodyno\0") && has("lib/modules/first.ko\0") && has("bin/true\0"));
        assert!(has("/lib/modules/first.ko\n"));
        assert!(has("lib/x86_64-linux-gnu/libc.so.6\0") || !cfg!(target_arch = "x86_64"));
        fs::write(&built, "kept").unwrap();
        assert_eq!(image.build(temp.path()).unwrap(), built);
        assert_eq!(fs::read_to_string(&built).unwrap(), "kept");
        fs::write(&module, "another").unwrap();
        let other = image.build(temp.path()).unwrap();
        assert_ne!(other, built);
        let left = fs::read_dir(temp.path().join("initramfs")).unwrap().count();
        assert_eq!(left, 2);
    }

    #[test]
    fn the_programs_of_the_kernel_come_before_those_of_the_host() {
        let image = Image {
            program: PathBuf::from("/usr/bin/iodyno"),
            modules: Vec::new(),
            programs: Vec::new(),
            tools: Some("/cache/kernel".into()),
        };
        let place = |path: &str| image.place(Path::new(path));
        assert_eq!(place("/cache/kernel/sbin/zpool"), "usr/local/sbin/zpool");
        assert_eq!(
            place("/cache/kernel/lib/libzfs.so.4"),
            "usr/lib/libzfs.so.4"
        );
        assert_eq!(place("/sbin/mdadm"), "sbin/mdadm");
    }

    #[test]
    fn old_and_surplus_images_and_interrupted_builds_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let make = |name: &str, age: Duration| {
            let file = File::create(temp.path().join(name)).unwrap();
            file.set_modified(now - age).unwrap();
        };
        let day = Duration::from_secs(24 * 3600);
        for (number, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().enumerate() {
            make(&format!("{name}.cpio"), day * number as u32);
        }
        make("new.1.tmp", day);
        make("old.1.tmp", day * 15);
        make("other", day * 99);
        remove_unused(temp.path());
        let mut left: Vec<String> = fs::read_dir(temp.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let images = "a.cpio b.cpio c.cpio d.cpio e.cpio f.cpio g.cpio";
        assert_eq!(left.join(" "), format!("{images} new.1.tmp other"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let image = Image {
            program: std::env::current_exe().unwrap(),
            modules: Vec::new(),
            programs: vec![temp.path().join("absent")],
            tools: None,
        };
        let error = image.build(temp.path()).unwrap_err().to_string();
        assert!(error.contains("/absent"), "{error}");
    }
}
