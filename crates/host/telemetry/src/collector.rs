//! Samples all series and converts readings to counts.

use iodyno_host::Roots;
use iodyno_model::{SamplerCost, Telemetry};

use crate::samplers;
use crate::scope::Scope;
use crate::source::Source;

/// All samplers of a host.
///
/// How readings become samples:
/// - A count is the increase since the previous sample, also across failed readings: the sample's span contains them.
///   A count that decreased and cannot have wrapped is unknown in that sample, and a gap names it.
/// - Rows and columns that remain keep their counts when others appear or disappear. The first sample of a new row
///   has counts only if its sampler knows their start values.
/// - A series that cannot be read has a gap with the reason when the failure starts, and another when it ends.
/// - Rows that appeared or disappeared between `begin` and the first sample of a series are reported as a gap,
///   because there was no shape yet.
/// - A series without rows has a gap that says so, and no samples until there are rows again.
pub struct Collector {
    sources: Vec<Source>,
    /// The instant from which counts are taken; `None` before `begin`.
    begun_ns: Option<i64>,
    sampled_ns: i64,
    shapes: u32,
}

impl Collector {
    /// Opens every series that the host provides, and reads each once. Never fails: a series that cannot be read is a
    /// gap in the first sample.
    pub fn open(roots: &Roots, scope: &Scope) -> Collector {
        Collector::of(samplers::open(roots, scope))
    }

    pub(crate) fn of(samplers: Vec<Box<dyn crate::sampler::Sampler>>) -> Collector {
        let mut sources: Vec<Source> = samplers.into_iter().map(Source::new).collect();
        sources.iter_mut().for_each(|source| source.begin(None));
        Collector {
            sources,
            begun_ns: None,
            sampled_ns: 0,
            shapes: 0,
        }
    }

    /// Reads all series without making samples: counts start at `now_ns`, on the clock of the following samples.
    pub fn begin(&mut self, now_ns: i64) {
        (self.begun_ns, self.sampled_ns) = (Some(now_ns), now_ns);
        for source in &mut self.sources {
            source.begin(Some(now_ns));
        }
    }

    /// Takes a sample of each series at `now_ns` on the trial's clock, and returns it with new shapes and gaps.
    /// Without an earlier `begin`, this call begins and returns no samples. If `now_ns` is not later than the last
    /// instant, nothing is read.
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

    /// Stops all child processes and threads, and returns the cost of sampling by series.
    pub fn close(self) -> Vec<SamplerCost> {
        self.sources.into_iter().map(Source::close).collect()
    }
}
