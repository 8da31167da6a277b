//! One request stream (RFC 9114 section 4.1): its frames, one after the other, and what may follow on what.
//!
//! Bodies are reported as ranges of the input. A field section is, too, if all of it is there; else it is put together here, up to a limit. Everything else is
//! skipped without being kept. Must not decode field sections, nor know what becomes of a message.

use std::ops::Range;

use super::budgets::PeerBudgets;
use super::fault::{Http3Code, Http3Fault};
use super::frame::{FrameHeadReader, Http3FrameHead, frame_type};
use super::input::StreamInput;
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// The receiving side of a request stream.
///
/// ```text
///   Head --HEADERS--> Body --HEADERS--> Trailers        (server)
///   Head --final_head--> Body --HEADERS--> Trailers     (client: any number of interim heads before)
///   Body --become_tunnel--> Tunnel                      (CONNECT: only DATA)
/// ```
#[derive(Debug)]
pub struct RequestStream {
    role: Role,
    phase: MessagePhase,
    place: RequestPlace,
    header: FrameHeadReader,
    /// Most bytes of a field section.
    section_bytes_max: usize,
    /// A field section that is put together.
    section: Vec<u8>,
    /// Bytes of the body that are still to come; `None` when that is unknown.
    expected: Option<u64>,
    /// Whether the end was reported.
    has_ended: bool,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessagePhase {
    Head,
    Body,
    Trailers,
    Tunnel,
}

/// Where the input stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestPlace {
    /// Before, or within, the header of a frame.
    Header,
    /// Within a body.
    Data { left: u64 },
    /// Within a field section.
    Section { left: usize },
    /// Within a payload that means nothing.
    Skip { left: u64 },
    /// Nothing is wanted any more.
    Abandoned,
}

/// The outcome of one step of [`RequestStream::receive`].
#[derive(Debug, PartialEq, Eq)]
pub struct RequestReceived {
    /// Bytes of the input that are dealt with.
    pub used: usize,
    /// What has happened; `None` when more input is needed, or nothing follows.
    pub event: Option<RequestEvent>,
}

/// Something that has happened on a request stream.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// A field section is complete. It is to be decoded before the stream is read on.
    Section {
        /// Where it is: [`RequestStream::section`].
        section: SectionPlace,
        /// What it is.
        usage: SectionUse,
        /// Whether nothing follows on the stream.
        ends_stream: bool,
    },
    /// Part of a body.
    Data {
        /// The bytes, in the input.
        data: Range<usize>,
        /// Whether nothing follows on the stream.
        ends_stream: bool,
    },
    /// The stream has ended, behind what was reported before.
    End,
}

/// Where a field section is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionPlace {
    /// In the input.
    Input(Range<usize>),
    /// In the stream.
    Gathered,
}

/// What a field section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionUse {
    /// The head of a request, or of a response; from a server perhaps an interim one.
    Head,
    /// The trailers.
    Trailers,
}

impl RequestStream {
    /// A stream at its beginning. A field section on it may have up to `section_bytes_max` bytes, compressed.
    pub const fn new(role: Role, section_bytes_max: usize) -> Self {
        Self {
            role,
            phase: MessagePhase::Head,
            place: RequestPlace::Header,
            header: FrameHeadReader::new(),
            section_bytes_max,
            section: Vec::new(),
            expected: None,
            has_ended: false,
        }
    }

    /// Takes in what was received up to the next event. To be called again, behind the used bytes, until there is no event; then all is used. `now` is in
    /// milliseconds.
    ///
    /// # Errors
    /// The fault that ends the connection, or the stream: then nothing of it is reported any more.
    #[inline]
    pub fn receive(
        &mut self,
        input: StreamInput<'_>,
        budgets: &mut PeerBudgets,
        now: u64,
    ) -> Result<RequestReceived, Http3Fault> {
        let received = self.receive_next(input, budgets, now);
        if received.is_err() {
            self.abandon();
        }
        received
    }

