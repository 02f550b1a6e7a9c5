//! The environment of a trial: kernel, CPUs, memory, virtualisation, clock and the storage stack of the
//! targets.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use iodyno_model::{Cpu, Environment, Governor, MemoryInfo, TargetInfo, number_list};

use crate::roots::{Roots, names, text};
use crate::{control_group, stack};

/// Reads the environment. `version` is iodyno's version; `paths` are the files, folders and devices in use, see
/// [`targets`]. Unknown values are empty.
pub fn read(roots: &Roots, version: &str, paths: &[PathBuf]) -> Environment {
    let kernel = |name: &str| text(roots.proc.join("sys/kernel").join(name)).unwrap_or_default();
    let start = Instant::now();
    Environment {
        iodyno: version.to_owned(),
        host: kernel("hostname"),
        kernel: kernel("osrelease"),
        kernel_build: kernel("version"),
        system: system(roots),
        boot_id: kernel("random/boot_id"),
        cpu: cpu(roots),
        memory: memory(roots),
        virtualisation: virtualisation(roots, hypervisor().as_deref()),
        clock_source: text(
            roots
                .sys
                .join("devices/system/clocksource/clocksource0/current_clocksource"),
        )
        .unwrap_or_default(),
        clock_read_ns: clock_read_ns(|| start.elapsed().as_nanos() as u64),
        load_1min_x100: text(roots.proc.join("loadavg")).map_or(0, |text| load(&text)),
        targets: targets(roots, paths),
        made: None,
    }
}

/// The targets of these files, folders and devices, with what is below them. Files of one folder are one target.
pub fn targets(roots: &Roots, paths: &[PathBuf]) -> Vec<TargetInfo> {
    let shares: BTreeSet<PathBuf> = paths.iter().map(|path| stack::share(path)).collect();
    let shares = shares.iter();
    shares.map(|path| stack::describe(path, roots)).collect()
}

fn system(roots: &Roots) -> String {
    ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|name| text(roots.root.join(name)))
        .map(|text| pretty_name(&text))
        .unwrap_or_default()
}

/// PRETTY_NAME of os-release(5).
fn pretty_name(text: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim().trim_matches(['"', '\'']).to_owned())
        .unwrap_or_default()
}

fn cpu(roots: &Roots) -> Cpu {
    let info = text(roots.proc.join("cpuinfo")).unwrap_or_default();
    let system = roots.sys.join("devices/system");
    let listed = |name: &str| Some(number_list(&text(system.join(name))?)?.len() as u32);
    Cpu {
        model: cpu_model(&info),
        logical: listed("cpu/online").unwrap_or_else(|| {
            let processors = info.lines().filter(|line| line.starts_with("processor"));
            processors.count() as u32
        }),
        nodes: listed("node/online").unwrap_or(1),
        governor: governor(&system.join("cpu")),
    }
}

