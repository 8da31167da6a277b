//! Another target, or another method, for a request that has been read: a rewrite, or an error page that the request goes on with.
//!
//! The text of the head is changed where they stand, and all spans behind are moved, so that every later reader sees one request: what is routed by is
//! what is sent. Must not decide what the target becomes.

use super::fields::Field;
use super::framing::Framing;
use super::limits::HeadLimits;
use super::method::Method;
use super::path::{EncodedSlashRule, write_normal_path};
use super::percent;
use super::request::RequestHead;
use super::rule::Rule;
use super::span::TextSpan;
use super::target::TargetForm;
use crate::bytes::is_target_byte;

/// Fields about the body, which is gone.
const OF_BODY: [&str; 6] =
    ["content-length", "transfer-encoding", "expect", "trailer", "content-type", "content-encoding"];

/// Fields that ask for another protocol behind the head.
const OF_UPGRADES: [&str; 2] = ["upgrade", "http2-settings"];

/// Fields that make a response of a part of what is asked for, or of nothing.
const OF_CONDITIONS: [&str; 6] =
    ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

/// Whether a path has `.` or `..` between slashes once these are decoded. Paths of requests have none any more.
fn leads_up(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/");
    path.split('/').any(|segment| segment == "." || segment == "..")
}

impl RequestHead {
    /// Gives the request another path and query, which have to begin with `/`. The path is taken in its normal form. The host stays, and so does all that
    /// the head says of the body.
    ///
    /// `text` is the text of this head. A target in the authority or asterisk form, which has no path, stays as it is.
    ///
    /// # Errors
    /// When it is no target, is too long, or leads up from where it says by slashes that are decoded.
    pub fn replace_target(
        &mut self,
        text: &mut Vec<u8>,
        target: &[u8],
        limits: &HeadLimits,
    ) -> Result<(), Rule> {
        let place = match self.target.form {
            TargetForm::Origin => self.target.span,
            TargetForm::Absolute => TextSpan::new(self.target.authority.end(), self.target.span.end()),
            TargetForm::Authority | TargetForm::Asterisk => return Ok(()),
        };
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], Some(&target[at + 1..])),
            None => (target, None),
        };
        let is_whole = target.iter().all(|byte| is_target_byte(*byte));
        if path.first() != Some(&b'/') || !is_whole || !percent::is_well_formed(path) {
            return Err(Rule::BadTarget);
        }
        if limits.refuse_encoded_nul && percent::has_encoded_nul(path) {
            return Err(Rule::BadTarget);
        }
        let slash = match limits.paths.encoded_slash {
            EncodedSlashRule::Decode => EncodedSlashRule::Decode,
            EncodedSlashRule::Keep | EncodedSlashRule::Refuse => EncodedSlashRule::Keep,
        };
        if slash == EncodedSlashRule::Decode && leads_up(path) {
            return Err(Rule::BadTarget);
        }
        let mut written = Vec::with_capacity(target.len());
        write_normal_path(&mut written, path, slash);
        let path_len = written.len();
        if let Some(query) = query {
            written.push(b'?');
            written.extend_from_slice(query);
        }
        if written.len() > limits.target_bytes_max {
            return Err(Rule::TargetTooLong);
        }
        self.splice(text, place, &written);
        let start = place.start as usize;
        let end = start + written.len();
        let first = self.target.span.start as usize;
        self.target.span = TextSpan::new(first, end);
        self.target.path = TextSpan::new(start, start + path_len);
        self.target.query = query.map(|_| TextSpan::new(start + path_len + 1, end));
        self.target.is_odd = false;
        self.forget_normal_path();
        Ok(())
    }

    /// Makes a GET without a body of it, or leaves it a HEAD: for a page in place of the response that it cannot have. Conditions and ranges were meant for
    /// that, and go.
    ///
    /// `text` is the text of this head.
    pub fn become_get(&mut self, text: &mut Vec<u8>) {
        self.protocol = None;
        self.facts.forget_upgrade();
        self.drop_body(text);
        self.drop_fields(text, &OF_UPGRADES);
        self.drop_conditions(text);
    }

    /// Makes a GET without a body of it, or leaves it a HEAD: for the same content from another place. Conditions and ranges are about that, and stay.
    ///
    /// `text` is the text of this head.
    pub fn drop_body(&mut self, text: &mut Vec<u8>) {
        const GET: &[u8] = b"GET";
        if self.method != Method::Head {
            let place = self.method_span;
            self.splice(text, place, GET);
            self.method_span = TextSpan::new(place.start as usize, place.start as usize + GET.len());
            self.method = Method::Get;
        }
        self.facts.content_length = None;
        self.facts.is_open = false;
        self.drop_fields(text, &OF_BODY);
        self.facts.forget_expectation();
        debug_assert_eq!(self.body(), Framing::None);
    }

    /// Takes out conditions and ranges, which were meant for another response than the one that it gets. `text` is the text of this head.
    pub fn drop_conditions(&mut self, text: &mut Vec<u8>) {
        self.drop_fields(text, &OF_CONDITIONS);
    }

    /// Takes out the fields with these names.
    fn drop_fields(&mut self, text: &mut Vec<u8>, names: &[&str]) {
        self.drop_fields_where(text, |sent| {
            names.iter().any(|one| sent.eq_ignore_ascii_case(one.as_bytes()))
        });
    }

    /// Takes out the fields whose name is one that no reader is to see. None of them may be one that frames the message or names its host. `text` is the
    /// text of this head.
    pub fn drop_fields_where(&mut self, text: &mut Vec<u8>, is_dropped: impl Fn(&[u8]) -> bool) {
        for at in (0..self.fields.len()).rev() {
            let Field { name, value, .. } = self.fields.as_slice()[at];
            if is_dropped(name.of(text)) {
                self.fields.remove(at);
                let line = memchr::memmem::find(&text[value.end()..], b"\r\n").map_or(0, |len| len + 2);
                self.splice(text, TextSpan::new(name.start as usize, value.end() + line), b"");
            }
        }
    }

    /// Replaces what is at `place`, and moves all spans behind it.
    fn splice(&mut self, text: &mut Vec<u8>, place: TextSpan, by: &[u8]) {
        text.splice(place.range(), by.iter().copied());
        let (from, len, by_len) = (place.end(), place.len, by.len() as u32);
        let shift = |span: &mut TextSpan| {
            if span.start as usize >= from {
                span.start = span.start - len + by_len;
            }
        };
        let spans = [&mut self.method_span, &mut self.scheme, &mut self.target.span, &mut self.target.path];
        spans.into_iter().for_each(shift);
        self.target.query.iter_mut().for_each(shift);
        shift(&mut self.target.authority);
        self.protocol.iter_mut().for_each(shift);
        self.facts.spans_mut().for_each(shift);
        for field in self.fields.list_mut() {
            shift(&mut field.name);
            shift(&mut field.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::ParsedRequest;
    use crate::message::path::PathRules;

    fn parsed(received: &[u8]) -> (RequestHead, Vec<u8>) {
        let mut parsed = ParsedRequest::new();
        parsed.parse(received, &HeadLimits::default()).expect("it is well-formed");
        let text = parsed.text(received).to_vec();
        ((*parsed).clone(), text)
    }

    /// The head as one that was received as the text says.
    fn assert_is_as_received(head: &RequestHead, text: &[u8]) {
        let (again, read) = parsed(text);
        assert_eq!(head.method(), again.method());
        assert_eq!(head.method_span().of(text), again.method_span().of(&read));
        assert_eq!(head.target().of(text), again.target().of(&read), "{}", text.escape_ascii());
        assert_eq!(head.path().of(text), again.path().of(&read));
        assert_eq!(head.normal_path(text), again.normal_path(&read));
        assert_eq!(head.query().map(|query| query.of(text)), again.query().map(|query| query.of(&read)));
        assert_eq!(head.authority().of(text), again.authority().of(&read));
        assert_eq!(head.body(), again.body());
        assert_eq!(head.upgrade().map(|one| one.of(text)), again.upgrade().map(|one| one.of(&read)));
        let fields = |head: &RequestHead, text: &[u8]| -> Vec<_> {
            let lines = head.fields().iter();
            lines
                .map(|field| (field.name.of(text).to_vec(), field.value.of(text).to_vec(), field.known))
                .collect()
        };
        assert_eq!(fields(head, text), fields(&again, &read));
    }

    #[test]
    fn another_target_is_as_if_it_had_been_received() {
        for first_line in [
            "GET /old?a=b",
            "GET /a/../b",
            "POST http://a.test",
            "GET http://a.test?x",
            "GET http://a.test/y",
        ] {
            let received = format!(
                "{first_line} HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX: 1\r\n\r\n"
            );
            for target in ["/", "/n", "/a/much/longer/path/than/before?with=query", "/n?"] {
                let (mut head, mut text) = parsed(received.as_bytes());
                head.replace_target(&mut text, target.as_bytes(), &HeadLimits::default()).expect("a target");
                assert!(head.is_path_normal());
                assert_is_as_received(&head, &text);
                assert!(
                    text.windows(target.len()).any(|part| part == target.as_bytes()),
                    "{first_line}: {target}"
                );
            }
        }
    }

    #[test]
    fn the_new_path_is_normal_and_a_target() {
        let (head, text) = parsed(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let replaced = |target: &[u8], limits: &HeadLimits| {
            let (mut head, mut text) = (head.clone(), text.clone());
            head.replace_target(&mut text, target, limits).map(|()| head.target().of(&text).to_vec())
        };
        let plain = HeadLimits::default();
        assert_eq!(replaced(b"/a/../..//%61?../b", &plain).unwrap(), b"/a?../b");
        assert_eq!(replaced(b"/%2e%2e/%2fx", &plain).unwrap(), b"/%2Fx");
        let paths = PathRules { encoded_slash: EncodedSlashRule::Decode, ..PathRules::default() };
        assert_eq!(replaced(b"/a%2fb", &HeadLimits { paths, ..plain }).unwrap(), b"/a/b");
        for target in
            [&b"x"[..], b"", b"?", b"/a b", b"/a\r\nX: 1", b"/%", b"/%zz", b"http://a/", b"/#x", b"/\x80"]
        {
            assert_eq!(replaced(target, &plain), Err(Rule::BadTarget), "{}", target.escape_ascii());
        }
        assert_eq!(replaced(&[b'/'; 2], &plain).unwrap(), b"/");
        let long = [&b"/"[..], &[b'a'; 9000]].concat();
        assert_eq!(replaced(&long, &plain), Err(Rule::TargetTooLong));
        let (mut head, mut text) = parsed(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        head.replace_target(&mut text, b"/x", &plain).expect("nothing to do");
        assert_eq!(head.target().of(&text), b"*");
    }

    #[test]
    fn a_request_with_a_body_becomes_a_get() {
        let received = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nIf-None-Match: \"a\"\r\nExpect: 100-continue\r\nRange: bytes=0-1\r\nX: 1\r\n\r\n";
        let (mut head, mut text) = parsed(received);
        head.become_get(&mut text);
        assert_eq!(text, b"GET /x HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n");
        assert!(!head.expects_continue());
        assert_is_as_received(&head, &text);
        let (mut head, mut text) = parsed(b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
        head.become_get(&mut text);
        assert_is_as_received(&head, &text);
        assert_eq!(head.method(), Method::Head);
    }
}
