//! The field sections that refer to the dynamic table and were not acknowledged: their entries must stay (RFC 9204 section 2.1.1).

use std::collections::VecDeque;

/// Most sections; when there are as many, further ones do without the table.
const SECTIONS_MAX: usize = 128;

/// One section.
#[derive(Debug, Clone, Copy)]
struct SentSection {
    stream: u64,
    /// Insertions that it needs.
    required: u64,
    /// The oldest entry that it refers to.
    oldest: u64,
}

/// The sections, in the order in which they were sent.
#[derive(Debug, Clone, Default)]
pub(super) struct SentSections {
    sections: VecDeque<SentSection>,
}

impl SentSections {
    pub(super) fn is_full(&self) -> bool {
        self.sections.len() >= SECTIONS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Adds a section. There must be room for it.
    pub(super) fn push(&mut self, stream: u64, required: u64, oldest: u64) {
        debug_assert!(!self.is_full() && oldest < required);
        self.sections.push_back(SentSection { stream, required, oldest });
    }

    /// The oldest section of a stream was decoded: the insertions that it needs; `None` when there is none.
    pub(super) fn acknowledge(&mut self, stream: u64) -> Option<u64> {
        let place = self.sections.iter().position(|section| section.stream == stream)?;
        self.sections.remove(place).map(|section| section.required)
    }

    /// No section of a stream will be decoded any more.
    pub(super) fn cancel(&mut self, stream: u64) {
        self.sections.retain(|section| section.stream != stream);
    }

    /// The oldest entry that any of them refers to.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.sections.iter().map(|section| section.oldest).min()
    }

    /// Gives the memory back.
    pub(super) fn shrink(&mut self) {
        self.sections.shrink_to_fit();
    }
}
