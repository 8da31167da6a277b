//! Samples: fetches such as `req.hdr(host)`, with converters such as `lower` behind them.

use super::map;
use super::value::{AclSample, SampleForm, SampleKind, Surroundings, VariableValue};
use super::{AclCondition, AclSubject, Atom, AtomTest};

/// A name and what is in its parentheses.
struct SampleCall<'t> {
    name: &'t str,
    arguments: Vec<String>,
}

/// Reads a sample.
pub(in crate::haproxy) fn sample(text: &str, around: &Surroundings<'_>) -> AclSample {
    let Some(calls) = calls(text) else { return AclSample::unknown(format!("`{text}` cannot be read")) };
    let mut calls = calls.into_iter();
    let Some(first) = calls.next() else { return AclSample::unknown("a sample is missing") };
    let mut value = fetch(&first, around);
    for converter in calls {
        value = convert(value, &converter, around);
    }
    value
}

fn calls(text: &str) -> Option<Vec<SampleCall<'_>>> {
    let (mut calls, mut rest) = (Vec::new(), text);
    loop {
        let length = rest.find(['(', ',']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(length);
        let mut arguments = Vec::new();
        rest = behind;
        if let Some(inner) = behind.strip_prefix('(') {
            let end = closing(inner)?;
            arguments = arguments_of(&inner[..end]);
            rest = &inner[end + 1..];
        }
        calls.push(SampleCall { name, arguments });
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return rest.is_empty().then_some(calls),
        }
    }
}

/// Where the parenthesis closes that is open.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (index, character) in text.char_indices() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            (_, Some(_)) => {}
            ('(', _) => depth += 1,
            (')', _) if depth == 0 => return Some(index),
            (')', _) => depth -= 1,
            _ => {}
        }
    }
    None
}

fn arguments_of(text: &str) -> Vec<String> {
    let (mut arguments, mut quote) = (vec![String::new()], None);
    for character in text.chars() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            (',', None) => arguments.push(String::new()),
            (character, _) => arguments.last_mut().expect("there is one").push(character),
        }
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}

