//! Takes samples of all series, and makes rows of the readings.

use iodyno_model::{SamplerCost, Telemetry};
use iodyno_target::Roots;

use crate::samplers;
use crate::scope::Scope;
use crate::source::Source;

/// All samplers of a host.
///
/// What it makes of their readings:
/// - A count is what it grew by since the sample before, also where there were failed readings in between: the sample's span says since
///   when. One that went back and cannot have wrapped is unknown in that sample, and a gap names it.
/// - Rows and columns that stay keep their counts when others come or go. Of what comes, the first sample has
///   counts only if its sampler knows where they began.
/// - A series that cannot be read has a gap when that begins, with the reason, and one when it ends.
/// - What went or came between the beginning and a series' first sample is a gap, as there was no shape yet.
/// - A series of which no row is left has a gap that says so, and no samples until there are rows again.
pub struct Station {
    sources: Vec<Source>,
    /// When counts began; `None` before that.
    begun_ns: Option<i64>,
    sampled_ns: i64,
    shapes: u32,
}

impl Station {
    /// Opens every series that the host offers, and reads each once. Never fails: what cannot be read is a gap in the
    /// first sample.
    pub fn open(roots: &Roots, scope: &Scope) -> Station {
        Station::of(samplers::open(roots, scope))
    }

    pub(crate) fn of(samplers: Vec<Box<dyn crate::sampler::Sampler>>) -> Station {
        let mut sources: Vec<Source> = samplers.into_iter().map(Source::new).collect();
        sources.iter_mut().for_each(|source| source.begin(None));
        Station {
            sources,
            begun_ns: None,
            sampled_ns: 0,
            shapes: 0,
        }
    }

    /// Reads everything anew without making samples of it: counts begin at `now_ns`, on the clock of the samples to come.
    pub fn begin(&mut self, now_ns: i64) {
        (self.begun_ns, self.sampled_ns) = (Some(now_ns), now_ns);
        for source in &mut self.sources {
            source.begin(Some(now_ns));
        }
    }

    /// Takes a sample of each series. `now_ns` is the time on the trial's clock; shapes and gaps that are new come with it.
    /// Without a beginning before, it is the beginning and has no samples; at an instant that is not after the
    /// one before, nothing is read.
    pub fn sample(&mut self, now_ns: i64) -> Telemetry {
        let mut telemetry = Telemetry::default();
        let Some(begun_ns) = self.begun_ns else {
            self.begin(now_ns);
            return telemetry;
        };
        if now_ns <= self.sampled_ns {
            return telemetry;
        }
        self.sampled_ns = now_ns;
        telemetry.samples.reserve_exact(self.sources.len());
        for source in &mut self.sources {
            source.sample(begun_ns, now_ns, &mut self.shapes, &mut telemetry);
        }
        telemetry
    }

    /// Ends all children, and tells what sampling has cost, by series.
    pub fn close(self) -> Vec<SamplerCost> {
        self.sources.into_iter().map(Source::close).collect()
    }
}
