//! A layer with its options: what the table of keys does not say of them.

use std::path::Path;

use iodyno_mirror::shared::MAX_QUEUES;
use iodyno_model::{
    DiskInterface, DmTarget, FolderServer, Layer, Limits, MdLayer, MdLevel, MirrorLayer, VmLayer,
    server_command_fault,
};
use iodyno_units::Bytes;
use serde_json::{Value, json};

use super::wanted::{Wanted, layout};
use crate::check::{Keyed, ONE_FOR_EACH};
use crate::document::Report;

/// Queues of a real mirror; its own thread has another one.
const REAL_QUEUES: u32 = MAX_QUEUES as u32 - 1;
/// The largest sector of a loop device, bytes.
const SECTOR: u64 = 4096;

/// A layer that is made. `folder`: the start of relative paths; `wanted`: what the layers above need. Faults are
/// reported; a faulty key has its default, or any value.
pub(super) fn layer(
    kind: &str,
    keyed: &Keyed<'_>,
    folder: &Path,
    wanted: Wanted,
    report: &mut Report<'_>,
) -> Layer {
    let mut stored = keyed.stored(folder, report);
    stored["kind"] = json!(kind);
    let mut usual: Vec<(&str, Value)> = Vec::new();
    match kind {
        "file" | "zram" => {
            usual.push(("size", size(kind, keyed, report)));
            usual.push(("count", count(kind, keyed, wanted, report)));
        }
        "tmpfs" => usual.push(("size", size(kind, keyed, report))),
        "ext4" | "xfs" | "btrfs" => {
            stored["fs"] = stored["kind"].take();
            stored["kind"] = json!("file_system");
        }
        "zfs" => {
            stored["layout"] = json!(layout(keyed, report));
            if !gives_folder(keyed, report) {
                usual.push(("count", count(kind, keyed, wanted, report)));
            }
        }
        "delay" => stored["disks"] = stored["disk"].take(),
        "dm" => {
            usual.push(("flush_ns", stored["write_ns"].clone()));
            usual.extend([("up_ns", json!(0)), ("down_ns", json!(0))]);
        }
        "virtiofs" | "fuse" => stored["command"] = stored["server"].take(),
        "vm" => {
            stored["disks"] = match stored["disk"].take() {
                Value::Null => json!([]),
                disk => json!([disk]),
            };
            let (cpus, numa) = (stored["host_cpus"].take(), stored["host_numa"].take());
            stored["pinning"] = json!({ "cpus": cpus, "numa": numa });
        }
        _ => {}
    }
    for (name, value) in usual {
        if stored[name].is_null() {
            stored[name] = value;
        }
    }
    let mut layer =
        serde_json::from_value(stored).expect("the keys of a layer are those of its type");
    check(&mut layer, keyed, report);
    layer
}

/// A size in place of a missing one, which is reported.
fn size(kind: &str, keyed: &Keyed<'_>, report: &mut Report<'_>) -> Value {
    if keyed.lacks("size", report) {
        let hint = format!("add `{kind}.size = \"4GiB\"`");
        report.error(keyed.whole(), format!("`{kind}` lacks `size`"), hint);
    }
    json!(1)
}

/// The number of files or devices that the layers above need, if none is given. One that they cannot use is reported.
fn count(kind: &str, keyed: &Keyed<'_>, wanted: Wanted, report: &mut Report<'_>) -> Value {
    let count = keyed.count("count", report);
    if let Some((message, hint)) = count.and_then(|count| wanted.misfit(kind, count as u32)) {
        keyed.refuse("count", message, hint, report);
    }
    json!(wanted.usual())
}

