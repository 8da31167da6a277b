//! What is known of a response before its body, whatever gives that response: what decides whether the body is changed on its way.

use weir_http::{Fields, Framing, Method};

use super::kept_fields::KeptFields;

/// The fields of a response, of a server or of Weir itself.
pub(in crate::exchange) trait ResponseFields {
    /// The values of the fields of this name, which is in lower case.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The whole of them, if they were received.
    fn received(&self) -> Option<(&Fields, &[u8])> {
        None
    }
}

/// Those of a received head.
pub(in crate::exchange) struct ReceivedFields<'a> {
    pub(in crate::exchange) fields: &'a Fields,
    pub(in crate::exchange) text: &'a [u8],
    /// Those of an earlier server, which go before.
    pub(in crate::exchange) kept: KeptFields,
}

impl ResponseFields for ReceivedFields<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let own = self.fields.all_by_name(self.text, name).map(|field| field.value.of(self.text));
        let is_replaced = self.kept.replaces(name.as_bytes());
        own.filter(move |_| !is_replaced).chain(self.kept.values(name))
    }

    fn received(&self) -> Option<(&Fields, &[u8])> {
        Some((self.fields, self.text))
    }
}

/// Those of an answer of Weir's own.
pub(in crate::exchange) struct OwnFields<'a, V>(
    pub(in crate::exchange) &'a [(&'a [u8], V)],
    pub(in crate::exchange) KeptFields,
);

impl<V: AsRef<[u8]>> ResponseFields for OwnFields<'_, V> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_named = move |other: &[u8]| other.eq_ignore_ascii_case(name.as_bytes());
        let own = self.0.iter().filter(move |(other, _)| is_named(other)).map(|(_, value)| value.as_ref());
        let is_replaced = self.1.replaces(name.as_bytes());
        own.filter(move |_| !is_replaced).chain(self.1.values(name))
    }
}

/// What is known of a response before its body.
#[derive(Debug, Clone, Copy)]
pub(in crate::exchange) struct ResponseOutline {
    pub(in crate::exchange) status: u16,
    /// The length of the body that GET would bring: `None` when there is none.
    pub(in crate::exchange) length: Option<Framing>,
}

impl ResponseOutline {
    /// Of a response with a body of this length, and `announced` where the answer to HEAD tells it.
    pub(in crate::exchange) fn new(
        status: u16,
        method: Method,
        length: Framing,
        announced: Option<u64>,
    ) -> Self {
        let length = match (length, method) {
            (Framing::None, Method::Head) => match announced {
                Some(0) => None,
                Some(length) => Some(Framing::Length(length)),
                None => Some(Framing::Delimited),
            },
            (length, _) => Some(length).filter(|length| !length.is_empty()),
        };
        Self { status, length }
    }
}

/// The fields of a response whose body was decoded.
pub(in crate::exchange) struct DecodedFields<'a, F>(pub(in crate::exchange) &'a F);

impl<F: ResponseFields> ResponseFields for DecodedFields<'_, F> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.values(name).filter(move |_| name != "content-encoding")
    }
}

/// Whether a final response of this status may have content of its own, or a part of some.
pub(in crate::exchange) const fn has_content(status: u16) -> bool {
    status >= 200 && !matches!(status, 204 | 205 | 304)
}

/// Whether the body may not be changed, or is a part.
pub(in crate::exchange) fn is_unchangeable(fields: &impl ResponseFields) -> bool {
    forbids_changes(fields) || fields.first("content-range").is_some()
}

/// Whether the response says that its body may not be changed (RFC 9110 section 7.7).
pub(in crate::exchange) fn forbids_changes(fields: &impl ResponseFields) -> bool {
    let forbids = |value: &[u8]| {
        value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
    };
    fields.values("cache-control").any(forbids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_head_is_decided_by_the_length_that_it_tells() {
        let outline = |method, length, announced| ResponseOutline::new(200, method, length, announced).length;
        assert_eq!(outline(Method::Head, Framing::None, Some(5)), Some(Framing::Length(5)));
        assert_eq!(outline(Method::Head, Framing::None, None), Some(Framing::Delimited));
        assert_eq!(outline(Method::Head, Framing::None, Some(0)), None);
        assert_eq!(outline(Method::Get, Framing::None, None), None);
        assert_eq!(outline(Method::Get, Framing::Length(0), Some(0)), None);
        assert_eq!(outline(Method::Get, Framing::Length(5), Some(5)), Some(Framing::Length(5)));
    }
}
