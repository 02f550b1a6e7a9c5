//! The start and the length of the region in each file, by fio's rules.

use std::path::Path;

use iodyno_model::{Amount, Diagnostic};
use iodyno_units::Bytes;

use super::binding::Binding;
use crate::faults::fault;
use crate::resolve::resolved::{FileKind, ResolvedFile};
use crate::resolve::seeds;

impl Binding<'_> {
    /// Sets the region of each file; shortened regions are noted.
    pub(super) fn regions(
        &self,
        mut files: Vec<ResolvedFile>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ResolvedFile>, Diagnostic> {
        let block = self.blocks.access.min_block().max(1);
        let count = files.len() as u64;
        let size = self.blocks.extent.size;
        let none_there = files.iter().all(|file| file.existing.unwrap_or(0) == 0);
        let until_full = self.job.end.until_full;
        if none_there && size.is_none() && self.blocks.files.size.is_none() && !until_full {
            return Err(fault(
                "its size is unknown",
                "add `size=`: its files do not exist yet, or are empty",
            ));
        }
        // As in fio, a percentage of a new file refers to the length that it will have without an offset.
        let planned = match (self.blocks.files.size, size) {
            (Some((Amount::Bytes(low), _)), _) => low,
            (None, Some(Amount::Bytes(size))) => size / count,
            _ => 0,
        };
        for (number, file) in files.iter_mut().enumerate() {
            let existing = file.existing.unwrap_or(0);
            file.base = match self.blocks.files.append && file.kind == FileKind::Regular {
                true => existing,
                false => self.offset(if existing == 0 { planned } else { existing }, block),
            };
            let share = match size {
                _ if self.blocks.files.size.is_some() => None,
                // As in fio, even if it is not a multiple of the block size.
                Some(Amount::Bytes(size)) => Some(size / count),
                Some(amount @ Amount::Percent(_)) => {
                    let share = match existing {
                        0 if !until_full => return Err(share_of_nothing(&file.path)),
                        0 => amount.of(self.free(&file.path)?) / count,
                        length => amount.of(length).min(length.saturating_sub(file.base)),
                    };
                    Some(share - share % block)
                }
                // More than fits: the job ends when the storage is full.
                None if until_full && file.kind == FileKind::Regular => {
                    let free = self.free(&file.path)?;
                    let end = existing.saturating_add(free).saturating_add(free / 8);
                    let length = end.saturating_sub(file.base);
                    Some(length.div_ceil(block).saturating_mul(block))
                }
                None => None,
            };
            file.length = match (self.blocks.files.size, share) {
                (Some(range), _) => {
                    let length = self.file_size(range, file, number, block)?;
                    match size {
                        Some(Amount::Percent(percent)) if percent < 100.0 => {
                            let share = Amount::Percent(percent).of(file.base + length);
                            share.min(length) / block * block
                        }
                        _ => length,
                    }
                }
                (None, Some(share)) => share,
                (None, None) => self.rest(file, existing)?,
            };
            self.fit(file, block, notes)?;
            self.check_length(file)?;
        }
        Ok(files)
    }

    /// A regular file that is only read must already contain its region.
    fn check_length(&self, file: &ResolvedFile) -> Result<(), Diagnostic> {
        let existing = file.existing.unwrap_or(0);
        match self.blocks.read_only_by() {
            Some(option) if file.kind == FileKind::Regular && file.end() > existing => Err(fault(
                format!(
                    "`{}` has {}, the job needs {}, and `{option}` extends nothing",
                    file.path.display(),
                    Bytes(existing),
                    Bytes(file.end())
                ),
                format!("lower `size=` or `offset=`, or remove `{option}`"),
            )),
            _ => Ok(()),
        }
    }

    /// The region's length if `filesize=` is set. A file whose length is within the range keeps its length.
    fn file_size(
        &self,
        (low, high): (Amount, Amount),
        file: &ResolvedFile,
        number: usize,
        block: u64,
    ) -> Result<u64, Diagnostic> {
        let existing = file.existing.unwrap_or(0);
        let whole = match (low, high) {
            (Amount::Bytes(_), Amount::Bytes(_)) => 0,
            _ if existing > 0 => existing,
            _ => self.free(&file.path)?,
        };
        let (low, high) = (low.of(whole), high.of(whole));
        let length = match (low..=high).contains(&existing) {
            true => existing,
            false if low >= high => low,
            false => {
                let drawn = low + seeds::below(self.seed, number as u64, high - low + 1);
                (drawn - drawn % block).max(low)
            }
        };
        self.rest(file, length)
    }

    fn rest(&self, file: &ResolvedFile, length: u64) -> Result<u64, Diagnostic> {
        match length.checked_sub(file.base) {
            Some(rest) if rest > 0 => Ok(rest),
            _ => Err(fault(
                format!(
                    "its region begins at {}, but `{}` has only {}",
                    Bytes(file.base),
                    file.path.display(),
                    Bytes(length)
                ),
                "lower `offset=` or `offset_increment=`, or raise `size=`",
            )),
        }
    }

    /// A device cannot grow, and a region contains at least one block.
    fn fit(
        &self,
        file: &mut ResolvedFile,
        block: u64,
        notes: &mut Vec<String>,
    ) -> Result<(), Diagnostic> {
        if file.kind == FileKind::Device {
            let length = file.existing.unwrap_or(0);
            let rest = self.rest(file, length)?;
            if file.length > rest {
                notes.push(format!(
                    "job `{}`: `{}` is {} long: the region is {} instead of {}",
                    self.job.name,
                    file.path.display(),
                    Bytes(length),
                    Bytes(rest),
                    Bytes(file.length)
                ));
                file.length = rest;
            }
        }
        if file.length < block {
            return Err(fault(
                format!(
                    "the region of `{}` is {}, less than a block of {}",
                    file.path.display(),
                    Bytes(file.length),
                    Bytes(block)
                ),
                "raise `size=`, or lower `bs=` or `nrfiles=`",
            ));
        }
        if file
            .base
            .checked_add(file.length)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(fault(
                format!(
                    "`{}` would be longer than the largest possible file",
                    file.path.display()
                ),
                "lower `size=` or `offset=`",
            ));
        }
        Ok(())
    }

    fn offset(&self, existing: u64, block: u64) -> u64 {
        let extent = &self.blocks.extent;
        let offset = extent.offset.of(existing).saturating_add(
            extent
                .offset_increment
                .of(existing)
                .saturating_mul(self.clone.into()),
        );
        let percent = [extent.offset, extent.offset_increment]
            .iter()
            .any(|amount| matches!(amount, Amount::Percent(share) if *share > 0.0));
        match percent {
            // Only lengths from a percentage are aligned: upwards, as in fio.
            true => {
                let align = match extent.offset_align {
                    0 => block,
                    align => align,
                };
                offset.div_ceil(align).saturating_mul(align)
            }
            false => offset,
        }
    }

    fn free(&self, path: &Path) -> Result<u64, Diagnostic> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        self.probe.free(folder).ok_or_else(|| {
            fault(
                format!("the free space of `{}` is unknown", folder.display()),
                "give the size in bytes instead of percent",
            )
        })
    }
}

/// As in fio, a percentage refers to the existing length.
fn share_of_nothing(path: &Path) -> Diagnostic {
    fault(
        format!(
            "`size` is a percentage, and `{}` does not exist or is empty",
            path.display()
        ),
        "write `size` in bytes, such as `size=1g`, or add `filesize=`",
    )
}
