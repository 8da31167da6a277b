//! The frame with which a body of gRPC-Web ends: the trailers that gRPC sends behind the body (`PROTOCOL-WEB.md`, Message framing).
//!
//! Which fields it holds is decided by the caller.

use crate::bytes::{is_token, value_run};
use crate::digits::decimal;
use crate::message::field_writer::{FieldRun, FieldWriter};

use super::frame::{MESSAGE_PREFIX_BYTES, TRAILERS_FLAG};

/// Writes the trailers of a call as a frame: lines `name: value`, the names in lower case, without an empty line at the end.
///
/// The frame is complete after each field. A field that could not be read back as that one field (a name that is no token, a value with
/// a control byte) is left out, and so is one with which the frame would be larger than its length can say, 4 GiB.
///
/// ```
/// use weir_http::FieldWriter;
/// use weir_http::grpc::TrailersFrame;
///
/// let mut body = Vec::new();
/// TrailersFrame::begin(&mut body).field(b"Grpc-Status", b"0");
/// assert_eq!(body, b"\x80\0\0\0\x10grpc-status: 0\r\n");
/// ```
#[derive(Debug)]
pub struct TrailersFrame<'a> {
    out: &'a mut Vec<u8>,
    /// Where the prefix of the frame begins.
    start: usize,
}

/// Whether a field without a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptyValue {
    Written,
    LeftOut,
}

impl<'a> TrailersFrame<'a> {
    /// Appends a frame without fields.
    pub fn begin(out: &'a mut Vec<u8>) -> TrailersFrame<'a> {
        let start = out.len();
        let prefix: [u8; MESSAGE_PREFIX_BYTES] = [TRAILERS_FLAG, 0, 0, 0, 0];
        out.extend_from_slice(&prefix);
        TrailersFrame { out, start }
    }

    fn line(&mut self, name: &[u8], empty: EmptyValue, write: impl FnOnce(&mut Vec<u8>)) {
        if !is_token(name) {
            return;
        }
        let line = self.out.len();
        self.out.extend_from_slice(name);
        self.out[line..].make_ascii_lowercase();
        self.out.extend_from_slice(b": ");
        let value = self.out.len();
        write(self.out);
        let value = &self.out[value..];
        let is_kept = value_run(value) == value.len() && (empty == EmptyValue::Written || !value.is_empty());
        self.out.extend_from_slice(b"\r\n");
        match u32::try_from(self.out.len() - self.start - MESSAGE_PREFIX_BYTES) {
            Ok(len) if is_kept => {
                let at = self.start + 1;
                self.out[at..self.start + MESSAGE_PREFIX_BYTES].copy_from_slice(&len.to_be_bytes());
            }
            _ => self.out.truncate(line),
        }
    }
}

impl FieldWriter for TrailersFrame<'_> {
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.field_with(name, |out| out.extend_from_slice(value));
    }

    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.line(name, EmptyValue::Written, write);
    }

    #[inline]
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.line(name, EmptyValue::LeftOut, write);
    }

    #[inline]
    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.field_with(name, |out| decimal(out, value));
    }

    #[inline]
    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.field(field.name.of(run.text), field.value.of(run.text));
        }
    }
}

