//! The engines that this host supports.

use iodyno_model::{Engine, EngineKind};
use iodyno_sys::memory::Arena;
use iodyno_sys::{AioBackend, NvmeBackend, UringBackend};

use crate::outcome::WorkerError;

/// The reason why an engine cannot be used on this host, determined by creating its context with one slot; `None`: it
/// can be used.
pub fn unusable(kind: EngineKind) -> Option<WorkerError> {
    match kind {
        EngineKind::Libaio | EngineKind::IoUring | EngineKind::IoUringCmd => create(kind).err(),
        // These are supported on every host.
        EngineKind::Psync
        | EngineKind::Sync
        | EngineKind::Pvsync2
        | EngineKind::Posixaio
        | EngineKind::Mmap
        | EngineKind::Falloc
        | EngineKind::Ftruncate
        | EngineKind::Nbd
        | EngineKind::VhostUserBlk
        | EngineKind::Virtiofs
        | EngineKind::Null
        | EngineKind::Sim => None,
    }
}

fn create(kind: EngineKind) -> Result<(), WorkerError> {
    let engine = Engine::new(kind, 1);
    let arena = Arena::new(1, 4096, 4096, false)
        .map_err(|error| WorkerError::new("reserve a buffer", error))?;
    match kind {
        EngineKind::Libaio => drop(AioBackend::new(Vec::new(), arena, &engine)?),
        EngineKind::IoUringCmd => drop(NvmeBackend::new(Vec::new(), arena, &engine)?),
        _ => drop(UringBackend::new(Vec::new(), arena, &engine)?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_without_requirements_are_usable_and_others_give_their_reason() {
        for engine in EngineKind::ALL {
            match unusable(engine) {
                None => {}
                Some(error) => {
                    let optional = matches!(
                        engine,
                        EngineKind::Libaio | EngineKind::IoUring | EngineKind::IoUringCmd
                    );
                    assert!(optional);
                    assert!(!error.what.is_empty() && !error.cause.is_empty());
                }
            }
        }
    }
}
