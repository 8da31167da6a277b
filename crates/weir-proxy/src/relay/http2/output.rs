//! Frames that wait to be written, of all streams of a connection.

/// Bytes that wait at most before streams have to wait with more of their bodies. Heads are added all the same: there are no more of them
/// than streams.
pub(super) const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The place of a frame in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FramePlace {
    round: u32,
    start: usize,
}

/// What was appended and not yet written.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    written: usize,
    /// Where in `bytes` a write has to end, if that is not written yet.
    boundary: usize,
    /// How often everything was written: places of earlier rounds mean nothing.
    round: u32,
    /// Bytes written since the beginning of the connection.
    pub(super) total: u64,
}

impl Output {
    /// With the first frames.
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of bodies may still be added.
    pub(super) fn room(&self) -> usize {
        OUTPUT_BYTES_MAX.saturating_sub(self.len())
    }

    /// What waits, up to the next boundary.
    pub(super) fn unwritten(&self) -> &[u8] {
        let end = if self.boundary > self.written { self.boundary } else { self.bytes.len() };
        &self.bytes[self.written..end]
    }

    /// What is appended from here on leaves in a write of its own.
    pub(super) fn put_boundary(&mut self, at: usize) {
        self.boundary = at;
    }

    /// Counts bytes as written.
    pub(super) fn advance(&mut self, len: usize) {
        self.written += len;
        self.total += len as u64;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
            self.boundary = 0;
            self.round = self.round.wrapping_add(1);
        } else if self.written >= OUTPUT_BYTES_MAX {
            self.bytes.drain(..self.written);
            self.boundary = self.boundary.saturating_sub(self.written);
            self.written = 0;
            self.round = self.round.wrapping_add(1);
        }
    }

    /// The place of the frame that is appended next.
    pub(super) fn place(&self) -> FramePlace {
        FramePlace { round: self.round, start: self.bytes.len() }
    }

    /// Where a frame is in `bytes`, if none of it was written.
    pub(super) fn find(&self, place: FramePlace) -> Option<usize> {
        (place.round == self.round && place.start >= self.written).then_some(place.start)
    }

    /// Drops what waits: it cannot be sent any more.
    pub(super) fn discard(&mut self) {
        self.advance(self.len());
    }

    /// Gives the memory back, once nothing waits.
    pub(super) fn release(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_until_it_begins_to_leave() {
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"first");
        let place = output.place();
        output.bytes.extend_from_slice(b"second");
        assert_eq!(output.find(place), Some(5));
        output.advance(5);
        assert_eq!((output.find(place), output.unwritten()), (Some(5), &b"second"[..]));
        output.advance(1);
        assert_eq!(output.find(place), None);
        output.advance(5);
        output.bytes.extend_from_slice(b"third and more");
        assert_eq!(output.find(place), None, "another frame is there now");
        assert_eq!(output.total, 11);
    }

    #[test]
    fn a_write_ends_at_a_boundary() {
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"response");
        output.put_boundary(output.bytes.len());
        output.bytes.extend_from_slice(b"reset");
        assert_eq!(output.unwritten(), b"response");
        output.advance(3);
        assert_eq!((output.unwritten(), output.len()), (&b"ponse"[..], 10));
        output.advance(5);
        assert_eq!(output.unwritten(), b"reset");
        output.advance(5);
        output.bytes.extend_from_slice(b"the next response");
        assert_eq!(output.unwritten(), b"the next response");
        let mut large = Output::holding(vec![0; OUTPUT_BYTES_MAX + 10]);
        large.put_boundary(OUTPUT_BYTES_MAX + 5);
        large.advance(OUTPUT_BYTES_MAX);
        assert_eq!(
            (large.unwritten().len(), large.len()),
            (5, 10),
            "also when what was written has been dropped"
        );
    }

    #[test]
    fn what_was_written_does_not_pile_up() {
        let mut output = Output::default();
        for _ in 0..100 {
            output.bytes.extend_from_slice(&[0; 1000]);
            output.advance(999);
        }
        assert_eq!(output.len(), 100);
        assert!(output.bytes.len() <= OUTPUT_BYTES_MAX + 1000);
    }
}
