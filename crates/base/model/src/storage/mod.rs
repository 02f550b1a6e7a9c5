//! Storage that is made for a configuration: layers, virtual machines, simulated disks.

mod layer;
mod mapped;
mod pinning;
mod provision;
mod rate_limits;
mod sim_target;
mod vm;
mod vm_node;
mod zfs;

pub use layer::{FileSystemKind, FolderServer, Layer, MirrorLayer, NfsLayer, Shape};
pub use mapped::{DmTarget, FlakeyFault, MdLayer, MdLevel};
pub use pinning::{Pinning, number_list};
pub use provision::{CommandRun, Fresh, Provision};
pub use rate_limits::Limits;
pub use sim_target::{SimRecords, SimTarget};
pub use vm::{
    Acceleration, DiskAio, DiskBackend, DiskCache, DiskInterface, DiskOrigin, SERVER_STATS, VmDisk,
    VmImage, VmLayer, server_command, server_command_fault, server_program,
};
pub use vm_node::{VmAddress, VmStorage};
pub use zfs::{VdevGroup, ZfsLayer, ZfsOrigin};
