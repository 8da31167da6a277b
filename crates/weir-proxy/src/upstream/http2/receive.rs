//! The side of servers: responses on their way from the frames to the streams that wait for them.

use std::rc::Rc;

use weir_http::h2::{ConnectionFault, ErrorCode, Role, read_response, skip_block};
use weir_http::{Method, ResponseHead, Rule};
use weir_observe::Cause;

use crate::relay::http2::inbox::ReceivedHead;
use crate::relay::http2::receive::broken_rule;
use crate::relay::http2::shared::{ConnectionSide, Http2State, MessageLimits};
use crate::upstream::stream::Unprocessed;

/// Heads of one stream that wait for its task: more interim responses than are passed on.
const HEADS_MAX: usize = 34;

/// Connections to servers, on which Weir opens streams.
pub(crate) struct ToServers;

/// What a connection to a server keeps beside the frames.
#[derive(Debug, Default)]
pub(crate) struct ServerStreams {
    /// Whether the server has said that it takes no further streams.
    pub(super) is_going_away: bool,
    /// Whether it has asked for HTTP/1.1 (RFC 9113 section 7) since the task of the connection looked last.
    pub(super) requires_http1: bool,
    /// Heads and bodies that have come, in frames.
    pub(super) messages: u64,
}

/// What does not change about a connection to a server.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    /// The scheme of its requests.
    pub(super) scheme: &'static [u8],
    /// Whether the upstream allows HTTP/1.1 as well.
    pub(super) may_use_http1: bool,
}

/// What has come of a response and was not taken.
#[derive(Debug)]
pub(crate) struct ResponseInbox {
    /// The method of the request, which decides whether the response has a body.
    pub(super) method: Method,
    /// The first head that was not taken, and those behind it: interim ones, and the final one as the last.
    first: Option<Box<ReceivedHead<ResponseHead>>>,
    #[expect(clippy::vec_box, reason = "they are handed over, and come back")]
    further: Vec<Box<ReceivedHead<ResponseHead>>>,
    /// Whether the final one is there, or was taken.
    has_final: bool,
    /// Why the server has left the request alone, if it has said so.
    pub(super) unprocessed: Option<Unprocessed>,
    /// Whether the server has reset the stream, which says something about the server, not about the connection.
    pub(super) was_reset: bool,
}

impl ResponseInbox {
    pub(super) fn new() -> Self {
        Self {
            method: Method::Get,
            first: None,
            further: Vec::new(),
            has_final: false,
            unprocessed: None,
            was_reset: false,
        }
    }

    /// The next head.
    pub(super) fn take_head(&mut self) -> Option<Box<ReceivedHead<ResponseHead>>> {
        let next = (!self.further.is_empty()).then(|| self.further.remove(0));
        std::mem::replace(&mut self.first, next)
    }

    /// Adds a head; whether there are more than will ever be taken.
    fn add_head(&mut self, head: Box<ReceivedHead<ResponseHead>>) -> bool {
        match self.first {
            None => self.first = Some(head),
            Some(_) => self.further.push(head),
        }
        self.further.len() >= HEADS_MAX
    }

    /// Whether any head has come.
    fn has_begun(&self) -> bool {
        self.has_final || self.first.is_some()
    }
}

impl ConnectionSide for ToServers {
    const ROLE: Role = Role::Client;
    const DROPPED: ErrorCode = ErrorCode::CANCEL;
    type Head = ResponseHead;
    type Inbox = ResponseInbox;
    type State = ServerStreams;
    type Facts = ServerFacts;

    /// The head of a response, or its trailers: what comes behind a final head.
    fn head(
        state: &mut Http2State<Self>,
        id: u32,
        block: &[u8],
        ends_stream: bool,
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        state.side.messages += 1;
        let has_final = state.stream(id).map(|stream| stream.inbox.borrow().side.has_final);
        match has_final {
            Some(false) => receive_head(state, id, block, ends_stream, limits),
            Some(true) if ends_stream => state.trailers(id, block, limits),
            // The table of HPACK has to stay in step.
            Some(true) => {
                skip(state, block, limits)?;
                state.break_stream(id, Rule::Http2TrailersWithoutEnd)
            }
            None => skip(state, block, limits),
        }
    }