/// x86 and most others have `model name`, ARM boards `Hardware`, POWER `cpu`. ARM servers have only the
/// numbers of the implementer and the part.
fn cpu_model(info: &str) -> String {
    let field = |name: &str| {
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    ["model name", "Hardware", "cpu", "uarch", "isa"]
        .iter()
        .find_map(|name| field(name))
        .or_else(|| {
            let (maker, part) = (field("CPU implementer")?, field("CPU part")?);
            Some(format!("implementer {maker} part {part}"))
        })
        .unwrap_or_default()
}

fn governor(cpus: &Path) -> Governor {
    let governors: BTreeSet<String> = names(cpus)
        .iter()
        .filter(|name| {
            name.strip_prefix("cpu")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .filter_map(|name| text(cpus.join(name).join("cpufreq/scaling_governor")))
        .collect();
    let flag = |name: &str| text(cpus.join(name)).map(|flag| flag == "1");
    Governor {
        name: governors.into_iter().collect::<Vec<_>>().join(","),
        boost: flag("cpufreq/boost").or_else(|| flag("intel_pstate/no_turbo").map(|off| !off)),
    }
}

fn memory(roots: &Roots) -> MemoryInfo {
    let info = text(roots.proc.join("meminfo")).map_or_else(MemoryInfo::default, |t| meminfo(&t));
    MemoryInfo {
        limit: control_group::memory_limit(roots, info.total),
        ..info
    }
}

/// A value of /proc/meminfo, bytes; `None`: it is missing.
pub fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Parses /proc/meminfo.
pub(crate) fn meminfo(text: &str) -> MemoryInfo {
    let bytes = |name| meminfo_bytes(text, name).unwrap_or(0);
    MemoryInfo {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable"),
        swap_used: bytes("SwapTotal").saturating_sub(bytes("SwapFree")),
        limit: None,
    }
}

/// The first value of /proc/loadavg × 100.
fn load(text: &str) -> u32 {
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse::<f64>().map_or(0, |load| {
        (load * 100.0).round().clamp(0.0, f64::from(u32::MAX)) as u32
    })
}

/// The common name of the hypervisor that CPUID reports.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    use raw_cpuid::{CpuId, Hypervisor};
    let info = CpuId::new().get_hypervisor_info()?;
    Some(match info.identify() {
        Hypervisor::KVM => "kvm".to_owned(),
        Hypervisor::Xen => "xen".to_owned(),
        Hypervisor::VMware => "vmware".to_owned(),
        Hypervisor::HyperV => "hyperv".to_owned(),
        Hypervisor::QEMU => "qemu".to_owned(),
        Hypervisor::Bhyve => "bhyve".to_owned(),
        Hypervisor::QNX => "qnx".to_owned(),
        Hypervisor::ACRN => "acrn".to_owned(),
        Hypervisor::Unknown(..) => "unknown hypervisor".to_owned(),
    })
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn hypervisor() -> Option<String> {
    None
}

/// Names of containers and virtual machines, innermost first.
fn virtualisation(roots: &Roots, hypervisor: Option<&str>) -> String {
    let machine = hypervisor.map(str::to_owned).or_else(|| machine(roots));
    [container(roots), machine]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

fn machine(roots: &Roots) -> Option<String> {
    if let Some(kind) = text(roots.sys.join("hypervisor/type")) {
        return Some(kind);
    }
    let vendor: String = ["sys_vendor", "product_name", "bios_vendor", "board_vendor"]
        .iter()
        .filter_map(|name| text(roots.sys.join("class/dmi/id").join(name)))
        .chain(text(roots.proc.join("device-tree/hypervisor/compatible")))
        .collect::<Vec<_>>()
        .join("\n");
    let known = [
        ("KVM", "kvm"),
        ("linux,kvm", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("innotek", "virtualbox"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("Amazon EC2", "amazon"),
        ("Google Compute Engine", "google"),
        ("Hyper-V", "hyperv"),
        ("Apple Virtualization", "apple"),
    ];
    let named = known.iter().find(|(mark, _)| vendor.contains(mark));
    let flagged = text(roots.proc.join("cpuinfo")).is_some_and(|info| {
        info.lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
    });
    match named {
        Some((_, name)) => Some((*name).to_owned()),
        None => flagged.then(|| "unknown hypervisor".to_owned()),
    }
}

fn container(roots: &Roots) -> Option<String> {
    if let Some(kind) = text(roots.root.join("run/systemd/container")).filter(|k| !k.is_empty()) {
        return Some(kind);
    }
    if roots.root.join("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if roots.root.join(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    let environment = text(roots.proc.join("1/environ")).unwrap_or_default();
    environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("container="))
        .filter(|kind| !kind.is_empty())
        .map(str::to_owned)
}

/// Median cost of reading the monotonic clock, ns: the median difference between consecutive readings.
fn clock_read_ns(mut clock: impl FnMut() -> u64) -> u64 {
    const READINGS: usize = 2001;
    let readings: Vec<u64> = (0..READINGS).map(|_| black_box(clock())).collect();
    let mut costs: Vec<u64> = readings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

#[cfg(test)]
mod tests;
