//! The options of a job for plans: the written options, and important defaults.

use std::collections::BTreeMap;

use iodyno_model::{Access, Amount, BlockSizes, Job, MixSequence, PerDirection};

/// Options in fio's notation: as written, or the values in effect.
pub fn resolved_options(job: &Job) -> BTreeMap<String, String> {
    let mut options = job.options.clone();
    let blocks = job.work.as_blocks();
    let mut fill = |name: &str, value: String| {
        options.entry(name.to_owned()).or_insert(value);
    };
    let flag = |set: bool| u8::from(set).to_string();
    fill("name", job.name.clone());
    fill("rw", read_write(&blocks.access));
    fill("ioengine", blocks.engine.kind.name().to_owned());
    fill("iodepth", blocks.engine.depth.to_string());
    fill("numjobs", job.clones.to_string());
    fill("direct", flag(blocks.engine.direct));
    fill_sizes(&blocks.access.block_sizes, &mut fill);
    if let Some(size) = blocks.extent.size {
        fill("size", amount(size));
    }
    if let Some(size) = blocks.passes.io_size {
        fill("io_size", amount(size));
    }
    if let Some(runtime) = job.end.runtime {
        fill("runtime", seconds(runtime.0));
        fill("time_based", flag(blocks.passes.time_based));
    }
    if blocks.access.reads && blocks.access.writes {
        fill("rwmixread", blocks.access.read_percent.to_string());
    }
    if !blocks.files.names.is_empty() {
        let names: Vec<String> = blocks
            .files
            .names
            .iter()
            .map(|name| name.to_string_lossy().replace(':', r"\:"))
            .collect();
        fill("filename", names.join(":"));
    }
    options
}

/// The value of `rw=`, with its suffix.
fn read_write(access: &Access) -> String {
    let pattern = access.pattern();
    match access.sequence {
        None => pattern.to_owned(),
        Some(MixSequence::Every(ops)) => format!("{pattern}:{ops}"),
        Some(MixSequence::Skip(bytes)) => format!("{pattern}:{bytes}"),
    }
}

/// One value if all directions are equal, otherwise three.
fn fill_sizes(sizes: &PerDirection<BlockSizes>, fill: &mut impl FnMut(&str, String)) {
    let all = [&sizes.read, &sizes.write, &sizes.trim];
    let option = match all
        .iter()
        .find(|sizes| !matches!(sizes, BlockSizes::Fixed(_)))
    {
        Some(BlockSizes::Range { .. }) => "bsrange",
        Some(BlockSizes::Split(_)) => "bssplit",
        _ => "bs",
    };
    let texts: Vec<String> = all
        .iter()
        .map(|sizes| match (sizes, option) {
            (BlockSizes::Fixed(size), "bssplit") => format!("{size}/100"),
            (BlockSizes::Fixed(size), "bsrange") => format!("{size}-{size}"),
            (BlockSizes::Fixed(size), _) => size.to_string(),
            (BlockSizes::Range { min, max, .. }, _) => format!("{min}-{max}"),
            (BlockSizes::Split(parts), _) => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|(size, share)| format!("{size}/{share:.0}"))
                    .collect();
                parts.join(":")
            }
        })
        .collect();
    let text = match texts.iter().all(|text| *text == texts[0]) {
        true => texts[0].clone(),
        false => texts.join(","),
    };
    fill(option, text);
    if option != "bs" {
        fill("bs", sizes.read.min().to_string());
    }
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => bytes.to_string(),
        Amount::Percent(percent) => format!("{percent}%"),
    }
}

/// Whole seconds if possible; otherwise a smaller unit.
fn seconds(ns: u64) -> String {
    match (ns % 1_000_000_000, ns % 1_000_000) {
        (0, _) => (ns / 1_000_000_000).to_string(),
        (_, 0) => format!("{}ms", ns / 1_000_000),
        _ => format!("{}us", ns / 1_000),
    }
}