fn fetch(call: &SampleCall<'_>, around: &Surroundings<'_>) -> AclSample {
    let name = call.name.strip_prefix("req.").unwrap_or(call.name);
    let argument = call.arguments.first().map(String::as_str).unwrap_or_default();
    match name {
        // Rules look at the peer, and not at the client that the peer names.
        "src" if around.trusts_peers => AclSample::of(SampleKind::Address(AclSubject::Address("peer_address".to_owned())), Some("{peer_address}".to_owned())),
        "src" => AclSample::of(SampleKind::Address(AclSubject::Source), Some("{client_address}".to_owned())),
        "dst" => AclSample::of(SampleKind::Address(AclSubject::Address("local_address".to_owned())), Some("{local_address}".to_owned())),
        "dst_port" => AclSample::of(SampleKind::Number(AclSubject::LocalPort), Some("{local_port}".to_owned())),
        "src_port" => AclSample::number("client_port"),
        "path" => AclSample::of(SampleKind::Text(AclSubject::Path), Some("{path}".to_owned())),
        "method" => AclSample::of(SampleKind::Text(AclSubject::Method), Some("{method}".to_owned())),
        "base" => AclSample::of(SampleKind::Unknown("ask for `hdr(host)` and `path`".to_owned()), Some("{header.host}{path}".to_owned())),
        "url" | "uri" => AclSample::text("target", "target"),
        "pathq" => AclSample::of(SampleKind::Unknown("ask for `path` or `query` instead".to_owned()), Some("{path}{query}".to_owned())),
        "query" => AclSample::text("args", "args"),
        "hdr" | "fhdr" | "hdr_val" | "hdr_ip" | "hdr_cnt" | "fhdr_cnt" => header(name, call),
        "cook" | "cookie" | "cook_val" | "cook_cnt" => cookie(name, argument),
        "urlp" | "url_param" | "urlp_val" if call.arguments.len() == 1 => parameter(name, argument),
        "ssl_fc" => AclSample::boolean(AclCondition::Atom(Atom::new(AclSubject::Tls, AtomTest::Found))),
        "ssl_fc_sni" | "ssl_sni" | "req_ssl_sni" => AclSample::of(SampleKind::Text(AclSubject::Sni), Some("{tls.server_name}".to_owned())),
        "ssl_fc_has_sni" => AclSample::found(AclSubject::Sni),
        "ssl_c_used" | "ssl_fc_has_crt" => AclSample::found(AclSubject::Text("tls.client.fingerprint".to_owned())),
        // A certificate that is not valid ends the handshake, as with HAProxy unless errors are ignored, which is not supported.
        "ssl_c_verify" => AclSample::of(SampleKind::Literal("0".to_owned()), Some("0".to_owned())),
        "ssl_c_s_dn" if argument.eq_ignore_ascii_case("cn") => map::common_name(around),
        "ssl_c_s_dn" if argument.is_empty() => AclSample::text("tls.client.subject", "tls.client.subject").noted("the subject is written by RFC 4514"),
        "ssl_fc_protocol" => AclSample::of(SampleKind::Unknown("ask for `tls.version`, whose values are `1.2` and `1.3`".to_owned()), Some("TLSv{tls.version}".to_owned())),
        "nbsrv" => AclSample::number(&format!("upstream[\"{}\"].usable", super::super::proxy::name_of(if argument.is_empty() { around.section } else { argument }))),
        "always_true" => AclSample::boolean(AclCondition::Constant(true)),
        "always_false" => AclSample::boolean(AclCondition::Constant(false)),
        "bool" => AclSample::boolean(AclCondition::Constant(!matches!(argument, "0" | "false"))),
        "str" | "int" => AclSample::of(SampleKind::Literal(argument.to_owned()), Some(super::super::output::literal_in_template(argument))),
        "env" => AclSample::of(SampleKind::Literal(around.files.variable(argument).unwrap_or_default()), None).noted("the variable has the value that it had at the time of the import"),
        "http_auth" => AclSample::boolean(AclCondition::Atom(Atom::new(AclSubject::User(argument.to_owned()), AtomTest::Found))),
        "http_auth_group" => AclSample::of(SampleKind::Text(AclSubject::User(argument.to_owned())), None),
        "capture.req.method" => AclSample::of(SampleKind::Text(AclSubject::Method), Some("{method}".to_owned())),
        "capture.req.uri" => AclSample::text("target", "target"),
        "capture.req.hdr" => captured(argument, around),
        "status" => AclSample::number("status"),
        "res.hdr" | "hdr_res" | "shdr" | "res.fhdr" if call.arguments.len() == 1 => {
            AclSample::text(&format!("response.header[{:?}]", argument.to_ascii_lowercase()), &format!("response.header.{}", argument.to_ascii_lowercase()))
        }
        "var" => variable(argument, around),
        "unique-id" => AclSample::of(SampleKind::Unknown("there is no condition on the id of a request".to_owned()), Some("{request_id}".to_owned())),
        "be_name" => AclSample::text("upstream", "upstream"),
        "fe_name" => match around.frontend {
            Some(name) => AclSample::of(SampleKind::Literal(name.to_owned()), Some(super::super::output::literal_in_template(name))),
            None => AclSample::text("listener", "listener").noted("a section with several kinds of addresses is several listeners, each with a name of its own"),
        },
        "srv_name" => AclSample::text("server", "server"),
        "fc_pp_authority" => AclSample::text("proxy.authority", "proxy.authority"),
        "ver" | "req_ver" => AclSample::of(SampleKind::Unknown("there is no condition on the version of HTTP by its number".to_owned()), None),
        "ssl_hello_type" | "req_ssl_hello_type" | "rep_ssl_hello_type" | "res.ssl_hello_type" => {
            AclSample::number("ssl hello").noted("Weir waits for the hello of TLS where routes ask for its server name")
        }
        "proto_http" | "req_proto_http" => AclSample::boolean(AclCondition::Constant(true)).noted("what is not HTTP is answered 400"),
        _ => counter(call, around).unwrap_or_else(|| AclSample::unknown(format!("Weir has no condition or placeholder for `{}`: see docs/configuration.md#conditions for those that it has", call.name))),
    }
}

/// Headers whose values are lists with commas.
const LISTS: [&str; 12] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "if-match",
    "if-none-match",
    "te",
    "via",
    "x-forwarded-for",
    "forwarded",
];

/// Headers that have one value.
const SINGLE: [&str; 22] = [
    "access-control-request-method",
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "dnt",
    "expect",
    "from",
    "host",
    "if-modified-since",
    "if-unmodified-since",
    "max-forwards",
    "origin",
    "proxy-authorization",
    "referer",
    "upgrade-insecure-requests",
    "user-agent",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-requested-with",
];

