//! The descriptors of a request.

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

/// A table of descriptors in the memory of a client.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorTable {
    /// Its start address.
    pub start: GuestAddress,
    /// Its entries.
    pub size: u16,
}

/// A part of a request in a client's memory. The client may not share this memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its start address.
    pub start: GuestAddress,
    /// Bytes.
    pub length: u32,
    /// Whether the device writes it.
    pub writable: bool,
}

/// Calls `visit` for each part of the chain that begins with the descriptor `head`: first the parts that the device
/// reads, then those that it writes. `None`: `visit` returned `None`, or the chain is a loop, leaves its table or the
/// memory, has another order, or is longer than 4 GiB, the limit of VIRTIO. Some parts may have been visited by then.
pub fn visit_chain(
    memory: &GuestMemoryMmap,
    mut table: DescriptorTable,
    head: u16,
    mut visit: impl FnMut(Part) -> Option<()>,
) -> Option<()> {
    let entry = size_of::<Descriptor>() as u32;
    let (mut next, mut indirect) = (head, false);
    let (mut bytes, mut writes) = (0u32, false);
    // A chain with more descriptors than the table has is a loop.
    let mut rest = table.size;
    loop {
        if rest == 0 || next >= table.size {
            return None;
        }
        let at = (table.start).checked_add(u64::from(next) * u64::from(entry))?;
        let descriptor: Descriptor = memory.read_obj(at).ok()?;
        if descriptor.refers_to_indirect_table() {
            // The rest of the chain is in the indirect table, which must not refer to another one.
            if indirect || !descriptor.len().is_multiple_of(entry) {
                return None;
            }
            table = DescriptorTable {
                start: descriptor.addr(),
                size: u16::try_from(descriptor.len() / entry).ok()?,
            };
            (next, rest, indirect) = (0, table.size, true);
            continue;
        }
        let part = Part {
            start: descriptor.addr(),
            length: descriptor.len(),
            writable: descriptor.is_write_only(),
        };
        if writes && !part.writable {
            return None;
        }
        writes |= part.writable;
        bytes = bytes.checked_add(part.length)?;
        visit(part)?;
        if !descriptor.has_next() {
            return Some(());
        }
        (next, rest) = (descriptor.next(), rest - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    const OTHER: u64 = 0x8000;

    fn put(memory: &GuestMemoryMmap, table: u64, descriptors: &[(u64, u32, u16, u16)]) {
        for (number, (address, length, flags, next)) in descriptors.iter().enumerate() {
            let descriptor = Descriptor::new(*address, *length, *flags, *next);
            let at = GuestAddress(table + 16 * number as u64);
            memory.write_obj(descriptor, at).unwrap();
        }
    }

    /// The parts of the chain that begins with descriptor 0.
    fn parts(
        table: &[(u64, u32, u16, u16)],
        other: &[(u64, u32, u16, u16)],
    ) -> Option<Vec<(u64, u32, bool)>> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10_0000)]).unwrap();
        put(&memory, 0, table);
        put(&memory, OTHER, other);
        let table = DescriptorTable {
            start: GuestAddress(0),
            size: 64,
        };
        let mut parts = Vec::new();
        visit_chain(&memory, table, 0, |part| {
            parts.push((part.start.0, part.length, part.writable));
            Some(())
        })?;
        Some(parts)
    }

    #[test]
    fn a_chain_continues_in_an_indirect_table() {
        let table = [(1, 2, NEXT, 5), (OTHER, 3 * 16, INDIRECT, 0)];
        let other = [
            (3, 4, NEXT, 2),
            (0, 0, 0, 0),
            // Empty parts count too.
            (5, 0, NEXT | WRITE, 1),
        ];
        assert_eq!(parts(&table[1..], &other), None, "read after written");
        let other = [(3, 4, NEXT, 2), (7, 8, WRITE, 0), (5, 0, NEXT | WRITE, 1)];
        let found = [(3, 4, false), (5, 0, true), (7, 8, true)];
        assert_eq!(parts(&table[1..], &other), Some(found.to_vec()));
        let direct = [(1, 2, NEXT, 2), (0, 0, 0, 0), (OTHER, 48, INDIRECT, 0)];
        let whole = [&[(1, 2, false)], &found[..]].concat();
        assert_eq!(parts(&direct, &other), Some(whole));
    }

    #[test]
    fn a_chain_that_breaks_the_rules_is_refused_as_a_whole() {
        let last = [(0, 1, 0, 0)];
        for (what, table, other) in [
            ("a loop", vec![(0, 1, NEXT, 0)], vec![]),
            ("outside of the table", vec![(0, 1, NEXT, 64)], vec![]),
            (
                "a table in a table",
                vec![(OTHER, 16, INDIRECT, 0)],
                vec![(0, 16, INDIRECT, 0)],
            ),
            (
                "half an entry",
                vec![(OTHER, 24, INDIRECT, 0)],
                last.to_vec(),
            ),
            ("no entry", vec![(OTHER, 0, INDIRECT, 0)], last.to_vec()),
            (
                "too many",
                vec![(OTHER, 16 << 16, INDIRECT, 0)],
                last.to_vec(),
            ),
            ("elsewhere", vec![(1 << 40, 16, INDIRECT, 0)], vec![]),
            ("at the end", vec![(u64::MAX - 8, 32, INDIRECT, 0)], vec![]),
            ("order", vec![(0, 0, NEXT | WRITE, 1), (0, 1, 0, 0)], vec![]),
            (
                "4 GiB",
                vec![(0, 1 << 31, NEXT, 1), (0, 1 << 31, WRITE, 0)],
                vec![],
            ),
        ] {
            assert_eq!(parts(&table, &other), None, "{what}");
        }
        // The limit is a byte less.
        let longest = [(0, 1 << 31, NEXT, 1), (0, (1 << 31) - 1, WRITE, 0)];
        assert_eq!(parts(&longest, &[]).map(|parts| parts.len()), Some(2));
        assert_eq!(
            parts(&[(OTHER, 16, INDIRECT, 0)], &last).map(|parts| parts.len()),
            Some(1)
        );
    }
}
