//! Who gets in: passwords, another server, addresses.

use super::fields::FieldSetting;
use super::{RouterPlace, RouterSettings};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;
use crate::traefik::tree::{self, child, is_true, key, number, refuse, template, value, values};

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn basic_auth(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let mut users: Vec<(String, TomlValue)> = Vec::new();
        let mut entries: Vec<(String, TomlValue)> = Vec::new();
        let (mut realm, mut file) = ("traefik", None);
        for part in kind.children() {
            match key(part).as_str() {
                "users" => {
                    for user in values(ledger, part) {
                        match user.split_once(':') {
                            Some((name, hash)) if hash.starts_with('$') || hash.starts_with("{SHA}") => {
                                users.push((name.to_owned(), hash.replace('$', "$$").into()));
                            }
                            _ => {
                                return settings.forbid(
                                    ledger,
                                    kind,
                                    "a user without a hash that Weir can read: no one gets in",
                                );
                            }
                        }
                    }
                }
                "usersfile" => file = Some(value(ledger, part)),
                "realm" => realm = value(ledger, part),
                "removeheader" => {
                    if is_true(ledger, part) {
                        entries.push(("forward_credentials".to_owned(), false.into()));
                    }
                }
                "headerfield" => {
                    let name = value(ledger, part).to_ascii_lowercase();
                    settings.request.push(FieldSetting::set(name, "{user}".to_owned(), part));
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        match (file, users.is_empty()) {
            (Some(file), true) => entries.insert(0, ("users_file".to_owned(), file.into())),
            (None, false) => entries.push(("users".to_owned(), TomlValue::Inline(users))),
            _ => {
                return settings.forbid(ledger, kind, "users are in a file or in the config: no one gets in");
            }
        }
        if settings.has("basic") {
            return settings.forbid(ledger, kind, "a second password for one request: no one gets in");
        }
        entries.insert(0, ("realm".to_owned(), tree::literal(realm).into()));
        settings.set("basic", TomlValue::Inline(entries), kind);
        ledger.exact(kind);
    }

    pub(super) fn forward_auth(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let Some(address) = child(kind, "address") else {
            return settings.forbid(ledger, kind, "an address is needed: no one gets in");
        };
        let Some((scheme, host, path)) = auth_url(value(ledger, address)) else {
            return settings.forbid(ledger, kind, "the address cannot be read: no one gets in");
        };
        ledger.exact(address);
        let mut table = DraftTable::silently_of(kind);
        table.set_beside("servers", vec![host.as_str()], address);
        let transport = child(kind, "tls").map(|tls| auth_tls(ledger, tls));
        if scheme == "https" {
            table.set_plain("tls", TomlValue::Inline(transport.unwrap_or_default()));
        }
        let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        let usual = if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name != "localhost" {
            name
        } else {
            "auth"
        };
        let mut entries = Vec::new();
        let mut set = |key: &str, value: TomlValue| entries.push((key.to_owned(), value));
        set("path", path.into());
        set("forward_host", "server".into());
        for part in kind.children() {
            match key(part).as_str() {
                "address" | "tls" => {}
                "trustforwardheader" => match is_true(ledger, part) && !self.trusts_peers {
                    true => ledger.approximated(
                        part,
                        "the server gets `X-Forwarded-*` of clients if `trusted_proxies` names them",
                    ),
                    false => ledger.exact(part),
                },
                "authresponseheaders" => {
                    let names: Vec<String> =
                        values(ledger, part).iter().map(|name| name.to_ascii_lowercase()).collect();
                    set("response_headers", names.into());
                    ledger.exact(part);
                }
                "authrequestheaders" => {
                    let names: Vec<String> =
                        values(ledger, part).iter().map(|name| name.to_ascii_lowercase()).collect();
                    set("request_headers", names.into());
                    ledger.exact(part);
                }
                "authresponseheadersregex" => {
                    return settings.forbid(
                        ledger,
                        kind,
                        "name each field in `authResponseHeaders`: one of this expression that a client sends would pass; no one gets in",
                    );
                }
                "addauthcookiestoresponse" => {
                    ledger.unsupported(part, "clients get no cookies of a server that has let them in");
                }
                "headerfield" => {
                    ledger.unsupported(part, "name the field in `response_headers` of `forward_auth`");
                }
                "preserverequestmethod" | "forwardbody" if is_true(ledger, part) => {
                    return settings.forbid(
                        ledger,
                        kind,
                        "the server is asked by a GET without a body: no one gets in",
                    );
                }
                "preserverequestmethod" | "forwardbody" => {
                    ledger.by_default(part, "it is asked by a GET without a body");
                }
                "preservelocationheader" | "maxbodysize" => {
                    number(ledger, part);
                    value(ledger, part);
                    ledger.by_default(part, "`Location` passes as it is");
                }
                _ => {}
            }
        }
        if settings.has("forward_auth") {
            return settings.forbid(ledger, kind, "a second server that decides: no one gets in");
        }
        let upstream = self.services.add(usual, table);
        entries.insert(0, ("upstream".to_owned(), upstream.into()));
        settings.set("forward_auth", TomlValue::Inline(entries), kind);
        ledger.exact(kind);
    }

    pub(super) fn allow_list(&mut self, name: &str, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let (mut networks, mut status, mut client) = (Vec::new(), 403, self.client);
        for part in kind.children() {
            match key(part).as_str() {
                "sourcerange" => {
                    networks = tree::names(ledger, part);
                    let is_network = |text: &&str| {
                        let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
                        address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
                    };
                    if !networks.iter().all(is_network) {
                        return settings.forbid(ledger, kind, "this is no list of networks: no one gets in");
                    }
                }
                "rejectstatuscode" => status = number(ledger, part).unwrap_or(403),
                "ipstrategy" => {
                    let Some(found) = self.strategy(part) else {
                        return settings.forbid(
                            ledger,
                            kind,
                            "the client cannot be told by this strategy: no one gets in",
                        );
                    };
                    client = found;
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        if networks.is_empty() || !(400..600).contains(&status) {
            return settings.forbid(
                ledger,
                kind,
                "a list of networks and a status of 400 or more are needed: no one gets in",
            );
        }
        let list: Vec<String> =
            networks.iter().map(|text| format!("\"{}\"", crate::networks::network(text))).collect();
        let mut table = DraftTable::of(kind);
        table.set_plain("action", "deny");
        table.set_beside("when", format!("!({client} in [{}])", list.join(", ")), kind);
        if status != 403 {
            table.set_plain("status", status);
        }
        // Entry points may tell clients in different ways.
        let own = self.draft.add_named("list", &tree::name(name), table);
        settings.add("lists", &own, kind);
        ledger.exact(kind);
    }

    /// The value that has the client by an `ipStrategy`, if Weir has it.
    pub(super) fn strategy(&self, statement: &'s Statement) -> Option<&'static str> {
        let ledger = self.ledger;
        let mut client = self.client;
        for part in statement.children() {
            match key(part).as_str() {
                "depth" => match number(ledger, part) {
                    Some(0) => ledger.exact(part),
                    Some(_) if self.trusts_peers => {
                        client = "client_address";
                        ledger.approximated(part, "the client is the last address of `X-Forwarded-For` that is not in `trusted_proxies`, however many are behind it");
                    }
                    _ => return None,
                },
                "excludedips" => {
                    if !self.trusts_peers {
                        return None;
                    }
                    values(ledger, part);
                    client = "client_address";
                    ledger.approximated(part, "addresses that are left out are those of `trusted_proxies`");
                }
                "ipv6subnet" => {
                    value(ledger, part);
                    ledger.approximated(
                        part,
                        "see `prefix` of the limit: networks of 64 bits count as one client",
                    );
                }
                _ => {}
            }
        }
        ledger.exact(statement);
        Some(client)
    }
}

/// Scheme, server and path of the server that decides.
fn auth_url(url: &str) -> Option<(&str, String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let usual_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (authority, path) = rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at));
    if authority.is_empty() || authority.contains(['@', '{', ' ']) {
        return None;
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let server = if has_port { authority.to_owned() } else { format!("{authority}:{usual_port}") };
    let slash = if path.starts_with('?') { "/" } else { "" };
    Some((scheme, server, format!("{slash}{}", template(path))))
}

/// `tls` of `forwardAuth`, whose keys have other names than those of a transport.
fn auth_tls(ledger: &crate::report::Ledger, statement: &Statement) -> Vec<(String, TomlValue)> {
    let mut tls = Vec::new();
    for part in statement.children() {
        let text = value(ledger, part);
        let entry: (&str, TomlValue) = match key(part).as_str() {
            "ca" if !text.contains("-----BEGIN") => ("ca", text.into()),
            "cert" if !text.contains("-----BEGIN") => ("certificate", text.into()),
            "key" if !text.contains("-----BEGIN") => ("key", text.into()),
            "insecureskipverify" => {
                if is_true(ledger, part) {
                    tls.push(("verify".to_owned(), false.into()));
                }
                ledger.exact(part);
                continue;
            }
            _ => {
                refuse(ledger, part, "name a file: see `tls` of the upstream");
                continue;
            }
        };
        tls.push((entry.0.to_owned(), entry.1));
        ledger.exact(part);
    }
    ledger.exact(statement);
    tls
}
