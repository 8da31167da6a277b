//! The head of a request: from received bytes to a fully validated description of them.
//!
//! This is where a client's bytes first mean something. What comes out is spans into the text of the head, with every
//! rule of RFC 9110 and RFC 9112 already held against it; nothing further up needs to look at the grammar again.
//! It must not decide what to answer, nor what to forward.

use super::HeadProgress;
use super::framing::MessageFraming;
use super::lines::{Cursor, read_fields};
use super::normal::NormalizedHead;
use super::request_line::{self, ParsedRequestLine, read_method, skip_empty_lines};
use crate::message::authority::Authority;
use crate::message::connection::{self, ConnectionOptions};
use crate::message::fields::{Field, Fields};
use crate::message::limits::HeadLimits;
use crate::message::method::Method;
use crate::message::name::FieldName;
use crate::message::path::{EncodedSlashRule, PathRules, has_encoded_slash, write_normal_path};
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::target::TargetForm;
use crate::message::version::Version;

/// How the body of a request is delimited (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestBody {
    /// There is no body.
    #[default]
    None,
    /// The body has this many bytes, at least one.
    Length(u64),
    /// The body is in chunks.
    Chunked,
}

/// What the `Expect` fields ask for (RFC 9110 section 10.1.1); always `None` in HTTP/1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100-continue`.
    Continue,
    /// Something else, which may be answered with 417.
    Unknown,
}

/// The head of one request, reusable: after [`RequestHead::reset`] the next one parses without allocating.
///
/// Spans refer to [`RequestHead::text`], and the accessors mean something only once `parse` said `Complete`.
///
/// ```
/// use weir_http::{FieldName, HeadLimits, HeadProgress, RequestBody, RequestHead};
///
/// let received = b"POST /a?b HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello";
/// let mut head = RequestHead::new();
/// let limits = HeadLimits::default();
/// assert_eq!(head.parse(&received[..20], &limits), Ok(HeadProgress::Incomplete));
/// let Ok(HeadProgress::Complete { len }) = head.parse(received, &limits) else { unreachable!() };
///
/// let text = head.text(received);
/// assert_eq!(head.path().of(text), b"/a");
/// assert_eq!(head.host().of(text), b"example.com");
/// assert_eq!(head.body(), RequestBody::Length(5));
/// assert!(!head.fields().contains(FieldName::Cookie));
/// assert_eq!(&received[len..], b"hello");
/// ```
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    cursor: Cursor,
    line_read: bool,
    /// Number of received bytes of the head; 0 until it is complete.
    len: usize,
    line: ParsedRequestLine,
    fields: Fields,
    facts: Facts,
    normal: NormalizedHead,
    /// The normal form of the path; empty when the path is in it.
    normal_path: Vec<u8>,
}

/// What the fields say about the request as a whole.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    framing: MessageFraming,
    connection: ConnectionOptions,
    expectation: Expectation,
    host: Option<TextSpan>,
    host_len: u32,
    port: Option<u16>,
    upgrade: Option<TextSpan>,
}

impl RequestHead {
    /// An empty head, nothing allocated.
    pub fn new() -> RequestHead {
        RequestHead::default()
    }

    /// Forgets everything but keeps the memory, ready for the next request.
    #[inline]
    pub fn reset(&mut self) {
        self.begin_again();
        self.normal.clear();
    }

    /// Forgets what was parsed.
    #[inline(always)]
    fn begin_again(&mut self) {
        self.cursor = Cursor::default();
        self.line_read = false;
        self.len = 0;
        self.line = ParsedRequestLine::default();
        self.fields.clear();
        self.facts = Facts::default();
        self.normal_path.clear();
    }