    fn receive_next(
        &mut self,
        input: StreamInput<'_>,
        budgets: &mut PeerBudgets,
        now: u64,
    ) -> Result<RequestReceived, Http3Fault> {
        let mut rest = input.bytes;
        loop {
            let at = input.bytes.len() - rest.len();
            let event = match self.place {
                RequestPlace::Header => match self.header.read(&mut rest) {
                    Some(head) => self.frame(head, budgets, now)?,
                    None => {
                        let event = if input.is_last { self.end()? } else { None };
                        return Ok(RequestReceived { used: input.bytes.len(), event });
                    }
                },
                RequestPlace::Abandoned => {
                    return Ok(RequestReceived { used: input.bytes.len(), event: None });
                }
                _ if rest.is_empty() && input.is_last => return Err(Http3Fault::bad_frame()),
                _ if rest.is_empty() => return Ok(RequestReceived { used: at, event: None }),
                RequestPlace::Data { left } => Some(self.data_bytes(left, at, &mut rest)),
                RequestPlace::Section { left } => self.section_bytes(left, at, &mut rest),
                RequestPlace::Skip { left } => {
                    let len = left.min(rest.len() as u64);
                    rest = &rest[len as usize..];
                    self.place = RequestPlace::skip(left - len);
                    None
                }
            };
            if let Some(mut event) = event {
                if input.is_last && rest.is_empty() && self.place == RequestPlace::Header {
                    self.end_with(&mut event)?;
                }
                return Ok(RequestReceived { used: input.bytes.len() - rest.len(), event: Some(event) });
            }
        }
    }

    /// The bytes of a field section that was reported with this input.
    pub fn section<'a>(&'a self, section: &SectionPlace, input: &'a [u8]) -> &'a [u8] {
        match section {
            SectionPlace::Input(range) => input.get(range.clone()).unwrap_or_default(),
            SectionPlace::Gathered => &self.section,
        }
    }

    /// Keeps a field section that has to wait: it is [`SectionPlace::Gathered`] from now on. The stream must not be read on before it was decoded.
    pub fn keep_section(&mut self, section: &SectionPlace, input: &[u8]) {
        if let SectionPlace::Input(range) = section {
            self.section.clear();
            self.section.extend_from_slice(input.get(range.clone()).unwrap_or_default());
        }
    }

    /// Gives the memory of a field section back that was decoded.
    pub fn drop_section(&mut self) {
        self.section = Vec::new();
    }

    /// The head of a response that was reported last is not an interim one: a body may follow.
    pub fn final_head(&mut self) {
        debug_assert!(self.role == Role::Client);
        if self.phase == MessagePhase::Head {
            self.phase = MessagePhase::Body;
        }
    }

    /// The body that follows the head has this length: DATA is held to it (RFC 9114 section 4.1.2).
    ///
    /// # Errors
    /// When the stream has ended without it.
    pub fn expect_length(&mut self, length: u64) -> Result<(), Http3Fault> {
        if self.has_ended && length > 0 {
            return Err(Http3Fault::message(Rule::LengthDiffers));
        }
        self.expected = Some(length);
        Ok(())
    }

    /// The request is a CONNECT: nothing but DATA follows (RFC 9114 section 4.4).
    pub fn become_tunnel(&mut self) {
        self.phase = MessagePhase::Tunnel;
        self.expected = None;
    }

    /// Nothing of what still arrives is wanted, as behind a response that says so: it is neither checked nor reported.
    pub fn abandon(&mut self) {
        self.place = RequestPlace::Abandoned;
        self.section = Vec::new();
    }

    /// Whether the peer has ended its direction.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// A frame begins.
    fn frame(
        &mut self,
        head: Http3FrameHead,
        budgets: &mut PeerBudgets,
        now: u64,
    ) -> Result<Option<RequestEvent>, Http3Fault> {
        match head.number {
            frame_type::DATA => self.data(head.len, budgets, now).map(|()| None),
            frame_type::HEADERS => self.headers(head.len),
            // We have allowed no push (RFC 9114 section 7.2.5).
            frame_type::PUSH_PROMISE if self.role == Role::Client => Err(Http3Fault::bad_id()),
            frame_type::CANCEL_PUSH
            | frame_type::SETTINGS
            | frame_type::PUSH_PROMISE
            | frame_type::GOAWAY
            | frame_type::MAX_PUSH_ID
            | frame_type::PRIORITY_UPDATE_REQUEST
            | frame_type::PRIORITY_UPDATE_PUSH => Err(Http3Fault::unexpected_frame()),
            number if frame_type::is_of_http2(number) => Err(Http3Fault::unexpected_frame()),
            _ => {
                budgets.charge_control(now, Rule::Http3UnknownFrameFlood)?;
                self.place = RequestPlace::skip(head.len);
                Ok(None)
            }
        }
    }

    /// DATA begins (RFC 9114 section 7.2.1).
    #[inline]
    fn data(&mut self, len: u64, budgets: &mut PeerBudgets, now: u64) -> Result<(), Http3Fault> {
        if matches!(self.phase, MessagePhase::Head | MessagePhase::Trailers) {
            return Err(Http3Fault::unexpected_frame());
        }
        if len == 0 {
            return budgets.charge_control(now, Rule::Http3EmptyDataFlood);
        }
        if let Some(expected) = &mut self.expected {
            *expected = expected.checked_sub(len).ok_or(Http3Fault::message(Rule::LengthDiffers))?;
        }
        self.place = RequestPlace::Data { left: len };
        Ok(())
    }

