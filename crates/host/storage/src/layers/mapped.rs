//! Devices that the kernel makes of other devices: arrays of md, and devices of the device mapper.
//!
//! Invariants: the kernel's name of each contains the token. A device that fails on purpose begins to do so when the
//! target is complete, and no longer does when it is undone.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::guest::ModuleTree;
use iodyno_host::block::Block;
use iodyno_host::{Roots, names, text};
use iodyno_model::{Diagnostic, DmTarget, Layer, MdLayer, MdLevel};
use iodyno_units::{Bytes, Nanos};

use super::action::Action;
use super::host::{number_of, word};
use super::host_ops::HostOps;
use super::making::{COMMAND, MAKE, Making, PAUSE, Storage};

/// The unit of nbdkit's delays, ns.
pub(super) const DELAY_UNIT_NS: u64 = 1_000_000;
/// The unit of the times of a flakey device, ns.
const FLAKEY_UNIT_NS: u64 = 1_000_000_000;
/// The unit of lengths in a table of the device mapper, bytes.
const SECTOR: u64 = 512;
/// The longest name of a block device, bytes: `DISK_NAME_LEN` of the kernel without the final zero.
const MAX_NAME_LEN: usize = 31;
/// What mdadm's configuration has to say: the array's device gets its name instead of a number.
pub(super) const MDADM_SETTINGS: &str = "CREATE names=yes\n";

/// The name of an array, for the tools.
fn array_name(token: &str, layer: &str) -> String {
    format!("iodyno-{token}-{layer}")
}

/// The name of the mapped device `index` of a layer, for the tools.
fn mapped_name(token: &str, layer: &str, index: usize) -> String {
    format!("iodyno-{token}-{layer}-{index}")
}

/// The kernel's name of an array.
pub(super) fn array_device(name: &str) -> String {
    format!("md_{name}")
}

/// The kernel's name of the mapped device with this name, such as `dm-3`.
pub(super) fn mapped_device(roots: &Roots, name: &str) -> Option<String> {
    let folder = roots.sys.join("block");
    let mut devices = names(&folder).into_iter();
    devices.find(|device| text(folder.join(device).join("dm/name")).as_deref() == Some(name))
}

/// Settings of a layer that the kernel does not have.
pub(super) fn faults(layer: &Layer, token: &str) -> Vec<Diagnostic> {
    let whole = |what: &'static str, ns: u64, unit_ns: u64, units: &str| {
        (!ns.is_multiple_of(unit_ns)).then(|| {
            let message = format!("`dm.{what}` cannot be {}", Nanos(ns));
            let hint = format!("use whole {units}: the device mapper has no others");
            Diagnostic::error(message).hint(hint)
        })
    };
    match layer {
        Layer::Md(_) => {
            let name = array_device(&array_name(token, "99"));
            let fault = (name.len() > MAX_NAME_LEN).then(|| {
                let message = format!("`{token}` is too long for the name of an array");
                Diagnostic::error(message)
            });
            fault.into_iter().collect()
        }
        Layer::Dm(DmTarget::Delay {
            read_ns,
            write_ns,
            flush_ns,
        }) => {
            let spans = [("read", read_ns), ("write", write_ns), ("flush", flush_ns)];
            let spans = spans.into_iter();
            spans
                .filter_map(|(what, ns)| whole(what, *ns, DELAY_UNIT_NS, "milliseconds"))
                .collect()
        }
        Layer::Dm(DmTarget::Flakey { up_ns, down_ns, .. }) => {
            let spans = [("up", up_ns), ("down", down_ns)].into_iter();
            let mut faults: Vec<Diagnostic> = spans
                .filter_map(|(what, ns)| whole(what, *ns, FLAKEY_UNIT_NS, "seconds"))
                .collect();
            if up_ns + down_ns == 0 {
                let message = "`dm.up` and `dm.down` are both 0";
                faults.push(Diagnostic::error(message).hint("set one of them to `\"1s\"` or more"));
            }
            faults
        }
        _ => Vec::new(),
    }
}

