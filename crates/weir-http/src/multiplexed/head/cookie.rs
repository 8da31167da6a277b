//! Cookies in parts (RFC 9113 section 8.2.3), joined into one line as all that is not HTTP/2 or HTTP/3 expects it.

use crate::message::fields::{Field, Fields};
use crate::message::name::FieldName;

/// What was done with one part of a cookie.
pub(crate) enum CookieOutcome {
    /// It is the first one, and a field of its own.
    First,
    /// It was joined to the one before it and is no field.
    Joined,
    /// Another field is between it and the one before: the caller keeps it as a field and calls [`regroup_cookies`] at the end.
    Scattered,
}

/// Joins the part of a cookie with which `text` ends to the one before it.
pub(crate) fn join_cookie(text: &mut Vec<u8>, fields: &mut Fields, part: &Field) -> CookieOutcome {
    if !fields.contains(FieldName::Cookie) {
        return CookieOutcome::First;
    }
    let Some(cookie) = fields.last_mut().filter(|field| field.known == FieldName::Cookie) else {
        return CookieOutcome::Scattered;
    };
    // The lines are neighbours: the value moves to where the end of the line before it is.
    let mut end = cookie.value.end();
    if !cookie.value.is_empty() && !part.value.is_empty() {
        text[end..end + 2].copy_from_slice(b"; ");
        end += 2;
    }
    text.copy_within(part.value.range(), end);
    text.truncate(end + part.value.len as usize);
    cookie.value.len = text.len() as u32 - cookie.value.start;
    text.extend_from_slice(b"\r\n");
    CookieOutcome::Joined
}

/// Joins all cookies to the first one of them. The fields are at the end of `text`.
#[cold]
pub(crate) fn regroup_cookies(text: &mut Vec<u8>, fields: &mut Fields) {
    let Some(first) = fields.as_slice().first() else { return };
    let old_text = text.clone();
    text.truncate(first.name.start as usize);
    let old_fields = std::mem::take(fields);
    for field in &old_fields {
        let is_cookie = field.known == FieldName::Cookie;
        if is_cookie && fields.contains(FieldName::Cookie) {
            continue;
        }
        let start = text.len() as u32;
        text.extend_from_slice(&old_text[field.name.start as usize..field.value.end()]);
        let mut moved = *field;
        moved.value.start = start + (field.value.start - field.name.start);
        moved.name.start = start;
        if is_cookie {
            for part in old_fields.all(FieldName::Cookie).skip(1).filter(|part| !part.value.is_empty()) {
                if text.len() > moved.value.start as usize {
                    text.extend_from_slice(b"; ");
                }
                text.extend_from_slice(part.value.of(&old_text));
            }
            moved.value.len = text.len() as u32 - moved.value.start;
        }
        text.extend_from_slice(b"\r\n");
        fields.push(moved);
    }
}