fn header(fetch: &str, call: &SampleCall<'_>) -> AclSample {
    let name = match call.arguments.first() {
        Some(name) if !name.is_empty() => name.to_ascii_lowercase(),
        _ => return AclSample::unknown("a header without a name: ask for one"),
    };
    let token = |c: char| c.is_ascii_alphanumeric() || "-_!#$%&'*+.^`|~".contains(c);
    if !name.chars().all(token) {
        return AclSample::unknown("this is no name of a header");
    }
    let condition = format!("header[\"{name}\"]");
    if fetch.ends_with("_cnt") {
        return AclSample::of(SampleKind::Number(AclSubject::Number(format!("count of {condition}"))), None);
    }
    if call.arguments.len() > 1 && call.arguments[1] != "1" && call.arguments[1] != "-1" {
        return AclSample::unknown(
            "Weir asks for any of several headers of a name, not for one by its place",
        );
    }
    if name == "host" {
        return AclSample::of(SampleKind::Text(AclSubject::Host), Some("{header.host}".to_owned()));
    }
    let mut sample = AclSample::text(&condition, &format!("header.{name}"));
    if !fetch.starts_with("fhdr") && !SINGLE.contains(&name.as_str()) && !name.starts_with("sec-") {
        sample.form = SampleForm::Parts;
    }
    if !fetch.starts_with("fhdr") && LISTS.contains(&name.as_str()) {
        sample.note = Some("the header is compared as a whole, not each of its values between commas");
    }
    if call.arguments.len() > 1 {
        sample.note =
            Some("of several headers of the name, any counts in a condition and the first in a text");
    }
    sample.kind = match fetch {
        "hdr_ip" => SampleKind::Address(AclSubject::Text(condition)),
        "hdr_val" => SampleKind::Number(AclSubject::Text(condition)),
        _ => sample.kind,
    };
    sample
}

/// What a slot of captures has.
fn captured(slot: &str, around: &Surroundings<'_>) -> AclSample {
    let capture = slot.parse::<usize>().ok().and_then(|slot| around.captures.get(slot));
    match capture {
        Some(capture) => {
            sample(capture, around).noted("the value is not cut off at the length of the capture")
        }
        None => AclSample::unknown("nothing is captured in this slot"),
    }
}

fn cookie(fetch: &str, name: &str) -> AclSample {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return AclSample::unknown("a cookie without a name: ask for one");
    }
    let condition = format!("cookie[\"{name}\"]");
    if fetch == "cook_cnt" {
        return AclSample::of(SampleKind::Number(AclSubject::Number(format!("count of {condition}"))), None);
    }
    let sample = AclSample::text(&condition, &format!("cookie.{name}"));
    match fetch {
        "cook_val" => AclSample { kind: SampleKind::Number(AclSubject::Text(condition)), ..sample },
        _ => sample,
    }
}

fn parameter(fetch: &str, name: &str) -> AclSample {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return AclSample::unknown("this is no name of a parameter that Weir can ask for");
    }
    let condition = format!("query[\"{name}\"]");
    let mut sample = AclSample::text(&condition, &format!("query.{name}"));
    sample.form = SampleForm::Encoded;
    match fetch {
        "urlp_val" => AclSample { kind: SampleKind::Number(AclSubject::Text(condition)), ..sample },
        _ => sample,
    }
}

fn variable(name: &str, around: &Surroundings<'_>) -> AclSample {
    let variables = around.variables.borrow();
    match variables.get(name) {
        Some(VariableValue::Named(weir)) => AclSample::text(&format!("vars.{weir}"), &format!("vars.{weir}")),
        Some(VariableValue::Chosen(list)) => AclSample::of(SampleKind::Chosen(list.clone()), None),
        None => AclSample::unknown(format!(
            "`{name}` is set by nothing that Weir has as a variable (`vars` of the listener)"
        )),
    }
}

/// Counters of a table: `sc_http_req_rate(0)`, `sc0_gpc0`, `src_conn_cur(t)`.
fn counter(call: &SampleCall<'_>, around: &Surroundings<'_>) -> Option<AclSample> {
    let (slot, name, table) = if let Some(name) = call.name.strip_prefix("src_") {
        (None, name, call.arguments.first())
    } else if let Some(name) = call.name.strip_prefix("sc_") {
        (Some(call.arguments.first()?.parse::<u8>().ok()?), name, call.arguments.get(1))
    } else {
        let rest = call.name.strip_prefix("sc")?;
        let (digit, name) = (rest.get(..1)?.parse::<u8>().ok()?, rest.get(1..)?.strip_prefix('_')?);
        (Some(digit), name, call.arguments.first())
    };
    let counter = counter_of(name)?;
    let section = match (table.filter(|table| !table.is_empty()), slot) {
        (Some(table), _) => table.clone(),
        (None, Some(slot)) => match around.slots.get(&slot) {
            Some(table) => table.clone(),
            None => return Some(AclSample::unknown(format!("nothing that Weir has counts in slot {slot}"))),
        },
        (None, None) => around.section.to_owned(),
    };
    let Some(facts) = around.tables.get(&section) else {
        return Some(AclSample::unknown(format!("there is no table `{section}`")));
    };
    if !facts.store.iter().any(|stored| stored == counter) {
        return Some(AclSample::unknown(format!("the table `{section}` does not store `{counter}`")));
    }
    if slot.is_none() && facts.key.is_none() && around.tables_are_known {
        return Some(AclSample::unknown(format!("nothing counts in the table `{section}`")));
    }
    if slot.is_none()
        && facts.key.as_deref().is_some_and(|key| !["{client_address}", "{peer_address}"].contains(&key))
    {
        return Some(AclSample::unknown(format!(
            "the table `{section}` has another key than the address of the client"
        )));
    }
    let name = super::super::proxy::name_of(&section);
    let condition = match name.contains(['-', '.']) {
        true => format!("table[\"{name}\"].{counter}"),
        false => format!("table.{name}.{counter}"),
    };
    let placeholder = Some(format!("{{table.{name}.{counter}}}"));
    let sample = AclSample::of(SampleKind::Number(AclSubject::Number(condition)), placeholder);
    Some(match slot {
        Some(_) => sample,
        None => sample.noted("the request itself has been counted when this is asked"),
    })
}