    /// Parses the head at the start of `received`.
    ///
    /// On `Incomplete`, call again with the same bytes and more behind them: complete lines are not read twice. Once
    /// complete, further calls repeat the answer until `reset`.
    ///
    /// # Errors
    ///
    /// The first rule that the bytes break, read from the left, however they were cut into calls. The head must be
    /// reset then; nothing may be forwarded and nothing behind it may be read as another request.
    #[inline]
    pub fn parse(&mut self, received: &[u8], limits: &HeadLimits) -> Result<HeadProgress, Rule> {
        if self.len == 0 {
            let window = received.get(..limits.window()).unwrap_or(received);
            let len = if self.normal.is_active() {
                self.advance_normal(window, limits)
            } else {
                match self.advance(window, limits) {
                    Err(rule) => self.mend(window, limits, rule),
                    len => len,
                }
            };
            match len? {
                Some(len) => self.len = len,
                None if window.len() >= limits.window() => return Err(Rule::HeadTooLarge),
                None => return Ok(HeadProgress::Incomplete),
            }
        }
        Ok(HeadProgress::Complete { len: self.len })
    }

    /// Goes on from the first incomplete line. Gives the length of the head once it is complete.
    #[inline(never)]
    fn advance(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Rule> {
        if self.cursor.still_within(bytes) && (self.line_read || bytes.len() <= limits.target_bytes_max) {
            return Ok(None);
        }
        if !self.line_read {
            let Some(start) = skip_empty_lines(bytes)? else { return Ok(None) };
            let Some(next) = self.line.read(bytes, start, limits)? else {
                self.cursor.stop(start, bytes, request_line::within(&bytes[start..], limits));
                return Ok(None);
            };
            if self.line.target.is_odd {
                self.normalise_path(bytes, limits)?;
            }
            self.line_read = true;
            self.cursor.position = next;
        }
        let (version, facts) = (self.line.version, &mut self.facts);
        let take = |name, span, value: &[u8]| facts.add(name, span, value, version);
        if !read_fields(bytes, &mut self.cursor, &mut self.fields, limits.fields_max, take)? {
            return Ok(None);
        }
        if self.facts.host_len == 0 {
            self.check_without_host()?;
        }
        Ok(Some(self.cursor.position))
    }

    /// Writes the normal form of a path that may have another spelling.
    #[cold]
    fn normalise_path(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<(), Rule> {
        let PathRules { encoded_slash, refuse_other_forms } = limits.paths;
        let path = self.line.target.path.of(bytes);
        if encoded_slash == EncodedSlashRule::Refuse && has_encoded_slash(path) {
            return Err(Rule::EncodedSlash);
        }
        self.normal_path.clear();
        write_normal_path(&mut self.normal_path, path, encoded_slash);
        if self.normal_path == path {
            self.normal_path.clear();
        } else if refuse_other_forms {
            return Err(Rule::PathNotNormal);
        }
        Ok(())
    }

    /// Whether the head may be without a host in its fields: every HTTP/1.1 request has one Host field, even when the target says it all
    /// (RFC 9112 section 3.2), and one that says nothing would make a URL without a host (RFC 9110 section 4.2.1).
    #[cold]
    fn check_without_host(&self) -> Result<(), Rule> {
        match (self.facts.host, self.line.version) {
            (None, Version::Http11) => Err(Rule::MissingHost),
            (Some(_), _) if self.authority().is_empty() => Err(Rule::EmptyHost),
            _ => Ok(()),
        }
    }

    /// Begins again with the normalised text if the broken rule is relaxed.
    #[cold]
    fn mend(&mut self, window: &[u8], limits: &HeadLimits, broken: Rule) -> Result<Option<usize>, Rule> {
        if !limits.lenient.may_mend(broken) {
            return Err(broken);
        }
        self.begin_again();
        self.normal.begin();
        self.advance_normal(window, limits)
    }

    /// The same by way of the normalised text, for a head that breaks a relaxed rule.
    #[cold]
    fn advance_normal(&mut self, received: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Rule> {
        let mut normal = std::mem::take(&mut self.normal);
        normal.take_lines(received, &limits.lenient);
        // The bound holds for what was received; encoding may make up to three bytes of one.
        let unbounded = HeadLimits { head_bytes_max: usize::MAX, ..*limits };
        let mut complete = self.advance(normal.ready(), &unbounded);
        if complete == Ok(None) && !self.line_read {
            let start = normal.peek(received);
            let method =
                skip_empty_lines(&start).and_then(|at| at.map_or(Ok(None), |at| read_method(&start, at)));
            complete = method.and(Ok(None));
        }
        self.normal = normal;
        Ok(complete?.map(|_| self.normal.taken()))
    }

    /// The bytes that all spans of this head refer to: `received` itself, which was given to `parse`, unless a relaxed
    /// rule made the head be normalised.
    #[inline]
    pub fn text<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        if self.normal.text().is_empty() { received } else { self.normal.text() }
    }

    /// Number of received bytes that belong to the head, leading empty lines included; 0 until it is complete.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no complete head.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> Method {
        self.line.method
    }

    /// Where the name of the method stands.
    #[inline]
    pub fn method_span(&self) -> TextSpan {
        self.line.method_span
    }

    /// The request target as received.
    #[inline]
    pub fn target(&self) -> TextSpan {
        self.line.target.span
    }

    /// The form of the target.
    #[inline]
    pub fn target_form(&self) -> TargetForm {
        self.line.target.form
    }

    /// The path of the target as received, never empty but in the authority form: `/` when an absolute target has none, `*` in the
    /// asterisk form.
    #[inline]
    pub fn path(&self) -> TextSpan {
        self.line.target.path
    }

    /// The normal form of the path, which `text` holds only when the path came in it: what rules are matched on.
    #[inline]
    pub fn normal_path<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        if self.normal_path.is_empty() { self.line.target.path.of(text) } else { &self.normal_path }
    }

