//! `POST /api/hand-over` and `POST /api/take-back`: a planned hand-over of the traffic to another node, and its end; `GET /api/hand-over` shows it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use weir_config::parse_duration;

use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::cluster::node::hand_over::NodeState;

/// The longest time for connections to end, as that of `process.hand_over_delay`.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// What is wanted of a hand-over.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandOverOptions {
    /// How long connections may end with their next response.
    delay: Option<String>,
}

pub(super) fn show(operations: &Operations) -> BufferedResponse {
    let (connections, tunnels) = operations.hand_over.connections();
    let state = operations.hand_over.state().name();
    BufferedResponse::json(
        200,
        &json!({ "state": state, "connections_open": connections, "tunnels_open": tunnels }),
    )
}

pub(super) fn begin(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> BufferedResponse {
    let options = match request.body() {
        b"" => Ok(HandOverOptions::default()),
        body => serde_json::from_slice(body),
    };
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            return BufferedResponse::refused(400, &format!("the body is no hand-over: {error}"));
        }
    };
    let delay = match options.delay.as_deref().map(parse_duration).transpose() {
        Ok(Some(delay)) if delay > DELAY_MAX => {
            return BufferedResponse::refused(400, "`delay` is at most 1h");
        }
        Ok(delay) => delay.unwrap_or(operations.sources.snapshot().process.hand_over_delay),
        Err(error) => return BufferedResponse::refused(400, &format!("`delay`: {}", error.message)),
    };
    if operations.hand_over.state() == NodeState::Stopping {
        return BufferedResponse::refused(503, "Weir is stopping, which hands over");
    }
    operations.hand_over.begin(delay, &peer.to_string());
    show(operations)
}

pub(super) fn take_back(operations: &Operations, peer: AdminPeer) -> BufferedResponse {
    if operations.hand_over.state() == NodeState::Stopping {
        return BufferedResponse::refused(503, "Weir is stopping");
    }
    operations.hand_over.take_back(&peer.to_string());
    show(operations)
}
