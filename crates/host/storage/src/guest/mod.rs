//! Virtual machines for trials: what is booted, how qemu is started, and what runs as init in the guest.
//!
//! A guest needs no distribution: it boots a [`Kernel`] with an initramfs ([`Image`]) that contains this program, the
//! kernel modules and the programs that its storage needs. This program is its init ([`init`]), which starts a node for
//! each connection to the guest's serial port ([`port`]). Invariant: nothing here changes the host except files in the
//! cache folder; starting and ending qemu is up to the caller.

mod cpio;
mod elf;
mod image;
pub mod init;
mod kernel;
mod modules;
pub mod port;
mod qemu;
pub mod ssh;

pub use image::{Image, cache_folder};
pub use kernel::Kernel;
pub use modules::{ModuleTree, decompressor};
pub use qemu::{
    ACCELERATION_LIMIT, ANSWER_LIMIT, Boot, Machine, disk_path, end_of, modules_of, share_path,
};

use std::io;
use std::path::{Path, PathBuf};

/// Why a guest cannot be made, with a remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is no kernel.
    #[error("there is no kernel for guests in {0}")]
    NoKernel(String),
    /// A file cannot be used.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    File {
        /// What was to be done: `read`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("`{}` is not {what}", path.display())]
    Format {
        /// What it should be: `a kernel module`.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The kernel lacks modules.
    #[error("the kernel {release} has no module {}", listed(names))]
    NoModule {
        /// The kernel's release.
        release: String,
        /// The modules.
        names: Vec<String>,
    },
    /// A program is missing.
    #[error("`{program}`, which {what} needs, is not installed")]
    NoProgram {
        /// The program.
        program: String,
        /// What needs it.
        what: String,
    },
    /// A program failed.
    #[error("`{command}` failed: {why}")]
    Failed {
        /// The command line.
        command: String,
        /// What it printed, or why it could not be started.
        why: String,
    },
}

impl GuestError {
    fn file(doing: &'static str, path: &Path, source: io::Error) -> GuestError {
        let path = path.to_owned();
        GuestError::File {
            doing,
            path,
            source,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            GuestError::NoKernel(_) => {
                "set `vm.kernel` to a folder with `boot` and `lib/modules`, such as the unpacked package \
                 `linux-image-cloud-amd64` (`apt-get download`, `dpkg-deb -x`)"
                    .to_owned()
            }
            GuestError::NoModule { .. } => "use another kernel: `vm.kernel`".to_owned(),
            GuestError::NoProgram { program, .. } => format!("install `{program}`"),
            GuestError::File { .. } | GuestError::Format { .. } | GuestError::Failed { .. } => {
                return None;
            }
        })
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