/// Completes a layer, and reports options that do not go together.
fn check(layer: &mut Layer, keyed: &Keyed<'_>, report: &mut Report<'_>) {
    match layer {
        // Of whole sectors: a loop device lacks the rest.
        Layer::File { size, .. } => *size = size.next_multiple_of(SECTOR),
        Layer::FileSystem { mount, .. } => {
            let options = mount.iter().flat_map(|text| text.split(','));
            *mount = options.map(str::to_owned).collect();
        }
        Layer::Throttle(limits) if *limits == Limits::default() => {
            let hint = "add `throttle.read_bandwidth = \"100MiB\"` or another limit";
            report.error(keyed.whole(), "`throttle` has no limit", hint);
        }
        Layer::Delay { .. } if keyed.at("disk").is_some() => {
            for key in ["read", "write"] {
                let message = format!("`delay.{key}` has no effect with `delay.disk`");
                keyed.refuse(key, message, "leave one of them out", report);
            }
        }
        Layer::Zfs(_) => check_zfs(keyed, report),
        Layer::Md(md) => check_md(md, keyed, report),
        Layer::Dm(target) => check_dm(target, keyed, report),
        Layer::Mirror(mirror) => check_mirror(mirror, keyed, report),
        Layer::Virtiofs(_) => {
            let names = ["{folder}", "{socket}"];
            check_command(keyed, "server", names, FolderServer::VIRTIOFS, report);
        }
        Layer::Fuse(_) => {
            let names = ["{folder}", "{mount}"];
            check_command(keyed, "server", names, FolderServer::FUSE, report);
        }
        Layer::Vm(vm) => check_vm(vm, keyed, report),
        _ => {}
    }
}

/// Whether a pool gives the folder of a dataset, and neither volumes nor copies.
fn gives_folder(keyed: &Keyed<'_>, report: &mut Report<'_>) -> bool {
    keyed.value("volume").is_none() && keyed.word("origin", report) != Some("copy")
}

fn check_zfs(keyed: &Keyed<'_>, report: &mut Report<'_>) {
    if gives_folder(keyed, report) {
        let message = "`zfs.count` has no effect: there is one dataset";
        let hint = "leave it out, or add `zfs.volume = \"4GiB\"`";
        keyed.refuse("count", message, hint, report);
    }
    let (what, foreign): (&str, &[&str]) = match keyed.value("volume") {
        Some(_) => ("a volume", &["recordsize", "atime", "xattr"]),
        None => ("a dataset", &["volblocksize"]),
    };
    for name in foreign {
        let message = format!("`zfs.{name}` has no effect: {what} does not have this property");
        let hint = "leave it out; an axis of tables can set it together with `volume`";
        keyed.refuse(name, message, hint, report);
    }
}

fn check_md(md: &MdLayer, keyed: &Keyed<'_>, report: &mut Report<'_>) {
    if md.level == MdLevel::Raid1 {
        for name in ["layout", "chunk"] {
            let message = format!("`md.{name}` has no effect with `raid1`");
            let hint = "leave it out, or set `md.level` to `raid10`";
            keyed.refuse(name, message, hint, report);
        }
    }
    let valid = |layout: &str| {
        let (kind, copies) = layout.split_at_checked(1).unwrap_or_default();
        ["n", "f", "o"].contains(&kind) && copies.parse().is_ok_and(|n: u8| n > 0)
    };
    if let Some(layout) = keyed.text("layout", report).filter(|it| !valid(&it.value)) {
        let message = format!("`md.layout` cannot be {:?}", layout.value);
        let hint = "write `n2` (near), `f2` (far) or `o2` (offset), with the number of copies";
        report.error(layout.at, message, hint);
    }
    if let Some(bytes) = md.chunk.filter(|bytes| !bytes.is_power_of_two()) {
        let message = format!("`md.chunk` cannot be {}", Bytes(bytes));
        let hint = "use a power of two, such as `\"512KiB\"`";
        keyed.refuse("chunk", message, hint, report);
    }
}

/// The keys of `dm` that belong to one of its targets.
const OF_DM_TARGETS: [(&str, [&str; 3]); 3] = [
    ("delay", ["read", "write", "flush"]),
    ("flakey", ["up", "down", "fault"]),
    ("crypt", ["cipher", "key_bits", "sector"]),
];

