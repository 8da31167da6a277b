//! The global options, in front of all sites.

use super::words::arguments;
use crate::document::{Draft, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// What options say about all sites.
pub(super) struct CaddyOptions {
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) has_automatic_https: bool,
    pub(super) has_redirects: bool,
    pub(super) has_local_certificates: bool,
    /// Versions of HTTP: `h1`, `h2`, `h2c`, `h3`.
    pub(super) protocols: Vec<String>,
    pub(super) acme: Vec<(String, TomlValue)>,
    pub(super) trusted_proxies: Vec<String>,
    pub(super) client_address_header: Option<String>,
    /// Who is asked whether a host gets a certificate.
    pub(super) on_demand_ask: Option<String>,
    /// Limits on the heads of requests, by the keys of a listener.
    pub(super) timeouts: Vec<(&'static str, TomlValue)>,
}

impl Default for CaddyOptions {
    fn default() -> Self {
        CaddyOptions {
            http_port: 80,
            https_port: 443,
            has_automatic_https: true,
            has_redirects: true,
            has_local_certificates: false,
            protocols: ["h1", "h2", "h3"].map(str::to_owned).to_vec(),
            acme: Vec::new(),
            trusted_proxies: Vec::new(),
            client_address_header: None,
            on_demand_ask: None,
            timeouts: Vec::new(),
        }
    }
}

/// Reads the block of options.
pub(super) fn read(statement: &Statement, draft: &mut Draft, ledger: &Ledger) -> CaddyOptions {
    let mut options = CaddyOptions::default();
    for child in statement.children() {
        if options.option(child, draft, ledger) {
            ledger.exact(child);
        }
    }
    ledger.exact(statement);
    options
}

impl CaddyOptions {
    /// Reads one option; whether it is exact, or else settled already.
    fn option(&mut self, statement: &Statement, draft: &mut Draft, ledger: &Ledger) -> bool {
        let words = arguments(ledger, statement);
        let port = |word: &str| word.parse::<u16>().ok();
        match (statement.name(), words.as_slice()) {
            ("email", [email]) => self.acme.push(("email".to_owned(), (*email).into())),
            ("acme_ca", [url]) => self.acme.push(("ca".to_owned(), vec![*url].into())),
            ("acme_ca_root", [file]) => self.acme.push(("ca_root".to_owned(), (*file).into())),
            ("http_port", [number]) if port(number).is_some() => self.http_port = port(number).unwrap_or(80),
            ("https_port", [number]) if port(number).is_some() => {
                self.https_port = port(number).unwrap_or(443);
            }
            ("auto_https", ["off"]) => (self.has_automatic_https, self.has_redirects) = (false, false),
            ("auto_https", ["disable_redirects"]) => self.has_redirects = false,
            ("local_certs", []) => self.has_local_certificates = true,
            ("debug", []) => draft.table(&["log"]).set("level", "debug", statement),
            ("grace_period", [time]) if super::duration(time).is_some() => {
                let time = super::duration(time).unwrap_or_default();
                draft.table(&["process"]).set("stop_grace", time, statement);
            }
            ("admin", ["off"]) => {
                ledger.by_default(statement, "Weir has no admin listener unless `[admin]` asks for one");
                return false;
            }
            ("admin", _) => {
                ledger.meaningless(
                    statement,
                    "no API changes the config of Weir; `[admin]` is for status and metrics",
                );
                return false;
            }
            ("skip_install_trust" | "persist_config" | "renew_interval" | "storage_clean_interval", _) => {
                ledger.meaningless(statement, "Weir has nothing that it would change");
                return false;
            }
            ("storage", _) => {
                let why = "Weir keeps its certificates in `tls.acme.directory`";
                ledger.meaningless(statement, why);
                statement.children().iter().for_each(|child| ledger.meaningless(child, why));
                return false;
            }
            ("on_demand_tls", []) => {
                for child in statement.children() {
                    match (child.name(), arguments(ledger, child).as_slice()) {
                        ("ask", [url]) => self.on_demand_ask = Some((*url).to_owned()),
                        ("interval" | "burst", [_]) => {
                            ledger.approximated(child, "see `on_demand_max` of `tls.acme`");
                            continue;
                        }
                        _ => {
                            ledger.unsupported(child, "see `on_demand` of `tls.acme`");
                            continue;
                        }
                    }
                    ledger.exact(child);
                }
            }
            ("order", _) => {
                ledger.unsupported(statement, "directives of other modules have no keys in Weir");
                return false;
            }
            ("servers", []) => {
                statement.children().iter().for_each(|child| self.servers(child, ledger));
            }
            ("log", _) => {
                let advice = "Weir logs to standard error: `[log]` has level and format";
                ledger.approximated(statement, advice);
                statement.children().iter().for_each(|child| log_option(child, advice, ledger));
                return false;
            }
            _ => {
                refuse_whole(statement, "see docs/configuration.md", ledger);
                return false;
            }
        }
        true
    }

    /// Whether clients may speak a version of HTTP.
    pub(super) fn speaks(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|known| known == protocol)
    }

    fn servers(&mut self, statement: &Statement, ledger: &Ledger) {
        let words = arguments(ledger, statement);
        match (statement.name(), words.as_slice()) {
            ("trusted_proxies", ["static", networks @ ..]) => match super::networks(networks) {
                Ok(networks) => self.trusted_proxies.extend(networks),
                Err(why) => return ledger.unsupported(statement, &why),
            },
            ("trusted_proxies_strict", []) => {
                return ledger.by_default(statement, "Weir reads the field from its end");
            }
            ("client_ip_headers", [name]) => self.client_address_header = Some(name.to_ascii_lowercase()),
            ("client_ip_headers", [first, ..]) => {
                self.client_address_header = Some(first.to_ascii_lowercase());
                return ledger.approximated(statement, "one field names the client: the first of these");
            }
            ("max_header_size", [_]) => {
                return ledger
                    .approximated(statement, "the limit is `limits.head_size`, 32 KiB and at most 1 MiB");
            }
            ("protocols", protocols) if protocols.contains(&"h1") => {
                let is_known = |name: &&str| matches!(*name, "h1" | "h2" | "h2c" | "h3");
                if !protocols.iter().all(is_known) {
                    return ledger.unsupported(statement, "versions of HTTP are `h1`, `h2`, `h2c` and `h3`");
                }
                self.protocols = protocols.iter().map(|name| (*name).to_owned()).collect();
            }
            ("timeouts", []) => {
                for child in statement.children() {
                    let words = arguments(ledger, child);
                    let time = words.first().and_then(|word| super::duration(word));
                    match (child.name(), time) {
                        ("read_header", Some(time)) => self.timeouts.push(("request", time.into())),
                        ("idle", Some(time)) => self.timeouts.push(("idle", time.into())),
                        _ => {
                            ledger.unsupported(child, "Weir limits bodies by their progress: see `timeouts`");
                            continue;
                        }
                    }
                    ledger.exact(child);
                }
            }
            ("strict_sni_host", _) | ("metrics", _) => {
                return ledger.unsupported(statement, "see `[metrics]` and `sni` in docs/configuration.md");
            }
            _ => return refuse_whole(statement, "see the listener in docs/configuration.md", ledger),
        }
        ledger.exact(statement);
    }
}

/// An option of a log of its own, with all that is in it.
fn log_option(statement: &Statement, advice: &str, ledger: &Ledger) {
    arguments(ledger, statement);
    ledger.approximated(statement, advice);
    statement.children().iter().for_each(|child| log_option(child, advice, ledger));
}

/// A statement with all that is in it is not supported.
pub(super) fn refuse_whole(statement: &Statement, advice: &str, ledger: &Ledger) {
    ledger.unsupported(statement, advice);
    statement.children().iter().for_each(|child| refuse_whole(child, advice, ledger));
}
