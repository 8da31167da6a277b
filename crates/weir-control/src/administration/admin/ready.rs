//! `GET /ready`: whether Weir should be sent connections, for a probe of Kubernetes or a load balancer in front.

use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_operations::Operations;
use crate::cluster::node::hand_over::NodeState;

/// 200 while it should, 503 until connections are accepted and the first routes are there where they come from elsewhere, while none of their ports can be bound, and once the process is about to stop or has handed over to another node; with `?upstream=NAME` also while that upstream has no usable server.
pub(super) fn answer(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    if operations.hand_over.awaits_routes() {
        return BufferedResponse::plain(503, "no routes yet: what names them has not answered\n");
    }
    if operations.hand_over.is_starting() {
        return BufferedResponse::plain(503, "starting: connections are not accepted yet\n");
    }
    if operations.hand_over.lacks_listeners() {
        return BufferedResponse::plain(503, "no listener is open: none of the ports could be bound\n");
    }
    match operations.sources.node_state() {
        NodeState::Stopping => return BufferedResponse::plain(503, "stopping\n"),
        NodeState::HandedOver => return BufferedResponse::plain(503, "handed over to another node\n"),
        // Connections still end: nothing is to change elsewhere before that.
        NodeState::Closing | NodeState::Standby | NodeState::Serving => {}
    }
    let Some(upstream) = query_value(request.query(), b"upstream").map(decoded) else {
        return BufferedResponse::plain(200, "ready\n");
    };
    match operations.sources.is_usable(&upstream) {
        Some(true) => BufferedResponse::plain(200, "ready\n"),
        Some(false) => {
            BufferedResponse::plain(503, format!("no server of the upstream `{upstream}` takes requests\n"))
        }
        None => BufferedResponse::plain(404, format!("there is no upstream `{upstream}`\n")),
    }
}
