//! Sites: listeners by port, hosts and certificates, and the redirects of automatic HTTPS.

use std::collections::BTreeMap;

use super::address::{SiteAddress, SiteHostKind};
use super::logs;
use super::matchers::{CaddyMatch, path_expression};
use super::options::{CaddyOptions, refuse_whole};
use super::responses::ABORTED;
use super::scope::{CaddyUpstreams, RouteBuilder};
use super::words::arguments;
use crate::document::{Draft, DraftTable, TomlValue, order};
use crate::report::Ledger;
use crate::source::Statement;

/// Why a site has no certificate of Weir's own authority.
const NOT_FOR_DEVELOPMENT: &str = "Weir issues certificates itself for names of development only (`localhost`, `test`, `internal` and the like): name `certificates`, or use `acme`; until then, the site has none";
/// Why a wildcard has none of ACME.
const WILDCARD_NEEDS_DNS: &str = "a wildcard has to be proved by DNS: `dns_update` or `dns_command` of `tls.acme`, or `certificates`; until then, the site has no certificate";

/// A listener in the making.
#[derive(Default)]
struct ListenerDraft<'s> {
    has_tls: bool,
    /// Where to listen: all addresses unless `bind` names some.
    binds: Vec<String>,
    certificates: Vec<TomlValue>,
    /// Hosts that get a certificate from an authority.
    public: Vec<String>,
    internal: Vec<String>,
    acme: Vec<(String, TomlValue)>,
    tls: Vec<(String, TomlValue)>,
    /// Peers that a `reverse_proxy` trusts.
    trusted_proxies: Vec<String>,
    /// Hosts that get a certificate when a client asks for one.
    on_demand: Vec<String>,
    routes: Vec<DraftTable>,
    /// Hosts whose requests are sent to the listener with TLS.
    redirects: Vec<(String, u16, &'s Statement)>,
    origin: Option<&'s Statement>,
    /// Whether some of its hosts have no certificate.
    lacks_certificates: bool,
    /// Whether its first site is there for redirects only.
    is_plain: bool,
}

/// What the directives of a site say about its listener.
#[derive(Default)]
struct SiteListener<'s> {
    binds: Vec<String>,
    certificates: Vec<TomlValue>,
    is_internal: bool,
    has_certificates: bool,
    acme: Vec<(String, TomlValue)>,
    tls: Vec<(String, TomlValue)>,
    access_log: Option<(TomlValue, &'s Statement)>,
    trusted_proxies: Vec<String>,
    is_on_demand: bool,
}

