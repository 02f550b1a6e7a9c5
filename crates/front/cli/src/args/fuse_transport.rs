//! The transport of FUSE, as a flag.

use clap::ValueEnum;
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
    /// The hint if io_uring is required and fails.
    pub(crate) const NO_IO_URING: &'static str = "use `--fuse-transport device`, or as root: `echo Y > /sys/module/fuse/parameters/enable_uring`";
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
