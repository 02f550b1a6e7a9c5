//! A mirror as a layer: legs are made of the files or devices below, and this program serves them. Without queues, it
//! serves a file by FUSE, of which a loop device makes a block device; with queues, a disk by vhost-user-blk, whose
//! clients the jobs are.

use std::path::{Path, PathBuf};

use iodyno_host::text;
use iodyno_model::{Diagnostic, ExportUri, Layer, MirrorLayer, Pinning};

use super::action::Action;
use super::host::{this_program, word};
use super::host_ops::cannot;
use super::making::{MAKE, Making, Storage};
use super::served::SOCKET;

impl Making<'_> {
    pub(super) fn mirror(
        &mut self,
        name: &str,
        mirror: &MirrorLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let legs = below.words()?;
        let Some(queues) = mirror.queues else {
            return Ok(Storage::Devices(vec![self.mirror_of(name, mirror, &legs)?]));
        };
        let equal = self.create(&legs)?;
        let socket = self.mount_point(name)?.join(SOCKET);
        let mut command = self.command(mirror, &legs)?;
        command.extend(["--queues".to_owned(), queues.to_string()]);
        command.extend(["--vhost-user".to_owned(), word(&socket)?]);
        let log = socket.with_extension("log");
        self.step(Action::Server {
            command: mirror.pinning.command(&command),
            point: socket.clone(),
            log: log.clone(),
        })?;
        self.ops.await_socket(&command, &log, &socket)?;
        self.started(mirror, &legs, equal)?;
        self.share = Some(ExportUri::of_disk(&socket));
        // Jobs do not use the legs: they reach the mirror by the socket.
        Ok(below.clone())
    }

    /// A device for each file or device below that takes the time of a simulated disk: a mirror with one leg.
    pub(super) fn simulated_time(
        &mut self,
        name: &str,
        disks: &[String],
        pinning: &Pinning,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for (number, (leg, disk)) in below
            .words()?
            .into_iter()
            .zip(disks.iter().cycle())
            .enumerate()
        {
            let mirror = MirrorLayer {
                // There is one leg to choose.
                policy: "modulo".to_owned(),
                delay: vec![disk.clone()],
                queues: None,
                pinning: pinning.clone(),
            };
            devices.push(self.mirror_of(&format!("{name}-{number}"), &mirror, &[leg])?);
        }
        Ok(Storage::Devices(devices))
    }

    /// Makes a mirror of these legs. Returns whether they are equal.
    fn create(&mut self, legs: &[String]) -> Result<bool, Diagnostic> {
        let program = word(&this_program()?)?;
        let layers = &self.request.provision.layers;
        // Files and devices that are new read as zeros.
        let equal = !layers
            .iter()
            .any(|layer| matches!(layer, Layer::Device { .. }));
        let mut create = vec![program.as_str(), "mirror", "create"];
        create.extend(equal.then_some("--assume-clean"));
        for leg in legs {
            // They were made for this target, or the guard has admitted them for it.
            create.extend([leg.as_str(), "--destroy", leg]);
        }
        self.run(&create)?;
        Ok(equal)
    }

    /// The command of the server, without the place where it serves.
    fn command(&self, mirror: &MirrorLayer, legs: &[String]) -> Result<Vec<String>, Diagnostic> {
        let mut serve = vec![word(&this_program()?)?];
        serve.extend(["serve", "mirror", "--resync-rate", "16GiB", "--policy"].map(str::to_owned));
        serve.push(mirror.policy.clone());
        for disk in &mirror.delay {
            serve.extend(["--delay".to_owned(), disk.clone()]);
        }
        for leg in legs {
            serve.extend(["--leg".to_owned(), leg.clone()]);
        }
        Ok(serve)
    }

    /// The server runs.
    fn started(
        &mut self,
        mirror: &MirrorLayer,
        legs: &[String],
        equal: bool,
    ) -> Result<(), Diagnostic> {
        if !mirror.pinning.is_none() {
            let cpus = self.ops.cpus_of(&self.ops.mark);
            self.add_facts("mirror", vec![("server cpus", cpus)]);
        }
        match equal {
            true => Ok(()),
            false => self.await_resync(&word(&this_program()?)?, legs),
        }
    }

    fn mirror_of(
        &mut self,
        name: &str,
        mirror: &MirrorLayer,
        legs: &[String],
    ) -> Result<PathBuf, Diagnostic> {
        let equal = self.create(legs)?;
        let point = self.mount_point(&format!("{name}-server"))?;
        let file = point.join("disk");
        let mut command = self.command(mirror, legs)?;
        command.extend(["--fuse".to_owned(), word(&file)?]);
        self.serve(&command, mirror, &point, &file)?;
        self.started(mirror, legs, equal)?;
        // The block size of the server's file system is the unit of the mirror.
        let unit =
            rustix::fs::statfs(&file).map_err(|error| cannot("examine", &file, &error.into()))?;
        let unit = u32::try_from(unit.f_bsize).unwrap_or(512);
        let sector = (unit > 512).then_some(unit);
        self.attach(&file, true, sector)
    }

    /// Starts the server, and waits until its file has a length: it is empty until the mirror is mounted on it.
    fn serve(
        &mut self,
        command: &[String],
        mirror: &MirrorLayer,
        point: &Path,
        file: &Path,
    ) -> Result<(), Diagnostic> {
        let log = point.with_extension("log");
        self.step(Action::Server {
            command: mirror.pinning.command(command),
            point: point.to_owned(),
            log: log.clone(),
        })?;
        let has_length = || file.metadata().is_ok_and(|found| found.len() > 0);
        let mounted = self.ops.wait_for(|_| has_length().then_some(()));
        mounted.ok_or_else(|| {
            let output = text(&log).unwrap_or_default();
            Diagnostic::error(format!(
                "the mirror was not mounted on `{}` within 10 s\n  cause: {output}",
                file.display()
            ))
        })
    }

    /// Waits until all legs are equal.
    fn await_resync(&mut self, program: &str, legs: &[String]) -> Result<(), Diagnostic> {
        (self.ops.progress)("copy of the first leg of the mirror to the others");
        let mut status = vec![program, "mirror", "status"];
        status.extend(legs.iter().map(String::as_str));
        self.repeat(&status, MAKE)
    }
}