/// What the kernel lacks for a layer: it neither has it nor can load it.
pub(super) fn lacking(ops: &mut HostOps<'_>, layer: &Layer) -> Option<Diagnostic> {
    let roots = ops.host.roots().clone();
    let (what, module) = match layer {
        Layer::Md(md) => {
            let level = md.level.name();
            let has = text(roots.proc.join("mdstat"))?.contains(&format!("[{level}]"));
            (!has).then(|| (format!("md has no `{level}`"), level))?
        }
        Layer::Dm(target) => {
            let name = target.name();
            let listed = ops.run(&["dmsetup", "targets"], COMMAND).ok()?;
            let mut lines = listed.lines();
            let has = lines.any(|line| line.split_whitespace().next() == Some(name));
            let message = format!("the device mapper has no target `{name}`");
            (!has).then(|| (message, target.module()))?
        }
        _ => return None,
    };
    let release = text(roots.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let folder = roots.root.join("lib/modules").join(&release);
    let tree = ModuleTree::read(&folder).and_then(|tree| tree.load_order(&[module]));
    tree.is_err().then(|| {
        let message = format!("{what}, and the kernel {release} has no module `{module}`");
        Diagnostic::error(message).hint("use another kernel, or put the layer above `vm`")
    })
}

impl Making<'_> {
    /// Makes an array of all devices below, and waits until its members are equal.
    pub(super) fn md(
        &mut self,
        layer: &str,
        md: &MdLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let name = array_name(&self.request.token, layer);
        let folder = self.mount_point(layer)?;
        let members = below.words()?;
        let mut arguments = vec![
            "--run".to_owned(),
            "--metadata=1.2".to_owned(),
            format!("--level={}", md.level.name()),
            format!("--raid-devices={}", members.len()),
            format!("--bitmap={}", if md.bitmap { "internal" } else { "none" }),
        ];
        arguments.extend(md.layout.as_ref().map(|it| format!("--layout={it}")));
        arguments.extend(md.chunk.map(|bytes| format!("--chunk={}K", bytes >> 10)));
        arguments.extend(md.assume_clean.then(|| "--assume-clean".to_owned()));
        self.step(Action::Array {
            name: name.clone(),
            settings: folder.join("mdadm.conf"),
            arguments,
            members: members.clone(),
        })?;
        let roots = self.ops.host.roots().clone();
        let device = array_device(&name);
        let path = roots.dev.join(&device);
        self.await_path(&path)?;
        let state = roots.sys.join("block").join(&device).join("md");
        self.await_equal_members(&state)?;
        let shown = |name: &str| text(state.join(name));
        let mut facts = vec![
            ("members", members.len().to_string()),
            (
                "members_equal",
                match md.assume_clean {
                    true => "assumed".to_owned(),
                    false => "synchronised before the trials".to_owned(),
                },
            ),
        ];
        let readable = [
            ("level", "level"),
            ("metadata", "metadata_version"),
            ("bitmap", "bitmap/location"),
            ("last_sync", "last_sync_action"),
            ("sync_speed_min", "sync_speed_min"),
            ("sync_speed_max", "sync_speed_max"),
        ];
        for (fact, file) in readable {
            facts.extend(shown(file).map(|value| (fact, value)));
        }
        if md.level == MdLevel::Raid10 {
            let chunk = shown("chunk_size").and_then(|bytes| bytes.parse().ok());
            facts.extend(chunk.map(|bytes: u64| ("chunk", Bytes(bytes).to_string())));
        }
        let device = word(&path)?;
        let detail = self.ops.run(&["mdadm", "--detail", &device], COMMAND);
        facts.extend(detail.ok().map(|text| ("detail", text)));
        self.add_facts("md", facts);
        Ok(Storage::Devices(vec![path]))
    }

    /// Waits until the members of an array are equal: its synchronisation would be part of the trials.
    fn await_equal_members(&mut self, state: &Path) -> Result<(), Diagnostic> {
        let remaining = || text(state.join("resync_start")).unwrap_or_default();
        if remaining() != "none" {
            (self.ops.progress)("synchronisation of the array");
        }
        let (mut known, mut since) = (String::new(), Instant::now());
        while remaining() != "none" {
            let progress = text(state.join("sync_completed")).unwrap_or_default();
            if progress != known {
                (known, since) = (progress, Instant::now());
            }
            if since.elapsed() > MAKE {
                let action = text(state.join("sync_action")).unwrap_or_default();
                let message = format!(
                    "the array is not synchronised, and made no progress within {} s (`{action}`, {known})",
                    MAKE.as_secs()
                );
                let hint = "raise `dev.raid.speed_limit_max`, or set `md.assume_clean`";
                return Err(Diagnostic::error(message).hint(hint));
            }
            if (self.ops.stop)() {
                return Err(Diagnostic::error("stopped while the target was made"));
            }
            self.ops.host.sleep(PAUSE);
        }
        match text(state.join("degraded")).as_deref() {
            Some("0") | None => Ok(()),
            Some(missing) => Err(Diagnostic::error(format!(
                "the array lacks {missing} of its members: the kernel's log has the reason"
            ))),
        }
    }

    /// Makes a mapped device on each device below, or on each two.
    pub(super) fn dm(
        &mut self,
        layer: &str,
        target: &DmTarget,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let roots = self.ops.host.roots().clone();
        let mut made = Vec::new();
        for (index, devices) in below.paths().chunks(target.consumes() as usize).enumerate() {
            let name = mapped_name(&self.request.token, layer, index);
            let sectors = block(&roots, &devices[0])?.length() / SECTOR;
            let numbers = devices.iter();
            let numbers = numbers.map(|device| number_of(self.ops.host, device));
            let numbers: Vec<String> = numbers.collect::<Result<_, _>>()?;
            let first = word(&devices[0])?;
            let own = numbers.first().map_or("", String::as_str);
            let plain = format!("0 {sectors} linear {own} 0");
            let table = table(target, sectors, &numbers);
            let command = match target {
                DmTarget::Crypt {
                    cipher,
                    key_bits,
                    sector,
                } => encryption(cipher, *key_bits, *sector, &first, &name),
                // File systems are made on it while it works.
                DmTarget::Flakey { .. } => create(&name, &plain),
                _ => create(&name, &table),
            };
            let flakey = matches!(target, DmTarget::Flakey { .. });
            let device = self.step(Action::Mapped {
                name: name.clone(),
                command,
                calm: flakey.then(|| plain.clone()),
            })?;
            let path = PathBuf::from(device);
            self.await_path(&path)?;
            let shown = match flakey {
                true => {
                    self.flakey.push((name, table.clone()));
                    Some(table)
                }
                // Without the key.
                false => self.ops.run(&["dmsetup", "table", &name], COMMAND).ok(),
            };
            self.add_facts("dm", shown.map(|it| ("table", it)).into_iter().collect());
            made.push(path);
        }
        Ok(Storage::Devices(made))
    }

    /// Lets the flakey devices begin to fail, now that everything on them is made.
    pub(super) fn begin_failures(&mut self) -> Result<(), Diagnostic> {
        for (name, table) in std::mem::take(&mut self.flakey) {
            self.run(&["dmsetup", "load", &name, "--table", &table])?;
            self.run(&["dmsetup", "resume", &name])?;
        }
        Ok(())
    }
}

