//! What came on one stream.

use crate::harness::latin1;
use crate::harness::message::Fields;

/// A response as it arrived, as far as it did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Received {
    /// Status and fields of the interim heads.
    pub(crate) interim: Vec<(u16, Fields)>,
    /// The status of the final head; 0 before it came.
    pub(crate) status: u16,
    /// The fields of the final head, without `:status`.
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<Fields>,
    /// Whether Weir has ended its direction.
    pub(crate) has_ended: bool,
    /// The code with which Weir has reset the stream.
    pub(crate) reset: Option<u32>,
    /// What Weir may still send.
    pub(super) window: i64,
}

impl Received {
    /// One on which Weir may send this much.
    pub(super) fn with_window(window: i64) -> Received {
        Received { window, ..Received::default() }
    }

    /// Whether nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended || self.reset.is_some()
    }

    /// The body as Latin-1 text.
    pub(crate) fn text(&self) -> String {
        latin1(&self.body)
    }

    /// The one value of the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.one(name)
    }

    /// The reason code of an answer that Weir gave itself.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.field("weir-reason")
    }

    /// A header block arrived.
    pub(super) fn head(&mut self, mut fields: Fields, ends_stream: bool) {
        check_fields(&fields);
        if self.status >= 200 {
            assert!(ends_stream, "trailers end their stream: {fields:?}");
            assert!(fields.0.iter().all(|(name, _)| !name.starts_with(':')), "in trailers: {fields:?}");
            self.trailers = Some(fields);
        } else {
            let (name, status) = fields.0.remove(0);
            assert_eq!(name, ":status", "the first line of a head");
            let status: u16 = status.parse().expect("a status is a number");
            assert!(fields.0.iter().all(|(name, _)| !name.starts_with(':')), "in a response: {fields:?}");
            if status < 200 {
                assert!(!ends_stream, "an interim head does not end its stream");
                assert_ne!(status, 101, "HTTP/2 has no 101");
                self.interim.push((status, fields));
            } else {
                (self.status, self.fields) = (status, fields);
            }
        }
        self.has_ended |= ends_stream;
    }

    /// Bytes of the body arrived.
    pub(super) fn data(&mut self, data: &[u8], ends_stream: bool) {
        assert!(self.status >= 200, "a body without a head");
        self.body.extend_from_slice(data);
        self.has_ended |= ends_stream;
        let announced = self.field("content-length").map(|len| len.parse::<usize>().expect("a length"));
        if let (true, Some(announced)) = (self.has_ended && !self.body.is_empty(), announced) {
            assert_eq!(self.body.len(), announced, "the length that was announced");
        }
    }
}

/// RFC 9113 sections 8.2.1 and 8.2.2.
pub(super) fn check_fields(fields: &Fields) {
    const OF_HTTP1: [&str; 5] =
        ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    for (name, value) in &fields.0 {
        let is_lower =
            !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_uppercase() || byte <= b' ');
        assert!(is_lower, "a malformed name: {name:?}");
        assert!(!OF_HTTP1.contains(&name.as_str()), "a field of HTTP/1: {name}: {value}");
        let is_clean = !value.contains(['\r', '\n', '\0']) && value.trim_matches([' ', '\t']) == value;
        assert!(is_clean, "a malformed value: {name}: {value:?}");
    }
}
