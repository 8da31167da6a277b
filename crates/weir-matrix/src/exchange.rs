//! What a case asks for: its requests, what their bodies are, and what the servers do with each.
//!
//! Every request has an id, which servers send back and of which bodies are made: wherever bytes end up, they tell which exchange they are of.

use crate::array::{Body, Case, Client, Event, Feature, Method, Server};

/// Names of clients: the first two exchanges are of the first one, each further one has its own.
pub(crate) const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// What only misbehaving peers send: a message of HTTP/1 where no bytes may be.
pub(crate) const EVIL_REQUEST: &[u8] = b"GET /evil HTTP/1.1\r\nHost: evil.test\r\nx-id: evil\r\n\r\n";
/// The same of servers.
pub(crate) const EVIL_RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nx-echo: evil\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\nevil";
/// What an early response leaves of its request until it is there, and what a body that is cut has.
pub(crate) const FIRST_PART: usize = 1_000;
/// The trailer that no rule names.
pub(crate) const TRAILER: &str = "x-sum";
/// The trailer and the field that the rules of the route remove.
pub(crate) const REMOVED: &str = "x-secret";
/// Fields of servers that are for the proxy: no client gets them, whether they count or not. None of the routes lets servers lead requests on.
pub(crate) const FOR_PROXY: [(&str, &str); 3] =
    [("x-accel-limit-rate", "1000000000"), ("x-accel-buffering", "no"), ("x-accel-redirect", "/none")];

/// The part of an exchange in its case, which is its id.
pub(crate) const FIRST: &str = "first";
pub(crate) const TRIED: &str = "tried";
pub(crate) const SAME_TARGET: &str = "same-target";
pub(crate) const SAME_TARGET_AGAIN: &str = "same-target-again";
pub(crate) const LAST: &str = "last";
/// Exchanges on connections of their own, of clients that connect while another process takes over, or all at once: ids and targets.
pub(crate) const BESIDE: [(&str, &str); 10] = [
    ("beside-1", "/beside/1"),
    ("beside-2", "/beside/2"),
    ("beside-3", "/beside/3"),
    ("beside-4", "/beside/4"),
    ("beside-5", "/beside/5"),
    ("beside-6", "/beside/6"),
    ("beside-7", "/beside/7"),
    ("beside-8", "/beside/8"),
    ("beside-9", "/beside/9"),
    ("beside-10", "/beside/10"),
];

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// Ended by the first server that has it.
    Reset,
}

/// One request and its response.
#[derive(Debug, Clone)]
pub(crate) struct ScriptedExchange {
    pub(crate) id: &'static str,
    pub(crate) user: &'static str,
    pub(crate) method: Method,
    pub(crate) target: &'static str,
    /// The body of the request; `None` with GET and HEAD.
    pub(crate) request: Body,
    pub(crate) response: Body,
    pub(crate) fate: Fate,
    /// Whether the servers wait for the event before they answer.
    pub(crate) is_held: bool,
    /// Whether the limit of the case counts it.
    pub(crate) is_limited: bool,
    /// Whether the calls are of gRPC-Web.
    pub(crate) is_grpc: bool,
    /// Whether clients ask for another path, which is rewritten.
    pub(crate) is_rewritten: bool,
}

/// What clients ask for where it is rewritten: in front of the path that servers get.
pub(crate) const REWRITTEN: &str = "/via";

impl ScriptedExchange {
    /// What the client asks for.
    pub(crate) fn sent_target(&self) -> String {
        let front = if self.is_rewritten { REWRITTEN } else { "" };
        format!("{front}{}", self.target)
    }

    /// The bytes of the request's body, complete.
    pub(crate) fn request_body(&self) -> Vec<u8> {
        let body = pattern("request", self.id, length(self.request));
        if self.is_grpc { grpc_message(&body) } else { body }
    }

    /// The bytes of the response's body, complete, as the server sends it.
    pub(crate) fn response_body(&self) -> Vec<u8> {
        let body = pattern("response", self.id, length(self.response));
        match (self.is_grpc, self.response) {
            (true, Body::None) => Vec::new(),
            (true, _) => grpc_message(&body),
            (false, _) => body,
        }
    }

    /// The status of the server's response.
    pub(crate) fn status(&self) -> u16 {
        match self.response {
            Body::None if !self.is_grpc => 204,
            Body::BehindNoContent => 204,
            Body::BehindNotModified => 304,
            _ => 200,
        }
    }
}

/// A message of gRPC (5 bytes of prefix).
fn grpc_message(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("bodies are small").to_be_bytes();
    [&[0], &len[..], body].concat()
}

/// Text of this length that tells which message it is of.
pub(crate) fn pattern(part: &str, id: &str, len: usize) -> Vec<u8> {
    let piece = format!("[{part} {id}]");
    piece.bytes().cycle().take(len).collect()
}

fn length(body: Body) -> usize {
    match body {
        Body::None | Body::Zero | Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified => 0,
        Body::One | Body::Late | Body::Trailers | Body::EmptyLast => 600,
        Body::Many => 24_000,
        Body::Cut => 40_000,
        Body::Early => 50_000,
        Body::BeyondWindow => 200_000,
        Body::Large => 700_000,
    }
}

