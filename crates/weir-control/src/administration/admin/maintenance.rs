//! `POST /api/listeners/LISTENER`: puts a listener into maintenance, or back into service.

use std::sync::Arc;

use serde::Deserialize;
use weir_config::parse_duration;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;

/// The beginning of a listener's path.
pub(super) const LISTENERS: &[u8] = b"/api/listeners/";

/// What clients are told without a time.
const RETRY_AFTER_SECONDS: u32 = 600;

/// What is wanted of a listener.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenerPatch {
    maintenance: bool,
    /// The time after which clients may ask again.
    retry_after: Option<String>,
}

pub(super) fn change(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> BufferedResponse {
    let name = decoded(&request.path()[LISTENERS.len()..]);
    let patch: ListenerPatch = match serde_json::from_slice(request.body()) {
        Ok(patch) => patch,
        Err(error) => {
            return BufferedResponse::refused(400, &format!("the body is no change of a listener: {error}"));
        }
    };
    let retry_after = match patch.retry_after.as_deref().map(parse_duration).transpose() {
        Ok(time) => {
            time.map_or(RETRY_AFTER_SECONDS, |time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX))
        }
        Err(error) => return BufferedResponse::refused(400, &format!("`retry_after`: {}", error.message)),
    };
    let snapshot = operations.sources.snapshot();
    let Some((_, plan)) = snapshot.listener(&name) else {
        return BufferedResponse::refused(404, &format!("there is no listener `{name}`"));
    };
    if !plan.config.protocol.routes_requests() {
        return BufferedResponse::refused(
            400,
            &format!(
                "the listener `{name}` speaks `{}`: it has no requests to answer",
                plan.config.protocol.name()
            ),
        );
    }
    plan.state.set_maintenance(patch.maintenance.then_some(retry_after));
    let now = if patch.maintenance { "in maintenance" } else { "serving" };
    tracing::warn!(listener = name, by = %peer, "the listener is now {now}");
    BufferedResponse::json(200, &serde_json::json!({ "listener": name, "maintenance": patch.maintenance }))
}
