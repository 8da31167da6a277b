//! The side of clients: requests on their way from the frames to the streams that they open.

use std::rc::Rc;

use weir_http::h2::{ConnectionFault, ErrorCode, Role, read_request};
use weir_http::{Framing, Priority, RequestHead, Rule};
use weir_observe::Cause;

use crate::downstream::transport::TransportFacts;
use crate::relay::http2::inbox::ReceivedHead;
use crate::relay::http2::receive::broken_rule;
use crate::relay::http2::shared::{ConnectionSide, MessageLimits};
use crate::relay::http2::shared::{Http2State, StreamShared};

/// The payload of the ping behind the first GOAWAY.
pub(super) const GOODBYE: [u8; 8] = *b"goodbye!";

/// Connections of clients, which open streams.
pub(crate) struct ToClients;

/// What a connection of a client keeps beside the frames.
#[derive(Default)]
pub(crate) struct ClientStreams {
    /// Streams in the input of the present turn, which have not begun.
    pub(super) begun: Vec<Rc<StreamShared<ToClients>>>,
    /// Whether the client was told that no further streams are taken.
    pub(super) is_ending: bool,
    /// Whether the client knows it.
    pub(super) is_told: bool,
    /// What has happened since that was last counted.
    pub(super) counts: ClientCounts,
}

/// What happens on a connection that metrics tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClientCounts {
    /// Streams that the client has reset.
    pub(super) reset: u64,
    /// Streams that were refused.
    pub(super) refused: u64,
    /// Whether the client was told of the end.
    pub(super) goaways: u64,
}

impl ClientStreams {
    /// The client is told of the end.
    pub(super) fn begin_end(&mut self) {
        self.counts.goaways += u64::from(!std::mem::replace(&mut self.is_ending, true));
    }
}

/// The head of a request, until the exchange takes it.
#[derive(Default)]
pub(crate) struct RequestInbox {
    pub(super) head: Option<Box<ReceivedHead<RequestHead>>>,
    /// Bytes of its block.
    pub(super) head_bytes: usize,
    /// The rule that the head breaks: it is not served.
    pub(super) refused: Option<Rule>,
}

impl ConnectionSide for ToClients {
    const ROLE: Role = Role::Server;
    const DROPPED: ErrorCode = ErrorCode::INTERNAL_ERROR;
    type Head = RequestHead;
    type Inbox = RequestInbox;
    type State = ClientStreams;
    type Facts = TransportFacts;

    /// The head of a request: its stream begins at the end of the turn.
    fn head(
        state: &mut Http2State<Self>,
        id: u32,
        block: &[u8],
        ends_stream: bool,
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        let mut head = state.heads.pop().unwrap_or_default();
        let ReceivedHead { head: request, text } = &mut *head;
        request.reset();
        let read = read_request(&mut state.decoder, block, request, text, limits.head, ends_stream);
        let mut refused = broken_rule(read)?;
        if let (None, Framing::Length(length)) = (refused, request.body()) {
            refused = state.codec.expect_length(id, length).err().map(|fault| fault.rule);
        }
        let mut priority = Priority::default();
        if refused.is_some() {
            request.reset();
            text.clear();
        } else if request.fields().has_unknown_names()
            && let Some(field) = request.fields().get_by_name(text, "priority")
        {
            priority = Priority::parse(field.value.of(text));
        }
        let side = RequestInbox { head: Some(head), head_bytes: block.len(), refused };
        let stream = StreamShared::new(id, side, ends_stream, priority);
        state.streams.push(Rc::clone(&stream));
        state.side.begun.push(stream);
        Ok(())
    }

    fn reset(state: &mut Http2State<Self>, stream: u32, _code: ErrorCode) {
        state.side.counts.reset += 1;
        state.leave(stream, Cause::Reset);
    }

    fn refused(state: &mut Http2State<Self>) {
        state.side.counts.refused += 1;
    }

    fn pong(state: &mut Http2State<Self>, payload: [u8; 8]) {
        state.side.is_told |= payload == GOODBYE;
    }
}
