//! The kernel that a guest boots.

use std::fs;
use std::path::{Path, PathBuf};

use crate::guest::GuestError;

/// A kernel with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release: `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// Its image.
    pub image: PathBuf,
    /// The folder of its modules.
    pub modules: PathBuf,
    /// Where programs for this kernel are, in `sbin`, with libraries of theirs in `lib`; `None`: the host's own are
    /// used.
    pub tools: Option<PathBuf>,
}

impl Kernel {
    /// A program for this kernel.
    pub fn tool(&self, name: &str) -> Option<PathBuf> {
        let path = self.tools.as_ref()?.join("sbin").join(name);
        path.is_file().then_some(path)
    }

    /// Finds a kernel in a folder that the user names, otherwise in the first of these that has one: the folder
    /// `kernel` in the cache, and the root of the host. Of several, the one of this release is chosen, otherwise the
    /// one whose image is the newest.
    ///
    /// # Errors
    /// There is none.
    pub fn find(
        named: Option<&Path>,
        cache: &Path,
        root: &Path,
        release: &str,
    ) -> Result<Kernel, GuestError> {
        let folders = match named {
            Some(folder) => vec![folder.to_owned()],
            None => vec![cache.join("kernel"), root.to_owned()],
        };
        let found = folders.iter().find_map(|folder| in_folder(folder, release));
        let own = |found: Kernel| Kernel {
            tools: found.tools.filter(|folder| folder != root),
            ..found
        };
        found.map(own).ok_or_else(|| {
            let folders = folders
                .iter()
                .map(|folder| format!("`{}`", folder.display()));
            GuestError::NoKernel(folders.collect::<Vec<_>>().join(" or "))
        })
    }
}

fn in_folder(folder: &Path, release: &str) -> Option<Kernel> {
    let images = fs::read_dir(folder.join("boot")).ok()?.flatten();
    let kernels = images.filter_map(|image| {
        let name = image.file_name().into_string().ok()?;
        let found = name.strip_prefix("vmlinuz-")?.to_owned();
        let places =
            ["lib/modules", "usr/lib/modules"].map(|place| folder.join(place).join(&found));
        let modules = places.into_iter().find(|modules| modules.is_dir())?;
        let age = image.metadata().and_then(|file| file.modified()).ok();
        let kernel = Kernel {
            release: found,
            image: image.path(),
            modules,
            tools: Some(folder.to_owned()),
        };
        Some((kernel.release == release, age, kernel))
    });
    let best = kernels.max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    best.map(|(_, _, kernel)| kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(folder: &Path, release: &str, modules: bool) {
        fs::create_dir_all(folder.join("boot")).unwrap();
        fs::write(folder.join(format!("boot/vmlinuz-{release}")), "").unwrap();
        if modules {
            fs::create_dir_all(folder.join("lib/modules").join(release)).unwrap();
        }
    }

    #[test]
    fn the_named_folder_then_the_cache_then_the_host_is_used() {
        let temp = tempfile::tempdir().unwrap();
        let [named, cache, root] = ["named", "cache", "root"].map(|name| temp.path().join(name));
        let find = |named: Option<&Path>| Kernel::find(named, &cache, &root, "6.2");
        let error = find(None).unwrap_err();
        assert!(error.to_string().contains("cache/kernel` or "), "{error}");
        assert!(error.hint().unwrap().contains("vm.kernel"));
        add(&root, "6.2", true);
        add(&root, "6.9", false);
        add(&root, "6.1", true);
        let found = find(None).unwrap();
        assert_eq!(found.release, "6.2");
        assert_eq!(found.image, root.join("boot/vmlinuz-6.2"));
        assert_eq!(found.modules, root.join("lib/modules/6.2"));
        assert_eq!(found.tools, None);
        add(&cache.join("kernel"), "6.3", true);
        let found = find(None).unwrap();
        assert_eq!(found.release, "6.3");
        assert_eq!(found.tool("zpool"), None);
        fs::create_dir(cache.join("kernel/sbin")).unwrap();
        fs::write(cache.join("kernel/sbin/zpool"), "").unwrap();
        assert_eq!(found.tool("zpool"), Some(cache.join("kernel/sbin/zpool")));
        assert!(find(Some(&named)).is_err());
        add(&named, "6.4", true);
        assert_eq!(find(Some(&named)).unwrap().release, "6.4");
    }
}
