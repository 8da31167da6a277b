//! Bodies that change on their way: a [`Source`] whose bytes come out of a filter.
//!
//! A filter belongs to a relay and joins any two protocols. It holds one bounded piece of what it has made, and takes the next bytes only
//! when that has gone on. Must not decide which bodies are changed.

pub(crate) mod grpc_web;
pub(crate) mod coding;
pub(crate) mod digest;

use std::task::{Context, Poll};

use weir_http::{FieldWriter, Rule};

use super::ends::{FileSlice, RelayError, Source};
use coding::{ChangedTrailers, CodingFilter};
use digest::RunningDigest;
use grpc_web::{GrpcWebRequest, GrpcWebResponse};

/// Bytes of the source that a filter takes at a time.
const PIECE_MAX: usize = 8 * 1024;

/// How a body is changed.
#[derive(Debug)]
pub(crate) enum BodyFilter {
    GrpcWebRequest(GrpcWebRequest),
    GrpcWebResponse(GrpcWebResponse),
    Coding(CodingFilter),
    /// It is not, but its digest is made.
    Digest(RunningDigest),
}

impl BodyFilter {
    /// Appends what becomes of `data`.
    fn pass(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Rule> {
        match self {
            BodyFilter::GrpcWebRequest(request) => request.pass(data, out),
            BodyFilter::GrpcWebResponse(response) => {
                response.pass(data, out);
                Ok(())
            }
            BodyFilter::Digest(digest) => {
                digest.add(data);
                out.extend_from_slice(data);
                Ok(())
            }
            BodyFilter::Coding(_) => Ok(()),
        }
    }

    /// Appends what can be given out although more follows, since nothing more is here.
    fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            BodyFilter::GrpcWebRequest(_) | BodyFilter::Coding(_) | BodyFilter::Digest(_) => {}
            BodyFilter::GrpcWebResponse(response) => response.flush(out),
        }
    }

    /// Appends what follows the last byte of `source`.
    fn finish(&mut self, source: &impl Source, out: &mut Vec<u8>) -> Result<(), Rule> {
        match self {
            BodyFilter::GrpcWebRequest(request) => request.finish(),
            BodyFilter::GrpcWebResponse(response) => {
                response.finish(source, out);
                Ok(())
            }
            BodyFilter::Coding(_) | BodyFilter::Digest(_) => Ok(()),
        }
    }

    /// Whether the body may end behind what has passed: there is no place for the trailers of gRPC-Web inside a message.
    fn may_end(&self) -> bool {
        match self {
            BodyFilter::GrpcWebResponse(response) => response.may_end(),
            BodyFilter::GrpcWebRequest(_) | BodyFilter::Coding(_) | BodyFilter::Digest(_) => true,
        }
    }
}

/// A filter at work on one body.
#[derive(Debug)]
pub(crate) struct RunningFilter {
    filter: BodyFilter,
    /// What it has made.
    made: Vec<u8>,
    /// How much of that was taken.
    taken: usize,
    /// Bytes of the source that it has taken.
    consumed: u64,
    has_ended: bool,
    /// What is wrong with the end of the body: told when all that was made has been delivered.
    fault: Option<Rule>,
}

impl RunningFilter {
    pub(crate) fn new(filter: BodyFilter) -> Box<Self> {
        Box::new(Self { filter, made: Vec::new(), taken: 0, consumed: 0, has_ended: false, fault: None })
    }

    /// The length and the digest of what it has taken, if that is made.
    pub(crate) fn digest(&self) -> Option<(u64, u128)> {
        match &self.filter {
            BodyFilter::Digest(digest) => Some(digest.value()),
            _ => None,
        }
    }

    /// Whether the body may end behind what it has taken.
    pub(crate) fn may_end(&self) -> bool {
        self.filter.may_end()
    }

    /// Bytes of the body that it has taken.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }
}

/// A source behind a filter, if there is one. Its trailers are a matter of the filter.
///
/// One type for both, since the loops of a relay are compiled for each pair of a source and a sink.
pub(crate) struct Filtered<'a, S> {
    pub(crate) source: &'a mut S,
    pub(crate) running: Option<&'a mut RunningFilter>,
}

impl<S: Source> Source for Filtered<'_, S> {
    fn data(&self) -> &[u8] {
        match &self.running {
            None => self.source.data(),
            Some(running) => &running.made[running.taken..],
        }
    }

    fn take(&mut self, len: usize) {
        match &mut self.running {
            None => self.source.take(len),
            Some(running) => running.taken += len,
        }
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        let Some(running) = &mut self.running else { return self.source.decode() };
        let RunningFilter { filter, made, taken, consumed, has_ended, fault } = &mut **running;
        if *taken < made.len() || *has_ended || fault.is_some() {
            return Ok(0);
        }
        made.clear();
        *taken = 0;
        if let BodyFilter::Coding(coding) = filter {
            let (cost, is_over) = coding.fill(self.source, made, consumed)?;
            *has_ended = is_over;
            return Ok(cost);
        }
        let mut framing = 0;
        while made.len() < PIECE_MAX {
            framing += self.source.decode()?;
            let data = self.source.data();
            if data.is_empty() {
                break;
            }
            let len = data.len().min(PIECE_MAX);
            filter.pass(&data[..len], made).map_err(RelayError::Broken)?;
            self.source.take(len);
            *consumed += len as u64;
        }
        filter.flush(made);
        if self.source.data().is_empty() && self.source.is_finished() {
            if !filter.may_end() {
                *fault = Some(Rule::GrpcMessageCut);
                return Ok(framing);
            }
            *has_ended = true;
            filter.finish(self.source, made).map_err(RelayError::Broken)?;
        }
        Ok(framing)
    }

    fn is_finished(&self) -> bool {
        match &self.running {
            None => self.source.is_finished(),
            Some(running) => running.has_ended && self.data().is_empty(),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let Some(running) = &mut self.running else { return self.source.poll_read(cx) };
        if let Some(rule) = running.fault {
            return Poll::Ready(Err(RelayError::Broken(rule)));
        }
        match &mut running.filter {
            BodyFilter::Coding(coding) => coding.poll_read(cx, self.source),
            _ => self.source.poll_read(cx),
        }
    }

    fn has_trailers(&self) -> bool {
        let passes = self
            .running
            .as_ref()
            .is_none_or(|running| matches!(running.filter, BodyFilter::Coding(_) | BodyFilter::Digest(_)));
        passes && self.source.has_trailers()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        match self.running.as_ref().map(|running| &running.filter) {
            None | Some(BodyFilter::Digest(_)) => self.source.write_trailers(out),
            Some(BodyFilter::Coding(_)) => self.source.write_trailers(&mut ChangedTrailers(out)),
            Some(_) => {}
        }
    }

    fn file(&self) -> Option<FileSlice<'_>> {
        if self.running.is_none() { self.source.file() } else { None }
    }

    fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.running.is_none() { self.source.poll_resident(cx) } else { Poll::Ready(Ok(())) }
    }

    fn skip(&mut self, len: usize) {
        if self.running.is_none() {
            self.source.skip(len);
        }
    }
}

#[cfg(test)]
mod tests;
