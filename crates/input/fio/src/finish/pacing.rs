//! Rates and pauses of a job.

use iodyno_model::{Arrival, BlockSizes};
use iodyno_options::Problem;
use iodyno_units::{Bytes, Nanos};

use super::Finish;

impl Finish<'_> {
    pub(super) fn pacing(&mut self) {
        let mut think = self.draft.think;
        think.spin = think.spin.min(think.pause);
        if think.io_time.0 > 0 && !self.draft.has("thinktime_blocks") {
            think.every_ops = u32::MAX;
        }
        let mut target = self.draft.latency_target;
        if target.window.0 == 0 {
            target.window = Nanos::SECOND;
        }
        self.draft.job.pacing.latency_target = (target.limit.0 > 0).then_some(target);
        self.draft.job.pacing.think = (think.pause.0 > 0).then_some(think);
        self.draft.job.pacing.flow = (self.draft.flow.weight > 0).then_some(self.draft.flow);
        let rates = self.draft.job.pacing.rates;
        let all = [rates.read, rates.write, rates.trim];
        if all.iter().any(|rate| rate.bytes_per_s > 0) && all.iter().any(|rate| rate.iops > 0.0) {
            self.contradiction(
                "rate_iops",
                "`rate` and `rate_iops` exclude each other",
                "leave one of them out",
            );
        }
        let unreachable = all.iter().any(|rate| {
            (rate.bytes_per_s > 0 && rate.least_bytes_per_s > rate.bytes_per_s)
                || (rate.iops > 0.0 && rate.least_iops > rate.iops)
        });
        if unreachable {
            let option = self.draft.given_of("rate_min", "rate_iops_min");
            self.contradiction(
                option,
                "the minimum rate is above the requested rate",
                "lower it",
            );
        }
        self.rate_of_range();
    }

    /// As in fio, `rate_iops` with `bsrange` is a rate of bytes: that of ops of the smallest block. Ops at random
    /// intervals are counted.
    fn rate_of_range(&mut self) {
        if self.draft.job.pacing.arrival == Arrival::Poisson {
            return;
        }
        let sizes = self.draft.blocks.access.block_sizes.clone();
        let rates = &mut self.draft.job.pacing.rates;
        let mut converted = None;
        for (rate, sizes) in [
            (&mut rates.read, &sizes.read),
            (&mut rates.write, &sizes.write),
            (&mut rates.trim, &sizes.trim),
        ] {
            if let (BlockSizes::Range { min, .. }, true) = (sizes, rate.iops > 0.0) {
                let iops = std::mem::take(&mut rate.iops);
                rate.bytes_per_s = (iops * *min as f64) as u64;
                converted.get_or_insert((iops, *min));
            }
        }
        if let Some((iops, least)) = converted {
            let least = Bytes(least);
            let message =
                format!("as in fio, {iops} ops of {least} per second are a rate of bytes");
            let hint = "use `bssplit` for a number of ops, or `rate`";
            self.say("rate_iops", Problem::warning(message).hint(hint));
        }
    }
}
