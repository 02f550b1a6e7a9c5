//! The buffers of a request and of its reply, in memory that a client may change at any time.

use vm_memory::VolatileSlice;

/// Parts of memory, in order, which together form one byte sequence.
pub(crate) type Buffers<'a> = Vec<VolatileSlice<'a>>;

/// The bytes between two offsets, clipped to the end of the sequence.
pub(crate) fn between<'a>(parts: &[VolatileSlice<'a>], from: usize, to: usize) -> Buffers<'a> {
    let mut start = 0;
    let mut found = Vec::with_capacity(parts.len());
    for part in parts {
        let (first, last) = (from.max(start), to.min(start + part.len()));
        if first < last
            && let Ok(within) = part.subslice(first - start, last - first)
        {
            found.push(within);
        }
        start += part.len();
    }
    found
}

/// Copies the first bytes. Returns their number.
pub(crate) fn copied_out(parts: &[VolatileSlice<'_>], into: &mut [u8]) -> usize {
    let mut done = 0;
    for part in parts {
        done += part.copy_to(&mut into[done..]);
    }
    done
}

/// Writes bytes to the beginning, as many as fit. Returns their number.
pub(crate) fn copied_in(parts: &[VolatileSlice<'_>], bytes: &[u8]) -> usize {
    let mut done = 0;
    for part in parts {
        let count = part.len().min(bytes.len() - done);
        part.copy_from(&bytes[done..done + count]);
        done += count;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_text_is_found_across_its_parts() {
        let (mut first, mut second, mut third) = ([1u8, 2, 3], [0u8; 0], [4u8, 5, 6, 7]);
        let parts: Buffers<'_> = vec![
            (&mut first[..]).into(),
            (&mut second[..]).into(),
            (&mut third[..]).into(),
        ];
        for (from, to) in [(0, 7), (2, 4), (3, 7), (5, 99), (7, 9), (4, 2)] {
            let mut bytes = [0; 7];
            let count = copied_out(&between(&parts, from, to), &mut bytes);
            let expected: Vec<u8> = (from..to.min(7)).map(|at| at as u8 + 1).collect();
            assert_eq!(bytes[..count], expected, "{from} {to}");
        }
        assert_eq!(copied_in(&between(&parts, 2, 5), &[9; 8]), 3);
        assert_eq!((first, third), ([1, 2, 9], [9, 9, 6, 7]));
    }
}
