//! `balance`, `hash-type` and `cookie`: which server a request gets.

use crate::haproxy::acl::{Surroundings, sample};
use crate::haproxy::output::{Keys, literal};
use crate::haproxy::proxy::{ProxySection, duration_in, time_text};
use crate::report::{Ledger, StatementWords};
use crate::source::Statement;

/// `balance` of an upstream with so many servers that are no backups.
pub(super) fn balance<'s>(
    proxy: &ProxySection<'s>,
    keys: &mut Keys<'s>,
    servers: usize,
    around: &Surroundings<'_>,
) {
    let Some(statement) = proxy.one(&["balance"]) else {
        if servers > 1 {
            keys.set("balance", "round-robin", proxy.header);
        }
        return;
    };
    let mut words = proxy.ledger.words(statement);
    let method = words.text().unwrap_or_default();
    if servers < 2
        && !method.contains('(')
        && ["roundrobin", "leastconn", "static-rr", "random", "source", "first"].contains(&method)
    {
        proxy.ledger.exact(statement);
        return;
    }
    let (name, argument) =
        method.split_once('(').map_or((method, ""), |(name, rest)| (name, rest.trim_end_matches(')')));
    let hash = match name {
        "roundrobin" | "static-rr" => {
            keys.set("balance", "round-robin", statement);
            None
        }
        "leastconn" => None,
        "random" => {
            let policy = if argument == "1" { "random" } else { "power-of-two" };
            keys.set("balance", policy, statement);
            None
        }
        "source" => Some("client-address".to_owned()),
        "uri" if words.flag("whole") => Some("{path}{query}".to_owned()),
        "uri" => {
            words.flag("path-only");
            Some("path".to_owned())
        }
        "url_param" => words.text().map(|name| format!("query:{name}")),
        "hdr" => Some(format!("header:{argument}")),
        "hash" => hash_of(proxy, statement, &mut words, around),
        _ => {
            let advice = match name {
                "first" => {
                    "servers in their order: make the later ones `backup`, with `when_full = \"backup\"` where they have a `maxconn`"
                }
                _ => "take another policy of `balance`, or `affinity`",
            };
            proxy.ledger.unsupported(statement, advice);
            return;
        }
    };
    proxy.ledger.exact(statement);
    if let Some(key) = hash {
        keys.set("hash_key", key, statement);
        hash_type(proxy, keys, statement);
    }
}

fn hash_of<'s>(
    proxy: &ProxySection<'s>,
    statement: &Statement,
    words: &mut StatementWords<'s>,
    around: &Surroundings<'_>,
) -> Option<String> {
    let expression: Vec<&str> = words.rest().iter().map(|word| word.text.as_str()).collect();
    let value = sample(&expression.join(""), around);
    value.note.iter().for_each(|note| proxy.ledger.approximated(statement, note));
    if value.plain_placeholder().is_none() {
        proxy.ledger.unsupported(statement, "Weir has no placeholder for this: see `hash_key`");
    }
    value.plain_placeholder()
}

/// Without `hash-type`, a hash is map-based.
fn hash_type<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, statement: &'s Statement) {
    let kind = proxy.one(&["hash-type"]);
    let is_consistent =
        kind.is_some_and(|line| line.words.get(1).is_some_and(|word| word.text == "consistent"));
    keys.set("balance", if is_consistent { "consistent-hash" } else { "map-based-hash" }, statement);
    proxy.ledger.approximated(
        statement,
        "the function of the hash is another one: clients get other servers than with HAProxy, and stay there",
    );
    if let Some(line) = kind {
        proxy.ledger.words(line).rest();
        proxy.ledger.approximated(line, "the function of the hash is Weir's own");
    }
    let factor = proxy.one(&["hash-balance-factor"]);
    let Some(line) = factor.filter(|_| is_consistent) else {
        if is_consistent {
            keys.set("hash_load_factor", "off", statement);
        }
        return;
    };
    match proxy.ledger.words(line).text().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0) {
        0 => keys.set("hash_load_factor", "off", line),
        factor => keys.set("hash_load_factor", format!("{}%", factor.clamp(100, 10_000)), line),
    }
    proxy.ledger.exact(line);
}

