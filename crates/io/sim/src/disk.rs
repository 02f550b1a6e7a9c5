//! The disks that a mirror can consist of.

use iodyno_model::{SimDisk, SimDiskKind};
use iodyno_sys::{Device, DeviceEnd, Op, Slot};

use crate::slow_period::SlowPeriod;
use crate::{Flash, FlashSettings, Hdd, HddSettings};

/// The kind of a disk and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum DiskSettings {
    /// A rotating disk.
    Hdd(HddSettings),
    /// A solid-state disk.
    Flash(FlashSettings),
}

impl DiskSettings {
    /// The same disk, slower or faster: all times are multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> DiskSettings {
        match self {
            DiskSettings::Hdd(settings) => DiskSettings::Hdd(settings.scaled(factor)),
            DiskSettings::Flash(settings) => DiskSettings::Flash(settings.scaled(factor)),
        }
    }
}

/// A simulated disk.
#[derive(Debug, Clone)]
pub enum Disk {
    /// A rotating disk.
    Hdd(Hdd),
    /// A solid-state disk.
    Flash(Flash),
}

impl Disk {
    /// Creates a disk. The seed determines the angle of a rotating disk at time 0.
    pub fn new(settings: &DiskSettings, slowing: &[SlowPeriod], seed: u64) -> Disk {
        match settings {
            DiskSettings::Hdd(settings) => Disk::Hdd(Hdd::new(settings, slowing, seed)),
            DiskSettings::Flash(settings) => Disk::Flash(Flash::new(settings, slowing)),
        }
    }

    /// The disk of a simulated target. The seed determines the angle of a rotating disk at time 0.
    pub fn of(disk: &SimDisk, seed: u64) -> Disk {
        let settings = match disk.kind {
            SimDiskKind::Hdd => DiskSettings::Hdd(HddSettings::default()),
            SimDiskKind::Flash => DiskSettings::Flash(FlashSettings::default()),
        };
        Disk::new(&settings.scaled(disk.factor), &[], seed)
    }

    /// Whether its medium rotates.
    pub fn rotational(&self) -> bool {
        matches!(self, Disk::Hdd(_))
    }

    fn device(&self) -> &dyn Device {
        match self {
            Disk::Hdd(disk) => disk,
            Disk::Flash(disk) => disk,
        }
    }

    fn device_mut(&mut self) -> &mut dyn Device {
        match self {
            Disk::Hdd(disk) => disk,
            Disk::Flash(disk) => disk,
        }
    }
}

impl Device for Disk {
    fn describe(&self) -> String {
        self.device().describe()
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        self.device_mut().submit(now, slot, op);
    }

    fn next_end(&self) -> Option<u64> {
        self.device().next_end()
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        self.device_mut().take_ended(now)
    }

    fn cancel_all(&mut self, now: u64) {
        self.device_mut().cancel_all(now);
    }
}
