//! Mirrors as disks of virtual machines: the server of vhost-user-blk.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::harness::{Home, Running, skip};
use crate::nbd::{MIB, client, leg, mirror, noise, serve, stop};

/// A boot sector. It reads 8 sectors from sector 1 by the firmware, writes them to sector 200, and ends qemu with `K` if both succeeded.
const BOOT: [u8; 57] = [
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0x8e, 0xd0, // mov ss, ax
    0xbc, 0x00, 0x7c, // mov sp, 0x7c00
    0xbe, 0x29, 0x7c, // mov si, packet
    0xb4, 0x42, // mov ah, 0x42
    0xcd, 0x13, // int 0x13
    0x72, 0x10, // jc failed
    0xc7, 0x44, 0x08, 200, 0x00, // mov word [si + 8], 200
    0xb8, 0x00, 0x43, // mov ax, 0x4300
    0xcd, 0x13, // int 0x13
    0x72, 0x04, // jc failed
    0xb0, b'K', // mov al, 'K'
    0xeb, 0x02, // jmp end
    0xb0, b'F', // failed: mov al, 'F'
    0xe6, 0xf4, // end: out 0xf4, al
    0xf4, // hlt
    0xeb, 0xfd, // jmp hlt
    0x10, 0x00, 0x08, 0x00, 0x00, 0x80, 0x00, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, // packet
];

#[test]
fn a_virtual_machine_boots_from_a_mirror_and_writes_to_all_legs() {
    let home = Home::new();
    if Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip("qemu-system-x86_64 is not installed");
    }
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let server = serve(&home, &["a", "b"], &["--vhost-user", "v"]);
    let socket = home.work().join("v");
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut disk = BOOT.to_vec();
    disk.resize(510, 0);
    disk.extend([0x55, 0xaa]);
    let data = noise(7, 8 * 512);
    disk.extend(&data);
    let mut nbd = client(&home);
    nbd.write(0, &disk);
    let mut qemu = home.program(Path::new("qemu-system-x86_64"));
    qemu.args(["-machine", "pc,accel=tcg,memory-backend=mem", "-m", "64M"]);
    qemu.args(["-object", "memory-backend-memfd,id=mem,size=64M,share=on"]);
    qemu.args(["-display", "none", "-nodefaults", "-no-reboot"]);
    qemu.args(["-chardev", "socket,id=disk,path=v"]);
    qemu.args(["-device", "vhost-user-blk-pci,chardev=disk,bootindex=0"]);
    qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    // It makes an exit code of what the machine wrote.
    Running::of(qemu).done().exits(i32::from(b'K') << 1 | 1);
    assert!(nbd.read(200 * 512, data.len()) == data);
    stop(server);
    for path in &paths {
        let mut written = vec![0; data.len()];
        let leg = OpenOptions::new().read(true).open(path).unwrap();
        leg.read_exact_at(&mut written, MIB + 200 * 512).unwrap();
        assert!(written == data, "{}", path.display());
    }
    assert!(!socket.exists());
}

#[test]
fn a_socket_that_is_in_use_is_refused_and_none_is_left() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    home.file("taken", "a file\n");
    let arguments = ["serve", "mirror", "--leg", "a", "--socket", "s"];
    let arguments = [&arguments[..], &["--vhost-user", "taken"]].concat();
    let refused = home.iodyno(&arguments).exits(2);
    refused.tells("cannot listen on `taken`");
    assert!(!home.work().join("s").exists());
    assert_eq!(
        std::fs::read(home.work().join("taken")).unwrap(),
        b"a file\n"
    );
}