pub(super) fn translate<'s>(
    sites: &'s [Statement],
    options: &CaddyOptions,
    draft: &mut Draft,
    ledger: &'s Ledger,
) {
    let mut upstreams = CaddyUpstreams::default();
    let mut listeners: BTreeMap<u16, ListenerDraft<'s>> = BTreeMap::new();
    let mut read: Vec<(&'s Statement, Vec<SiteAddress>)> =
        sites.iter().map(|site| (site, addresses(site, options, ledger))).collect();
    // The most specific hosts first, as Caddy asks them.
    read.sort_by_key(|(_, addresses)| {
        let rank = |address: &SiteAddress| match &address.host {
            None => (2, 0),
            Some(host) if host.starts_with('*') => (1, usize::MAX - host.len()),
            Some(_) => (0, 0),
        };
        addresses.iter().map(|address| (rank(address), address.path.is_none())).max()
    });
    for (site, addresses) in read {
        let own = SiteListener::read(site, ledger);
        let mut ports: BTreeMap<u16, Vec<&SiteAddress>> = BTreeMap::new();
        addresses.iter().for_each(|address| ports.entry(address.port).or_default().push(address));
        for (port, here) in ports {
            let listener = listeners.entry(port).or_default();
            listener.join(site, &here, &own, options, ledger);
            let mut routes = Vec::new();
            for matched in matched(&here, site, ledger) {
                let mut builder = RouteBuilder {
                    ledger,
                    upstreams: &mut upstreams,
                    site: site_name(&here),
                    routes: Vec::new(),
                };
                builder.site(site.children(), matched, site);
                routes.append(&mut builder.routes);
            }
            if let Some((log, statement)) = &own.access_log {
                let unsaid = routes.iter_mut().filter(|route| !route.has("access_log"));
                unsaid.for_each(|route| route.set_beside("access_log", log.clone(), statement));
            }
            let is_first = listener.origin.is_some_and(|origin| origin.id == site.id);
            if let Some(first) = routes.first_mut().filter(|_| !is_first) {
                first.comment_above(site);
            }
            listener.routes.extend(routes);
        }
        settle_roots(site.children(), ledger);
        for address in addresses.iter().filter(|address| address.is_redirected_to) {
            let host = address.host.clone().unwrap_or_default();
            let plain = listeners.entry(options.http_port).or_default();
            plain.redirects.push((host, address.port, site));
            plain.is_plain |= plain.origin.is_none();
            plain.origin.get_or_insert(site);
        }
        ledger.words(site).rest();
        ledger.exact(site);
    }
    let has_tls_only = listeners.len() == 1;
    for (port, listener) in listeners {
        let name = match (port, listener.has_tls) {
            _ if has_tls_only => "web".to_owned(),
            (443, true) => "https".to_owned(),
            (80, false) => "http".to_owned(),
            (port, _) => format!("port-{port}"),
        };
        listener.write(&name, port, options, draft, ledger);
    }
    for (name, table) in upstreams.known {
        *draft.table(&["upstream", &name]) = table;
    }
}

/// The addresses of a site.
fn addresses(site: &Statement, options: &CaddyOptions, ledger: &Ledger) -> Vec<SiteAddress> {
    let has_tls = site.children().iter().any(|child| child.name() == "tls" && child.words.len() > 1);
    let mut addresses = Vec::new();
    for word in site.words.iter().flat_map(|word| word.text.split(',')).filter(|word| !word.is_empty()) {
        match SiteAddress::read(word, has_tls, options) {
            Ok(address) => addresses.push(address),
            Err(why) => ledger.unsupported(site, &why),
        }
    }
    addresses
}

fn site_name(addresses: &[&SiteAddress]) -> String {
    let host = addresses.iter().find_map(|address| address.host.clone());
    host.map_or_else(|| "app".to_owned(), |host| host.trim_start_matches("*.").to_owned())
}

/// What requests of a site have to be.
fn matched(addresses: &[&SiteAddress], site: &Statement, ledger: &Ledger) -> Vec<CaddyMatch> {
    let mut groups: BTreeMap<std::cmp::Reverse<Option<&str>>, Vec<&SiteAddress>> = BTreeMap::new();
    for address in addresses {
        groups.entry(std::cmp::Reverse(address.path.as_deref())).or_default().push(address);
    }
    let mut all = Vec::new();
    for (std::cmp::Reverse(path), group) in groups {
        let mut hosts: Vec<String> = group.iter().filter_map(|address| address.host.clone()).collect();
        if group.iter().any(|address| address.host.is_none()) {
            hosts.clear();
        }
        hosts.dedup();
        let path = match path.map(|path| path_expression(&[path])) {
            None => None,
            Some(Ok(path)) => Some(path),
            Some(Err(why)) => {
                ledger.unsupported(site, &why);
                continue;
            }
        };
        let when = labels(&group).into_iter().collect();
        all.push(CaddyMatch { hosts, path, when, ..CaddyMatch::default() });
    }
    all
}

/// The condition on hosts of which an asterisk is one label: in Weir, it stands for several.
fn labels(group: &[&SiteAddress]) -> Option<String> {
    let wildcards: Vec<String> = group
        .iter()
        .filter_map(|address| address.labels.as_deref())
        .map(|expression| format!("host.matches(r\"{expression}\")"))
        .collect();
    if wildcards.is_empty() || group.iter().any(|address| address.host.is_none()) {
        return None;
    }
    let plain = group.iter().filter(|address| address.labels.is_none());
    let plain = plain.filter_map(|address| address.host.as_deref()).map(|host| format!("host == \"{host}\""));
    let mut all: Vec<String> = plain.collect();
    all.extend(wildcards);
    Some(all.join(" || "))
}

/// A folder that no file is sent from has no meaning.
fn settle_roots(block: &[Statement], ledger: &Ledger) {
    for statement in block {
        if matches!(statement.name(), "root" | "try_files") && !ledger.is_settled(statement) {
            ledger.meaningless(statement, "nothing behind it serves files");
        }
        if matches!(statement.name(), "handle" | "handle_path" | "route") {
            settle_roots(statement.children(), ledger);
        }
    }
}

impl<'s> SiteListener<'s> {
    fn read(site: &'s Statement, ledger: &Ledger) -> Self {
        let mut own = SiteListener::default();
        for statement in site.children() {
            match statement.name() {
                "bind" => {
                    own.binds.extend(arguments(ledger, statement).into_iter().map(str::to_owned));
                    ledger.exact(statement);
                }
                "tls" => own.tls(statement, ledger),
                "log" => {
                    own.access_log = logs::read(statement, ledger).map(|log| (log, statement));
                }
                _ => {}
            }
        }
        own.trust(site.children(), ledger);
        own
    }

    /// A `reverse_proxy`, wherever it stands, may say whose fields count.
    fn trust(&mut self, block: &[Statement], ledger: &Ledger) {
        for statement in block {
            if statement.name() == "trusted_proxies" {
                let found = super::networks(&arguments(ledger, statement));
                for network in found.unwrap_or_default() {
                    if !self.trusted_proxies.contains(&network) {
                        self.trusted_proxies.push(network);
                    }
                }
            }
            if matches!(statement.name(), "reverse_proxy" | "handle" | "handle_path" | "route") {
                self.trust(statement.children(), ledger);
            }
        }
    }

    fn tls(&mut self, statement: &Statement, ledger: &Ledger) {
        match arguments(ledger, statement).as_slice() {
            [] => {}
            ["internal"] => self.is_internal = true,
            [email] if email.contains('@') => self.acme.push(("email".to_owned(), (*email).into())),
            [certificate, key] => {
                self.has_certificates = true;
                self.certificates.push(TomlValue::inline([
                    ("certificate", (*certificate).into()),
                    ("key", (*key).into()),
                ]));
            }
            _ => ledger.unsupported(statement, "see `tls` of the listener"),
        }
        for child in statement.children() {
            let words = arguments(ledger, child);
            match (child.name(), words.as_slice()) {
                ("protocols", ["tls1.3"] | ["tls1.3", "tls1.3"]) => {
                    self.tls.push(("versions".to_owned(), vec!["1.3"].into()));
                }
                ("protocols", ["tls1.2"] | ["tls1.2", "tls1.3"]) => {
                    ledger.by_default(child, "Weir speaks TLS 1.2 and 1.3");
                    continue;
                }
                ("ca", [url]) => self.acme.push(("ca".to_owned(), vec![*url].into())),
                ("ca_root", [file]) => self.acme.push(("ca_root".to_owned(), (*file).into())),
                ("client_auth", []) => {
                    self.client_auth(child, ledger);
                    continue;
                }
                ("dns", _) => {
                    ledger.unsupported(
                        child,
                        "a name server by `dns_update`, or a program by `dns_command`, of `tls.acme`",
                    );
                    continue;
                }
                ("on_demand", []) => self.is_on_demand = true,
                ("issuer", ["acme"]) => {
                    self.issuer(child, ledger);
                    continue;
                }
                _ => {
                    refuse_whole(child, "see `tls` of the listener", ledger);
                    continue;
                }
            }
            ledger.exact(child);
        }
        ledger.exact(statement);
    }

    fn issuer(&mut self, statement: &Statement, ledger: &Ledger) {
        for child in statement.children() {
            match (child.name(), arguments(ledger, child).as_slice()) {
                ("profile", [profile]) => self.acme.push(("profile".to_owned(), (*profile).into())),
                ("email", [email]) => self.acme.push(("email".to_owned(), (*email).into())),
                ("dir", [url]) => self.acme.push(("ca".to_owned(), vec![*url].into())),
                ("disable_http_challenge", []) => {
                    self.acme.push(("challenges".to_owned(), vec!["tls-alpn-01"].into()));
                }
                ("disable_tlsalpn_challenge", []) => {
                    self.acme.push(("challenges".to_owned(), vec!["http-01"].into()));
                }
                _ => {
                    refuse_whole(child, "see `tls.acme` of the listener", ledger);
                    continue;
                }
            }
            ledger.exact(child);
        }
        ledger.exact(statement);
    }

    fn client_auth(&mut self, statement: &Statement, ledger: &Ledger) {
        let (mut ca, mut verify) = (None, "required");
        for child in statement.children() {
            match (child.name(), arguments(ledger, child).as_slice()) {
                ("trusted_ca_cert_file", [file]) | ("trust_pool", ["file", file]) => {
                    ca = Some((*file).to_owned());
                }
                ("mode", ["require_and_verify"]) => {}
                ("mode", ["verify_if_given"]) => verify = "optional",
                _ => {
                    ledger.unsupported(child, "see `client_certificates` of `tls`");
                    continue;
                }
            }
            ledger.exact(child);
        }
        let Some(ca) = ca else {
            return ledger.unsupported(
                statement,
                "name the authorities of clients by a file: `client_certificates.ca`",
            );
        };
        let mut table = vec![("ca".to_owned(), TomlValue::from(ca))];
        if verify != "required" {
            table.push(("verify".to_owned(), verify.into()));
        }
        self.tls.push(("client_certificates".to_owned(), TomlValue::Inline(table)));
        ledger.exact(statement);
    }
}

impl<'s> ListenerDraft<'s> {
    /// Takes in what a site says of the listener.
    fn join(
        &mut self,
        site: &'s Statement,
        addresses: &[&SiteAddress],
        own: &SiteListener<'s>,
        options: &CaddyOptions,
        ledger: &Ledger,
    ) {
        self.origin.get_or_insert(site);
        let has_tls = addresses.iter().any(|address| address.has_tls);
        self.has_tls |= has_tls;
        for bind in &own.binds {
            if !self.binds.contains(bind) {
                self.binds.push(bind.clone());
            }
        }
        for network in &own.trusted_proxies {
            if !self.trusted_proxies.contains(network) {
                self.trusted_proxies.push(network.clone());
            }
        }
        if !has_tls {
            return;
        }
        self.certificates.extend(
            own.certificates
                .iter()
                .filter(|new| !self.certificates.contains(new))
                .cloned()
                .collect::<Vec<_>>(),
        );
        for (kind, values) in [(&mut self.acme, &own.acme), (&mut self.tls, &own.tls)] {
            for (key, value) in values {
                match kind.iter().find(|(known, _)| known == key) {
                    Some((_, known)) if known == value => {}
                    Some(_) => {
                        let advice =
                            "other sites of the same port say something else: listen on another address";
                        ledger.unsupported(site, advice);
                    }
                    None => kind.push((key.clone(), value.clone())),
                }
            }
        }
        if own.has_certificates {
            return;
        }
        if own.is_on_demand && !own.is_internal {
            if addresses.iter().any(|address| address.host.is_none()) {
                let advice =
                    "name the hosts, as `*.a.test`: clients could make Weir order certificates without end";
                ledger.unsupported(site, advice);
            }
            self.on_demand.extend(addresses.iter().filter_map(|address| address.host.clone()));
            return;
        }
        self.certify(site, addresses, own, options, ledger);
    }

    /// Takes in hosts whose certificates Weir gets or makes.
    fn certify(
        &mut self,
        site: &'s Statement,
        addresses: &[&SiteAddress],
        own: &SiteListener<'s>,
        options: &CaddyOptions,
        ledger: &Ledger,
    ) {
        for address in addresses {
            let is_internal =
                own.is_internal || options.has_local_certificates || address.kind() == SiteHostKind::Internal;
            let lacks = match is_internal {
                true => (!address.is_for_development()).then_some(NOT_FOR_DEVELOPMENT),
                false => address.labels.as_ref().map(|_| WILDCARD_NEEDS_DNS),
            };
            if let Some(advice) = lacks {
                ledger.unsupported(site, advice);
                self.lacks_certificates = true;
                continue;
            }
            let list = if is_internal { &mut self.internal } else { &mut self.public };
            list.extend(
                address.host.clone().filter(|host| !list.contains(host)).into_iter().collect::<Vec<_>>(),
            );
        }
    }

    fn write(self, name: &str, port: u16, options: &CaddyOptions, draft: &mut Draft, ledger: &Ledger) {
        let Some(origin) = self.origin else { return };
        let table = draft.table(&["listener", name]);
        *table = DraftTable::silently_of(origin);
        if !self.is_plain {
            table.comment_above(origin);
        }
        let addresses: Vec<String> = match self.binds.as_slice() {
            [] => vec![format!(":{port}")],
            binds => binds.iter().map(|bind| bound(bind, port)).collect(),
        };
        match addresses.as_slice() {
            [one] => table.set_beside("address", one.as_str(), origin),
            _ => table.set_beside("address", addresses.clone(), origin),
        }
        if let Some(tls) = self.tls_value(options) {
            table.set_beside("tls", tls, origin);
        }
        self.protocols(options, &addresses, table, origin, ledger);
        let own = self.trusted_proxies.iter().filter(|network| !options.trusted_proxies.contains(network));
        let trusted: Vec<String> = options.trusted_proxies.iter().chain(own).cloned().collect();
        if !trusted.is_empty() {
            table.set_plain("trusted_proxies", trusted);
        }
        if let Some(header) = &options.client_address_header {
            table.set_plain("client_address_header", header.as_str());
        }
        if !options.timeouts.is_empty() {
            let timeouts = options.timeouts.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
            table.set_plain("timeouts", TomlValue::Inline(timeouts.collect()));
        }
        let mut routes = self.routes;
        let mut by_port: BTreeMap<u16, (Vec<String>, &Statement)> = BTreeMap::new();
        for (host, https_port, site) in &self.redirects {
            let (hosts, _) = by_port.entry(*https_port).or_insert((Vec::new(), site));
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        for (https_port, (hosts, site)) in by_port {
            routes.push(redirect(hosts, https_port, options, site));
        }
        hoist(table, &mut routes);
        if needs_order(&routes) {
            table.set_plain("route_order", "file");
        }
        if let [only] = routes.as_slice()
            && let (1, Some(upstream)) = (only.keys().count(), only.text("upstream"))
        {
            table.set_plain("upstream", upstream);
            return;
        }
        let aborts = routes.iter().any(|route| route.has("lists"));
        routes.into_iter().for_each(|route| table.push_table("route", route));
        if aborts {
            let list = draft.table(&["list", ABORTED]);
            list.set_plain("action", "close");
            // Of clients on Unix sockets as well, which have no address.
            list.set_plain("when", "true");
        }
    }

    /// The versions of HTTP. Caddy tells clients of HTTP/3 for thirty days, unless a site says something else.
    fn protocols(
        &self,
        options: &CaddyOptions,
        addresses: &[String],
        table: &mut DraftTable,
        origin: &Statement,
        ledger: &Ledger,
    ) {
        match (self.has_tls, options.speaks("h2"), options.speaks("h2c")) {
            (true, false, _) => table.table("http2").set_plain("enabled", false),
            (false, _, true) => table.table("http2").set_plain("prior_knowledge", "allowed"),
            _ => {}
        }
        let has_port = addresses.iter().any(|address| !address.starts_with("unix:"));
        if !self.has_tls || !options.speaks("h3") || !has_port {
            return;
        }
        let says =
            |route: &DraftTable| route.text_of("response_headers").to_ascii_lowercase().contains("alt-svc");
        let own = self.routes.iter().filter(|route| says(route)).count();
        if own > 0 && own < self.routes.len() {
            let difference = "responses of the other routes do not tell of HTTP/3 (`Alt-Svc`), since some here have a field of their own";
            ledger.approximated(origin, difference);
        }
        let age = if own > 0 { "0s" } else { "30d" };
        let keys = TomlValue::inline([("alt_svc_max_age", age.into())]);
        table.set_beside("http3", keys, origin);
    }

    fn tls_value(&self, options: &CaddyOptions) -> Option<TomlValue> {
        if !self.has_tls {
            return None;
        }
        let mut tls: Vec<(String, TomlValue)> = Vec::new();
        if !self.certificates.is_empty() {
            tls.push(("certificates".to_owned(), TomlValue::Array(self.certificates.clone())));
        }
        if !self.public.is_empty() || !self.on_demand.is_empty() {
            let mut acme = options.acme.clone();
            acme.retain(|(key, _)| self.acme.iter().all(|(own, _)| own != key));
            acme.extend(self.acme.clone());
            let has_others = !self.internal.is_empty() || !self.certificates.is_empty();
            if has_others || !self.on_demand.is_empty() || self.lacks_certificates {
                acme.push(("hosts".to_owned(), self.public.clone().into()));
            }
            if !self.on_demand.is_empty() {
                acme.push(("on_demand".to_owned(), self.on_demand.clone().into()));
                acme.extend(
                    options.on_demand_ask.iter().map(|url| ("on_demand_ask".to_owned(), url.as_str().into())),
                );
            }
            tls.push(("acme".to_owned(), TomlValue::Inline(acme)));
        }
        if self.public.is_empty() && self.on_demand.is_empty() && self.certificates.is_empty() {
            let mut internal = Vec::new();
            if self.lacks_certificates {
                let hosts = match self.internal.is_empty() {
                    true => vec!["localhost".to_owned()],
                    false => self.internal.clone(),
                };
                internal.push(("hosts".to_owned(), hosts.into()));
            } else if self.tls.is_empty() {
                return Some("internal".into());
            }
            tls.push(("internal".to_owned(), TomlValue::Inline(internal)));
        } else if !self.internal.is_empty() {
            let hosts = TomlValue::inline([("hosts", self.internal.clone().into())]);
            tls.push(("internal".to_owned(), hosts));
        }
        tls.extend(self.tls.clone());
        Some(TomlValue::Inline(tls))
    }
}

fn bound(bind: &str, port: u16) -> String {
    match bind {
        "0.0.0.0" => format!("0.0.0.0:{port}"),
        bind if bind.starts_with("unix/") => {
            format!("unix:/{}", bind["unix/".len()..].trim_start_matches('/'))
        }
        bind if bind.contains(':') && !bind.starts_with('[') => format!("[{bind}]:{port}"),
        bind => format!("{bind}:{port}"),
    }
}

/// The redirect of automatic HTTPS.
fn redirect(mut hosts: Vec<String>, port: u16, options: &CaddyOptions, site: &Statement) -> DraftTable {
    let mut route = DraftTable::silently_of(site);
    match hosts.len() {
        1 => route.set_beside("host", hosts.remove(0), site),
        _ => route.set_beside("host", hosts, site),
    }
    let authority = if port == options.https_port && port == 443 {
        "{host}".to_owned()
    } else {
        format!("{{host}}:{port}")
    };
    let to = format!("https://{authority}{{path}}{{query}}");
    route.set_beside("redirect", TomlValue::inline([("to", to.into())]), site);
    route
}

/// What all routes have is said once, by the listener.
fn hoist(table: &mut DraftTable, routes: &mut [DraftTable]) {
    if routes.len() < 2 {
        return;
    }
    for key in ["compression", "response_headers", "request_headers", "access_log", "error_pages"] {
        let Some(first) = routes.iter().find_map(|route| route.get(key)).cloned() else { continue };
        // A redirect has nothing that could be compressed.
        let may_lack = |route: &DraftTable| key == "compression" && route.has("redirect") && !route.has(key);
        if table.has(key) || !routes.iter().all(|route| route.get(key) == Some(&first) || may_lack(route)) {
            continue;
        }
        table.set_plain(key, first);
        routes.iter_mut().for_each(|route| route.remove(key));
    }
}

/// What a route matches by.
const MATCHERS: [&str; 5] = ["host", "path_regex", "method", "query", "when"];

/// Whether the first route that is for a request is another one than the most specific.
fn needs_order(routes: &[DraftTable]) -> bool {
    let matchers = |route: &DraftTable| -> Vec<(&'static str, TomlValue)> {
        MATCHERS.into_iter().filter_map(|key| Some((key, route.get(key)?.clone()))).collect()
    };
    let all: Vec<Vec<(&'static str, TomlValue)>> = routes.iter().map(matchers).collect();
    let all: Vec<&[(&'static str, TomlValue)]> = all.iter().map(Vec::as_slice).collect();
    order::matters(&all)
}
