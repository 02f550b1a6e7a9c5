//! Flags of `iodyno serve fs`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use iodyno_fileserver::seccomp::Violation;
use iodyno_fileserver::{
    Cache, GidMap, Handles, IdMap, MigrationMode, MigrationOnError, NegotiationMode, Policy,
    SandboxMode, UidMap,
};
use iodyno_units::Nanos;

use super::FuseTransport;

/// Serve a folder as a file system of virtual machines (virtio-fs) or of this host (FUSE).
///
/// With `--socket`, it replaces virtiofsd for qemu's `vhost-user-fs-pci`. It serves one client at a time until SIGINT
/// or SIGTERM, then answers the requests in flight and exits. A link named `virtiofsd` accepts virtiofsd's options.
/// Clients with access to the socket can read and change all files below the folder with the rights of this user; if
/// the server runs as root, new files belong to the users that the clients name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno serve fs /srv/share --socket /run/share.sock
  iodyno serve fs /srv/share --socket /run/share.sock --dispatch pool:16 --readonly
  iodyno serve fs /srv/share --mount /mnt/share
  iodyno serve fs /srv/share --socket /run/share.sock --sandbox chroot --seccomp log
  iodyno serve fs /srv/share --socket /run/share.sock --stats /run/stats.sock
  nc -U /run/stats.sock                   Print what was counted")]
pub(crate) struct ServeFsArgs {
    /// The folder to share.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "print_capabilities")]
    pub(crate) folder: Option<PathBuf>,

    /// Listen on this Unix socket by vhost-user; only this user may connect to it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, required_unless_present_any = ["mount", "fd", "print_capabilities"])]
    pub(crate) socket: Option<PathBuf>,

    /// Accept clients on this inherited descriptor of a listening Unix socket, instead of `--socket`.
    #[arg(long, value_name = "N", conflicts_with_all = ["socket", "mount"])]
    pub(crate) fd: Option<i32>,

    /// Mount the folder on this empty folder by FUSE, instead of using a socket. Needs root.
    #[arg(long, value_name = "MNT", value_hint = ValueHint::DirPath, conflicts_with = "socket")]
    pub(crate) mount: Option<PathBuf>,

