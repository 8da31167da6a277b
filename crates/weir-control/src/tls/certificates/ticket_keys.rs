//! Keys of session tickets in files: read again when they change, by the rules of certificates.

use weir_config::TicketKey;

use super::files::{FileStamp, stamp};
use weir_proxy::state::snapshot::ListenerPlan;

/// Keeps the keys of a listener current, if it has any, until the task is dropped.
pub(super) async fn keep_current(plan: &ListenerPlan) {
    let (Some(server_config), Some(tls)) = (&plan.tls, &plan.config.tls) else { return };
    let (Some(tickets), Some(interval)) = (&server_config.tickets, tls.reload) else { return };
    if tls.ticket_keys.is_empty() {
        return;
    }
    let listener = &*plan.config.name;
    let (mut keys, mut stamps) = (tls.ticket_keys.clone(), Vec::new());
    loop {
        tokio::time::sleep(interval).await;
        let (known, before) = (keys.clone(), std::mem::take(&mut stamps));
        // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
        let looked = weir_tasks::blocking(move || {
            let now: Vec<FileStamp> = known.iter().map(|key| stamp(&key.file)).collect();
            let read = || known.iter().map(|key| TicketKey::load(&key.file)).collect::<Result<Vec<_>, _>>();
            let read = (now != before).then(read);
            (now, read)
        });
        let Some((now, read)) = looked.await else { return };
        stamps = now;
        match read {
            None => {}
            Some(Ok(new)) if new == keys => {}
            Some(Ok(new)) => {
                tickets.replace(&new);
                keys = new;
                server_config.certificates.count_reload(true);
                tracing::info!(
                    listener,
                    "the keys of session tickets have changed: the new ones are used from now on"
                );
            }
            Some(Err(error)) => {
                server_config.certificates.count_reload(false);
                let file = error.file.display();
                tracing::error!(
                    listener, %file, reason = error.message,
                    "a key of session tickets has changed and cannot be used; the old ones stay in use"
                );
            }
        }
    }
}
