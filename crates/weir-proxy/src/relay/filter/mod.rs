//! Bodies that change on their way: a [`Source`] whose bytes come out of a chain of filters.
//!
//! The chain belongs to a relay and joins any two protocols. Each filter holds one bounded piece of what it has made, and takes the next bytes
//! of the one before it, or of the source, only when that has gone on. Must not decide which bodies are changed.

pub(crate) mod grpc_web;
pub(crate) mod coding;
pub(crate) mod digest;
pub(crate) mod rewrite;

use std::task::{Context, Poll};

use weir_http::{FieldWriter, Rule};

use super::ends::{FileSlice, RelayError, Source};
use coding::{ChangedTrailers, CodingFilter};
use digest::RunningDigest;
use grpc_web::{GrpcWebRequest, GrpcWebResponse};
use rewrite::RewriteFilter;

/// Bytes of the source that a filter takes at a time.
const PIECE_MAX: usize = 8 * 1024;

/// How a body is changed.
#[derive(Debug)]
pub(crate) enum BodyFilter {
    GrpcWebRequest(GrpcWebRequest),
    GrpcWebResponse(GrpcWebResponse),
    Coding(CodingFilter),
    Rewrite(RewriteFilter),
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
            BodyFilter::Coding(_) | BodyFilter::Rewrite(_) => Ok(()),
        }
    }

    /// Appends what can be given out although more follows, since nothing more is here.
    fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            BodyFilter::GrpcWebRequest(_)
            | BodyFilter::Coding(_)
            | BodyFilter::Rewrite(_)
            | BodyFilter::Digest(_) => {}
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
            BodyFilter::Coding(_) | BodyFilter::Rewrite(_) | BodyFilter::Digest(_) => Ok(()),
        }
    }

    /// What becomes of the trailers of the body.
    const fn trailers(&self) -> TrailerRule {
        match self {
            BodyFilter::Digest(_) => TrailerRule::AsTheyAre,
            BodyFilter::Coding(_) | BodyFilter::Rewrite(_) => TrailerRule::OfChangedBody,
            BodyFilter::GrpcWebRequest(_) | BodyFilter::GrpcWebResponse(_) => TrailerRule::Dropped,
        }
    }

    /// Whether the body may end behind what has passed: there is no place for the trailers of gRPC-Web inside a message.
    fn may_end(&self) -> bool {
        match self {
            BodyFilter::GrpcWebResponse(response) => response.may_end(),
            BodyFilter::GrpcWebRequest(_)
            | BodyFilter::Coding(_)
            | BodyFilter::Rewrite(_)
            | BodyFilter::Digest(_) => true,
        }
    }
}

/// What becomes of the trailers of a body. Of several filters, the one that leaves the least decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum TrailerRule {
    #[default]
    AsTheyAre,
    /// Those pass that do not hold for the body as it was.
    OfChangedBody,
    /// None: the filter has put them into the body.
    Dropped,
}

/// A filter at work on one body, and those before it.
#[derive(Debug)]
pub(crate) struct RunningFilter {
    filter: BodyFilter,
    /// The filter whose output this one takes, toward the source; `None`: it takes the body as it comes.
    previous: Option<Box<RunningFilter>>,
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
    /// Takes what comes out of `previous`.
    pub(crate) fn behind(previous: Option<Box<Self>>, filter: BodyFilter) -> Box<Self> {
        Box::new(Self {
            filter,
            previous,
            made: Vec::new(),
            taken: 0,
            consumed: 0,
            has_ended: false,
            fault: None,
        })
    }

    /// Puts a filter before all others, so that it takes the body as it comes.
    pub(crate) fn put_first(chain: &mut Option<Box<Self>>, filter: BodyFilter) {
        match chain {
            None => *chain = Some(Self::behind(None, filter)),
            Some(running) => Self::put_first(&mut running.previous, filter),
        }
    }

    /// The filters, the one nearest the sink first.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |running| running.previous.as_deref())
    }

    /// The one that takes the body as it comes.
    fn first(&self) -> &Self {
        self.all().last().unwrap_or(self)
    }

    /// The length and the digest of the body as it came, if that is made.
    pub(crate) fn digest(&self) -> Option<(u64, u128)> {
        match &self.first().filter {
            BodyFilter::Digest(digest) => Some(digest.value()),
            _ => None,
        }
    }

    /// The digest of the body without its content coding.
    pub(crate) fn decoded_digest(&self) -> Option<(u64, u128)> {
        match &self.first().filter {
            BodyFilter::Digest(digest) => digest.decoded_value(),
            _ => None,
        }
    }

    /// Whether the body may end behind what was taken of it.
    pub(crate) fn may_end(&self) -> bool {
        self.all().all(|running| running.filter.may_end())
    }

    /// Bytes that were taken of the body as it came.
    pub(crate) fn consumed(&self) -> u64 {
        self.first().consumed
    }

    /// What becomes of the trailers, by all filters at once: a writer for each would be a type without end.
    fn trailers(&self) -> TrailerRule {
        self.all().map(|running| running.filter.trailers()).max().unwrap_or_default()
    }
}

/// A source behind a chain of filters, if there is one. Its trailers are a matter of the filters.
///
/// One type for all depths of a chain, since the loops of a relay are compiled for each pair of a source and a sink.
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
        let RunningFilter { filter, previous, made, taken, consumed, has_ended, fault } = &mut **running;
        if *taken < made.len() || *has_ended || fault.is_some() {
            return Ok(0);
        }
        let source = &mut Filtered { source: &mut *self.source, running: previous.as_deref_mut() };
        made.clear();
        *taken = 0;
        let filled = match filter {
            BodyFilter::Coding(coding) => Some(coding.fill(source, made, consumed)?),
            BodyFilter::Rewrite(rewrite) => Some(rewrite.fill(source, made, consumed)?),
            _ => None,
        };
        if let Some((cost, is_over)) = filled {
            *has_ended = is_over;
            return Ok(cost);
        }
        let mut framing = 0;
        while made.len() < PIECE_MAX {
            framing += source.decode()?;
            let data = source.data();
            if data.is_empty() {
                break;
            }
            let len = data.len().min(PIECE_MAX);
            filter.pass(&data[..len], made).map_err(RelayError::Broken)?;
            source.take(len);
            *consumed += len as u64;
        }
        filter.flush(made);
        if source.data().is_empty() && source.is_finished() {
            if !filter.may_end() {
                *fault = Some(Rule::GrpcMessageCut);
                return Ok(framing);
            }
            *has_ended = true;
            filter.finish(source, made).map_err(RelayError::Broken)?;
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
        let RunningFilter { filter, previous, .. } = &mut **running;
        let source = &mut Filtered { source: &mut *self.source, running: previous.as_deref_mut() };
        match filter {
            BodyFilter::Coding(coding) => coding.poll_read(cx, source),
            BodyFilter::Rewrite(rewrite) => rewrite.poll_read(cx, source),
            _ => source.poll_read(cx),
        }
    }

    fn has_trailers(&self) -> bool {
        let trailers = self.running.as_ref().map_or_else(TrailerRule::default, |running| running.trailers());
        trailers != TrailerRule::Dropped && self.source.has_trailers()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        match self.running.as_ref().map_or_else(TrailerRule::default, |running| running.trailers()) {
            TrailerRule::AsTheyAre => self.source.write_trailers(out),
            TrailerRule::OfChangedBody => self.source.write_trailers(&mut ChangedTrailers(out)),
            TrailerRule::Dropped => {}
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
mod chain_tests;
#[cfg(test)]
mod tests;
