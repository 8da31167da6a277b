//! The options of `server`, `server-template` and `default-server`.

use crate::haproxy::proxy::duration;
use crate::report::{Ledger, StatementWords};
use crate::source::Statement;

/// What a server has, its own words over those of `default-server`.
#[derive(Clone, Default, PartialEq)]
pub(super) struct ServerOptions<'s> {
    pub(super) check: bool,
    pub(super) inter: Option<u64>,
    pub(super) fastinter: Option<u64>,
    pub(super) downinter: Option<u64>,
    pub(super) rise: Option<i64>,
    pub(super) fall: Option<i64>,
    pub(super) port: Option<i64>,
    pub(super) check_ssl: Option<bool>,
    pub(super) check_sni: Option<&'s str>,
    pub(super) weight: Option<i64>,
    pub(super) backup: bool,
    pub(super) disabled: bool,
    pub(super) maxconn: Option<i64>,
    pub(super) maxqueue: Option<i64>,
    pub(super) ssl: bool,
    pub(super) verify_none: bool,
    pub(super) verify_required: bool,
    pub(super) verifyhost: Option<&'s str>,
    pub(super) sni: Option<&'s str>,
    pub(super) ca_file: Option<&'s str>,
    pub(super) crl_file: Option<&'s str>,
    pub(super) crt: Option<&'s str>,
    pub(super) alpn: Option<&'s str>,
    pub(super) proto: Option<&'s str>,
    pub(super) send_proxy: Option<&'static str>,
    pub(super) slowstart: Option<u64>,
    pub(super) close_on_down: bool,
    pub(super) observe: bool,
    pub(super) source: Option<String>,
    pub(super) agent_check: bool,
    pub(super) agent_port: Option<i64>,
    pub(super) agent_inter: Option<u64>,
    pub(super) agent_addr: Option<&'s str>,
    pub(super) agent_send: Option<&'s str>,
    pub(super) tls_versions: Option<&'static [&'static str]>,
    pub(super) no_ssl_reuse: bool,
    pub(super) max_reuse: Option<i64>,
    pub(super) cookie: bool,
}

