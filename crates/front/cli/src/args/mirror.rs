//! Flags of `mirror` and `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use iodyno_mirror::PolicyKind;
use iodyno_model::SimDisk;
use iodyno_units::{Bytes, Nanos};

use super::FuseTransport;

/// Make mirrors and manage their legs.
///
/// A mirror keeps the same data on several files or block devices, its legs. `iodyno serve mirror` makes it
/// available. All commands but `create` also work while the same user serves the mirror.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct MirrorArgs {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: MirrorCommand,
}

/// The commands of `mirror`.
#[derive(Debug, Subcommand)]
pub(crate) enum MirrorCommand {
    Create(MirrorCreateArgs),
    Status(MirrorStatusArgs),
    Add(MirrorAddArgs),
    Remove(MirrorRemoveArgs),
    Replace(MirrorReplaceArgs),
    Scrub(MirrorScrubArgs),
}

/// Make a mirror of files or block devices.
///
/// The mirror is as long as its shortest leg, less 1 MiB. The data area of the first leg is the content of the new
/// mirror; it is copied to the others when the mirror is served first, unless all legs are files that consist of
/// holes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  truncate -s 10G /a/leg /b/leg; iodyno mirror create /a/leg /b/leg
  iodyno mirror create /dev/sdx /dev/sdy --destroy /dev/sdx --destroy /dev/sdy")]
pub(crate) struct MirrorCreateArgs {
    /// Existing files or block devices.
    #[arg(required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// Permit overwriting the content of this file or device; repeatable.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// Do not copy the first leg to the others: they are equal already. If they are not, a block that is read before
    /// it is written depends on the leg.
    #[arg(long)]
    pub(crate) assume_clean: bool,
}

/// Show the state of a mirror.
///
/// Asks the server of the mirror, with the progress of copies and scrubs. If this user does not serve it, reads
/// superblocks and the write-intent log. The exit code is 1 if the mirror cannot be started with these legs, or is
/// not redundant.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno mirror status /a/leg /b/leg
  iodyno mirror status --json /a/leg /b/leg")]
pub(crate) struct MirrorStatusArgs {
    /// Legs of one mirror.
    #[arg(required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// Print the state as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add a leg to a mirror.
///
/// The new leg is copied to at once if the mirror is served, otherwise when it is served next. A leg that the server
/// dropped is taken back: only what it missed is copied.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno mirror add --leg /a/leg --leg /b/leg /c/leg")]
pub(crate) struct MirrorAddArgs {
    /// A leg of the mirror; repeat for each.
    #[arg(long = "leg", required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// An existing file or block device, at least as long as the mirror and 1 MiB.
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) new: PathBuf,

    /// Permit overwriting the content of this file or device.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,
}

/// Remove a leg from a mirror.
///
/// At least one leg in sync remains. While the mirror is served, a leg is removed only if the others have its
/// content. The superblock of the removed leg is overwritten if the leg is given by its path.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno mirror remove --leg /a/leg --leg /b/leg /c/leg
  iodyno mirror remove --leg /a/leg --degraded 019a3c1e-7d0a-7f3e-8a55-2b1a6e0c4d11
                                          A leg that is lost, by its UUID from `iodyno mirror status`")]
pub(crate) struct MirrorRemoveArgs {
    /// A leg of the mirror that stays; repeat for each.
    #[arg(long = "leg", required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// The leg to remove: its path, or its UUID if it is lost.
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) old: PathBuf,

    /// Remove a leg given by UUID even if it is in sync. Data that only this leg has are lost.
    #[arg(long)]
    pub(crate) degraded: bool,
}

/// Replace a leg of a mirror by another file or device.
///
/// If the mirror is served, the old leg is removed when the new one is in sync, or at once if it is behind. Otherwise
/// the new leg is copied to when the mirror is served next, and until then the mirror has one leg less.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno mirror replace --leg /a/leg /b/leg /c/leg
  iodyno mirror replace --leg /a/leg --degraded 019a3c1e-7d0a-7f3e-8a55-2b1a6e0c4d11 /c/leg")]
pub(crate) struct MirrorReplaceArgs {
    /// A leg of the mirror that stays; repeat for each.
    #[arg(long = "leg", required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// The leg to remove: its path, or its UUID if it is lost.
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) old: PathBuf,

    /// Remove the leg of a UUID also if it is in sync: what only this leg has is lost.
    #[arg(long)]
    pub(crate) degraded: bool,

    /// An existing file or block device, at least as long as the mirror and 1 MiB.
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) new: PathBuf,

    /// Permit overwriting the content of this file or device.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,
}

/// Compare all legs of a mirror.
///
/// Reads all legs in sync and reports ranges in which they differ. A mirror has no checksums and cannot tell which
/// leg is right: it repairs nothing without `--from`. If the mirror is served, its server compares, also when this
/// command is interrupted. Regions that may differ after a crash are copied first. What one leg cannot read is
/// rewritten from another. The exit code is 1 if legs differ, or a range could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno mirror scrub /a/leg /b/leg
  iodyno mirror scrub /a/leg /b/leg --from /a/leg
                                          Overwrite what differs with the content of /a/leg")]
