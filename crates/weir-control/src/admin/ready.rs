//! `GET /ready`: whether Weir should be sent connections, for those who decide that (a probe of Kubernetes, a load balancer in front).

use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::AdminResponse;
use crate::operations::Operations;

/// 200 while it should, 503 once the process is about to stop; with `?upstream=NAME` also while that upstream has no usable server.
pub(super) fn answer(request: &AdminRequest, operations: &Operations) -> AdminResponse {
    if operations.sources.is_stopping() {
        return AdminResponse::plain(503, "stopping\n");
    }
    let Some(upstream) = query_value(request.query(), b"upstream").map(decoded) else {
        return AdminResponse::plain(200, "ready\n");
    };
    match operations.sources.is_usable(&upstream) {
        Some(true) => AdminResponse::plain(200, "ready\n"),
        Some(false) => {
            AdminResponse::plain(503, format!("no server of the upstream `{upstream}` takes requests\n"))
        }
        None => AdminResponse::plain(404, format!("there is no upstream `{upstream}`\n")),
    }
}
