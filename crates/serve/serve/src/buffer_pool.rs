//! A pool of buffers.

/// Buffers of requests that have ended, for the next ones: at most `MOST` bytes.
#[derive(Debug, Default)]
pub(crate) struct BufferPool<const MOST: usize> {
    buffers: Vec<Vec<u8>>,
    /// Total capacity.
    bytes: usize,
}

impl<const MOST: usize> BufferPool<MOST> {
    /// Returns a buffer with any content, one with room for this many bytes if possible.
    pub(crate) fn take(&mut self, needed: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= needed;
        let buffer = match self.buffers.iter().rposition(fits) {
            Some(at) => self.buffers.swap_remove(at),
            None => self.buffers.pop().unwrap_or_default(),
        };
        self.bytes -= buffer.capacity();
        buffer
    }

    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        let kept = self.bytes + buffer.capacity();
        if kept <= MOST && buffer.capacity() > 0 {
            self.bytes = kept;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BufferPool;

    #[test]
    fn long_requests_use_the_buffers_of_earlier_ones() {
        const MOST: usize = 16 << 20;
        let mut pool = BufferPool::<MOST>::default();
        for length in [1 << 20, 4096] {
            pool.keep(Vec::with_capacity(length));
        }
        let long = pool.take(1 << 20);
        assert!(long.capacity() >= 1 << 20);
        assert!(pool.take(512).capacity() < 1 << 20);
        assert_eq!((pool.take(512).capacity(), pool.bytes), (0, 0));
        pool.keep(long);
        // Buffers beyond the limit are freed.
        for _ in 0..2 * MOST / (1 << 20) {
            pool.keep(Vec::with_capacity(1 << 20));
        }
        let kept: usize = pool.buffers.iter().map(Vec::capacity).sum();
        assert_eq!(kept, pool.bytes);
        assert!(kept <= MOST && kept > MOST - (2 << 20));
    }
}