/// The block device of a path.
///
/// # Errors
/// The kernel does not know it.
pub(super) fn block(roots: &Roots, device: &Path) -> Result<Block, Diagnostic> {
    let path = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    Block::named(roots, &file).map_err(|error| {
        Diagnostic::error(format!(
            "the kernel knows no device `{}`: {error}",
            device.display()
        ))
    })
}

fn create(name: &str, table: &str) -> Vec<String> {
    ["dmsetup", "create", name, "--table", table]
        .map(str::to_owned)
        .into()
}

/// The key is read from the kernel's random numbers, so that no command and no file contains it.
fn encryption(
    cipher: &str,
    key_bits: u32,
    sector: Option<u32>,
    device: &str,
    name: &str,
) -> Vec<String> {
    let mut words: Vec<String> = ["cryptsetup", "open", "--type", "plain", "--batch-mode"]
        .map(str::to_owned)
        .into();
    words.extend([
        format!("--cipher={cipher}"),
        format!("--key-size={key_bits}"),
        "--key-file=/dev/urandom".to_owned(),
    ]);
    words.extend(sector.map(|bytes| format!("--sector-size={bytes}")));
    words.extend([device.to_owned(), name.to_owned()]);
    words
}

/// The line of a table for these devices, as in the kernel's documentation of each target
/// (`Documentation/admin-guide/device-mapper`).
fn table(target: &DmTarget, sectors: u64, devices: &[String]) -> String {
    let device = devices.first().map_or("", String::as_str);
    let rest = match target {
        // cryptsetup writes that of encryption.
        DmTarget::Linear | DmTarget::Crypt { .. } => format!("linear {device} 0"),
        DmTarget::Delay {
            read_ns,
            write_ns,
            flush_ns,
        } => {
            let [read, write, flush] = [read_ns, write_ns, flush_ns].map(|ns| ns / DELAY_UNIT_NS);
            format!("delay {device} 0 {read} {device} 0 {write} {device} 0 {flush}")
        }
        DmTarget::Flakey {
            up_ns,
            down_ns,
            fault,
        } => {
            let [up, down] = [up_ns, down_ns].map(|ns| ns / FLAKEY_UNIT_NS);
            format!("flakey {device} 0 {up} {down} {}", fault.features())
        }
        DmTarget::LogWrites => {
            let log = devices.get(1).map_or("", String::as_str);
            format!("log-writes {device} {log}")
        }
    };
    format!("0 {sectors} {rest}")
}