/// The pieces in which a body of many pieces is written: of many sizes, the same in every run.
pub(crate) fn pieces(body: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let (mut rest, mut len) = (body, 1);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(len));
        pieces.push(piece);
        rest = behind;
        len = (len * 3) % 3_001 + 1;
    }
    pieces
}

/// The exchanges of a case, in their order.
pub(crate) fn exchanges(case: &Case) -> Vec<ScriptedExchange> {
    let is_grpc = case.client == Client::GrpcWeb;
    let plain = ScriptedExchange {
        id: FIRST,
        user: USERS[0],
        method: if is_grpc { Method::Post } else { Method::Get },
        target: "/first",
        request: if is_grpc { Body::One } else { Body::None },
        response: Body::One,
        fate: Fate::Answered,
        is_held: false,
        // It uses up what the limit allows.
        is_limited: case.event == Event::LimitReached,
        is_grpc,
        is_rewritten: case.has(Feature::Rewrites),
    };
    let is_post = case.method == Method::Post;
    let tried = ScriptedExchange {
        id: TRIED,
        method: case.method,
        target: "/tried",
        request: match (is_post, case.body) {
            (false, _) => Body::None,
            // Calls of gRPC-Web have no trailers, and the server cuts them.
            (true, Body::Cut | Body::Trailers) if is_grpc => Body::One,
            (true, body) => body,
        },
        response: tried_response(case),
        fate: if case.event == Event::ServerResets { Fate::Reset } else { Fate::Answered },
        is_held: happens_meanwhile(case),
        ..plain
    };
    let unlimited = ScriptedExchange { is_limited: false, ..plain };
    let same = ScriptedExchange { id: SAME_TARGET, user: USERS[1], target: "/tried", ..unlimited };
    let again = ScriptedExchange { id: SAME_TARGET_AGAIN, user: USERS[2], ..same };
    let last = ScriptedExchange { id: LAST, user: USERS[3], target: "/last", ..unlimited };
    let beside = BESIDE.map(|(id, target)| ScriptedExchange { id, target, ..last.clone() });
    [&[plain, tried, same, again, last][..], &beside].concat()
}

/// Whether the event happens while a server has the tried request, which is answered behind it.
pub(crate) fn happens_meanwhile(case: &Case) -> bool {
    matches!(case.event, Event::Reload | Event::Upgrade | Event::ServerKilled | Event::ClientGone)
}

/// Whether the server sends its response to `exchange` in a coding that the client does not take: it sees the word gzip in `gzip;q=0`.
pub(crate) fn is_coded(case: &Case, exchange: &ScriptedExchange) -> bool {
    let is_whole = matches!(
        exchange.response,
        Body::One
            | Body::Late
            | Body::Many
            | Body::Trailers
            | Body::EmptyLast
            | Body::BeyondWindow
            | Body::Large
    );
    case.has(Feature::CodedServers)
        && exchange.method != Method::Head
        && !exchange.is_grpc
        && is_whole
        && accepted_codings(case, exchange).is_some_and(|codings| codings.contains("gzip"))
}

/// What the client says of codings.
pub(crate) fn accepted_codings(case: &Case, exchange: &ScriptedExchange) -> Option<&'static str> {
    match exchange.id {
        TRIED if case.has(Feature::CodedServers) => Some("gzip;q=0"),
        SAME_TARGET | SAME_TARGET_AGAIN if case.has(Feature::CodedServers) => Some("identity"),
        _ if case.has(Feature::Compression) => Some("gzip"),
        _ => None,
    }
}

/// Whether the request goes by the other route.
pub(crate) fn is_of_other_route(case: &Case, exchange: &ScriptedExchange) -> bool {
    case.has(Feature::TwoRoutes) && [SAME_TARGET, SAME_TARGET_AGAIN].contains(&exchange.id)
}

fn tried_response(case: &Case) -> Body {
    let has_trailers = case.server == Server::Chunked || case.server.is_h2();
    match (case.method, case.body) {
        (Method::Post, Body::Cut) if case.client == Client::GrpcWeb => Body::Cut,
        (Method::Post, Body::Cut | Body::Early | Body::BehindZero) => Body::One,
        (_, Body::Trailers) if !has_trailers => Body::One,
        (_, body) => body,
    }
}

/// Whether the response to the tried request may be given to another client, too.
pub(crate) fn may_be_shared(case: &Case) -> bool {
    // Bytes behind a response of declared length are not part of it, but where frames carry both, it is malformed.
    let is_h2 = case.server.is_h2();
    let is_whole = match case.body {
        Body::Cut | Body::BehindNotModified => false,
        Body::BehindZero | Body::BehindNoContent => !is_h2,
        _ => true,
    };
    let is_of_all = !case.has_users() && !case.has(Feature::TwoRoutes);
    let is_whole = is_whole && exchanges(case).iter().all(|it| it.id != TRIED || !is_coded(case, it));
    case.has(Feature::Cache) && is_of_all && case.method == Method::Get && is_whole
}
