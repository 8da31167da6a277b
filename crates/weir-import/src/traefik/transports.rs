//! `serversTransports`: TLS and time limits of connections to servers.

use super::tree::{child, duration, is_true, key, number, refuse, value, value_of, values};
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// What a transport says of an upstream.
#[derive(Default)]
pub(super) struct ServerTransport<'s> {
    pub(super) tls: Vec<(&'static str, TomlValue)>,
    pub(super) timeouts: Vec<(&'static str, TomlValue)>,
    pub(super) has_http1_only: bool,
    pub(super) idle_max: Option<(i64, &'s Statement)>,
}

/// Reads a transport; `has_tls`: the servers of this upstream speak TLS, so what it says of TLS counts.
pub(super) fn read<'s>(statement: &'s Statement, ledger: &Ledger) -> ServerTransport<'s> {
    let mut transport = ServerTransport::default();
    for child in statement.children() {
        match key(child).as_str() {
            "servername" => transport.tls.push(("server_name", value(ledger, child).into())),
            "insecureskipverify" => {
                if is_true(ledger, child) {
                    transport.tls.push(("verify", false.into()));
                }
            }
            "rootcas" => match values(ledger, child).as_slice() {
                [file] if !file.contains("-----BEGIN") => transport.tls.push(("ca", (*file).into())),
                _ => {
                    ledger.unsupported(child, "write all of them into one file: `tls.ca` of the upstream");
                    continue;
                }
            },
            "certificates" => {
                certificates(child, &mut transport, ledger);
                continue;
            }
            "maxidleconnsperhost" => match value(ledger, child).parse::<i64>() {
                Ok(0) => {}
                Ok(count) => transport.idle_max = Some((count.max(0), child)),
                Err(_) => {
                    ledger.unsupported(child, "this is no number");
                    continue;
                }
            },
            "disablehttp2" => transport.has_http1_only = is_true(ledger, child),
            "peercerturi" => transport.tls.push(("subject_alt_names", value(ledger, child).into())),
            "forwardingtimeouts" => {
                child.children().iter().for_each(|child| timeout(child, &mut transport, ledger));
            }
            "spiffe" => {
                refuse(ledger, child, "`ca`, `certificate` and `subject_alt_names` of `tls` of the upstream");
                continue;
            }
            _ => continue,
        }
        ledger.exact(child);
    }
    ledger.exact(statement);
    transport
}

fn certificates<'s>(statement: &'s Statement, transport: &mut ServerTransport<'s>, ledger: &Ledger) {
    let [item] = statement.children() else {
        return refuse(ledger, statement, "servers get one certificate: `tls.certificate` of the upstream");
    };
    let file = |name: &str| value_of(ledger, item, name).filter(|file| !file.contains("-----BEGIN"));
    let (Some(certificate), Some(own_key)) = (file("certfile"), file("keyfile")) else {
        return refuse(ledger, statement, "name a file of the certificate and one of its key");
    };
    transport.tls.push(("certificate", certificate.into()));
    transport.tls.push(("key", own_key.into()));
    for own in
        [Some(statement), Some(item), child(item, "certfile"), child(item, "keyfile")].into_iter().flatten()
    {
        ledger.exact(own);
    }
}

fn timeout<'s>(statement: &'s Statement, transport: &mut ServerTransport<'s>, ledger: &Ledger) {
    let name = match key(statement).as_str() {
        "dialtimeout" => "connect",
        "responseheadertimeout" => "response",
        "idleconntimeout" => "idle",
        "readidletimeout" | "pingtimeout" => {
            return ledger
                .approximated(statement, "see `http2.ping_interval` and `ping_timeout` of the upstream");
        }
        _ => return,
    };
    match duration(ledger, statement) {
        Some(time) => transport.timeouts.push((name, time.into())),
        None if name == "response" && number(ledger, statement) == Some(0) => {}
        None if name == "connect" => {
            return ledger
                .approximated(statement, "there is always a limit: `timeouts.connect` of the upstream");
        }
        None => return ledger.unsupported(statement, "the time cannot be read"),
    }
    ledger.exact(statement);
}
