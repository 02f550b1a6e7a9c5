//! The files, devices and exports of a trial: admitted, laid out, recorded and removed.

mod admitted;
pub(crate) mod exports;
pub(crate) mod layout;
pub(crate) mod operations;
pub(crate) mod requirements;
pub(crate) mod shared_files;
pub(crate) mod shares;
pub(crate) mod verify_records;

pub(crate) use admitted::{Files, Opening, TrialFile, guard, raise_descriptors, room_needed};
