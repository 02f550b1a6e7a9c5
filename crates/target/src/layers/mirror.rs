//! A mirror as a layer: legs are made of the files or devices below, and this program serves them by NBD. nbdfuse makes a file of the
//! export, and a loop device makes a block device of that.

use std::path::Path;
use std::time::Instant;

use iodyno_model::{Diagnostic, Layer, MirrorLayer};

use crate::export;
use crate::roots::text;

use super::host::word;
use super::{Action, COMMAND, MAKE, Making, PAUSE, Storage};

impl Making<'_, '_> {
    pub(super) fn mirror(
        &mut self,
        name: &str,
        mirror: &MirrorLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let program = std::env::current_exe().map_err(|error| {
            Diagnostic::error(format!("the path of this program is not known: {error}"))
        })?;
        let program = word(&program).map_err(Diagnostic::error)?;
        let legs = below.words()?;
        let layers = &self.request.provision.layers;
        // Files and devices that are new read as zeros.
        let equal = !layers
            .iter()
            .any(|layer| matches!(layer, Layer::Device { .. }));
        let mut create = vec![program.as_str(), "mirror", "create"];
        create.extend(equal.then_some("--assume-clean"));
        for leg in &legs {
            // They were made for this target, or the guard has admitted them for it.
            create.extend([leg.as_str(), "--destroy", leg]);
        }
        self.run(&create)?;
        let point = self.mount_point(&format!("{name}-server"))?;
        let socket = point.join("socket");
        let mut serve = vec![program.clone()];
        serve.extend(["serve", "mirror", "--resync-rate", "16GiB", "--policy"].map(str::to_owned));
        serve.extend([mirror.policy.clone(), "--socket".to_owned()]);
        serve.push(word(&socket).map_err(Diagnostic::error)?);
        for leg in &legs {
            serve.extend(["--leg".to_owned(), leg.clone()]);
        }
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        self.serve(&serve, mirror, &point, &socket)?;
        if !mirror.pinning.is_none() {
            let cpus = self.hands.cpus_of(&self.hands.mark);
            self.add_facts("mirror", vec![("server cpus", cpus)]);
        }
        if !equal {
            self.await_resync(&program, &legs)?;
        }
        let unit = uri
            .parse()
            .map_err(Diagnostic::error)
            .and_then(|uri| export::unit(&uri))?;
        let point = self.mount_point(&format!("{name}-disk"))?;
        let file = point.join("nbd");
        let nbdfuse = [
            "nbdfuse".to_owned(),
            word(&file).map_err(Diagnostic::error)?,
            uri,
        ];
        self.serve(&nbdfuse, mirror, &point, &file)?;
        let sector = (unit > 512).then_some(unit);
        let device = self.attach(&file, true, sector)?;
        Ok(Storage::Devices(vec![device]))
    }

    /// Starts a server, and waits until `made` exists.
    fn serve(
        &mut self,
        command: &[String],
        mirror: &MirrorLayer,
        point: &Path,
        made: &Path,
    ) -> Result<(), Diagnostic> {
        let log = point.with_extension("log");
        self.step(Action::Server {
            command: mirror.pinning.command(command),
            point: point.to_owned(),
            log: log.clone(),
        })?;
        self.await_path(made).map_err(|fault| {
            let said = text(&log).unwrap_or_default();
            let message = format!("{}\n  cause: {said}", fault.message);
            Diagnostic { message, ..fault }
        })
    }

    /// Waits until all legs are equal.
    fn await_resync(&mut self, program: &str, legs: &[String]) -> Result<(), Diagnostic> {
        (self.told)("copy of the first leg of the mirror to the others");
        let mut status = vec![program, "mirror", "status"];
        status.extend(legs.iter().map(String::as_str));
        let begun = Instant::now();
        loop {
            match self.hands.run(&status, COMMAND) {
                Ok(_) => return Ok(()),
                Err(fault) if begun.elapsed() >= MAKE || (self.hands.stop)() => return Err(fault),
                // The last attempt tells enough.
                Err(_) => drop(self.hands.commands.pop()),
            }
            self.hands.host.sleep(PAUSE);
        }
    }
}
