//! Guests that boot a user's disk image, and are reached by ssh through a port of the host's loopback interface.
//!
//! One connection is opened when such a guest has booted, and every node in it uses its socket (`ControlMaster`). The
//! user's configuration of ssh does not apply: only the key that the image's settings name, those in the usual places,
//! and the agent.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use iodyno_model::{DiskInterface, VmImage, VmLayer};

use crate::guest::qemu::{PROGRAM_SERIAL, SERIAL, SHARE, disk_path, served_slot, share_path};

/// The program.
pub const SSH: &str = "ssh";
/// The name of the connection's socket, in the folder of the guest.
const SOCKET: &str = "ssh";
/// The longest time to connect, s: a guest that boots accepts the connection and does not answer.
const CONNECT_S: u32 = 15;
/// The folder of this program in the guest.
const FOLDER: &str = "/var/lib/iodyno";

/// The socket of the connection to the guest of this folder.
pub fn socket(folder: &Path) -> PathBuf {
    folder.join(SOCKET)
}

/// Whether this is the socket of such a connection, and not that of a guest's port.
pub fn is_socket(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == SOCKET)
}

/// Ports of the loopback interface that are free now.
///
/// # Errors
/// There is no loopback interface, or all ports are in use.
pub fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All at once, so that they differ.
    let all: Vec<TcpListener> = (0..count).map(listen).collect::<Result<_, _>>()?;
    let ports = all.iter().map(|one| Ok(one.local_addr()?.port()));
    ports.collect()
}

/// The command that connects to the guest of this folder. `options`: further ones; `script`: what runs there, in a
/// shell.
pub fn connect(
    image: &VmImage,
    folder: &Path,
    port: u16,
    options: &[&str],
    script: Option<&str>,
) -> Vec<String> {
    let known = folder.join("known_hosts").display().to_string();
    let mut words = plain();
    for option in [
        "StrictHostKeyChecking=accept-new".to_owned(),
        format!("UserKnownHostsFile=\"{}\"", escaped(&known)),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        format!("ConnectTimeout={CONNECT_S}"),
        "ServerAliveInterval=30".to_owned(),
        format!("Port={port}"),
        format!("User={}", image.user),
    ] {
        words.extend(["-o".to_owned(), option]);
    }
    if let Some(key) = &image.key {
        let key = escaped(&key.display().to_string());
        let key = [
            "-o".to_owned(),
            "IdentitiesOnly=yes".to_owned(),
            "-i".to_owned(),
            key,
        ];
        words.extend(key);
    }
    words.extend(options.iter().map(|&option| option.to_owned()));
    words.extend(["--".to_owned(), Ipv4Addr::LOCALHOST.to_string()]);
    words.extend(script.map(|script| in_shell(image, script)));
    words
}

/// The options that open the connection of this socket, for [`connect`].
pub fn opening(socket: &str) -> Vec<String> {
    ["-M", "-N", "-S", &escaped(socket)]
        .map(str::to_owned)
        .into()
}

/// The command that runs a script in the guest behind this socket.
pub fn through(image: &VmImage, socket: &str, script: &str) -> Vec<String> {
    let mut words = over(socket);
    words.push(in_shell(image, script));
    words
}

/// The command that starts a node in the guest behind this socket.
pub fn node(socket: &Path) -> Command {
    let words = over(&socket.display().to_string());
    let mut command = Command::new(&words[0]);
    // The shell stays: it ends with 128 and the number of a signal that killed the node.
    command
        .args(&words[1..])
        .arg(format!("sh {FOLDER}/node; exit $?"));
    command
}

/// No terminal, no questions, no forwarding, no configuration.
fn plain() -> Vec<String> {
    let options = [
        "BatchMode=yes",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "LogLevel=ERROR",
    ];
    let fixed = [SSH, "-F", "/dev/null", "-T", "-a", "-x", "-e", "none"];
    let options = options.iter().flat_map(|option| ["-o", option]);
    fixed
        .into_iter()
        .chain(options)
        .map(str::to_owned)
        .collect()
}

/// ssh over the connection of this socket, and only over that.
fn over(socket: &str) -> Vec<String> {
    let mut words = plain();
    let own = [
        "-o",
        "ControlMaster=no",
        "-o",
        "ProxyCommand=false",
        "-S",
        &escaped(socket),
        "--",
        "guest",
    ];
    words.extend(own.map(str::to_owned));
    words
}

/// ssh replaces `%` and a letter.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// A command for the guest's login shell. `script` has no single quotes, so that every login shell passes it on as it
/// is.
fn in_shell(image: &VmImage, script: &str) -> String {
    format!("exec {}sh -c '{script}'", sudo(image))
}

fn sudo(image: &VmImage) -> &'static str {
    match image.user.as_str() {
        "root" => "",
        _ => "sudo -n ",
    }
}

