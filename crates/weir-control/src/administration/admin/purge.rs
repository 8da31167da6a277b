//! `POST /api/caches/CACHE`: removes stored responses, or marks them stale.

use std::sync::Arc;

use serde::Deserialize;
use weir_proxy::state::snapshot::{Purge, PurgedPart};

use super::query::decoded;
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;

/// The beginning of a cache's path.
pub(super) const CACHES: &[u8] = b"/api/caches/";

/// What is to be removed: exactly one of the first four.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeRequest {
    /// Everything.
    #[serde(default)]
    all: bool,
    /// The response of this key, in all its variants.
    key: Option<String>,
    /// Responses whose keys begin with this.
    prefix: Option<String>,
    /// Responses with this tag.
    tag: Option<String>,
    /// They stay, but are stale: used only when a server confirms them, or as stale ones are.
    #[serde(default)]
    soft: bool,
}

impl PurgeRequest {
    fn part(&self) -> Option<PurgedPart<'_>> {
        let parts = [
            self.all.then_some(PurgedPart::All),
            self.key.as_deref().map(|key| PurgedPart::Key(key.as_bytes())),
            self.prefix.as_deref().map(|prefix| PurgedPart::Prefix(prefix.as_bytes())),
            self.tag.as_deref().map(|tag| PurgedPart::Tag(tag.as_bytes())),
        ];
        let mut parts = parts.into_iter().flatten();
        parts.next().filter(|_| parts.next().is_none())
    }
}

pub(super) async fn change(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> BufferedResponse {
    let name = decoded(&request.path()[CACHES.len()..]);
    let purge: PurgeRequest = match serde_json::from_slice(request.body()) {
        Ok(purge) => purge,
        Err(error) => return BufferedResponse::refused(400, &format!("the body is no purge: {error}")),
    };
    if purge.part().is_none() {
        return BufferedResponse::refused(400, "a purge has exactly one of `all`, `key`, `prefix` and `tag`");
    }
    let snapshot = operations.sources.snapshot();
    let Some(cache) = snapshot.cache(&name) else {
        return BufferedResponse::refused(404, &format!("there is no cache `{name}`"));
    };
    let cache = Arc::clone(cache);
    // It may wait for a disk.
    let purged = tokio::task::spawn_blocking(move || {
        purge.part().map_or(0, |part| cache.purge(Purge { part, is_soft: purge.soft }))
    });
    let Ok(count) = purged.await else { return BufferedResponse::refused(500, "the purge has failed") };
    tracing::info!(cache = name, by = %peer, count, "stored responses were purged");
    BufferedResponse::json(200, &serde_json::json!({ "cache": name, "purged": count }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_is_about_one_thing() {
        let read = |text: &str| serde_json::from_str::<PurgeRequest>(text).expect("it is JSON");
        assert!(matches!(read(r#"{"all":true}"#).part(), Some(PurgedPart::All)));
        assert!(matches!(read(r#"{"tag":"a","soft":true}"#).part(), Some(PurgedPart::Tag(b"a"))));
        assert!(matches!(read(r#"{"key":"http://a/"}"#).part(), Some(PurgedPart::Key(b"http://a/"))));
        for text in ["{}", r#"{"all":true,"tag":"a"}"#, r#"{"key":"a","prefix":"a"}"#] {
            assert!(read(text).part().is_none(), "{text}");
        }
    }
}
