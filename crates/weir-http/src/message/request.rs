//! The head of a request, whatever the protocol that brought it.
//!
//! A protocol fills it in place: HTTP/1 from lines, HTTP/2 from compressed fields. It holds spans into one text and
//! the meaning of the fields as a whole; no later code needs the grammar again. It must not decide what to
//! answer, nor what to forward.

use super::authority::Authority;
use super::field_values::connection::{self, ConnectionOptions};
use super::fields::{Field, Fields};
use super::framing::Framing;
use super::method::Method;
use super::name::FieldName;
use super::path::{EncodedSlashRule, PathRules, has_encoded_slash, write_normal_path};
use super::rule::Rule;
use super::span::TextSpan;
use super::target::{RequestTarget, TargetForm};
use super::version::Version;

/// The expectation of the `Expect` fields (RFC 9110 section 10.1.1); always `None` in HTTP/1.0.
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

/// The head of one request, reusable: after [`RequestHead::reset`] the next one is filled in without allocating.
///
/// Spans refer to the text that the protocol gives with the head: see `http1::RequestParser`. The accessors mean something
/// only once it has said that the head is complete.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    pub(crate) method: Method,
    pub(crate) method_span: TextSpan,
    pub(crate) version: Version,
    pub(crate) target: RequestTarget,
    /// Empty in a protocol that does not send it with each request.
    pub(crate) scheme: TextSpan,
    pub(crate) protocol: Option<TextSpan>,
    pub(crate) fields: Fields,
    pub(crate) facts: RequestFacts,
    /// The normal form of the path; empty when the path is in it.
    normal_path: Vec<u8>,
}

/// The meaning of the fields for the request as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestFacts {
    /// The Content-Length.
    pub(crate) content_length: Option<u64>,
    /// Whether a body follows even without a Content-Length.
    pub(crate) is_open: bool,
    /// Empty in a protocol without `Connection`.
    pub(crate) connection: ConnectionOptions,
    expectation: Expectation,
    /// The field that names the host when the target does not.
    pub(crate) host: Option<TextSpan>,
    pub(crate) host_len: u32,
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
        self.method = Method::default();
        self.method_span = TextSpan::default();
        self.version = Version::default();
        self.target = RequestTarget::default();
        self.scheme = TextSpan::default();
        self.protocol = None;
        self.fields.clear();
        self.facts = RequestFacts::default();
        self.normal_path.clear();
    }

    /// Keeps the normal form of a path that may have another spelling.
    #[cold]
    pub(crate) fn normalise_path(&mut self, text: &[u8], rules: &PathRules) -> Result<(), Rule> {
        let path = self.target.path.of(text);
        if rules.encoded_slash == EncodedSlashRule::Refuse && has_encoded_slash(path) {
            return Err(Rule::EncodedSlash);
        }
        self.normal_path.clear();
        write_normal_path(&mut self.normal_path, path, rules.encoded_slash);
        if self.normal_path == path {
            self.normal_path.clear();
        } else if rules.refuse_other_forms {
            return Err(Rule::PathNotNormal);
        }
        Ok(())
    }

    /// The path is in its normal form.
    pub(super) fn forget_normal_path(&mut self) {
        self.normal_path.clear();
    }

    /// The body has this length, as was found by reading it: for a server that has to know.
    pub fn set_body_length(&mut self, len: u64) {
        (self.facts.content_length, self.facts.is_open) = (Some(len), false);
    }

    /// Notes that the request has ended with its head, which did not say so.
    #[inline]
    pub fn end_with_head(&mut self) {
        self.facts.is_open = false;
    }

    /// The method.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Where the name of the method stands.
    #[inline]
    pub fn method_span(&self) -> TextSpan {
        self.method_span
    }

    /// The request target as received.
    #[inline]
    pub fn target(&self) -> TextSpan {
        self.target.span
    }

    /// The form of the target.
    #[inline]
    pub fn target_form(&self) -> TargetForm {
        self.target.form
    }

    /// The path of the target as received, never empty but in the authority form: `/` when an absolute target has none, `*` in the
    /// asterisk form.
    #[inline]
    pub fn path(&self) -> TextSpan {
        self.target.path
    }

    /// The normal form of the path, which rules are matched on; `text` holds it only when the path came in it.
    #[inline]
    pub fn normal_path<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        if self.normal_path.is_empty() { self.target.path.of(text) } else { &self.normal_path }
    }

    /// Whether the path came in its normal form.
    #[inline]
    pub fn is_path_normal(&self) -> bool {
        self.normal_path.is_empty()
    }

    /// The query of the target without its `?`; `None` when there is no `?`.
    #[inline]
    pub fn query(&self) -> Option<TextSpan> {
        self.target.query
    }

    /// `host[:port]` that the request is for: of an absolute target or CONNECT if it is one, else of Host. Empty when
    /// Host is missing, in HTTP/1.0.
    #[inline]
    pub fn authority(&self) -> TextSpan {
        match self.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.host.unwrap_or_default(),
            TargetForm::Absolute | TargetForm::Authority => self.target.authority,
        }
    }

    /// The host of [`RequestHead::authority`], an IPv6 address with its brackets.
    #[inline]
    pub fn host(&self) -> TextSpan {
        let len = match self.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.host_len,
            TargetForm::Absolute | TargetForm::Authority => self.target.host_len,
        };
        TextSpan { len, ..self.authority() }
    }

    /// The port of [`RequestHead::authority`] when one is given, 1 to 65535.
    #[inline]
    pub fn port(&self) -> Option<u16> {
        match self.target.form {
            TargetForm::Origin | TargetForm::Asterisk => self.facts.port,
            TargetForm::Absolute | TargetForm::Authority => self.target.port,
        }
    }

    /// The scheme as HTTP/2 sends it with each request: `http` or `https` in any mixture of upper and lower case. Empty in a `CONNECT`
    /// without a protocol, and in HTTP/1.
    #[inline]
    pub fn scheme(&self) -> TextSpan {
        self.scheme
    }

    /// The protocol that an extended `CONNECT` asks for, such as `websocket` (RFC 8441 section 4). Its target is in the origin form, and its
    /// scheme is that of the target.
    #[inline]
    pub fn protocol(&self) -> Option<TextSpan> {
        self.protocol
    }

    /// The protocol version.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// All fields, in the order received.
    #[inline]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// How the body is delimited.
    #[inline]
    pub fn body(&self) -> Framing {
        let without_length = if self.facts.is_open { Framing::Delimited } else { Framing::None };
        Framing::from_length(self.facts.content_length, without_length)
    }

    /// The options of the `Connection` fields; none in a protocol that does not have that field.
    #[inline]
    pub fn connection(&self) -> ConnectionOptions {
        self.facts.connection
    }

    /// Whether `Connection` names `field` as a hop-by-hop field, which is not forwarded. Never true for known end-to-end
    /// fields, even if they are listed. Call only when `connection().others()`: otherwise the answer is no, or known from the
    /// field itself.
    pub fn is_named_by_connection(&self, text: &[u8], field: &Field) -> bool {
        connection::names_field(text, &self.fields, field)
    }

    /// The expectation of the client before it sends the body.
    #[inline]
    pub fn expectation(&self) -> Expectation {
        self.facts.expectation
    }

    /// Whether the client waits for 100 (Continue) before it sends its body. Not when there is no body to wait with.
    #[inline]
    pub fn expects_continue(&self) -> bool {
        self.facts.expectation == Expectation::Continue && !self.body().is_empty()
    }

    /// How many more proxies a TRACE or OPTIONS request may pass (RFC 9110 section 7.6.2): at 0 it is answered here.
    /// `None` with any other method, and without a valid Max-Forwards.
    #[inline]
    pub fn max_forwards(&self, text: &[u8]) -> Option<u64> {
        let is_limited = matches!(self.method, Method::Trace | Method::Options);
        if is_limited { self.read_max_forwards(text) } else { None }
    }

    #[cold]
    fn read_max_forwards(&self, text: &[u8]) -> Option<u64> {
        let digits = self.fields.first(FieldName::MaxForwards)?.value.of(text);
        let valid = digits.iter().all(u8::is_ascii_digit);
        if valid { str::from_utf8(digits).ok()?.parse().ok() } else { None }
    }

    /// The protocol that is asked for. In HTTP/1.1 the value of `Upgrade`, with `Connection: upgrade`, in one field only; in HTTP/2 that of
    /// an extended CONNECT.
    #[inline]
    pub fn upgrade(&self) -> Option<TextSpan> {
        let counts = self.facts.connection.upgrade() && self.version != Version::Http10;
        if counts { self.facts.upgrade.filter(|value| !value.is_empty()) } else { None }
    }
}