/// Appends a whole [`TrailersFrame`] of these fields.
pub fn write_trailers_frame<'f>(out: &mut Vec<u8>, fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) {
    let mut frame = TrailersFrame::begin(out);
    fields.into_iter().for_each(|(name, value)| frame.field(name, value));
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::HeadLimits;
    use crate::bytes::is_value_byte;
    use crate::grpc::MessageObserver;
    use crate::http1::ParsedRequest;

    /// A name and a value.
    type Line<'a> = (&'a [u8], &'a [u8]);

    /// The lines of the trailers frame with which a body ends, and how many messages come before it.
    fn read(body: &[u8]) -> Option<(usize, Vec<Line<'_>>)> {
        let (mut rest, mut messages) = (body, 0);
        loop {
            let (prefix, tail) = rest.split_first_chunk::<5>()?;
            let [flags, len @ ..] = *prefix;
            let (content, tail) = tail.split_at_checked(u32::from_be_bytes(len) as usize)?;
            if flags & 0x80 == 0 {
                (rest, messages) = (tail, messages + 1);
                continue;
            }
            assert!(tail.is_empty(), "the trailers come last");
            let (mut lines, mut fields) = (content, Vec::new());
            while !lines.is_empty() {
                let end = lines.windows(2).position(|pair| pair == b"\r\n")?;
                let colon = lines.windows(2).position(|pair| pair == b": ")?;
                fields.push((&lines[..colon], lines.get(colon + 2..end)?));
                lines = &lines[end + 2..];
            }
            return Some((messages, fields));
        }
    }

    #[test]
    fn trailers_follow_the_messages() {
        let mut body = b"\0\0\0\0\x02hi".to_vec();
        let fields: [Line<'_>; 4] = [
            (b"Grpc-Status", b"5"),
            (b"grpc-message", b"no such %25"),
            (b"x-empty", b""),
            (b"A-Bin", b"AAE"),
        ];
        write_trailers_frame(&mut body, fields);
        assert_eq!(
            body[7..],
            *b"\x80\0\0\0\x42grpc-status: 5\r\ngrpc-message: no such %25\r\nx-empty: \r\na-bin: AAE\r\n"
        );
        let lower: [Line<'_>; 4] = [
            (b"grpc-status", b"5"),
            (b"grpc-message", b"no such %25"),
            (b"x-empty", b""),
            (b"a-bin", b"AAE"),
        ];
        assert_eq!(read(&body), Some((1, lower.to_vec())));
        let mut messages = MessageObserver::default();
        messages.observe(&body);
        assert_eq!((messages.count(), messages.is_at_boundary()), (1, true));
    }

    #[test]
    fn no_fields() {
        let mut body = Vec::new();
        write_trailers_frame(&mut body, []);
        assert_eq!(body, b"\x80\0\0\0\0");
    }

    #[test]
    fn all_ways_to_give_a_field() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nX-One:1\r\nX-Two:  2 \r\n\r\n";
        let mut head = ParsedRequest::new();
        head.parse(text, &HeadLimits::default()).expect("the head is valid");
        let mut body = Vec::new();
        let mut frame = TrailersFrame::begin(&mut body);
        frame.field(b"A", b"1");
        frame.field_with(b"B", |out| out.push(b'2'));
        frame.field_with(b"C", |_| {});
        frame.field_unless_empty(b"D", |_| {});
        frame.field_unless_empty(b"E", |out| out.push(b'5'));
        frame.decimal_field(b"F", 60);
        frame.copy(FieldRun { text, fields: &head.fields().as_slice()[1..], end: text.len() - 2 });
        let lines = b"a: 1\r\nb: 2\r\nc: \r\ne: 5\r\nf: 60\r\nx-one: 1\r\nx-two: 2\r\n";
        assert_eq!(body[..5], [0x80, 0, 0, 0, lines.len() as u8]);
        assert_eq!(body[5..], *lines);
    }

    #[test]
    fn fields_that_would_not_read_back_are_left_out() {
        for (name, value) in [
            ("", "1"),
            ("a b", "1"),
            ("a:", "1"),
            ("a\r\nb", "1"),
            (":status", "200"),
            ("caf\u{e9}", "1"),
            ("a", "1\r\ngrpc-status: 0"),
            ("a", "1\n"),
            ("a", "\r"),
            ("a", "\0"),
            ("a", "\u{7f}"),
        ] {
            let mut body = Vec::new();
            let around: Line<'_> = (b"x", b"1");
            write_trailers_frame(&mut body, [around, (name.as_bytes(), value.as_bytes()), around]);
            assert_eq!(body, b"\x80\0\0\0\x0cx: 1\r\nx: 1\r\n", "{name:?} {value:?}");
        }
    }

    proptest! {
        #[test]
        fn fields_read_back(
            fields in vec((
                prop_oneof!["[A-Za-z0-9_.-]{1,8}".prop_map(String::into_bytes), vec(any::<u8>(), 0..4)],
                vec(prop_oneof![9 => 0x20..0x7f_u8, 1 => any::<u8>()], 0..12),
            ), 0..6)
        ) {
            let mut body = Vec::new();
            write_trailers_frame(&mut body, fields.iter().map(|(name, value)| (&name[..], &value[..])));
            let kept = fields.iter().filter(|(name, value)| is_token(name) && value.iter().all(|byte| is_value_byte(*byte)));
            let expected: Vec<_> = kept.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
            let (messages, read) = read(&body).unwrap();
            let read: Vec<_> = read.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!((messages, read), (0, expected));
        }
    }
}
