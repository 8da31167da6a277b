//! Affinity that nodes share: keys and the names of their servers, each with the time after which the store forgets it.

use std::pin::pin;
use std::task::Poll;

use weir_http::resp::RespReply;
use weir_proxy::state::limits::affinity_sharing::{AffinityChange, SharingConnection};
use weir_proxy::state::stores::limit_store::SharedAffinity;

use super::KEYS_AT_ONCE;
use super::connection::StoreConnection;
use super::failure::StoreError;

/// Affinities whose workers can ask the store, until this is dropped.
pub(super) struct OpenSharing<'a>(Vec<(&'a SharedAffinity, SharingConnection)>);

impl<'a> OpenSharing<'a> {
    pub(super) fn new(affinities: &'a [SharedAffinity]) -> Self {
        Self(affinities.iter().map(|shared| (shared, shared.sharing.begin())).collect())
    }
}

impl Drop for OpenSharing<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|(shared, connection)| shared.sharing.end(*connection));
    }
}

/// Returns once one of them has something for the store; never where there is none.
pub(super) async fn changed(affinities: &[SharedAffinity]) {
    let mut changes: Vec<_> = affinities.iter().map(|shared| Box::pin(shared.sharing.changed())).collect();
    let first = std::future::poll_fn(|cx| {
        let is_ready = changes.iter_mut().any(|change| change.as_mut().poll(cx).is_ready());
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    });
    pin!(first).await;
}

/// Tells and asks all that waits.
pub(super) async fn exchange(
    shared: &SharedAffinity,
    connection: &mut StoreConnection,
) -> Result<(), StoreError> {
    let expire = shared.expire.as_millis().to_string();
    loop {
        let changes = shared.sharing.take(KEYS_AT_ONCE);
        if changes.is_empty() {
            return Ok(());
        }
        let name = |key: &str| format!("{}{key}", shared.prefix).into_bytes();
        let words = |change: &AffinityChange| match change {
            AffinityChange::Told(key, server) => vec![
                b"SET".to_vec(),
                name(key),
                server.as_bytes().to_vec(),
                b"PX".to_vec(),
                expire.clone().into_bytes(),
            ],
            AffinityChange::Forgotten(key) => vec![b"DEL".to_vec(), name(key)],
            AffinityChange::Asked(key, _) => vec![b"GET".to_vec(), name(key)],
        };
        let commands: Vec<Vec<Vec<u8>>> = changes.iter().map(words).collect();
        let commands: Vec<Vec<&[u8]>> =
            commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        let replies = connection.ask(commands.iter().map(Vec::as_slice)).await?;
        for (change, reply) in changes.into_iter().zip(replies) {
            let AffinityChange::Asked(_, answer) = change else { continue };
            let server = match reply {
                RespReply::String(Some(server)) => String::from_utf8(server.to_vec()).ok(),
                _ => None,
            };
            let _gone = answer.send(server.map(String::into_boxed_str));
        }
    }
}