    fn data(
        state: &mut Http2State<Self>,
        id: u32,
        data: &[u8],
        ends_stream: bool,
    ) -> Result<(), ConnectionFault> {
        state.side.messages += 1;
        if state.stream(id).is_some_and(|stream| !stream.inbox.borrow().side.has_final) {
            return state.break_stream(id, Rule::Http2DataBeforeHead);
        }
        state.data(id, data, ends_stream);
        Ok(())
    }

    fn reset(state: &mut Http2State<Self>, id: u32, code: ErrorCode) {
        let unprocessed = match code {
            ErrorCode::REFUSED_STREAM => Some(Unprocessed::Refused),
            ErrorCode::HTTP_1_1_REQUIRED => Some(Unprocessed::Http1Required),
            _ => None,
        };
        let Some(stream) = state.stream(id).map(Rc::clone) else { return };
        let mut inbox = stream.inbox.borrow_mut();
        inbox.side.was_reset = true;
        if unprocessed.is_some() && !inbox.side.has_begun() {
            inbox.side.unprocessed = unprocessed;
            state.side.requires_http1 |= code == ErrorCode::HTTP_1_1_REQUIRED;
        }
        drop(inbox);
        stream.leave(Cause::Reset);
    }

    fn go_away(state: &mut Http2State<Self>, last_stream: u32, code: ErrorCode) {
        state.side.is_going_away = true;
        state.side.requires_http1 |= code == ErrorCode::HTTP_1_1_REQUIRED;
        let unprocessed = match code {
            ErrorCode::HTTP_1_1_REQUIRED => Unprocessed::Http1Required,
            _ => Unprocessed::GoAway,
        };
        for stream in state.streams.iter().filter(|stream| stream.id > last_stream) {
            stream.inbox.borrow_mut().side.unprocessed = Some(unprocessed);
            stream.leave(Cause::GoAway);
        }
    }
}

fn receive_head(
    state: &mut Http2State<ToServers>,
    id: u32,
    block: &[u8],
    ends_stream: bool,
    limits: MessageLimits<'_>,
) -> Result<(), ConnectionFault> {
    let mut head = state.heads.pop().unwrap_or_default();
    let ReceivedHead { head: response, text } = &mut *head;
    response.reset();
    let read = read_response(&mut state.decoder, block, response, text, limits.head, ends_stream);
    if let Some(rule) = broken_rule(read)? {
        return state.break_stream(id, rule);
    }
    let is_final = response.status() >= 200;
    let Some(stream) = state.stream(id).map(Rc::clone) else { return Ok(()) };
    let mut inbox = stream.inbox.borrow_mut();
    if is_final
        && let Some(length) = length_to_expect(response, inbox.side.method)
        && let Err(fault) = state.codec.expect_length(id, length)
    {
        drop(inbox);
        return state.break_stream(id, fault.rule);
    }
    inbox.side.has_final = is_final;
    inbox.has_ended = ends_stream;
    let is_too_many = inbox.side.add_head(head);
    drop(inbox);
    if is_too_many {
        state.reset(id, ErrorCode::ENHANCE_YOUR_CALM, Cause::TooManyInterimResponses);
    }
    stream.wake();
    Ok(())
}

/// How many bytes of DATA may follow the head of a final response, if it says that: none where no body may follow, whatever its length says
/// (RFC 9110 section 6.4.1). What follows a tunnel's head is no body.
fn length_to_expect(response: &ResponseHead, method: Method) -> Option<u64> {
    let opens_tunnel = method == Method::Connect && response.status() < 300;
    response.body(method).length().filter(|_| !opens_tunnel)
}

fn skip(
    state: &mut Http2State<ToServers>,
    block: &[u8],
    limits: MessageLimits<'_>,
) -> Result<(), ConnectionFault> {
    let mut text = Vec::new();
    broken_rule(skip_block(&mut state.decoder, block, &mut text, limits.head)).map(|_| ())
}
