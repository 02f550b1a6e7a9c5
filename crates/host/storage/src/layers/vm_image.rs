//! Virtual machines that boot a user's disk image: the overlays to which they write, and the connections to them.
//!
//! Invariant: the image itself is only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::guest::{Boot, Machine, end_of, ssh};
use iodyno_model::{Diagnostic, VmImage, VmLayer};

use super::action::{Action, TARGET};
use super::host::{Host, this_program, word};
use super::host_ops::cause;
use super::making::{COMMAND, Making, NotBooted, PAUSE};
use super::tools::not_installed;

/// The program that makes overlays.
pub(super) const QEMU_IMG: &str = "qemu-img";
/// What ssh prints if the guest refuses the key.
const REFUSED: &str = "Permission denied";

/// The overlay of a guest, and its port on the host's loopback interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overlay {
    file: PathBuf,
    port: u16,
    /// The program that is copied to the guest, and its length, bytes.
    program: (PathBuf, u64),
}

impl Overlay {
    /// What the guest boots.
    pub(super) fn boot<'a>(&'a self, image: &'a VmImage) -> Boot<'a> {
        Boot::Image {
            image,
            overlay: &self.file,
            program: &self.program.0,
            port: self.port,
        }
    }
}

/// What the host lacks to boot this image.
pub(super) fn faults(host: &dyn Host, image: &VmImage) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let files = [
        ("path", Some(&image.path)),
        ("key", image.key.as_ref()),
        ("kernel", image.kernel.as_ref()),
        ("initrd", image.initrd.as_ref()),
        ("program", image.program.as_ref()),
    ];
    for (name, path) in files {
        if let Some(path) = path
            && let Err(error) = fs::File::open(path)
        {
            let message = format!(
                "cannot read `{}` of `vm.image.{name}`: {error}",
                path.display()
            );
            faults.push(Diagnostic::error(message).hint("correct the path, or its permissions"));
        }
    }
    for (program, package) in [(QEMU_IMG, "qemu-utils"), (ssh::SSH, "openssh-client")] {
        faults.extend(not_installed(host, program, "vm.image", package));
    }
    faults
}

impl Making<'_> {
    /// Makes an overlay of the image for each guest.
    pub(super) fn image_overlays(
        &mut self,
        image: &VmImage,
        guests: usize,
    ) -> Result<Vec<Overlay>, Diagnostic> {
        // On a disk: they grow by what the guests write to their root file systems.
        let folder = self.ops.host.roots().root.join("var/tmp");
        let folder = folder.join(format!("{TARGET}{}", self.request.token));
        let outer = Action::outer_folder(folder.clone(), false);
        self.step(outer)?;
        let cannot =
            |what: String, error: std::io::Error| Diagnostic::error(format!("{what}: {error}"));
        let program = match &image.program {
            Some(program) => program.clone(),
            None => this_program()?,
        };
        let size = fs::metadata(&program)
            .map_err(|error| cannot(format!("cannot read `{}`", program.display()), error))?;
        let ports = ssh::free_ports(guests).map_err(|error| {
            cannot(
                "there are no free ports on the loopback interface".to_owned(),
                error,
            )
        })?;
        let mut overlays = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let file = folder.join(format!("{number}.qcow2"));
            let overlay = Overlay {
                file,
                port,
                program: (program.clone(), size.len()),
            };
            self.make_overlay(image, &overlay)?;
            overlays.push(overlay);
        }
        Ok(overlays)
    }

    /// Makes the file of an overlay, in place of an earlier one.
    pub(super) fn make_overlay(
        &mut self,
        image: &VmImage,
        overlay: &Overlay,
    ) -> Result<(), Diagnostic> {
        let path = fs::canonicalize(&image.path).map_err(|error| {
            Diagnostic::error(format!("cannot find `{}`: {error}", image.path.display()))
        })?;
        let (from, to, format) = (word(&path)?, word(&overlay.file)?, image.format());
        self.run(&[
            QEMU_IMG, "create", "-q", "-f", "qcow2", "-b", &from, "-F", format, &to,
        ])
    }

    /// Waits until the guest of this folder, whose qemu has this mark, can be logged in to, and prepares it for nodes.
    /// `below`: the number of its disks with files or devices of the host.
    pub(super) fn await_image(
        &mut self,
        vm: &VmLayer,
        image: &VmImage,
        overlay: &Overlay,
        folder: &Path,
        mark: &str,
        below: usize,
    ) -> Result<(), NotBooted> {
        let port = overlay.port;
        let login = ssh::connect(image, folder, port, &[], Some("true"));
        self.ops.mark = format!("{}/ssh", self.request.token);
        let (begun, limit) = (Instant::now(), vm.boot_timeout());
        let mut gone = 0;
        while let Err(fault) = self.ops.run(&login, COMMAND) {
            self.ops.commands.pop();
            gone = match self.ops.host.marked(mark).is_empty() {
                true => gone + 1,
                false => 0,
            };
            let output = fault.message;
            let slow = begun.elapsed() >= limit;
            let why = if (self.ops.stop)() {
                "stopped while the target was made".to_owned()
            } else if gone > 2 {
                "cannot boot a guest: qemu ended".to_owned()
            } else if output.contains(REFUSED) {
                let message = format!("the guest refuses the login of `{}`: {output}", image.user);
                let hint = "set `vm.image.key` to the private key of a key in the image's `authorized_keys`, and `vm.image.user` to its user";
                return Err(Diagnostic::error(message).hint(hint).into());
            } else if slow {
                let seconds = limit.as_secs_f64();
                format!("cannot log in to a guest within {seconds} s: {output}")
            } else {
                self.ops.host.sleep(PAUSE);
                continue;
            };
            let logs = [folder.join("qemu.log"), Machine::console(folder)];
            let output = logs.iter().filter_map(|log| end_of(log)).flatten();
            let cause = cause(&output.collect::<Vec<String>>());
            let hint = "the image has to boot on a machine with BIOS, get its address by DHCP, and start sshd; `console=ttyS0` shows why not";
            return Err(NotBooted {
                fault: Box::new(Diagnostic::error(format!("{why}{cause}")).hint(hint)),
                slow: slow && gone <= 2,
            });
        }
        let socket = ssh::socket(folder);
        let at = word(&socket)?;
        let opening = ssh::opening(&at);
        let opening: Vec<&str> = opening.iter().map(String::as_str).collect();
        self.step(Action::Server {
            command: ssh::connect(image, folder, port, &opening, None),
            log: folder.join("ssh.log"),
            point: socket.clone(),
        })?;
        self.await_path(&socket)?;
        let token = self.request.token.clone();
        let script = ssh::preparation(vm, image, &token, below, overlay.program.1);
        let words = ssh::through(image, &at, &script);
        self.ops.mark = format!("{token}/ssh");
        self.ops.run(&words, limit).map(drop).map_err(|fault| {
            let message = format!("cannot prepare a guest: {}", fault.message);
            let hint = "if the program does not run there, set `vm.image.program` to one that needs no libraries (`make static`); users other than root need `sudo -n`";
            Diagnostic::error(message).hint(hint).into()
        })
    }
}