/// `cookie`: affinity.
pub(super) fn cookie<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, all_have_one: bool) {
    let Some(statement) = proxy.one(&["cookie"]) else { return };
    let ledger = proxy.ledger;
    if proxy.is_tcp() {
        return ledger.meaningless(statement, "with `mode tcp` there are no cookies");
    }
    let mut words = ledger.words(statement);
    let name = words.text().unwrap_or_default();
    keys.set("affinity.cookie", literal(name), statement);
    let options = cookie_options(ledger, keys, statement, &mut words);
    cookie_mode(ledger, keys, statement, &options);
    if let Some(line) = proxy.one(&["dynamic-cookie-key"]) {
        let key = ledger.words(line).text().unwrap_or_default();
        match key.len() {
            16.. => {
                keys.set("affinity.secret", literal(key), line);
                ledger.approximated(line, "the key signs the cookie, whose value is Weir's own");
            }
            _ => ledger.unsupported(line, "`affinity.secret` has 16 characters or more"),
        }
    }
    if !all_have_one {
        ledger.approximated(statement, "all servers have a value of the cookie");
    }
    ledger.exact(statement);
}

/// The words of `cookie` that are no keys of their own.
#[derive(Default)]
struct CookieOptions<'s> {
    modes: Vec<&'s str>,
    indirect: bool,
    http_only: bool,
}

fn cookie_options<'s>(
    ledger: &Ledger,
    keys: &mut Keys<'s>,
    statement: &'s Statement,
    words: &mut StatementWords<'s>,
) -> CookieOptions<'s> {
    let mut options = CookieOptions::default();
    while let Some(word) = words.text() {
        match word {
            "insert" | "prefix" | "rewrite" => options.modes.push(word),
            "indirect" => options.indirect = true,
            "nocache" => {}
            "httponly" => options.http_only = true,
            "secure" => keys.set("affinity.secure", true, statement),
            "domain" => {
                if let Some(domain) = words.text() {
                    keys.set("affinity.domain", literal(domain), statement);
                }
            }
            "maxidle" => {
                if let Some(time) = words.text().and_then(|text| duration_in(text, 1000)) {
                    keys.set("affinity.max_age", time_text(time), statement);
                }
                ledger.approximated(
                    statement,
                    "the browser drops the cookie after that time, by its `Max-Age`",
                );
            }
            "maxlife" => {
                words.next();
                ledger.approximated(
                    statement,
                    "a cookie has no longest life, but the time since the last response",
                );
            }
            "attr" => match words.text() {
                Some("SameSite=None") => keys.set("affinity.same_site", "none", statement),
                Some("SameSite=Strict") => keys.set("affinity.same_site", "strict", statement),
                Some("SameSite=Lax") => {}
                _ => ledger.unsupported(statement, "Weir has no such attribute of the cookie"),
            },
            "dynamic" => ledger.approximated(statement, "the cookie names the server as Weir does"),
            "preserve" => {
                ledger.unsupported(statement, "a cookie that the server sets has no meaning for `affinity`");
            }
            "postonly" => ledger
                .unsupported(statement, "Weir sets the cookie with every response to a client without one"),
            other => ledger.unsupported(statement, &format!("`{other}`")),
        }
    }
    options
}

fn cookie_mode<'s>(
    ledger: &Ledger,
    keys: &mut Keys<'s>,
    statement: &'s Statement,
    options: &CookieOptions<'s>,
) {
    match options.modes.as_slice() {
        ["insert"] => {
            if !options.http_only {
                keys.set("affinity.http_only", false, statement);
            }
            if !options.indirect {
                ledger.approximated(statement, "servers do not get the cookie");
            }
            ledger.approximated(statement, "values of the cookie are Weir's own, and it is `SameSite=Lax`: clients get a server anew once");
        }
        ["prefix"] => {
            keys.set("affinity.mode", "prefix", statement);
            ledger.approximated(
                statement,
                "the prefix names the server as Weir does: clients get a server anew once",
            );
        }
        _ => {
            keys.set("affinity.mode", "learn", statement);
            ledger.approximated(statement, "Weir remembers which server has set which value of the cookie");
        }
    }
}