    /// How the kernel sends requests for the folder of `--mount`.
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value_t = FuseTransport::Auto, requires = "mount")]
    pub(crate) fuse_transport: FuseTransport,

    /// Let the kernel read and write the files of `--mount` itself (FUSE passthrough): the server opens them, and
    /// does not see their I/O. Needs Linux 6.9. O_DIRECT is honoured, and files are cached once, as files of this
    /// host.
    #[arg(long, requires = "mount", conflicts_with_all = ["writeback", "delay"])]
    pub(crate) passthrough: bool,

    /// How the requests of a batch are split between the thread of the queue and a pool of threads: inline (all by
    /// the queue's thread), pool:N (all by a pool of N threads), inline-or-pool:N (batches of at most N requests
    /// inline), threshold:N (the first N requests of a batch inline) or adaptive (by measured service times).
    #[arg(long, value_name = "POLICY", default_value_t = Policy::Adaptive)]
    pub(crate) dispatch: Policy,

    /// Threads of the pool: by default 64 for `adaptive`, and 16 for `inline-or-pool` and `threshold`. Not for
    /// `inline` and `pool:N`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// What clients may cache.
    #[arg(long, value_enum, default_value_t = CacheChoice::Auto)]
    pub(crate) cache: CacheChoice,

    /// Refuse changes of the folder (EROFS).
    #[arg(long)]
    pub(crate) readonly: bool,

    /// Pass extended attributes on.
    #[arg(long)]
    pub(crate) xattr: bool,

    /// Let clients collect writes in their cache before they send them.
    #[arg(long)]
    pub(crate) writeback: bool,

    /// Honour O_DIRECT of clients. Otherwise their direct I/O uses the page cache of this host.
    #[arg(long)]
    pub(crate) allow_direct_io: bool,

    /// Hide from clients which folders are the roots of other file systems. By default, guests see their files with
    /// separate device numbers.
    #[arg(long)]
    pub(crate) no_announce_submounts: bool,

    /// How to refer to files that clients know but have not opened: by descriptors, or by file handles, which do not
    /// count towards the limit of open files. File handles need root (CAP_DAC_READ_SEARCH).
    #[arg(long, value_enum, default_value_t = HandlesChoice::Never)]
    pub(crate) inode_file_handles: HandlesChoice,

    /// Delay each read and write by this time, to try policies for slower storage: `200us`, `2ms`.
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub(crate) delay: Nanos,

    /// Support POSIX ACLs, and pass extended attributes on: never, auto (if the client's kernel has them) or always
    /// (others are refused). Without a value, always.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = AclChoice::Never, default_missing_value = "always", num_args = 0..=1, require_equals = true)]
    pub(crate) posix_acl: AclChoice,

    /// What the process can see. By default `namespace` for clients of a socket, and `none` with `--mount`.
    #[arg(long, value_enum, value_name = "SANDBOX")]
    pub(crate) sandbox: Option<SandboxChoice>,

    /// What happens if the process makes a system call that a file server does not need.
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = SeccompChoice::Kill)]
    pub(crate) seccomp: SeccompChoice,

    /// Map a range of users of this host into the namespace of the server: `:FIRST_INSIDE:FIRST_OF_HOST:COUNT:`. For
    /// users other than root, with `--sandbox namespace`; ranges need newuidmap(1) and /etc/subuid. May be given
    /// several times.
    #[arg(long, value_name = "MAP", conflicts_with = "mount")]
    pub(crate) uid_map: Vec<UidMap>,

    /// The same for groups.
    #[arg(long, value_name = "MAP", conflicts_with = "mount")]
    pub(crate) gid_map: Vec<GidMap>,

    /// Translate users between clients and this host, in the server itself: `map:CLIENT:HOST:COUNT`, or in one
    /// direction `guest:FROM:TO:COUNT`, `host:FROM:TO:COUNT`, many to one `squash-guest:FROM:TO:COUNT`,
    /// `squash-host:FROM:TO:COUNT`, or refuse users of clients: `forbid-guest:FROM:COUNT`. May be given several
    /// times.
    #[arg(long, value_name = "MAP")]
    pub(crate) translate_uid: Vec<IdMap>,

    /// The same for groups.
    #[arg(long, value_name = "MAP")]
    pub(crate) translate_gid: Vec<IdMap>,

    /// How the state of a client identifies its files when qemu moves it to another server (migration, snapshots): by
    /// their names in the folder, or by file handles, which need root and the same file system. Only a server with
    /// `file-handles` accepts a state with file handles, because they reach all files of the file system.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = MigrationModeChoice::FindPaths, conflicts_with = "mount")]
    pub(crate) migration_mode: MigrationModeChoice,

    /// What to do if a file of a state is not found in the folder: refuse the state, so that the client continues at
    /// the other server, or return errors to the client for this file.
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = MigrationErrorChoice::Abort, conflicts_with = "mount")]
    pub(crate) migration_on_error: MigrationErrorChoice,

    /// Add a file handle for each file to a state, so that the server that loads it detects another file of the same
    /// name. Needs the same file system.
    #[arg(long, conflicts_with = "mount")]
    pub(crate) migration_verify_handles: bool,

    /// Check the names of all files again when a state is written, for folders that others change. The client waits
    /// meanwhile.
    #[arg(long, conflicts_with = "mount")]
    pub(crate) migration_confirm_paths: bool,

    /// Print the capabilities of the server as JSON, for libvirt, and exit.
    #[arg(long)]
    pub(crate) print_capabilities: bool,

    /// Serve statistics on this Unix socket: each connection gets one JSON document with requests, times and batches.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) stats: Option<PathBuf>,
}