    /// HEADERS begins (RFC 9114 section 7.2.2).
    fn headers(&mut self, len: u64) -> Result<Option<RequestEvent>, Http3Fault> {
        match self.phase {
            MessagePhase::Head if self.role == Role::Server => self.phase = MessagePhase::Body,
            MessagePhase::Head => {}
            MessagePhase::Body if self.expected.is_some_and(|left| left > 0) => {
                return Err(Http3Fault::message(Rule::LengthDiffers));
            }
            MessagePhase::Body => self.phase = MessagePhase::Trailers,
            MessagePhase::Trailers | MessagePhase::Tunnel => return Err(Http3Fault::unexpected_frame()),
        }
        self.section.clear();
        match usize::try_from(len) {
            Ok(0) => Ok(Some(self.section_event(SectionPlace::Gathered))),
            Ok(left) if left <= self.section_bytes_max => {
                self.place = RequestPlace::Section { left };
                Ok(None)
            }
            // It need not be decoded: a field section of HTTP/3 changes no table.
            _ => {
                let is_head = self.phase != MessagePhase::Trailers;
                let rule = if is_head { Rule::HeadTooLarge } else { Rule::TrailersTooLarge };
                Err(Http3Fault::Stream { code: Http3Code::EXCESSIVE_LOAD, rule })
            }
        }
    }

    /// The next bytes of a body, of which there are some.
    #[inline]
    fn data_bytes(&mut self, left: u64, at: usize, rest: &mut &[u8]) -> RequestEvent {
        let len = left.min(rest.len() as u64);
        *rest = &rest[len as usize..];
        self.place = match left - len {
            0 => RequestPlace::Header,
            left => RequestPlace::Data { left },
        };
        RequestEvent::Data { data: at..at + len as usize, ends_stream: false }
    }

    /// The next bytes of a field section.
    fn section_bytes(&mut self, left: usize, at: usize, rest: &mut &[u8]) -> Option<RequestEvent> {
        let len = left.min(rest.len());
        let (bytes, behind) = rest.split_at(len);
        *rest = behind;
        if len == left {
            self.place = RequestPlace::Header;
            if self.section.is_empty() {
                return Some(self.section_event(SectionPlace::Input(at..at + len)));
            }
        } else {
            self.place = RequestPlace::Section { left: left - len };
        }
        self.section.extend_from_slice(bytes);
        (len == left).then(|| self.section_event(SectionPlace::Gathered))
    }

    fn section_event(&self, section: SectionPlace) -> RequestEvent {
        let usage =
            if self.phase == MessagePhase::Trailers { SectionUse::Trailers } else { SectionUse::Head };
        RequestEvent::Section { section, usage, ends_stream: false }
    }

    /// The stream ends with this event.
    fn end_with(&mut self, event: &mut RequestEvent) -> Result<(), Http3Fault> {
        match event {
            RequestEvent::Data { ends_stream, .. } => {
                self.check_length()?;
                *ends_stream = true;
            }
            // Whether a head may end the stream depends on what is in it.
            RequestEvent::Section { ends_stream, .. } => *ends_stream = true,
            RequestEvent::End => {}
        }
        self.has_ended = true;
        Ok(())
    }

    /// The stream ends between two frames, or within the header of one.
    fn end(&mut self) -> Result<Option<RequestEvent>, Http3Fault> {
        if self.has_ended {
            return Ok(None);
        }
        if self.header.is_within() {
            return Err(Http3Fault::bad_frame());
        }
        if self.phase == MessagePhase::Head {
            let rule = Rule::Http3RequestIncomplete;
            return Err(Http3Fault::Stream { code: Http3Code::REQUEST_INCOMPLETE, rule });
        }
        self.check_length()?;
        self.has_ended = true;
        Ok(Some(RequestEvent::End))
    }

    fn check_length(&self) -> Result<(), Http3Fault> {
        match self.expected {
            Some(1..) => Err(Http3Fault::message(Rule::LengthDiffers)),
            _ => Ok(()),
        }
    }
}

impl RequestPlace {
    /// Within a payload of this length that means nothing.
    const fn skip(left: u64) -> Self {
        if left == 0 { Self::Header } else { Self::Skip { left } }
    }
}

#[cfg(test)]
mod tests;
