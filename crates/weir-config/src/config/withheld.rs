//! Headers that only Weir, or a trusted proxy, may send to servers: no client may, on any listener.

use weir_sort::CompactSort as _;

use super::{Config, RouteAction};

/// Headers that only Weir may send to servers, which trust them regardless of the listener of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WithheldHeaders {
    /// They describe client certificates on some listener.
    pub certificates: Vec<Box<str>>,
    /// They mark copies for some mirror.
    pub marks: Vec<Box<str>>,
    /// Trusted proxies of some listener name the client in them: no other peer may send them. Those that no untrusted peer may ever send are not
    /// among them.
    pub client_addresses: Vec<Box<str>>,
}

impl Config {
    /// The headers that no client may send, on any listener.
    pub fn withheld_headers(&self) -> WithheldHeaders {
        let sorted = |mut names: Vec<Box<str>>| {
            names.sort_compact();
            names.dedup();
            names
        };
        let verifying =
            self.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.client_certificates.as_ref());
        let certificates = verifying.flat_map(|clients| clients.headers.named());
        let routes = self.listeners.iter().flat_map(|listener| &listener.routes);
        let mirrors = routes.flat_map(|route| {
            let targets = match &route.action {
                RouteAction::Split(parts) => &parts[..],
                RouteAction::Upstream(_)
                | RouteAction::Redirect(_)
                | RouteAction::Respond(_)
                | RouteAction::Files(_)
                | RouteAction::Then(_) => &[],
            };
            let of_targets =
                targets.iter().filter_map(|part| part.settings.as_ref()).flat_map(|own| &own.mirrors);
            route.mirrors.iter().chain(of_targets)
        });
        let named = self.listeners.iter().filter_map(|listener| listener.client_address_header.single());
        WithheldHeaders {
            certificates: sorted(certificates.map(|(_, name)| (**name).into()).collect()),
            client_addresses: sorted(named.map(|name| (**name).into()).collect()),
            marks: sorted(mirrors.map(|mirror| (*mirror.mark_header).into()).collect()),
        }
    }
}
