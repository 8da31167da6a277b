//! Names that requests have asked for come into use: each is a server of its upstream, which comes and goes as those of a source do.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Server, Upstream};
use weir_proxy::net::clock;
use weir_proxy::state::snapshot::{SourceStatement, UpstreamPlan};
use weir_traffic::names::NamedAddresses;

use super::{Proxy, ServerChanges};

impl Proxy {
    /// Puts into use what is known of the names of an upstream, then tells the requests that wait.
    pub fn take_requested_names(&mut self, upstream: &str) {
        let current = self.current.load_full();
        let Some((_, plan)) = current.upstream(upstream) else { return };
        let Some(names) = plan.named.as_ref().map(|named| Arc::clone(&named.names)) else { return };
        // A lookup may have begun with another config.
        if let Some(settings) = &plan.config.dynamic {
            names.keep_allowed(settings);
        }
        let Some(change) = names.take_change() else { return };
        let servers: Vec<Server> = change.iter().filter_map(|one| server(one, plan.declared())).collect();
        let count = servers.len();
        let changes = ServerChanges { upstream: upstream.into(), servers };
        plan.source.tell(statement(plan, count));
        plan.source.count_change();
        if let Err(error) = self.set_servers(vec![changes]) {
            tracing::error!(%error, upstream, "the servers that requests name cannot be used");
            return;
        }
        tracing::debug!(upstream, names = count, "the names that requests give of servers have changed");
        let current = self.current.load_full();
        if let Some((_, plan)) = current.upstream(upstream) {
            let addresses: HashMap<&str, &[IpAddr]> =
                change.iter().map(|one| (&*one.name, &*one.addresses)).collect();
            plan.move_named(&addresses);
        }
        names.published(&change);
    }
}

/// What operators see of where the servers come from.
fn statement(plan: &UpstreamPlan, count: usize) -> SourceStatement {
    let settings = plan.config.dynamic.as_ref();
    let text = settings.map(|settings| settings.server.to_string()).unwrap_or_default();
    let names_max = settings.map_or(0, |settings| settings.names_max);
    SourceStatement {
        source: format!("requests {text}").into(),
        said_at_ms: u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX),
        is_stale: false,
        problem: None,
        remark: Some(format!("{count} of at most {names_max} names").into()),
    }
}

/// The server of a name; `None` if the config in use does not allow it any more.
fn server(named: &NamedAddresses, upstream: &Upstream) -> Option<Server> {
    let settings = upstream.dynamic.as_ref()?;
    let mut server = Server::new(settings.allow.find(named.name.as_bytes())?);
    server.max_requests = upstream.max_requests;
    Some(server)
}
