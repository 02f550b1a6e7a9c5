//! Options of traces: replay and recording.

use iodyno_model::Direction;
use iodyno_options::{Problem, Unit::*, ignored, refused};

use crate::draft::Draft;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

const MERGING: &str = "traces are not merged";
const MORE_MERGING: &str = "it only modifies `merge_blktrace_file`, which is refused";

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("read_iolog", Paths, "Replays traces, assigned to clones in turn: fio's iolog (versions 2 and 3), or blktrace's binary form (`blkparse -d`).", read_iolog).sets(&["replay.traces"]),
    honoured("write_iolog", Text, "Records every op as an iolog of version 3.", write_iolog),
    honoured("replay_no_stall", Boolean, "Replays as fast as possible instead of at the times of the trace.",
        |draft, value| value.boolean().map(|it| draft.replay.no_stall = it)).default("0").sets(&["replay.no_stall"]),
    honoured("replay_time_scale", Count, "Speed of the trace's time, percent.",
        |draft, value| value.count(1, 1_000_000).map(|it| draft.replay.time_percent = it)).default("100").sets(&["replay.time_percent"]),
    honoured("replay_redirect", Text, "The file or device of all ops, in place of those of the trace.",
        |draft, value| value.string().map(|it| draft.replay.redirect = Some(it.into()))).sets(&["replay.redirect"]),
    honoured("replay_scale", Count, "Divides offsets by this number.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.replay.scale = it.max(1).into())).default("1").sets(&["replay.scale"]),
    honoured("replay_align", Bytes, "Rounds offsets down to a multiple of this power of two; with blktrace lengths are rounded up.", replay_align).default("0").sets(&["replay.align"]),
    honoured("replay_skip", SomeOf(&["read", "write", "trim", "sync"]), "Ops that are left out.", replay_skip).sets(&["replay.skip"]),
    ignored("read_iolog_chunked", Boolean, "Reads the trace in parts.", "a trace is read before the job starts, with at most 2^24 ops in a trial"),
    refused("merge_blktrace_file", Text, "Merges traces.", MERGING, "replay each trace with a job of its own; jobs run at the same time"),
    ignored("merge_blktrace_scalars", Text, "Scales the time of merged traces.", MORE_MERGING),
    ignored("merge_blktrace_iters", Text, "Repeats merged traces.", MORE_MERGING),
];

fn read_iolog(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let names = value.names()?;
    if names.iter().any(|name| name == "-") {
        return Err(Problem::refusal("a trace is not read from standard input")
            .hint("write it to a file first"));
    }
    draft.replay.traces = names.into_iter().map(Into::into).collect();
    Ok(())
}

fn write_iolog(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.logs.iolog = Some(value.string()?.into());
    Ok(())
}

fn replay_align(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let align = value.bytes()?;
    if align > 0 && !align.is_power_of_two() {
        return Err(Problem::error(format!("{align} is not a power of two"))
            .hint("write a power of two, such as `4k`"));
    }
    draft.replay.align = align;
    Ok(())
}

fn replay_skip(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut skip = Vec::new();
    for word in value
        .text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let direction = match word {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "trim" => Direction::Trim,
            "sync" => Direction::Sync,
            _ => {
                let fault = Problem::error(format!("`{word}` is not a kind of op"));
                return Err(value.at(word, fault.hint("write any of read, write, trim, sync")));
            }
        };
        if !skip.contains(&direction) {
            skip.push(direction);
        }
    }
    draft.replay.skip = skip;
    Ok(())
}
