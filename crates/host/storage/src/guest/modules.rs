//! Kernel modules: where they are, and which others each of them needs.
//!
//! A package of a kernel has no `modules.dep`, which depmod(8) makes when it is installed. The dependencies are
//! therefore read from the modules themselves: `depends=` and `softdep=` in their section `.modinfo`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::guest::{GuestError, elf};

/// Names under which modules request algorithms of the kernel, and the modules that provide them. `modules.alias` has
/// them, but is made by depmod(8) as well.
const ALIASES: [(&str, &str); 6] = [
    ("crc32c", "crc32c_generic"),
    ("crct10dif", "crct10dif_generic"),
    ("xxhash64", "xxhash_generic"),
    ("sha256", "sha256_generic"),
    ("blake2b_256", "blake2b_generic"),
    ("aes", "aes_generic"),
];

/// The modules of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleTree {
    release: String,
    /// Loadable modules by name, with `_` in place of `-`.
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

/// A module's own name: `drivers/md/dm-mod.ko.xz` → `dm_mod`.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, rest) = file.split_once(".ko")?;
    (rest.is_empty() || rest.starts_with('.')).then(|| name.replace('-', "_"))
}

impl ModuleTree {
    /// Reads the folder of a kernel's modules, `lib/modules/RELEASE`.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn read(folder: &Path) -> Result<ModuleTree, GuestError> {
        let release = folder.file_name().unwrap_or_default();
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let mut tree = ModuleTree {
            release: release.to_string_lossy().into_owned(),
            files: BTreeMap::new(),
            builtin: builtin.lines().filter_map(name_of).collect(),
        };
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let failed = |error| GuestError::file("read", &folder, error);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                // The links `build` and `source` lead out of it.
                match entry.file_type().map_err(failed)? {
                    kind if kind.is_dir() => folders.push(entry.path()),
                    kind if kind.is_file() => {
                        if let Some(name) = name_of(&entry.file_name().to_string_lossy()) {
                            tree.files.insert(name, entry.path());
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(tree)
    }

    /// The release of the kernel.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Whether the kernel has a module, as a file or built in.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.contains(name)
    }

    /// The files to load for these modules, each after those that it needs. Modules that are part of the kernel need no
    /// file.
    ///
    /// # Errors
    /// The kernel lacks modules: all of them; or a module cannot be read.
    pub fn load_order(&self, wanted: &[&str]) -> Result<Vec<PathBuf>, GuestError> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        let mut missing = Vec::new();
        for name in wanted {
            self.visit(name, true, &mut order, &mut seen, &mut missing)?;
        }
        match missing.is_empty() {
            true => Ok(order),
            false => Err(GuestError::NoModule {
                release: self.release.clone(),
                names: missing,
            }),
        }
    }

    fn visit(
        &self,
        name: &str,
        needed: bool,
        order: &mut Vec<PathBuf>,
        seen: &mut BTreeSet<String>,
        missing: &mut Vec<String>,
    ) -> Result<(), GuestError> {
        let name = name.replace('-', "_");
        let name = name.strip_prefix("crypto_").unwrap_or(&name);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = match alias {
            Some((_, module)) if !self.has(name) => module,
            _ => name,
        };
        if !seen.insert(name.to_owned()) || self.builtin.contains(name) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            missing.extend(needed.then(|| name.to_owned()));
            return Ok(());
        };
        let needs = needs(&content(path)?).ok_or_else(|| GuestError::Format {
            what: "a kernel module",
            path: path.clone(),
        })?;
        for soft in &needs.before {
            self.visit(soft, false, order, seen, missing)?;
        }
        for needed in &needs.depends {
            self.visit(needed, true, order, seen, missing)?;
        }
        order.push(path.clone());
        for soft in &needs.after {
            self.visit(soft, false, order, seen, missing)?;
        }
        Ok(())
    }
}

/// What a module needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// Modules whose symbols it uses.
    depends: Vec<String>,
    /// Modules that should be loaded before and after it, if the kernel has them.
    before: Vec<String>,
    after: Vec<String>,
}

