//! The transport of FUSE, as a flag.

use clap::ValueEnum;
use iodyno_model::Diagnostic;
use iodyno_serve::fuse::Transport;

/// How the kernel sends requests of a mounted file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FuseTransport {
    /// By io_uring if the kernel has it and it is enabled, otherwise by /dev/fuse.
    Auto,
    /// By /dev/fuse.
    Device,
    /// By io_uring: needs Linux 6.14 and `echo Y > /sys/module/fuse/parameters/enable_uring`.
    #[value(name = "io_uring")]
    IoUring,
}

impl FuseTransport {
    /// Adds the remedy to the failure of a server, if io_uring is required.
    pub(crate) fn explain(self, fault: Diagnostic) -> Diagnostic {
        match self {
            FuseTransport::IoUring => fault.hint(
                "use `--fuse-transport device`, or as root: `echo Y > /sys/module/fuse/parameters/enable_uring`",
            ),
            _ => fault,
        }
    }
}

impl From<FuseTransport> for Transport {
    fn from(choice: FuseTransport) -> Transport {
        match choice {
            FuseTransport::Auto => Transport::Auto,
            FuseTransport::Device => Transport::Device,
            FuseTransport::IoUring => Transport::IoUring,
        }
    }
}
