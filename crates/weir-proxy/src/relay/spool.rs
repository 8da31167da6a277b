//! A body that is taken from its source as fast as that gives it, and given on as fast as the other side takes it.
//!
//! What is between both is in memory first, then in a temporary file; when both are full the source waits. Two relays of one task work on
//! it, so neither needs to be woken by the other: the task polls one right behind the other.

use std::task::{Context, Poll, ready};

use weir_http::{FieldRun, FieldWriter, digits};

use super::ends::{RelayError, Sink, Source};
use super::spill::Spill;

/// What was received of a body and not given on.
#[derive(Debug)]
pub(crate) struct Spool {
    memory: Vec<u8>,
    /// How much of `memory` was given on.
    taken: usize,
    /// What comes behind it.
    spill: Option<Box<Spill>>,
    memory_max: usize,
    file_max: u64,
    /// Whether no file can be had.
    is_without_file: bool,
    ended: bool,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Spool {
    pub(crate) const fn new(memory_max: usize, file_max: u64) -> Self {
        Self {
            memory: Vec::new(),
            taken: 0,
            spill: None,
            memory_max,
            file_max,
            is_without_file: file_max == 0,
            ended: false,
            trailers: Vec::new(),
        }
    }

    /// Whether some of it is or was in a file.
    pub(crate) fn has_file(&self) -> bool {
        self.spill.is_some()
    }

    /// Whether everything that was received was given on.
    pub(crate) fn is_drained(&self) -> bool {
        self.ahead().is_empty() && self.spill.is_none()
    }

    fn ahead(&self) -> &[u8] {
        &self.memory[self.taken..]
    }

    fn has_room(&self) -> bool {
        match &self.spill {
            Some(spill) => !self.is_without_file && spill.len() < self.file_max,
            None => self.ahead().len() < self.memory_max || !self.is_without_file,
        }
    }

    fn push(&mut self, data: &[u8]) {
        let fits = self.ahead().len() + data.len() <= self.memory_max;
        if self.spill.is_none() && (fits || self.is_without_file) {
            return self.memory.extend_from_slice(data);
        }
        if self.spill.is_none() {
            self.spill = Spill::new().ok().map(Box::new);
        }
        let is_taken = self.spill.as_mut().is_some_and(|spill| spill.push(data));
        if !is_taken {
            self.is_without_file = true;
            match &mut self.spill {
                // What was received has to go somewhere: it is one buffer, and nothing follows it before there is room.
                Some(spill) => spill.push_beyond(data),
                None => self.memory.extend_from_slice(data),
            }
        }
    }
}

/// The end of a spool that is written to.
pub(crate) struct SpoolSink<'a>(pub(crate) &'a mut Spool);

impl Sink for SpoolSink<'_> {
    fn has_room(&self) -> bool {
        self.0.has_room() && !self.is_waiting()
    }

    fn is_waiting(&self) -> bool {
        let writes = self.0.spill.as_ref().is_some_and(|spill| spill.wants_to_write());
        !self.0.ended && (writes || !self.0.has_room())
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        self.0.push(data);
        data.len()
    }

    fn finish(&mut self, source: &impl Source) {
        self.0.ended = true;
        if source.has_trailers() {
            source.write_trailers(&mut TrailerList(&mut self.0.trailers));
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        if let Some(spill) = &mut self.0.spill {
            ready!(spill.poll_written(cx, false)).map_err(RelayError::Write)?;
        }
        if self.0.has_room() { Poll::Ready(Ok(0)) } else { Poll::Pending }
    }
}

/// The end of a spool that is read from.
pub(crate) struct SpoolSource<'a>(pub(crate) &'a mut Spool);

impl Source for SpoolSource<'_> {
    fn data(&self) -> &[u8] {
        match (self.0.ahead(), &self.0.spill) {
            ([], Some(spill)) => spill.data(),
            (ahead, _) => ahead,
        }
    }

    fn take(&mut self, len: usize) {
        let Spool { memory, taken, spill, .. } = &mut *self.0;
        if *taken < memory.len() {
            *taken += len;
            if *taken == memory.len() {
                memory.clear();
                *taken = 0;
            }
        } else if let Some(file) = spill {
            file.take(len);
            if file.is_finished() {
                *spill = None;
            }
        }
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.0.ended && self.0.is_drained()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let Some(spill) = &mut self.0.spill else { return Poll::Pending };
        ready!(spill.poll_written(cx, true)).map_err(RelayError::Write)?;
        spill.poll_read(cx).map_err(RelayError::Read)
    }

    fn has_trailers(&self) -> bool {
        !self.0.trailers.is_empty()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        self.0.trailers.iter().for_each(|(name, value)| out.field(name, value));
    }
}

/// Keeps trailers.
struct TrailerList<'a>(&'a mut Vec<(Vec<u8>, Vec<u8>)>);

impl FieldWriter for TrailerList<'_> {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0.push((name.to_vec(), value.to_vec()));
    }

    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.field(name, &value);
    }

    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        if !value.is_empty() {
            self.field(name, &value);
        }
    }

    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.field_with(name, |out| digits::decimal(out, value));
    }

    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.field(field.name.of(run.text), field.value.of(run.text));
        }
    }
}