/// What an option without a key is settled as.
enum Settled {
    Approximated(&'static str),
    Unsupported(&'static str),
}

impl<'s> ServerOptions<'s> {
    /// Takes all words that are left.
    pub(super) fn read(&mut self, ledger: &Ledger, statement: &Statement, words: &mut StatementWords<'s>) {
        while let Some(word) = words.next() {
            let name = word.text.as_str();
            if self.flag(name) || self.value(name, words) || self.source(name, words) {
                continue;
            }
            match without_key(name, words) {
                Some(Settled::Approximated("")) => {}
                Some(Settled::Approximated(note)) => ledger.approximated(statement, note),
                Some(Settled::Unsupported(note)) => ledger.unsupported(statement, note),
                None => {
                    ledger.unsupported(statement, &format!("the import does not know the option `{name}`"));
                }
            }
        }
    }

    /// Whether it differs in nothing but what each server has for itself.
    pub(super) fn is_like(&self, other: &ServerOptions<'s>) -> bool {
        let plain = |options: &ServerOptions<'s>| ServerOptions {
            weight: None,
            maxconn: None,
            maxqueue: None,
            backup: false,
            disabled: false,
            cookie: false,
            downinter: options.downinter,
            ..options.clone()
        };
        self.downinter.is_none() && plain(self) == plain(other)
    }

    fn flag(&mut self, name: &str) -> bool {
        match name {
            "check" => self.check = true,
            "no-check" => self.check = false,
            "check-ssl" => self.check_ssl = Some(true),
            "no-check-ssl" => self.check_ssl = Some(false),
            "backup" => self.backup = true,
            "no-backup" => self.backup = false,
            "disabled" => self.disabled = true,
            "enabled" => self.disabled = false,
            "ssl" => self.ssl = true,
            "no-ssl" => self.ssl = false,
            "send-proxy" => self.send_proxy = Some("v1"),
            "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => self.send_proxy = Some("v2"),
            "no-send-proxy" | "no-send-proxy-v2" => self.send_proxy = None,
            "agent-check" => self.agent_check = true,
            "no-agent-check" => self.agent_check = false,
            "no-tlsv13" | "force-tlsv12" => self.tls_versions = Some(&["1.2"]),
            "no-tlsv12" | "force-tlsv13" => self.tls_versions = Some(&["1.3"]),
            "no-ssl-reuse" => self.no_ssl_reuse = true,
            _ => return false,
        }
        true
    }

    fn value(&mut self, name: &str, words: &mut StatementWords<'s>) -> bool {
        let number = |words: &mut StatementWords<'s>| words.text().and_then(|text| text.parse::<i64>().ok());
        let time = |words: &mut StatementWords<'s>| words.text().and_then(duration);
        match name {
            "inter" => self.inter = time(words),
            "fastinter" => self.fastinter = time(words),
            "downinter" => self.downinter = time(words),
            "rise" => self.rise = number(words),
            "fall" => self.fall = number(words),
            "port" => self.port = number(words),
            "check-sni" => self.check_sni = words.text(),
            "weight" => self.weight = number(words),
            "maxconn" => self.maxconn = number(words).filter(|number| *number > 0),
            "maxqueue" => self.maxqueue = number(words).filter(|number| *number > 0),
            "verify" => {
                let none = words.text() == Some("none");
                (self.verify_none, self.verify_required) = (none, !none);
            }
            "verifyhost" => self.verifyhost = words.text(),
            "sni" => self.sni = words.text(),
            "ca-file" => self.ca_file = words.text(),
            "crl-file" => self.crl_file = words.text(),
            "crt" => self.crt = words.text(),
            "alpn" => self.alpn = words.text(),
            "proto" => self.proto = words.text(),
            "slowstart" => self.slowstart = time(words),
            "on-marked-down" => self.close_on_down = words.text() == Some("shutdown-sessions"),
            "observe" => self.observe = words.text().is_some(),
            "agent-port" => self.agent_port = number(words),
            "agent-inter" => self.agent_inter = time(words),
            "agent-addr" => self.agent_addr = words.text(),
            "agent-send" => self.agent_send = words.text(),
            "max-reuse" => self.max_reuse = number(words),
            "cookie" => self.cookie = words.text().is_some(),
            "ssl-min-ver" if matches!(words.text(), Some("TLSv1.3")) => self.tls_versions = Some(&["1.3"]),
            "ssl-max-ver" if matches!(words.text(), Some("TLSv1.2")) => self.tls_versions = Some(&["1.2"]),
            "ssl-min-ver" | "ssl-max-ver" => {}
            _ => return false,
        }
        true
    }

    fn source(&mut self, name: &str, words: &mut StatementWords<'s>) -> bool {
        if name != "source" {
            return false;
        }
        self.source = words.text().map(|text| text.split(':').next().unwrap_or(text).to_owned());
        if words.peek().is_some_and(|word| word.text == "usesrc") {
            words.next();
            // Other forms are an address that Weir refuses.
            self.source = words.text().map(|of| match of {
                "clientip" | "client" => "{client_address}".to_owned(),
                other => other.to_owned(),
            });
        }
        true
    }
}

/// Options that Weir has no key for.
fn without_key(name: &str, words: &mut StatementWords<'_>) -> Option<Settled> {
    use Settled::{Approximated, Unsupported};
    let mut with_value = |settled: Settled| {
        words.next();
        Some(settled)
    };
    match name {
        // The same as Weir does anyway.
        "resolvers" | "id" | "init-addr" | "resolve-opts" | "log-proto" | "init-state" => {
            with_value(Approximated(""))
        }
        "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "tfo" | "ws" | "no-verifyhost" | "non-stick" => {
            Some(Approximated(""))
        }
        "resolve-prefer" => {
            with_value(Approximated("all addresses of a name are used, those of IPv4 and IPv6"))
        }
        "resolve-net" => with_value(Approximated("all addresses of a name are used")),
        "minconn" => {
            with_value(Approximated("`maxconn` alone bounds a server: it does not grow with the load"))
        }
        "error-limit" => {
            with_value(Approximated("`ejection` of the upstream is what judges a server by its traffic"))
        }
        "on-error" => {
            with_value(Approximated("`ejection` of the upstream is what judges a server by its traffic"))
        }
        "ciphers" | "ciphersuites" | "curves" | "sigalgs" | "client-sigalgs" => {
            with_value(Approximated("Weir's own list of safe cipher suites is offered: `tls.cipher_suites`"))
        }
        "no-tls-tickets" | "force-sslv3" | "force-tlsv10" | "force-tlsv11" | "allow-0rtt" => {
            Some(Approximated("TLS is 1.2 or 1.3, without early data"))
        }
        "pool-max-conn" | "pool-low-conn" | "pool-purge-delay" | "pool-conn-name" | "idle-ping" => {
            with_value(Approximated("`pool` of the upstream has its own defaults"))
        }
        "check-alpn" | "check-proto" => with_value(Approximated("probes speak what the traffic speaks")),
        "check-send-proxy" => Some(Approximated("probes send PROXY headers as the traffic does")),
        "check-via-socks4" => Some(Unsupported("Weir does not speak SOCKS")),
        "proxy-v2-options" => with_value(Approximated("PROXY headers have the extensions that Weir sends")),
        "on-marked-up" => {
            with_value(Unsupported("connections to backups stay when another server is up again"))
        }
        "track" => with_value(Unsupported(
            "give the upstream `health` of its own: Weir does not track servers of others",
        )),
        "addr" => with_value(Unsupported(
            "probes go to the address of the server; `health.port` is another port of it",
        )),
        "redir" => with_value(Unsupported("answer these requests by a route with `redirect`")),
        "namespace" => with_value(Unsupported("run a Weir in the namespace")),
        "socks4" | "interface" => with_value(Unsupported("Weir does not have it")),
        _ => None,
    }
}