fn check_dm(target: &DmTarget, keyed: &Keyed<'_>, report: &mut Report<'_>) {
    let name = target.name();
    for (owner, keys) in OF_DM_TARGETS.iter().filter(|(owner, _)| *owner != name) {
        for key in keys {
            let message = format!("`dm.{key}` has no effect with the target `{name}`");
            let hint = format!("leave it out, or set `dm.target` to `{owner}`");
            keyed.refuse(key, message, hint, report);
        }
    }
    match target {
        DmTarget::Delay {
            read_ns: 0,
            write_ns: 0,
            flush_ns: 0,
        } if !keyed.has_unknown() => {
            let message = "`dm.target = \"delay\"` delays nothing";
            let hint = "add `dm.read = \"2ms\"` or `dm.write`, or use `linear`";
            report.error(keyed.whole(), message, hint);
        }
        DmTarget::Flakey { .. } if ["up", "down"].iter().any(|it| keyed.lacks(it, report)) => {
            let message = "`dm.target = \"flakey\"` lacks `dm.up` or `dm.down`";
            let hint = "add `dm.up = \"30s\"` and `dm.down = \"5s\"`";
            report.error(keyed.whole(), message, hint);
        }
        DmTarget::Crypt {
            cipher, key_bits, ..
        } => {
            let at = keyed.at("key_bits").or_else(|| keyed.at("cipher"));
            if let (Some(at), Some(lengths)) = (at, wrong_key(cipher, *key_bits)) {
                let message = format!("`{cipher}` has no keys of {key_bits} bits");
                report.error(at, message, format!("set `dm.key_bits` to {lengths}"));
            }
        }
        _ => {}
    }
}

/// The lengths of keys that a cipher has, if this one is not among them. Of ciphers other than AES, only that it is a
/// whole number of bytes is known.
fn wrong_key(cipher: &str, bits: u32) -> Option<&'static str> {
    let (lengths, words): (&[u32], _) = match cipher {
        // XTS has two keys.
        xts if xts.starts_with("aes-xts-") => (&[256, 384, 512], "256, 384 or 512"),
        aes if aes.starts_with("aes-") => (&[128, 192, 256], "128, 192 or 256"),
        _ if !bits.is_multiple_of(8) => (&[], "a multiple of 8"),
        _ => return None,
    };
    (!lengths.contains(&bits)).then_some(words)
}

fn check_mirror(mirror: &MirrorLayer, keyed: &Keyed<'_>, report: &mut Report<'_>) {
    if mirror.queues.is_some_and(|queues| queues > REAL_QUEUES) {
        let message = format!("a real mirror has at most {REAL_QUEUES} queues");
        keyed.refuse("queues", message, "write a lower number", report);
    }
    let disks = mirror.delay.len();
    if let (2.., Some(legs), Some(text)) = (
        disks,
        keyed.count("legs", report),
        keyed.text("delay", report),
    ) && disks as u64 != legs
    {
        let message = format!("`mirror.delay` names {disks} disks, and `mirror.legs` is {legs}");
        report.error(text.at, message, ONE_FOR_EACH);
    }
}

/// Reports faults in the command of a server, which needs these names; `usual`: such a command.
fn check_command(
    keyed: &Keyed<'_>,
    key: &str,
    names: [&str; 2],
    usual: &str,
    report: &mut Report<'_>,
) {
    if let Some(text) = keyed.text(key, report)
        && let Some((message, hint)) =
            server_command_fault(&keyed.full(key), &text.value, names, usual)
    {
        report.error(text.at, message, hint);
    }
}

fn check_vm(vm: &VmLayer, keyed: &Keyed<'_>, report: &mut Report<'_>) {
    let names = ["{folder}", "{socket}"];
    let usual = "virtiofsd --socket-path={socket} --shared-dir={folder}";
    check_command(keyed, "share", names, usual, report);
    if let Some(image) = keyed.inner("image") {
        check_image(&image, report);
        let message = "`vm.kernel` has no effect with `vm.image`";
        let hint = "use `vm.image.kernel`, or leave it out";
        keyed.refuse("kernel", message, hint, report);
    }
    let (Some(disk), Some(table)) = (vm.disks.first(), keyed.inner("disk")) else {
        return;
    };
    if disk.interface == DiskInterface::VhostUserBlk {
        for name in ["cache", "aio", "iothread"] {
            let message = format!("`vm.disk.{name}` has no effect with `vhost-user-blk`");
            let hint = "leave it out, and set what the server has in `vm.disk.command`";
            table.refuse(name, message, hint, report);
        }
    }
    // qemu 7.2 has no such threads for NVMe.
    if disk.iothread && disk.interface == DiskInterface::Nvme {
        let message = "`vm.disk.iothread` has no effect with `nvme`";
        let hint = "leave it out, or set `vm.disk.interface` to `virtio-blk` or `virtio-scsi`";
        table.refuse("iothread", message, hint, report);
    }
    for fault in disk.faults() {
        let at = table.at(fault.key).unwrap_or_else(|| keyed.whole());
        report.error(at, fault.message, fault.hint);
    }
}