/// The name of a counter in Weir.
pub(in crate::haproxy) fn counter_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "http_req_rate" => "http_req_rate",
        "http_req_cnt" => "http_req_cnt",
        "http_err_rate" => "http_err_rate",
        "http_err_cnt" => "http_err_cnt",
        "http_fail_rate" => "http_fail_rate",
        "http_fail_cnt" => "http_fail_cnt",
        "conn_cur" => "conn_cur",
        "conn_cnt" | "sess_cnt" => "conn_cnt",
        "conn_rate" | "sess_rate" => "conn_rate",
        "bytes_in_rate" => "bytes_in_rate",
        "bytes_out_rate" => "bytes_out_rate",
        "bytes_in_cnt" => "bytes_in_cnt",
        "bytes_out_cnt" => "bytes_out_cnt",
        "gpc0" | "get_gpc0" => "gpc0",
        "gpc1" | "get_gpc1" => "gpc1",
        "gpc0_rate" => "gpc0_rate",
        "gpc1_rate" => "gpc1_rate",
        _ => return None,
    })
}

fn convert(value: AclSample, call: &SampleCall<'_>, around: &Surroundings<'_>) -> AclSample {
    let is_for_texts_only = matches!(value.kind, SampleKind::Unknown(_))
        && (value.placeholder.is_none()
            || !(matches!(call.name, "lower" | "regsub" | "field" | "word") || call.name.starts_with("map")));
    if is_for_texts_only {
        return AclSample { placeholder: None, ..value };
    }
    let is_host = matches!(value.kind, SampleKind::Text(AclSubject::Host));
    let arguments: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    match (call.name, arguments.as_slice()) {
        ("lower", _) if is_host => {
            AclSample { placeholder: Some("{authority}".to_owned()), lower: true, ..value }
        }
        ("lower", _) => AclSample { lower: true, ..value },
        ("field", ["1", ":"]) | ("host_only", _) if is_host => {
            AclSample { placeholder: Some("{host}".to_owned()), ..value }
        }
        ("url_dec", _) if matches!(value.kind, SampleKind::Text(AclSubject::Path)) => value.noted(
            "the path is in its normal form, in which bytes that a URL cannot have stay percent-encoded",
        ),
        ("not", _) => match value.kind {
            SampleKind::Boolean(condition) => AclSample::boolean(condition.negated()),
            _ => AclSample::unknown("`not` of what is no condition"),
        },
        ("iif", ["https", "http"]) if is_tls(&value) => {
            AclSample::of(SampleKind::Unknown("ask for `ssl_fc`".to_owned()), Some("{scheme}".to_owned()))
        }
        ("bool", _) if matches!(value.kind, SampleKind::Boolean(_)) => value,
        (name, [file]) if name.starts_with("map") => map::looked_up(&value, (name, file, None), around),
        (name, [file, default]) if name.starts_with("map") => {
            map::looked_up(&value, (name, file, Some(default)), around)
        }
        (name @ ("field" | "word"), [number, signs]) => map::part(&value, (name, number, signs), around),
        ("regsub", [pattern, replacement, flags @ ..]) => {
            map::replaced(&value, (pattern, replacement, flags.concat()), around)
        }
        _ => AclSample::unknown(format!("Weir does not have the converter `{}`", call.name)),
    }
}

fn is_tls(value: &AclSample) -> bool {
    matches!(&value.kind, SampleKind::Boolean(AclCondition::Atom(atom)) if atom.subject == AclSubject::Tls)
}
