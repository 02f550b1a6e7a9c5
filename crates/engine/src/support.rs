//! Which engines this host allows.

use iodyno_model::{Engine, EngineKind};
use iodyno_sys::memory::Arena;
use iodyno_sys::{AioBackend, UringBackend};

use crate::outcome::WorkerError;

/// Why an engine cannot be used on this host, found out by creating its context with one slot; `None`: it can.
pub fn unusable(kind: EngineKind) -> Option<WorkerError> {
    match kind {
        EngineKind::Libaio | EngineKind::IoUring => create(kind).err(),
        // These need nothing that a host may lack.
        EngineKind::Psync
        | EngineKind::Sync
        | EngineKind::Pvsync2
        | EngineKind::Posixaio
        | EngineKind::Mmap
        | EngineKind::Falloc
        | EngineKind::Ftruncate
        | EngineKind::Null
        | EngineKind::Sim => None,
    }
}

fn create(kind: EngineKind) -> Result<(), WorkerError> {
    let engine = Engine::new(kind, 1);
    let arena = Arena::new(1, 4096, 4096, false).map_err(|error| WorkerError {
        what: "reserve a buffer".to_owned(),
        cause: error.to_string(),
        hint: None,
    })?;
    match kind {
        EngineKind::Libaio => drop(AioBackend::new(Vec::new(), arena, &engine)?),
        _ => drop(UringBackend::new(Vec::new(), arena, &engine)?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_need_nothing_of_the_host_are_usable_and_others_say_why_not() {
        for engine in EngineKind::ALL {
            match unusable(engine) {
                None => {}
                Some(error) => {
                    assert!(matches!(engine, EngineKind::Libaio | EngineKind::IoUring));
                    assert!(!error.what.is_empty() && !error.cause.is_empty());
                }
            }
        }
    }
}