#[cfg(test)]
mod tests {
    use iodyno_model::FlakeyFault;

    use super::*;

    #[test]
    fn tables_are_those_of_the_kernels_documentation() {
        let devices = ["7:1", "7:2"].map(str::to_owned);
        let check = |target: DmTarget, expected: &str| {
            assert_eq!(table(&target, 2048, &devices), expected);
        };
        check(DmTarget::Linear, "0 2048 linear 7:1 0");
        let delay = DmTarget::Delay {
            read_ns: 2_000_000,
            write_ns: 0,
            flush_ns: 5_000_000,
        };
        check(delay, "0 2048 delay 7:1 0 2 7:1 0 0 7:1 0 5");
        let flakey = |fault| DmTarget::Flakey {
            up_ns: 30 * FLAKEY_UNIT_NS,
            down_ns: FLAKEY_UNIT_NS,
            fault,
        };
        check(flakey(FlakeyFault::Errors), "0 2048 flakey 7:1 0 30 1 0");
        check(
            flakey(FlakeyFault::DropWrites),
            "0 2048 flakey 7:1 0 30 1 1 drop_writes",
        );
        check(DmTarget::LogWrites, "0 2048 log-writes 7:1 7:2");
    }

    #[test]
    fn a_key_of_encryption_is_in_no_command() {
        let words = encryption("aes-xts-plain64", 512, Some(4096), "/dev/loop1", "x");
        assert_eq!(
            words.join(" "),
            "cryptsetup open --type plain --batch-mode --cipher=aes-xts-plain64 --key-size=512 \
             --key-file=/dev/urandom --sector-size=4096 /dev/loop1 x"
        );
    }
}
