//! Header lists: what a request, a response or a trailer section may hold (RFC 9113 section 8).

use super::FrameSender;
use crate::fields::{RecordedFields, is_clean_value, is_token};

/// RecordedFields that are about a connection of HTTP/1 (RFC 9113 section 8.2.2).
const OF_HTTP1: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Judges the head of a request or a response.
pub(crate) fn check_head(fields: &RecordedFields, sender: FrameSender) -> Result<(), String> {
    check_fields(fields)?;
    let known: &[&str] = match sender {
        FrameSender::Client => &[":method", ":scheme", ":authority", ":path", ":protocol"],
        FrameSender::Server => &[":status"],
    };
    let pseudo = fields.0.iter().take_while(|(name, _)| name.starts_with(':')).count();
    for (index, (name, _)) in fields.0.iter().enumerate().filter(|(_, (name, _))| name.starts_with(':')) {
        if index >= pseudo {
            return Err(format!("a pseudo-field behind fields: {fields:?}"));
        }
        if !known.contains(&name.as_str()) || fields.all(name).len() != 1 {
            return Err(format!("{name} is unknown here, or there twice: {fields:?}"));
        }
    }
    match sender {
        FrameSender::Client => check_request(fields),
        FrameSender::Server => check_status(fields),
    }
}

/// Judges the header list behind a body.
pub(crate) fn check_trailers(fields: &RecordedFields) -> Result<(), String> {
    check_fields(fields)?;
    let forbidden =
        |name: &str| name.starts_with(':') || ["content-length", "host", "te", "trailer"].contains(&name);
    match fields.0.iter().find(|(name, _)| forbidden(name)) {
        Some((name, _)) => Err(format!("{name} in trailers: {fields:?}")),
        None => Ok(()),
    }
}

fn check_fields(fields: &RecordedFields) -> Result<(), String> {
    for (name, value) in &fields.0 {
        let plain = name.strip_prefix(':').unwrap_or(name);
        if !is_token(plain) || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("a malformed name: {name:?}"));
        }
        if !is_clean_value(value) {
            return Err(format!("a malformed value: {name}: {value:?}"));
        }
        if OF_HTTP1.contains(&name.as_str()) {
            return Err(format!("a field of HTTP/1: {name}: {value}"));
        }
    }
    Ok(())
}

fn check_request(fields: &RecordedFields) -> Result<(), String> {
    let method = fields.first(":method").unwrap_or_default();
    let is_plain_connect = method == "CONNECT" && fields.first(":protocol").is_none();
    let has = |name: &str| fields.first(name).is_some_and(|value| !value.is_empty());
    if !is_token(method) || !(is_plain_connect || has(":scheme") && has(":path")) {
        return Err(format!("method, scheme or path is missing: {fields:?}"));
    }
    if fields.first(":path").is_some_and(|path| path.bytes().any(|byte| byte <= b' ' || byte == 0x7f)) {
        return Err(format!("white space in the path: {fields:?}"));
    }
    if fields.first("te").is_some_and(|te| te != "trailers") {
        return Err(format!("of TE only `trailers`: {fields:?}"));
    }
    let hosts = fields.all("host");
    let differs = hosts.iter().any(|host| fields.first(":authority").is_some_and(|known| known != *host));
    if hosts.len() > 1 || differs {
        return Err(format!("host is not the authority: {fields:?}"));
    }
    Ok(())
}

fn check_status(fields: &RecordedFields) -> Result<(), String> {
    let status = fields.first(":status").unwrap_or_default();
    let is_code = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    if !is_code || status.starts_with('0') || status == "101" {
        return Err(format!("no status: {fields:?}"));
    }
    Ok(())
}