/// `stick on` and its like: affinity by a key.
pub(super) fn stick<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, around: &Surroundings<'_>) {
    let lines: Vec<&Statement> = proxy.all(&["stick"]);
    let table = proxy.one(&["stick-table"]);
    let by_address = keys.get("hash_key") == Some(&"client-address".into());
    let mut done = keys.has("affinity");
    for line in lines {
        let mut words = proxy.ledger.words(line);
        let kind = words.text().unwrap_or_default();
        let value = sample(words.text().unwrap_or_default(), around);
        let is_plain = words.peek().is_none();
        match (kind, value.plain_placeholder()) {
            ("on", Some(key)) if is_plain && !done && proxy.is_tcp() => {
                done = true;
                if key != "{client_address}" {
                    proxy.ledger.unsupported(line, "connections stay on a server by the address of the client alone");
                    continue;
                }
                keys.set("balance", "consistent-hash", line);
                keys.set("hash_key", "client-address", line);
                keys.set("hash_load_factor", "off", line);
                proxy.ledger.approximated(line, "a hash of the address decides, so nothing is remembered");
            }
            ("on", Some(key)) if is_plain && !done => {
                keys.set("affinity.mode", "stick", line);
                keys.set("affinity.key", key, line);
                done = true;
                proxy.ledger.exact(line);
                value.note.iter().for_each(|note| proxy.ledger.approximated(line, note));
            }
            ("on" | "store-response" | "match" | "store-request", None) if is_session_id(line) && by_address => {
                words.rest();
                proxy.ledger.approximated(line, "`balance source` keeps a client on its server: ids of TLS sessions are not looked at");
            }
            _ => proxy.ledger.unsupported(line, "`affinity` of an upstream has one key, which is a text with placeholders, asked for every request: `mode = \"stick\"`, or `learn` with `learn_from` for what servers say"),
        }
    }
    if let Some(line) =
        table.filter(|_| !done && by_address && proxy.all(&["stick"]).iter().all(|line| is_session_id(line)))
    {
        proxy.ledger.words(line).rest();
        proxy.ledger.approximated(
            line,
            "`balance source` keeps a client on its server: ids of TLS sessions are not looked at",
        );
        return;
    }
    if let Some(line) = table.filter(|_| !done && !proxy.all(&["stick"]).is_empty()) {
        proxy.ledger.unsupported(line, "nothing that Weir has sticks by it: see `affinity` of an upstream");
    }
    if let Some(line) = table.filter(|_| done && proxy.is_tcp()) {
        proxy.ledger.words(line).rest();
        proxy.ledger.approximated(line, "a hash of the address decides, so nothing is remembered");
    }
    if let (Some(line), true) = (table, done && keys.get("affinity.mode").is_some()) {
        stick_table(proxy, keys, line);
    }
}

fn stick_table<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, line: &'s Statement) {
    let mut words = proxy.ledger.words(line);
    proxy.ledger.exact(line);
    while let Some(word) = words.text() {
        match word {
            "type" => {
                words.next();
            }
            "len" => {
                words.next();
            }
            "size" => {
                if let Some(size) = words.text().and_then(size_of).filter(|size| *size != 100_000) {
                    keys.set("affinity.entries_max", size.clamp(8, 100_000_000), line);
                }
            }
            "expire" => {
                if let Some(time) =
                    words.text().and_then(|text| duration_in(text, 1)).filter(|time| *time != 3_600_000)
                {
                    keys.set("affinity.expire", time_text(time.max(1000)), line);
                }
            }
            "nopurge" => {}
            "peers" => {
                words.next();
                proxy.ledger.approximated(
                    line,
                    "each Weir remembers for itself; `affinity.shared` shares it by a Redis",
                );
            }
            "store" => {
                words.next();
                proxy
                    .ledger
                    .unsupported(line, "the counters of a table of affinity: put them in a `[table.NAME]`");
            }
            other => proxy.ledger.unsupported(line, &format!("`{other}`")),
        }
    }
}

/// Whether a rule sticks by the id of a TLS session.
fn is_session_id(line: &Statement) -> bool {
    line.words.get(2).is_some_and(|word| word.text == "payload_lv(43,1)" || word.text == "ssl_fc_session_id")
}

/// `200k`, `1m`.
pub(in crate::haproxy) fn size_of(text: &str) -> Option<i64> {
    let (digits, factor) = match text.to_ascii_lowercase().as_str() {
        text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), 1024),
        text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), 1024 * 1024),
        text if text.ends_with('g') => (text[..text.len() - 1].to_owned(), 1024 * 1024 * 1024),
        text => (text.to_owned(), 1),
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}
