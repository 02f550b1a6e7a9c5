//! Assembles programs for the kernel's BPF machine (kernel, `Documentation/bpf/standardization/instruction-set.rst`).

use std::os::fd::RawFd;

/// A register. A call returns its result in `R0` and clobbers its arguments, `R1` … `R5`. It preserves `R6` … `R9`.
/// `R10` is the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// An operation of arithmetic on 64 bits: the operation's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xB0,
}

/// A condition of a jump. Comparisons are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum If {
    Equal = 0x10,
    AtLeast = 0x30,
    Below = 0xA0,
}

/// The size of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Size {
    Four = 0x00,
    Eight = 0x18,
}

/// Functions of the kernel that a program can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    /// `bpf_map_lookup_elem(map, key)`: the address of a value, or 0.
    Lookup = 1,
    /// `bpf_ktime_get_ns()`: `CLOCK_MONOTONIC`.
    Now = 5,
}

/// A place in a program that jumps lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    /// The position of each label.
    labels: Vec<Option<usize>>,
    /// Jumps, with the label that each leads to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit(&mut self, code: u8, into: Reg, from: u8, offset: i16, number: i32) {
        self.code.push(
            u64::from(code)
                | u64::from(into as u8 | from << 4) << 8
                | u64::from(offset as u16) << 16
                | u64::from(number as u32) << 32,
        );
    }

    /// `into = into OP from`.
    pub(super) fn alu(&mut self, op: Alu, into: Reg, from: Reg) {
        self.emit(0x0F | op as u8, into, from as u8, 0, 0);
    }

    /// `into = into OP number`.
    pub(super) fn alu_number(&mut self, op: Alu, into: Reg, number: i32) {
        self.emit(0x07 | op as u8, into, 0, 0, number);
    }

    /// `into = *(from + offset)`, with zeros above.
    pub(super) fn load(&mut self, size: Size, into: Reg, from: Reg, offset: i16) {
        self.emit(0x61 | size as u8, into, from as u8, offset, 0);
    }

    /// `*(into + offset) = from`.
    pub(super) fn store(&mut self, size: Size, into: Reg, offset: i16, from: Reg) {
        self.emit(0x63 | size as u8, into, from as u8, offset, 0);
    }

    /// `into` = a map.
    pub(super) fn load_map(&mut self, into: Reg, map: RawFd) {
        self.emit(0x18, into, 1, 0, map);
        self.code.push(0);
    }

    /// Calls a function.
    pub(super) fn call(&mut self, helper: Helper) {
        self.emit(0x85, Reg::R0, 0, 0, helper as i32);
    }

    /// Exits with 0.
    pub(super) fn exit(&mut self) {
        self.alu_number(Alu::Move, Reg::R0, 0);
        self.emit(0x95, Reg::R0, 0, 0, 0);
    }

    /// A label, to be placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is where this label's jumps lead to.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Jumps always.
    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, Reg::R0, 0, 0, 0);
    }

    /// Jumps if the lower 32 bits of a register compare so with a number.
    pub(super) fn jump_if(&mut self, condition: If, reg: Reg, number: u32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x06 | condition as u8, reg, 0, 0, number as i32);
    }

    /// Jumps if all 64 bits of a register are 0.
    pub(super) fn jump_if_zero(&mut self, reg: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05 | If::Equal as u8, reg, 0, 0, 0);
    }

    /// Jumps if the comparison of two registers (64 bits) holds.
    pub(super) fn jump_if_reg(&mut self, condition: If, reg: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x0D | condition as u8, reg, other as u8, 0, 0);
    }

    /// The instructions, with all jumps resolved; `None` if a label was not placed, or a jump is too far.
    pub(super) fn assemble(mut self) -> Option<Vec<u64>> {
        for (at, label) in self.jumps {
            let distance = self.labels[label.0]? as i64 - at as i64 - 1;
            let distance = i16::try_from(distance).ok()?;
            self.code[at] |= u64::from(distance as u16) << 16;
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_machine_expects() {
        let mut a = Assembler::default();
        let end = a.label();
        a.load(Size::Eight, Reg::R6, Reg::R1, 8);
        a.jump_if(If::AtLeast, Reg::R6, 1024, end);
        a.load_map(Reg::R1, 7);
        a.alu(Alu::Sub, Reg::R9, Reg::R8);
        a.store(Size::Four, Reg::R10, -4, Reg::R7);
        a.call(Helper::Now);
        a.place(end);
        a.exit();
        // In the notation of `bpftool prog dump xlated opcodes`, byte by byte.
        let expected = [
            "79 16 08 00 00 00 00 00",
            "36 06 05 00 00 04 00 00",
            "18 11 00 00 07 00 00 00",
            "00 00 00 00 00 00 00 00",
            "1f 89 00 00 00 00 00 00",
            "63 7a fc ff 00 00 00 00",
            "85 00 00 00 05 00 00 00",
            "b7 00 00 00 00 00 00 00",
            "95 00 00 00 00 00 00 00",
        ];
        let bytes = |code: &u64| {
            let hex = code.to_le_bytes().map(|byte| format!("{byte:02x}"));
            hex.join(" ")
        };
        let code = a.assemble().unwrap();
        assert_eq!(code.iter().map(bytes).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_jump_to_a_label_without_a_place_is_refused() {
        let mut a = Assembler::default();
        let nowhere = a.label();
        a.jump(nowhere);
        assert_eq!(a.assemble(), None);
    }
}
