//! Verification of a job's blocks.

use iodyno_model::{
    BlockPattern, Checksum, Content, EngineKind, HeaderFormat, MixSequence, Pattern, Verify,
    VerifyTrim,
};
use iodyno_options::Problem;

use super::Finish;

impl Finish<'_> {
    pub(super) fn verify(&mut self) {
        let verifies = self.draft.verify_on
            || (self.draft.verify_pattern.is_some() && !self.draft.has("verify"));
        let trim = self.verify_trim(verifies);
        if !verifies {
            return;
        }
        let kind = self.draft.blocks.engine.kind;
        if kind == EngineKind::Sim || kind.without_data() {
            self.contradiction(
                "verify",
                match kind {
                    EngineKind::Sim => "a simulated device keeps no data that could be verified",
                    _ => "this engine writes no data that could be verified",
                },
                "leave `verify` out, or use another engine",
            );
        }
        let mut verify = Verify {
            trim,
            ..self.draft.verify.clone()
        };
        if !self.draft.verify_on {
            verify.checksum = Checksum::Pattern(Pattern(Vec::new()));
        }
        self.header(&mut verify);
        let needs_pattern = matches!(
            verify.checksum,
            Checksum::Pattern(_) | Checksum::PatternWithHeader
        );
        match self.draft.verify_pattern.clone() {
            Some(pattern) => self.pattern(pattern, &mut verify),
            None if needs_pattern && !self.draft.failed.contains("verify_pattern") => {
                let written = self.draft.written.get("verify");
                let method = written.map_or("pattern", |it| &it.value);
                let message = format!("`verify={method}` needs a pattern");
                self.contradiction("verify", message, "add `verify_pattern=0xdeadbeef`");
            }
            None => {}
        }
        self.check_interval(&mut verify);
        if kind == EngineKind::Null && verify.checksum != Checksum::Nothing {
            let fault = Problem::note(
                "`ioengine=null` keeps no data: as in fio, blocks are read back and not checked",
            )
            .hint("leave `verify` out");
            self.say("verify", fault);
            verify.checksum = Checksum::Nothing;
        }
        self.draft.blocks.verify = Some(verify);
    }

    fn pattern(&mut self, pattern: BlockPattern, verify: &mut Verify) {
        let pattern = BlockPattern {
            interval: self.draft.verify_pattern_interval,
            ..pattern
        };
        match &mut verify.checksum {
            Checksum::Pattern(all) => *all = pattern.bytes.clone(),
            // After the header, blocks are filled with the pattern.
            _ => self.draft.job.buffers.content = Content::Pattern(pattern.bytes.clone()),
        }
        let simple = pattern.offsets.is_empty() && pattern.interval == 0;
        let checked = verify.header != HeaderFormat::Iodyno;
        verify.pattern = (checked || !simple).then_some(pattern);
    }

    /// What is trimmed of a job's written blocks. As in fio, nothing without `verify` or `trim_backlog`.
    fn verify_trim(&mut self, verifies: bool) -> Option<VerifyTrim> {
        let trim = self.draft.trim;
        if trim.percent == 0 {
            return None;
        }
        let missing = match (verifies, trim.backlog) {
            (false, _) => "verify",
            (true, 0) => "trim_backlog",
            (true, _) => {
                return Some(VerifyTrim {
                    batch: match trim.batch {
                        0 => trim.backlog,
                        batch => batch,
                    },
                    ..trim
                });
            }
        };
        let message = format!("`trim_percentage` has no effect without `{missing}`");
        let fault = Problem::unmet(message).hint(format!("add `{missing}=…`"));
        self.say("trim_percentage", fault);
        None
    }

    /// Makes the checksum and the header consistent.
    fn header(&mut self, verify: &mut Verify) {
        if verify.checksum == Checksum::Xxhash64 {
            if verify.header != HeaderFormat::Iodyno && self.draft.has("verify_header") {
                self.contradiction(
                    "verify_header",
                    "headers of fio have no xxhash64",
                    "use `verify=xxhash`, or `verify_header=iodyno`",
                );
            }
            verify.header = HeaderFormat::Iodyno;
        }
        if verify.header == HeaderFormat::Iodyno {
            verify.checksum = match &verify.checksum {
                Checksum::PatternWithHeader | Checksum::Nothing => Checksum::HeaderOnly,
                Checksum::Xxhash32 => Checksum::Xxhash64,
                Checksum::Crc32c
                | Checksum::Xxhash64
                | Checksum::HeaderOnly
                | Checksum::Pattern(_) => verify.checksum.clone(),
                _ => {
                    let name = self.draft.written.get("verify").map_or("", |it| &it.value);
                    let fault = Problem::warning(format!(
                        "`{name}` is carried out as xxhash64: it finds the same faults and costs less CPU"
                    ))
                    .hint("write crc32c or xxhash to say so, or add `verify_header=fio`");
                    self.say("verify", fault);
                    Checksum::Xxhash64
                }
            };
        }
        if !verify.checksum.has_header() {
            (verify.header, verify.header_offset) = (HeaderFormat::Iodyno, 0);
        }
        let length = verify.header_length();
        let fault = match (verify.header_offset, verify.header) {
            (0, _) => return,
            (_, HeaderFormat::Iodyno) => {
                "the header of iodyno is at the start of the block".to_owned()
            }
            (offset, _) if offset < length => {
                format!("the moved header overlaps its old place: it has {length} bytes")
            }
            _ => return,
        };
        let hint = "leave it out, or use `verify_header=fio` and an offset of at least the header's length";
        self.contradiction("verify_offset", fault, hint);
    }

    /// Checks that an interval divides each block and has space for its header.
    fn check_interval(&mut self, verify: &mut Verify) {
        let sizes = self.draft.blocks.access.verified_sizes();
        let unequal = sizes.min() != sizes.max();
        let divisor = sizes.divisor();
        let as_fio = self.draft.verify.header != HeaderFormat::Iodyno;
        verify.interval = match verify.interval {
            0 if unequal => divisor,
            interval if as_fio && interval > 0 => match interval.min(sizes.min()) {
                fits if divisor.is_multiple_of(fits) => fits,
                _ => divisor,
            },
            interval => interval.min(sizes.min()),
        };
        let interval = match verify.interval {
            0 => sizes.min(),
            interval => interval,
        };
        let smallest = verify.header_length() + verify.header_offset + 1;
        if interval < smallest || !divisor.is_multiple_of(interval) {
            let option = self.draft.given_of("verify_interval", "verify");
            self.contradiction(
                option,
                format!("a block cannot be verified in parts of {interval} bytes"),
                &format!("a part holds at least {smallest} bytes and divides every block size"),
            );
        }
        let grid = self.draft.blocks.grid_of_writes(interval, []);
        if grid < interval.min(Verify::MIN_GRID) {
            let option = match self.draft.blocks.access.sequence {
                Some(MixSequence::Skip(_)) => "rw",
                _ => "verify",
            };
            let message =
                format!("blocks that begin at multiples of {grid} bytes cannot be verified");
            let hint = "choose an alignment, gap or zone of at least 512 bytes; in `rw=write:8`, 8 is a gap in bytes";
            self.contradiction(option, message, hint);
        }
    }
}
