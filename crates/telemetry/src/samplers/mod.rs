//! One sampler a file.

mod load;

use iodyno_target::Roots;

use crate::sampler::Sampler;
use crate::scope::Scope;

/// All samplers that the host has a source for, and what it has none for: the series, and why.
pub(crate) fn open(roots: &Roots, scope: &Scope) -> Vec<Box<dyn Sampler>> {
    let _ = scope;
    vec![Box::new(load::Load::open(roots))]
}