fn check_image(image: &Keyed<'_>, report: &mut Report<'_>) {
    if image.lacks("path", report) {
        let hint = "add `path = \"debian.qcow2\"`";
        report.error(image.whole(), "`vm.image` lacks `path`", hint);
    }
    if image.value("kernel").is_none() {
        for name in ["initrd", "append"] {
            let message = format!("`vm.image.{name}` has no effect without `vm.image.kernel`");
            let hint = "leave it out, or add `kernel`";
            image.refuse(name, message, hint, report);
        }
    }
    let wrong =
        |user: &str| user.is_empty() || user.starts_with('-') || user.contains(char::is_whitespace);
    if let Some(user) = image.text("user", report).filter(|it| wrong(&it.value)) {
        let message = format!("`{}` is not the name of a user", user.value);
        report.error(user.at, message, "write it as `ssh USER@HOST` takes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;
    use crate::keys::{Form, Key, Kind, kinds, layer as of_kind};
    use crate::layers::wanted::wanted;

    /// The layer with this text.
    fn read(kind: &'static str, text: &str) -> Layer {
        let mut report = Report::new("x.toml", text);
        let table = parse(text, &mut report);
        let keyed = Keyed::within(&table, 0..text.len(), kind, of_kind(kind).1);
        let wanted = wanted(&[], &mut report);
        layer(kind, &keyed, Path::new("/f"), wanted, &mut report)
    }

    /// Text with a value that is not the default.
    fn other(key: &Key) -> String {
        let name = key.name;
        let value = match key.kind {
            Kind::Text(Form::Numbers) => "\"7\"".to_owned(),
            Kind::Text(Form::Disks) => "\"flash\"".to_owned(),
            Kind::Text(_) if name == "layout" => "\"mirror 2\"".to_owned(),
            Kind::Text(_) => "\"other\"".to_owned(),
            Kind::Switch => (key.default != "`true`").to_string(),
            Kind::Count(_, most) => (most - 1).to_string(),
            Kind::Size(_) => "\"1TiB\"".to_owned(),
            Kind::Sector => "4096".to_owned(),
            Kind::Time(_) | Kind::Whole(_) => "\"7s\"".to_owned(),
            Kind::Words(words) => {
                let mut others = words.iter().map(|word| format!("{word:?}"));
                others.find(|it| key.default != format!("`{it}`")).unwrap()
            }
            Kind::Texts => "[\"other\"]".to_owned(),
            Kind::Scalars => "{ other = 1 }".to_owned(),
            kind => panic!("{name}: {kind:?}"),
        };
        format!("{name} = {value}\n")
    }

    #[test]
    fn every_key_of_a_layer_reaches_the_model() {
        let made = ["directory", "device"];
        for kind in kinds().into_iter().filter(|kind| !made.contains(kind)) {
            assert_eq!(read(kind, "").kind(), kind);
            for key in of_kind(kind).1 {
                let owner = OF_DM_TARGETS.iter().find(|of| of.1.contains(&key.name));
                let before = match owner {
                    Some((target, _)) if kind == "dm" => format!("target = {target:?}\n"),
                    _ => String::new(),
                };
                let texts: Vec<String> = match key.kind {
                    Kind::Table(keys) => keys
                        .iter()
                        .map(|inner| format!("{}.{}", key.name, other(inner)))
                        .collect(),
                    // The number of legs is that of the files or devices below.
                    _ if (kind, key.name) == ("mirror", "legs") => continue,
                    _ => vec![other(key)],
                };
                // A table without keys is one with defaults.
                let plain = match key.kind {
                    Kind::Table(_) => read(kind, &format!("{before}{} = {{}}", key.name)),
                    _ => read(kind, &before),
                };
                for text in texts {
                    assert_ne!(
                        read(kind, &format!("{before}{text}")),
                        plain,
                        "{kind}: {text}"
                    );
                }
            }
        }
    }
}
