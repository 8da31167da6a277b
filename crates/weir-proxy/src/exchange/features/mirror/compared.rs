//! Which headers of two responses are compared, and which of them differ.

use weir_config::Mirror;
use weir_http::ResponseHead;

use crate::exchange::exchange_state::exchange_mirror::ComparedField;

/// Headers that differ by nature: of time, of the connection, of the server itself, and those that the comparison of bodies covers.
const NOT_COMPARED: [&str; 15] = [
    "age",
    "alt-svc",
    "connection",
    "content-length",
    "date",
    "expires",
    "keep-alive",
    "proxy-connection",
    "server",
    "set-cookie",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-request-id",
];

/// Names of headers that one difference lists.
const NAMES_MAX: usize = 16;

/// The fields that are compared, sorted.
pub(super) fn compared_fields(
    settings: &Mirror,
    own_id: &str,
    response: &ResponseHead,
    text: &[u8],
) -> Vec<ComparedField> {
    let is_compared = |name: &[u8]| {
        let is_one = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
        !NOT_COMPARED.iter().any(|other| is_one(other))
            && !settings.ignore_headers.iter().any(|other| is_one(other))
            && !is_one(own_id)
            && !settings.route_header.as_deref().is_some_and(is_one)
    };
    let fields = response.fields().iter();
    let fields = fields.map(|field| (field.name.of(text), field.value.of(text)));
    let compared = fields.filter(|(name, _)| is_compared(name));
    let mut compared: Vec<ComparedField> =
        compared.map(|(name, value)| (name.to_ascii_lowercase().into(), value.into())).collect();
    compared.sort_by(|(one, _), (other, _)| one.cmp(other));
    compared
}

/// The names of fields that only one side has, or that have other values there.
pub(super) fn different_names(one: &[ComparedField], other: &[ComparedField]) -> Vec<Box<str>> {
    let of = |fields: &[ComparedField], name: &[u8]| -> Vec<Box<[u8]>> {
        fields.iter().filter(|(own, _)| **own == *name).map(|(_, value)| value.clone()).collect()
    };
    let mut names: Vec<&[u8]> = one.iter().chain(other).map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| of(one, name) != of(other, name));
    differ.take(NAMES_MAX).map(|name| String::from_utf8_lossy(name).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_differ_by_presence_and_by_value() {
        let fields = |list: &[(&str, &str)]| -> Vec<ComparedField> {
            list.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
        };
        let one = fields(&[("a", "1"), ("b", "1"), ("b", "2"), ("c", "x")]);
        assert!(different_names(&one, &one).is_empty());
        let other = fields(&[("a", "2"), ("b", "1"), ("d", "x")]);
        assert_eq!(different_names(&one, &other), ["a", "b", "c", "d"].map(Box::from));
        let order = fields(&[("a", "1"), ("b", "2"), ("b", "1"), ("c", "x")]);
        assert_eq!(different_names(&one, &order), ["b"].map(Box::from));
    }
}
