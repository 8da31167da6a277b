//! What an exchange may come to, by its case.

use crate::array::{Body, Case, Client, Event, Feature, Method, Server};
use crate::exchange::{BESIDE, FIRST, FIRST_PART, SAME_TARGET, ScriptedExchange, TRIED};

/// What a client may get.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The response of the server, as it was sent.
    pub(super) relayed: bool,
    /// A part of it, and then a visible end.
    pub(super) cut: bool,
    /// A response of Weir's own with one of these statuses.
    pub(super) own: Vec<u16>,
    /// No response: the connection or the stream ends.
    pub(super) nothing: bool,
}

impl Allowed {
    /// What `exchange` may come to.
    pub(super) fn new(case: &Case, exchange: &ScriptedExchange) -> Self {
        let relayed = Self { relayed: true, ..Self::default() };
        if BESIDE.iter().any(|(id, _)| *id == exchange.id) {
            return relayed;
        }
        if exchange.id != TRIED {
            // A response in the same pipeline may be missing once the tried exchange has ended the connection.
            let nothing = exchange.id != FIRST;
            // It may have been on the server that goes away; and without retries, no other server is tried.
            let is_together = case.client.has_streams() && exchange.id == SAME_TARGET;
            let is_behind = exchange.id != FIRST && !case.has(Feature::Retries);
            let may_fail = case.event == Event::ServerKilled && (is_together || is_behind);
            let own = if may_fail { vec![502, 503, 504] } else { Vec::new() };
            return Self { nothing, own, ..relayed };
        }
        let gone = case.event == Event::ClientGone;
        if gone || client_cuts(case) {
            return Self { relayed: true, cut: true, own: vec![400, 408, 499, 502, 503, 504], nothing: true };
        }
        if case.event == Event::LimitReached {
            return Self { own: vec![429], ..Self::default() };
        }
        let failed = vec![502, 503, 504];
        match (case.body, case.event) {
            (Body::Cut, _) if delivered_min(case, exchange) > 0 => Self { cut: true, ..Self::default() },
            (Body::Cut, _) => Self { cut: true, own: failed, ..Self::default() },
            // The client itself lies.
            (Body::BehindZero, _) if case.method == Method::Post => {
                Self { own: vec![400], nothing: true, ..Self::default() }
            }
            (Body::BehindZero | Body::BehindNoContent | Body::BehindNotModified, _) => {
                Self { relayed: true, cut: true, own: failed, nothing: true }
            }
            (_, Event::ServerKilled | Event::ServerResets) => {
                let is_relayed = case.method != Method::Post;
                Self { relayed: is_relayed, own: failed, ..Self::default() }
            }
            _ => relayed,
        }
    }
}

/// How much of a body that its server cuts its client has to get: what came before, unless something may take it in that stops with it, or the cut
/// is a reset, which may overtake it.
pub(super) fn delivered_min(case: &Case, exchange: &ScriptedExchange) -> usize {
    let is_cut = case.body == Body::Cut && exchange.id == TRIED && exchange.response == Body::Cut;
    let is_quiet = matches!(case.event, Event::None | Event::Reload | Event::Upgrade);
    let is_held = case.has(Feature::Cache) || case.has(Feature::Compression) || exchange.is_grpc;
    let is_delivered = is_cut && is_quiet && !is_held && case.server != Server::Close;
    if is_delivered && exchange.method == Method::Get { FIRST_PART } else { 0 }
}

/// Whether the body of the tried request is cut by its client.
pub(super) fn client_cuts(case: &Case) -> bool {
    case.body == Body::Cut && case.method == Method::Post && case.client != Client::GrpcWeb
}

/// How often the servers of the upstream may have an exchange, heads counted.
pub(super) fn arrivals_max(case: &Case, exchange: &ScriptedExchange) -> usize {
    let is_h2 = case.server.is_h2();
    match (exchange.method, case.has(Feature::Retries)) {
        (Method::Post, _) => 1,
        (_, true) => 3,
        // A connection that turns out to be dead is replaced without counting as a retry.
        (_, false) if !is_h2 => 2,
        _ => 1,
    }
}