pub(crate) struct MirrorScrubArgs {
    /// All legs of the mirror.
    #[arg(required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// The leg that is right where legs differ.
    #[arg(long, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
}

/// Serve storage.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ServeArgs {
    /// What to serve.
    #[command(subcommand)]
    pub(crate) command: ServeCommand,
}

/// The commands of `serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    Mirror(ServeMirrorArgs),
    #[cfg(feature = "fileserver")]
    Fs(super::ServeFsArgs),
}

/// Serve a mirror by NBD, vhost-user or as a file.
///
/// Any NBD client can use it: qemu, nbdcopy, nbd-client, nbdfuse. By vhost-user it is a disk of virtual machines, and
/// as a file by FUSE a block device of this host (`losetup --direct-io=on`). Runs until SIGINT or SIGTERM; then it
/// finishes what is in flight and flushes all legs. A leg that fails is dropped and recorded as behind on the others
/// before the request is acknowledged; it is copied to after the next start, or when `iodyno mirror add` takes it
/// back. Legs are never initialised here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno serve mirror --leg /a/leg --leg /b/leg --socket /run/mirror.sock
  nbdcopy disk.img 'nbd+unix:///?socket=/run/mirror.sock'
  iodyno serve mirror --leg /a/leg --degraded --tcp 127.0.0.1:10809
  iodyno serve mirror --leg /a/leg --leg /b/leg --vhost-user /run/disk.sock")]
#[command(group(ArgGroup::new("place").args(["socket", "tcp", "vhost_user", "fuse"]).required(true).multiple(true)))]
pub(crate) struct ServeMirrorArgs {
    /// A leg of the mirror; repeat for each.
    #[arg(long = "leg", required = true, value_name = "LEG", value_hint = ValueHint::FilePath)]
    pub(crate) legs: Vec<PathBuf>,

    /// How the leg of a read is chosen: modulo, least-pending, openzfs, openzfs-nonrot, md-raid1, round-robin,
    /// power-of-two or adaptive.
    #[arg(long, value_name = "POLICY", default_value_t = PolicyKind::Adaptive)]
    pub(crate) policy: PolicyKind,

    /// Listen on this Unix socket by NBD; only this user may connect to it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,

    /// Listen on this TCP address by NBD, without any authentication.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "socket", value_parser = address)]
    pub(crate) tcp: Option<SocketAddr>,

    /// Permit an address of `--tcp` that is not a loopback address.
    #[arg(long, requires = "tcp")]
    pub(crate) public: bool,

    /// Listen on this Unix socket as a vhost-user block device (qemu's `vhost-user-blk-pci`); only this user may
    /// connect to it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) vhost_user: Option<PathBuf>,

    /// Mount the mirror on this empty file, by FUSE; it is made if it is missing. Needs root.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) fuse: Option<PathBuf>,

    /// How the kernel sends requests for the file of `--fuse`.
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value_t = FuseTransport::Auto, requires = "fuse")]
    pub(crate) fuse_transport: FuseTransport,

    /// Number of queues: threads that read from legs themselves, from 0 to 63.
    ///
    /// Each connection by NBD and each ring of a client of vhost-user takes a free queue. Rings without one share
    /// those of their client. Each queue has a state of the read policy of its own, and needs 10 MiB of memory for
    /// each leg, at most 40 MiB. Other connections, writes, and reads of ranges in which legs may differ are served
    /// by the thread of the mirror.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = queues)]
    pub(crate) queues: u32,

    /// Start even if legs in sync are missing. They have to be copied to completely when they return.
    #[arg(long)]
    pub(crate) degraded: bool,

    /// Drop a leg that does not answer for this time.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = leg_timeout)]
    pub(crate) leg_timeout: Nanos,

    /// Let legs take the time of simulated disks: `hdd`, `flash`, `hdd*2` (twice the time); once for all legs, or for
    /// each.
    ///
    /// Reads and writes of a leg then end no earlier than on the simulated disk, in real time. For measurements.
    #[arg(long, value_name = "DISK")]
    pub(crate) delay: Vec<SimDisk>,

    /// Copy at most this much per second to legs that are behind, or after a crash.
    #[arg(long, value_name = "BYTES", default_value = "200MiB", value_parser = resync_rate)]
    pub(crate) resync_rate: Bytes,
}

/// Of clients, beside that of the thread of a mirror.
const MAX_QUEUES: u32 = iodyno_mirror::shared::MAX_QUEUES as u32 - 1;

fn address(text: &str) -> Result<SocketAddr, String> {
    (text.parse()).map_err(|_| {
        "expected an IP address and a port, such as `127.0.0.1:10809` or `[::1]:10809`".to_owned()
    })
}

fn queues(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|queues| *queues <= MAX_QUEUES);
    number.ok_or_else(|| format!("expected a number from 0 to {MAX_QUEUES}, such as `4`"))
}

fn leg_timeout(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match time < Nanos::SECOND {
        true => Err("at least 1s is needed: slower legs would be dropped".to_owned()),
        false => Ok(time),
    }
}

fn resync_rate(text: &str) -> Result<Bytes, String> {
    let rate: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    match rate.0 < 64 << 10 {
        true => Err("at least 64KiB is needed: the mirror would never be in sync".to_owned()),
        false => Ok(rate),
    }
}
