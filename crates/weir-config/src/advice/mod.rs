//! Advice about a config that is sound: what an operator may want to set, and why. It is no diagnostic: nothing is wrong.

mod caches;

use std::sync::Arc;

use crate::config::{Config, Listener, Route, Upstream};

/// So many requests at once are few for one server.
const FEW_REQUESTS: u32 = 16;

/// Methods without a body.
const WITHOUT_BODY: [&str; 5] = ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"];

/// Routes that one sentence names.
const NAMED_MAX: usize = 3;

/// Advice about a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigAdvice {
    /// What happens, with a figure.
    pub message: String,
    /// The key to set.
    pub help: String,
}

/// All advice about a config.
pub fn advice(config: &Config) -> Vec<ConfigAdvice> {
    let uploads = config.upstreams.iter().enumerate();
    let uploads = uploads.filter_map(|(index, upstream)| of_uploads(config, index, upstream));
    uploads.chain(caches::advice(config)).chain(of_client_sources(config)).collect()
}

/// What to consider about uploads by this route, in one sentence; `None` when there is nothing.
pub fn upload_advice(config: &Config, listener: &Listener, route: &Route) -> Option<String> {
    let held = upstreams_of(route).find_map(|index| {
        let upstream = config.upstreams.get(index)?;
        let slots = few_slots(upstream)?;
        takes_uploads(listener, route).then(|| message(upstream, slots))
    });
    held.map(|message| format!("{message}; `buffer_requests` of the route keeps them until they are whole"))
}

/// Connections come from the addresses of clients, which the config alone cannot make possible.
fn of_client_sources(config: &Config) -> Option<ConfigAdvice> {
    let upstream = config.upstreams.iter().find(|upstream| upstream.connects_as_clients())?;
    let message = format!(
        "the upstream `{}` connects from the addresses of clients (`source_address`): the process needs CAP_NET_RAW, and what its servers answer has to \
         be routed through this machine",
        upstream.name
    );
    let help = "start Weir as root or with that capability, and see docs/source-address.md for the routes"
        .to_owned();
    Some(ConfigAdvice { message, help })
}

/// The servers of an upstream take few requests at once, and routes hand slow uploads on to them.
fn of_uploads(config: &Config, index: usize, upstream: &Arc<Upstream>) -> Option<ConfigAdvice> {
    let slots = few_slots(upstream)?;
    let routes = config.listeners.iter().flat_map(|listener| {
        let routes = listener.routes.iter().filter(|route| takes_uploads(listener, route));
        let routes = routes.filter(|route| upstreams_of(route).any(|used| used == index));
        routes.map(|route| format!("`{}` of `{}`", route.name, listener.name))
    });
    let routes: Vec<String> = routes.collect();
    let more = routes.len().saturating_sub(NAMED_MAX);
    let mut named = routes.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    let help = format!(
        "set `buffer_requests = {{}}` in `[[listener.NAME.route]]`, unless uploads are to be streamed: {named}"
    );
    (!routes.is_empty()).then(|| ConfigAdvice { message: message(upstream, slots), help })
}

fn message(upstream: &Upstream, slots: u32) -> String {
    format!(
        "a server of the upstream `{}` takes {slots} {} at a time (`max_requests`), and an upload holds one of them for as long as its client sends: \
         two uploads of 2 kB/s to two servers with one each made a GET wait for 8.5 s",
        upstream.name,
        if slots == 1 { "request" } else { "requests" },
    )
}

/// How many requests a server takes at a time, if that is few for every one of them.
fn few_slots(upstream: &Upstream) -> Option<u32> {
    let slots = upstream.servers.iter().map(|server| server.max_requests.filter(|max| *max <= FEW_REQUESTS));
    slots.collect::<Option<Vec<u32>>>()?.into_iter().max()
}

/// Whether requests with a body may take this route, and go on before they are whole.
fn takes_uploads(listener: &Listener, route: &Route) -> bool {
    let methods = &route.matches.methods;
    let may_have_body = |method: &str| !WITHOUT_BODY.contains(&method);
    listener.protocol.routes_requests()
        && route.buffer_requests.is_none()
        && (methods.is_empty() || methods.iter().any(|method| may_have_body(method.as_str())))
        && route.body_size.is_none_or(|max| max.bytes() > 0)
}

/// The places of the upstreams that requests by this route go to.
fn upstreams_of(route: &Route) -> impl Iterator<Item = usize> {
    route.action.upstreams().map(|index| index.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::CheckedConfig;

    fn of(text: &str) -> Vec<ConfigAdvice> {
        let checked = CheckedConfig::parse_alone(text, "weir.toml", &|_| None);
        assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
        advice(&checked.config.expect("it is sound"))
    }

    fn with(route: &str, upstream: &str) -> Vec<ConfigAdvice> {
        of(&format!(
            "listener.web = {{ address = \":80\", route = [{{ path = \"/\", upstream = \"app\"{route} }}] }}
             upstream.app = {{ servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]{upstream} }}"
        ))
    }

    #[test]
    fn slow_uploads_to_few_slots_are_told_of() {
        let found = with("", ", max_requests = 1");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("takes 1 request at a time") && found[0].message.contains("8.5 s"),
            "{found:?}"
        );
        assert!(
            found[0].help.contains("buffer_requests = {}") && found[0].help.ends_with("`/` of `web`"),
            "{found:?}"
        );
        assert_eq!(with(", method = [\"GET\", \"POST\"]", ", max_requests = 16").len(), 1);
        assert_eq!(
            with(", files = { root = \"/srv\" }", ", max_requests = 1").len(),
            1,
            "what is no file goes there"
        );
    }

    #[test]
    fn there_is_no_advice_where_nothing_is_to_be_set() {
        for (route, upstream) in [
            ("", ""),
            ("", ", max_requests = 17"),
            (", buffer_requests = {}", ", max_requests = 1"),
            (", method = \"GET\"", ", max_requests = 1"),
            (", limits.body_size = \"0B\"", ", max_requests = 1"),
        ] {
            assert_eq!(with(route, upstream), [], "{route} {upstream}");
        }
        let some = "listener.web = { address = \":80\", upstream = \"app\" }
                    upstream.app.servers = [\"10.0.0.1:80\", { address = \"10.0.0.2:80\", max_requests = 1 }]";
        assert_eq!(of(some), []);
        let tcp = "listener.db = { address = \":80\", protocol = \"tcp\", upstream = \"app\" }
                   upstream.app = { servers = [\"10.0.0.1:80\"], max_requests = 1 }";
        assert_eq!(of(tcp), []);
    }

    #[test]
    fn many_routes_are_one_advice() {
        let route = |number: u32| format!("{{ path = \"/{number}\", upstream = \"app\" }}, ");
        let routes: String = (0..5).map(route).collect();
        let found = of(&format!(
            "listener.web = {{ address = \":80\", route = [{routes}] }}
             upstream.app = {{ servers = [\"10.0.0.1:80\"], max_requests = 2 }}"
        ));
        assert_eq!(found.len(), 1);
        assert!(found[0].help.ends_with("`/2` of `web` and 2 more"), "{found:?}");
    }
}
