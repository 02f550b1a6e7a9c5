//! The samplers, one per file.

mod arc;
mod background;
mod block;
mod cgroup;
mod cpu;
mod disk;
mod interrupts;
mod load;
mod memory;
mod mirror;
mod network;
mod others;
mod pool;
mod pool_child;
mod pool_devices;
mod pool_text;
mod pressure;
mod process;
mod process_tree;
mod processes;
mod reclaim;
mod requests;

use iodyno_host::Roots;

pub use block::may_trace_block;
pub use pool_text::{PoolReport, PoolRow, pool_reports};

use crate::sampler::Sampler;
use crate::scope::{Devices, Pools, Scope};

/// All samplers of the scope. If the host lacks the source of one, its reading fails, which becomes a gap. Samplers
/// of optional systems, such as ZFS, are not opened on hosts without them.
pub(crate) fn open(roots: &Roots, scope: &Scope) -> Vec<Box<dyn Sampler>> {
    let page_size = rustix::param::page_size() as u64;
    let mut all: Vec<Box<dyn Sampler>> = Vec::new();
    let pool_devices = pool_devices::PoolDevices::new(roots);
    all.push(Box::new(cpu::Cpu::open(roots)));
    all.push(Box::new(interrupts::Interrupts::open(
        roots,
        &scope.devices,
    )));
    all.push(Box::new(load::Load::open(roots)));
    let none =
        scope.devices == Devices::Named(Vec::new()) && scope.pools == Pools::Named(Vec::new());
    if !none {
        let disk = disk::Disk::open(roots, &scope.devices, &pool_devices);
        all.push(Box::new(disk));
    }
    if scope.block_trace {
        all.extend(block::Block::open(roots, &scope.devices).map(boxed));
    }
    all.push(Box::new(pressure::Pressure::open(roots)));
    all.push(Box::new(memory::Memory::open(roots, page_size)));
    all.push(Box::new(reclaim::Reclaim::open(roots, page_size)));
    all.push(Box::new(network::Network::open(roots)));
    all.extend(pool::Pool::open(roots, scope, &pool_devices).map(boxed));
    all.extend(arc::Arc::open(roots, scope));
    all.extend(cgroup::Cgroup::open(roots, &scope.devices).map(boxed));
    let named = process::Process::open(roots, scope, page_size);
    all.extend(named.map(boxed));
    all.extend(requests::open(scope));
    let meter = others::HostMeter;
    all.push(Box::new(others::Others::open(meter, roots, scope)));
    all
}

fn boxed(sampler: impl Sampler + 'static) -> Box<dyn Sampler> {
    Box::new(sampler)
}
