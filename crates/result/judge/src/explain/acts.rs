//! What a fact or a series can act on: parts of the time of an op, as bits.

use iodyno_model::TimePart;

/// A set of the following.
pub(super) type Acts = u16;

/// The number of ops in flight.
pub(super) const FLIGHT: Acts = 1;
/// Requests at the device and in its queue.
pub(super) const DEVICE: Acts = 2;
/// The layers above the lowest device.
pub(super) const LAYERS: Acts = 4;
/// The server under test.
pub(super) const SERVER: Acts = 8;
/// CPU time of the worker.
pub(super) const CPU: Acts = 16;
/// Waits for a CPU.
pub(super) const WAIT: Acts = 32;
/// Waits above the device.
pub(super) const ABOVE: Acts = 64;
/// Syncs.
pub(super) const SYNC: Acts = 128;
/// Waits for storage.
pub(super) const STORAGE: Acts = DEVICE | LAYERS | ABOVE | SYNC;
/// Everything that takes time.
pub(super) const TIME: Acts = DEVICE | LAYERS | SERVER | CPU | WAIT | ABOVE | SYNC;

/// What changes a part. Without counters of the devices, their time is in the rest.
pub(super) fn changed_by(part: TimePart) -> Acts {
    match part {
        TimePart::Device | TimePart::Queue | TimePart::Requests(_) => DEVICE,
        TimePart::Layers => LAYERS,
        TimePart::Server => SERVER,
        TimePart::OutsideServer => SERVER | ABOVE | CPU | WAIT,
        TimePart::KernelCpu | TimePart::UserCpu => CPU,
        TimePart::CpuWait => WAIT,
        TimePart::Unknown | TimePart::Asleep => ABOVE,
        TimePart::AsleepOrDevice => ABOVE | DEVICE | LAYERS,
        // The CPU time of the worker is not known for each op.
        TimePart::Above => ABOVE | CPU | WAIT,
        TimePart::DeviceAndAbove => ABOVE | CPU | WAIT | DEVICE | LAYERS,
        TimePart::SyncDevice => SYNC | DEVICE,
        TimePart::SyncAbove => SYNC | ABOVE | CPU | WAIT,
        TimePart::Syncs => SYNC | ABOVE | CPU | WAIT | DEVICE | LAYERS,
        TimePart::Step(_) => TIME,
    }
}