/// The script that prepares a guest: links to its disks, the shared folder, and this program of `size` bytes, which is
/// on a disk.
pub fn preparation(vm: &VmLayer, image: &VmImage, token: &str, below: usize, size: u64) -> String {
    let mut lines = vec![
        "set -e".to_owned(),
        "umask 022".to_owned(),
        "export LC_ALL=C".to_owned(),
        "PATH=$PATH:/usr/sbin:/sbin".to_owned(),
        // The page of SCSI has a header before the number.
        "numbered() { for d in /sys/block/*; do for f in serial device/serial device/vpd_pg80; do \
         if [ -r $d/$f ] && tr -d \"\\000-\\037\" <$d/$f | grep -q \"$1\\$\"; then echo ${d##*/}; return; fi; done; done; false; }"
            .to_owned(),
        "placed() { for d in /sys/block/*; do case \"$(readlink -f $d)\" in \
         */0000:00:$1.0/*) echo ${d##*/}; return;; esac; done; false; }"
            .to_owned(),
        "disk() { n=0; until $1 $2; do n=$((n + 1)); if [ $n -gt 30 ]; then echo \"there is no disk $2\" >&2; exit 1; fi; sleep 1; done; }"
            .to_owned(),
        format!("mkdir -p {FOLDER}"),
    ];
    if vm.share.is_some() {
        let point = share_path(token);
        let point = point.display();
        lines.push(format!("mkdir -p {point}"));
        lines.push(format!("mount -t virtiofs {SHARE} {point}"));
    }
    for (number, disk) in vm.backed(below).iter().enumerate() {
        let found = match disk.interface {
            DiskInterface::VhostUserBlk => format!("disk placed {:02x}", served_slot(number)),
            _ => format!("disk numbered {SERIAL}{number}"),
        };
        let link = disk_path(token, number);
        let folder = link.parent().unwrap_or(Path::new("/dev"));
        lines.push(format!("mkdir -p {}", folder.display()));
        lines.push(format!("d=$({found})"));
        lines.push(format!("ln -sfn /dev/$d {}", link.display()));
    }
    let start = format!(
        "exec {}env MALLOC_MMAP_THRESHOLD_=131072 {FOLDER}/iodyno node",
        sudo(image)
    );
    lines.extend([
        format!("d=$(disk numbered {PROGRAM_SERIAL})"),
        format!("head -c {size} /dev/$d >{FOLDER}/iodyno"),
        format!("chmod 755 {FOLDER}/iodyno"),
        format!("echo \"{start}\" >{FOLDER}/node"),
        format!("{FOLDER}/iodyno --version >/dev/null"),
    ]);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> VmImage {
        VmImage {
            path: "/i/debian.qcow2".into(),
            user: "ada".to_owned(),
            key: Some("/k/50%".into()),
            ..VmImage::default()
        }
    }

    #[test]
    fn the_guest_is_reached_by_its_port_and_then_by_the_socket_alone() {
        let words = connect(&image(), Path::new("/run/x"), 2022, &["-N"], None).join(" ");
        assert!(words.starts_with("ssh -F /dev/null -T "), "{words}");
        for part in [
            "-o UserKnownHostsFile=\"/run/x/known_hosts\"",
            "-o Port=2022 -o User=ada",
            "-o IdentitiesOnly=yes -i /k/50%% -N -- 127.0.0.1",
        ] {
            assert!(words.contains(part), "{words}");
        }
        let socket = socket(Path::new("/run/x"));
        assert!(is_socket(&socket) && !is_socket(Path::new("/run/x/node")));
        let words = through(&image(), "/run/x/ssh", "true").join(" ");
        let end = "-o ProxyCommand=false -S /run/x/ssh -- guest exec sudo -n sh -c 'true'";
        assert!(words.ends_with(end), "{words}");
        let node = format!("{:?}", node(&socket));
        assert!(node.contains("sh /var/lib/iodyno/node; exit $?"), "{node}");
    }

    #[test]
    fn the_script_that_prepares_a_guest_is_one_word_of_its_shell_and_finds_disks_by_number() {
        use std::process::Stdio;

        let vm = VmLayer {
            share: Some("d".to_owned()),
            ..VmLayer::default()
        };
        let script = preparation(&vm, &image(), "0a1b", 2, 77);
        assert!(!script.contains('\''), "{script}");
        for line in [
            "mount -t virtiofs iodyno /mnt/iodyno-0a1b",
            "d=$(disk numbered iodyno1)",
            "ln -sfn /dev/$d /dev/iodyno-0a1b/disk1",
            "head -c 77 /dev/$d >/var/lib/iodyno/iodyno",
        ] {
            assert!(script.contains(line), "{script}");
        }
        // Only a check of its syntax.
        let shell = Command::new("sh")
            .args(["-n", "-c", &script])
            .stderr(Stdio::inherit())
            .status();
        assert!(shell.unwrap().success(), "{script}");
    }

    #[test]
    fn free_ports_differ() {
        let mut ports = free_ports(3).unwrap();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), 3);
    }
}
