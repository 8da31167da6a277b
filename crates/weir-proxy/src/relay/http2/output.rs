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

    /// What waits.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Counts bytes as written.
    pub(super) fn advance(&mut self, len: usize) {
        self.written += len;
        self.total += len as u64;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
            self.round = self.round.wrapping_add(1);
        } else if self.written >= OUTPUT_BYTES_MAX {
            self.bytes.drain(..self.written);
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