    /// Whether the path came in its normal form.
    #[inline]
    pub fn is_path_normal(&self) -> bool {
        self.normal_path.is_empty()
    }

    /// The query of the target without its `?`; `None` when there is no `?`.
    #[inline]
    pub fn query(&self) -> Option<TextSpan> {
        self.line.target.query
    }

    /// `host[:port]` that the request is for: of an absolute target or CONNECT if it is one, else of Host. Empty when
    /// Host is missing, in HTTP/1.0.
    #[inline]
    pub fn authority(&self) -> TextSpan {
        match self.line.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.host.unwrap_or_default(),
            TargetForm::Absolute | TargetForm::Authority => self.line.target.authority,
        }
    }

    /// The host of [`RequestHead::authority`], an IPv6 address with its brackets.
    #[inline]
    pub fn host(&self) -> TextSpan {
        let len = match self.line.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.host_len,
            TargetForm::Absolute | TargetForm::Authority => self.line.target.host_len,
        };
        TextSpan { len, ..self.authority() }
    }

    /// The port of [`RequestHead::authority`] when one is given, 1 to 65535.
    #[inline]
    pub fn port(&self) -> Option<u16> {
        match self.line.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.port,
            TargetForm::Absolute | TargetForm::Authority => self.line.target.port,
        }
    }

    /// The protocol version.
    #[inline]
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// All fields, in the order received.
    #[inline]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// How the body is delimited.
    #[inline]
    pub fn body(&self) -> RequestBody {
        match self.facts.framing {
            MessageFraming { chunked: true, .. } => RequestBody::Chunked,
            MessageFraming { length: None | Some(0), .. } => RequestBody::None,
            MessageFraming { length: Some(length), .. } => RequestBody::Length(length),
        }
    }

    /// The options of the `Connection` fields.
    #[inline]
    pub fn connection(&self) -> ConnectionOptions {
        self.facts.connection
    }

    /// Whether `Connection` names `field` as one that must stop here. Known end-to-end fields never do, whoever lists
    /// them. Ask only when `connection().others()`: otherwise the answer is no, or known from the field itself.
    pub fn is_named_by_connection(&self, text: &[u8], field: &Field) -> bool {
        connection::names_field(text, &self.fields, field)
    }

    /// Whether the client wants to send further requests on this connection (RFC 9112 section 9.3).
    #[inline]
    pub fn keep_alive(&self) -> bool {
        let options = self.facts.connection;
        !options.close() && (self.line.version == Version::Http11 || options.keep_alive())
    }

    /// What the client expects before it sends the body.
    #[inline]
    pub fn expectation(&self) -> Expectation {
        self.facts.expectation
    }

    /// Whether the client waits for 100 (Continue) before it sends its body. Not when there is no body to wait with.
    #[inline]
    pub fn expects_continue(&self) -> bool {
        self.facts.expectation == Expectation::Continue && self.body() != RequestBody::None
    }

    /// How many more proxies a TRACE or OPTIONS request may pass (RFC 9110 section 7.6.2): at 0 it is answered here.
    /// `None` with any other method, and without a valid Max-Forwards.
    pub fn max_forwards(&self, text: &[u8]) -> Option<u64> {
        if !matches!(self.line.method, Method::Trace | Method::Options) {
            return None;
        }
        let digits = self.fields.first(FieldName::MaxForwards)?.value.of(text);
        let valid = digits.iter().all(u8::is_ascii_digit);
        if valid { str::from_utf8(digits).ok()?.parse().ok() } else { None }
    }

    /// The value of `Upgrade` when it counts: in HTTP/1.1, with `Connection: upgrade`, in one field only.
    #[inline]
    pub fn upgrade(&self) -> Option<TextSpan> {
        let counts = self.facts.connection.upgrade() && self.line.version == Version::Http11;
        if counts { self.facts.upgrade.filter(|value| !value.is_empty()) } else { None }
    }
}