/// Reads them from a module; `None` if it is not one.
fn needs(module: &[u8]) -> Option<Needs> {
    let info = elf::section(module, ".modinfo")?;
    let mut needs = Needs::default();
    for line in info.split(|byte| *byte == 0) {
        let Ok(line) = str::from_utf8(line) else {
            continue;
        };
        if let Some(names) = line.strip_prefix("depends=") {
            let names = names.split(',').filter(|name| !name.is_empty());
            needs.depends.extend(names.map(str::to_owned));
        } else if let Some(words) = line.strip_prefix("softdep=") {
            let mut after = false;
            for word in words.split_whitespace() {
                match word {
                    "pre:" => after = false,
                    "post:" => after = true,
                    name if after => needs.after.push(name.to_owned()),
                    name => needs.before.push(name.to_owned()),
                }
            }
        }
    }
    Some(needs)
}

/// The program that writes the content of a compressed file to its output, with its arguments.
pub fn decompressor(path: &Path) -> Option<[&'static str; 2]> {
    match path.extension()?.to_str()? {
        "xz" => Some(["xz", "-dc"]),
        "zst" => Some(["zstd", "-dcq"]),
        "gz" => Some(["gzip", "-dc"]),
        _ => None,
    }
}

/// The content of a module, decompressed.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, GuestError> {
    let Some([program, flags]) = decompressor(path) else {
        return fs::read(path).map_err(|error| GuestError::file("read", path, error));
    };
    let mut command = Command::new(program);
    command.arg(flags).arg(path).stdin(Stdio::null());
    let failed = |why: String| GuestError::Failed {
        command: format!("{program} {flags} {}", path.display()),
        why,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose modules have this content of `.modinfo`.
    fn kernel(modules: &[(&str, &str)]) -> (tempfile::TempDir, ModuleTree) {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("6.1.0-test");
        for (path, info) in modules {
            let path = folder.join("kernel").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let info = info.replace('|', "\0");
            fs::write(path, elf::file_of(&[(".modinfo", info.as_bytes())])).unwrap();
        }
        fs::write(folder.join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        let tree = ModuleTree::read(&folder).unwrap();
        (temp, tree)
    }

    fn names(order: &[PathBuf]) -> Vec<String> {
        let names = order.iter().map(|path| path.file_stem().unwrap());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn modules_are_loaded_after_those_that_they_need() {
        let (_temp, tree) = kernel(&[
            (
                "fs/xfs/xfs.ko",
                "name=xfs|depends=libcrc32c|softdep=pre: crypto-absent",
            ),
            ("lib/libcrc32c.ko", "depends=|softdep=pre: crc32c"),
            ("crypto/crc32c_generic.ko", "depends="),
            ("drivers/md/dm-mod.ko", "depends="),
            (
                "drivers/md/dm-delay.ko",
                "depends=dm-mod|softdep=post: raid1",
            ),
            ("drivers/md/raid1.ko", "depends="),
        ]);
        let order = tree
            .load_order(&["xfs", "ext4", "dm-delay", "dm_mod"])
            .unwrap();
        assert_eq!(
            names(&order),
            [
                "crc32c_generic",
                "libcrc32c",
                "xfs",
                "dm-mod",
                "dm-delay",
                "raid1"
            ]
        );
    }

    #[test]
    fn all_missing_modules_are_reported_together() {
        let (_temp, tree) = kernel(&[("a.ko", "depends=b,c")]);
        let error = tree.load_order(&["a", "nvme"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kernel 6.1.0-test has no module `b`, `c`, `nvme`"
        );
    }

    #[test]
    fn a_compressed_module_is_read_with_the_program_for_its_ending() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.ko");
        fs::write(&path, "content").unwrap();
        let status = Command::new("gzip").arg(&path).status().unwrap();
        assert!(status.success());
        assert_eq!(content(&temp.path().join("a.ko.gz")).unwrap(), b"content");
        assert_eq!(name_of("kernel/x/dm-mod.ko.zst").unwrap(), "dm_mod");
        assert_eq!(name_of("modules.koala"), None);
        fs::write(temp.path().join("b.ko.gz"), "not compressed").unwrap();
        let error = content(&temp.path().join("b.ko.gz"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("b.ko.gz` failed: ") && error.contains("not in gzip format"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_a_module_is_named() {
        let (temp, tree) = kernel(&[("a.ko", "depends=")]);
        let path = temp.path().join("6.1.0-test/kernel/a.ko");
        fs::write(&path, "text").unwrap();
        let error = tree.load_order(&["a"]).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("`{}` is not a kernel module", path.display())
        );
    }
}
