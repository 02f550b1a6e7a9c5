//! The guard: only targets that the user named and that are not in use are written.
//!
//! A block device is written only if it was named, and is blank or contains only iodyno's own writes. A device in use
//! (mounted, swap, part of another device) is always refused. A device that contains data is refused unless
//! `--destroy` names exactly that device. The character device of an NVMe namespace is judged and claimed as its
//! block device. A named regular file may be overwritten, unless it contains a disk image or a file system: then
//! `--destroy` is needed as well. Nothing is created in folders of device nodes.
//!
//! Invariants: a path is resolved once, and all later steps use that inode. A device is checked before it is opened for
//! writing. While it is sampled, and for the lifetime of [`Admitted`], the kernel reserves it (O_EXCL), so that it
//! cannot be mounted. If the host cannot be examined, the guard refuses.

mod admitted;
mod content;
mod device;
pub mod export;
mod file_uses;
mod guard;
mod links;
mod medium;
mod open;
mod output;
mod overlays;
mod own_writes;
mod paths;
mod places;
mod processes;
mod refusal;
mod request;
pub mod share;
pub mod signatures;
mod storage;
mod survey;
mod uses;

pub use admitted::Admitted;
pub use guard::Guard;
pub use links::refuse_planted_link;
pub use output::{
    among_devices, append_output, create_output, name_output, new_output, open_output,
    unnamed_output,
};
pub use own_writes::WrittenDevice;
pub use refusal::{AdmitError, Hold, Reason, Refusal};
pub use request::{Intent, Kind, OpenFlags, Request};
pub use storage::share_storage;