impl Facts {
    /// Takes in one field.
    #[inline]
    fn add(&mut self, name: FieldName, span: TextSpan, value: &[u8], version: Version) -> Result<(), Rule> {
        const TELLING: u64 = FieldName::Host.bit()
            | FieldName::ContentLength.bit()
            | FieldName::TransferEncoding.bit()
            | FieldName::Connection.bit()
            | FieldName::Expect.bit()
            | FieldName::Upgrade.bit();
        if TELLING & name.bit() == 0 {
            return Ok(());
        }
        match name {
            FieldName::Host => self.add_host(span, value),
            FieldName::Connection => {
                self.connection.add(value);
                Ok(())
            }
            FieldName::ContentLength => self.framing.add_length(value),
            FieldName::TransferEncoding if version == Version::Http10 => Err(Rule::TransferEncodingInHttp10),
            FieldName::TransferEncoding => self.framing.add_transfer_encoding(value),
            _ => {
                self.add_rare(name, span, value, version);
                Ok(())
            }
        }
    }

    #[inline]
    fn add_host(&mut self, span: TextSpan, value: &[u8]) -> Result<(), Rule> {
        if self.host.is_some() {
            return Err(Rule::DuplicateHost);
        }
        let authority = Authority::parse(value).ok_or(Rule::BadHost)?;
        self.host = Some(span);
        self.host_len = authority.host.len() as u32;
        self.port = authority.port;
        Ok(())
    }

    #[cold]
    fn add_rare(&mut self, name: FieldName, span: TextSpan, value: &[u8], version: Version) {
        match name {
            FieldName::Expect if version == Version::Http11 => {
                let continues = value.eq_ignore_ascii_case(b"100-continue");
                self.expectation = match self.expectation {
                    Expectation::Unknown => Expectation::Unknown,
                    _ if continues => Expectation::Continue,
                    _ => Expectation::Unknown,
                };
            }
            FieldName::Upgrade => {
                // Two Upgrade fields are one list; no protocol Weir tunnels is ever offered so. An empty span stands
                // for "several", which `upgrade` does not report.
                self.upgrade = Some(if self.upgrade.is_some() { TextSpan::default() } else { span });
            }
            _ => {}
        }
    }
}