/// What clients of a shared folder may cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheChoice {
    /// Data of open files, and names and attributes for a second.
    Auto,
    /// All, for a day: only if nobody else changes the folder.
    Always,
    /// Names and attributes for a day, no data.
    Metadata,
    /// Nothing.
    Never,
}

/// How a file server keeps the files that its clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandlesChoice {
    /// By descriptors.
    Never,
    /// By file handles where the file system has them.
    Prefer,
    /// By file handles only.
    Mandatory,
}

impl From<HandlesChoice> for Handles {
    fn from(choice: HandlesChoice) -> Handles {
        match choice {
            HandlesChoice::Never => Handles::Never,
            HandlesChoice::Prefer => Handles::Prefer,
            HandlesChoice::Mandatory => Handles::Mandatory,
        }
    }
}

/// How files are named in the state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MigrationModeChoice {
    /// By their names in the folder.
    FindPaths,
    /// By file handles.
    FileHandles,
}

impl From<MigrationModeChoice> for MigrationMode {
    fn from(choice: MigrationModeChoice) -> MigrationMode {
        match choice {
            MigrationModeChoice::FindPaths => MigrationMode::FindPaths,
            MigrationModeChoice::FileHandles => MigrationMode::FileHandles,
        }
    }
}

/// What happens if a file of a state is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MigrationErrorChoice {
    /// The state is refused.
    Abort,
    /// The client gets errors for this file.
    GuestError,
}

impl From<MigrationErrorChoice> for MigrationOnError {
    fn from(choice: MigrationErrorChoice) -> MigrationOnError {
        match choice {
            MigrationErrorChoice::Abort => MigrationOnError::Abort,
            MigrationErrorChoice::GuestError => MigrationOnError::GuestError,
        }
    }
}

/// What the process of a file server can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxChoice {
    /// Only the folder, in namespaces of its own for mounts, processes, the network and, if this is not root, users.
    Namespace,
    /// Only the folder, which becomes its root. Needs root.
    Chroot,
    /// All that its user can see.
    None,
}

impl From<SandboxChoice> for SandboxMode {
    fn from(choice: SandboxChoice) -> SandboxMode {
        match choice {
            SandboxChoice::Namespace => SandboxMode::Namespace,
            SandboxChoice::Chroot => SandboxMode::Chroot,
            SandboxChoice::None => SandboxMode::None,
        }
    }
}

/// What happens at a system call that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeccompChoice {
    /// All system calls are allowed.
    None,
    /// It is killed.
    Kill,
    /// The kernel logs the call and carries it out.
    Log,
    /// It gets the signal SIGSYS.
    Trap,
}

impl SeccompChoice {
    /// The filter's action, if a filter is used.
    pub(crate) fn violation(self) -> Option<Violation> {
        match self {
            SeccompChoice::None => None,
            SeccompChoice::Kill => Some(Violation::Kill),
            SeccompChoice::Log => Some(Violation::Log),
            SeccompChoice::Trap => Some(Violation::Trap),
        }
    }
}

/// When POSIX ACLs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AclChoice {
    /// Never.
    Never,
    /// If the client supports them.
    Auto,
    /// Clients that do not support them are refused.
    Always,
}

impl From<AclChoice> for NegotiationMode {
    fn from(choice: AclChoice) -> NegotiationMode {
        match choice {
            AclChoice::Never => NegotiationMode::Never,
            AclChoice::Auto => NegotiationMode::Auto,
            AclChoice::Always => NegotiationMode::Always,
        }
    }
}

impl From<CacheChoice> for Cache {
    fn from(choice: CacheChoice) -> Cache {
        match choice {
            CacheChoice::Auto => Cache::Auto,
            CacheChoice::Always => Cache::Always,
            CacheChoice::Metadata => Cache::Metadata,
            CacheChoice::Never => Cache::Never,
        }
    }
}