impl RequestFacts {
    /// Notes the value of the field that names the host: Host.
    #[inline]
    pub(crate) fn add_host(&mut self, span: TextSpan, value: &[u8]) -> Result<(), Rule> {
        if self.host.is_some() {
            return Err(Rule::DuplicateHost);
        }
        let authority = Authority::parse(value).ok_or(Rule::BadHost)?;
        self.host = Some(span);
        self.host_len = authority.host.len() as u32;
        self.port = authority.port;
        Ok(())
    }

    /// Notes the value of one Expect field.
    pub(crate) fn add_expectation(&mut self, value: &[u8]) {
        let continues = value.eq_ignore_ascii_case(b"100-continue");
        self.expectation = match self.expectation {
            Expectation::Unknown => Expectation::Unknown,
            _ if continues => Expectation::Continue,
            _ => Expectation::Unknown,
        };
    }

    /// Nothing is expected.
    pub(super) fn forget_expectation(&mut self) {
        self.expectation = Expectation::None;
    }

    /// No other protocol is asked for.
    pub(super) fn forget_upgrade(&mut self) {
        self.upgrade = None;
    }

    /// The spans of values that mean something for the request as a whole.
    pub(super) fn spans_mut(&mut self) -> impl Iterator<Item = &mut TextSpan> {
        self.host.iter_mut().chain(&mut self.upgrade)
    }

    /// Notes one Upgrade field.
    pub(crate) fn add_upgrade(&mut self, span: TextSpan) {
        // Two Upgrade fields are one list; no protocol Weir tunnels is ever offered so. An empty span stands for
        // "several", which `upgrade` does not report.
        self.upgrade = Some(if self.upgrade.is_some() { TextSpan::default() } else { span });
    }
}
