//! The head of a request (RFC 9113 section 8.3.1, RFC 9114 section 4.3.1), and `CONNECT` (RFC 9113 section 8.5, RFC 8441, RFC 9220).
//!
//! The result is the head that a request of HTTP/1 with the same meaning would have: `:authority` is its Host. What that could not
//! carry, or what could be read in two ways, is refused. Must not decide what to answer.

use super::cookie::{CookieOutcome, join_cookie, regroup_cookies};
use super::section::{LineLimits, LinesError, field, read_lines, value_span};
use crate::message::field_values::connection::ConnectionOptions;
use crate::message::field_values::content_length;
use crate::message::fields::Field;
use crate::message::limits::HeadLimits;
use crate::message::method::Method;
use crate::message::name::FieldName;
use crate::message::request::RequestHead;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;
use crate::multiplexed::compression::decoded::{CompressedLines, DecodedLine};
use crate::multiplexed::compression::line_class::LineName;

/// Reads the lines of a request into `head`, which was reset, and `text`, which is emptied first and which all spans of the head refer
/// to then. The text ends with an empty line; its fields are lines one after another, whose names are in lower case.
///
/// # Errors
///
/// See [`LinesError`]; the head must be reset then.
#[inline(always)]
pub(crate) fn read_request_lines<L: CompressedLines>(
    lines: L,
    head: &mut RequestHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    version: Version,
    ends_stream: bool,
) -> Result<(), LinesError<L::Error>> {
    head.version = version;
    head.facts.is_open = !ends_stream;
    let mut reader = RequestReader { head, pseudo: PseudoFields::default(), progress: Progress::default() };
    read_lines(lines, text, LineLimits::of_head(limits), |text, line| reader.read_line(text, line))?;
    reader.finish(text, limits).map_err(LinesError::Malformed)
}

/// A head that is being filled.
struct RequestReader<'a> {
    head: &'a mut RequestHead,
    pseudo: PseudoFields,
    progress: Progress,
}

/// The values of the pseudo-fields.
#[derive(Default)]
struct PseudoFields {
    method: Option<TextSpan>,
    scheme: Option<TextSpan>,
    authority: Option<TextSpan>,
    path: Option<TextSpan>,
    protocol: Option<TextSpan>,
}

/// What came so far.
#[derive(Default)]
struct Progress {
    /// A field came, so no pseudo-field may.
    is_in_fields: bool,
    has_host: bool,
    /// Cookies came with other fields between them.
    has_scattered_cookies: bool,
}

impl RequestReader<'_> {
    #[inline(always)]
    fn read_line(&mut self, text: &mut Vec<u8>, line: DecodedLine) -> Result<(), Rule> {
        match line.class.name {
            LineName::Field(known) => self.read_field(text, line, known),
            name => self.read_pseudo_field(text, line, name),
        }
    }

    #[inline(always)]
    fn read_pseudo_field(&mut self, text: &[u8], line: DecodedLine, name: LineName) -> Result<(), Rule> {
        if self.progress.is_in_fields {
            return Err(Rule::LatePseudoField);
        }
        let value = match name {
            LineName::Method => &mut self.pseudo.method,
            LineName::Scheme => &mut self.pseudo.scheme,
            LineName::Authority => &mut self.pseudo.authority,
            LineName::Path => &mut self.pseudo.path,
            LineName::Protocol => &mut self.pseudo.protocol,
            LineName::Status | LineName::Field(_) => return Err(Rule::UnexpectedPseudoField),
        };
        match value.replace(value_span(text, line)) {
            None => Ok(()),
            Some(_) => Err(Rule::DuplicatePseudoField),
        }
    }

    #[inline(always)]
    fn read_field(&mut self, text: &mut Vec<u8>, line: DecodedLine, known: FieldName) -> Result<(), Rule> {
        const TELLING: u64 = FieldName::Host.bit()
            | FieldName::Cookie.bit()
            | FieldName::ContentLength.bit()
            | FieldName::Expect.bit();
        self.progress.is_in_fields = true;
        let field = field(text, line, known);
        if TELLING & known.bit() == 0 {
            self.head.fields.push(field);
            return Ok(());
        }
        self.read_telling_field(text, line, field)
    }

    #[inline(never)]
    fn read_telling_field(
        &mut self,
        text: &mut Vec<u8>,
        line: DecodedLine,
        field: Field,
    ) -> Result<(), Rule> {
        let value = field.value.of(text);
        let facts = &mut self.head.facts;
        match field.known {
            FieldName::Host => {
                if std::mem::replace(&mut self.progress.has_host, true) {
                    return Err(Rule::DuplicateHost);
                }
                if let Some(authority) = self.pseudo.authority {
                    if !value.eq_ignore_ascii_case(authority.of(text)) {
                        return Err(Rule::HostDiffers);
                    }
                    text.truncate(line.start);
                    return Ok(());
                }
            }
            FieldName::ContentLength => content_length::add(&mut facts.content_length, value)?,
            FieldName::Expect => facts.add_expectation(value),
            _ => match join_cookie(text, &mut self.head.fields, &field) {
                CookieOutcome::Joined => return Ok(()),
                CookieOutcome::First => {}
                CookieOutcome::Scattered => self.progress.has_scattered_cookies = true,
            },
        }
        self.head.fields.push(field);
        Ok(())
    }

    /// Gives the fields as a whole their meaning.
    #[inline]
    fn finish(&mut self, text: &mut Vec<u8>, limits: &HeadLimits) -> Result<(), Rule> {
        self.read_target(text, limits)?;
        if self.head.method == Method::Connect {
            self.finish_connect(text);
        }
        if self.progress.has_scattered_cookies {
            regroup_cookies(text, &mut self.head.fields);
        }
        self.read_host(text)?;
        text.extend_from_slice(b"\r\n");
        let facts = &self.head.facts;
        if !facts.is_open && facts.content_length.is_some_and(|length| length > 0) {
            return Err(Rule::LengthDiffers);
        }
        Ok(())
    }

    #[inline]
    fn read_target(&mut self, text: &[u8], limits: &HeadLimits) -> Result<(), Rule> {
        let pseudo = &self.pseudo;
        let method_span = pseudo.method.ok_or(Rule::MissingPseudoField)?;
        let method = Method::recognise(method_span.of(text));
        self.head.method = method;
        self.head.method_span = method_span;
        self.head.protocol = pseudo.protocol;
        if method == Method::Connect || pseudo.protocol.is_some() {
            return self.read_connect(text, limits);
        }
        self.read_path(text, method, limits)
    }

    /// Reads scheme and path.
    #[inline]
    fn read_path(&mut self, text: &[u8], method: Method, limits: &HeadLimits) -> Result<(), Rule> {
        let (Some(scheme), Some(path)) = (self.pseudo.scheme, self.pseudo.path) else {
            return Err(Rule::MissingPseudoField);
        };
        self.head.scheme = scheme;
        if path.len as usize > limits.target_bytes_max {
            return Err(Rule::TargetTooLong);
        }
        match path.of(text) {
            [b'/', ..] => {}
            b"*" if method == Method::Options => {}
            // In HTTP/1 an absolute target would go on here, in whose place these versions have scheme and authority.
            _ => return Err(Rule::BadTarget),
        }
        self.head.target.read(text, path, method, limits)?;
        if self.head.target.is_odd {
            self.head.normalise_path(text, &limits.paths)?;
        }
        Ok(())
    }

    /// Reads the target of `CONNECT`: an authority alone, or the URI of a resource when it asks for a protocol (RFC 8441 section 4).
    #[cold]
    fn read_connect(&mut self, text: &[u8], limits: &HeadLimits) -> Result<(), Rule> {
        let pseudo = &self.pseudo;
        if self.head.method != Method::Connect {
            return Err(Rule::UnexpectedPseudoField);
        }
        let authority = pseudo.authority.ok_or(Rule::MissingPseudoField)?;
        if pseudo.protocol.is_some() {
            // Its target is that of any other method.
            return self.read_path(text, Method::Get, limits);
        }
        if pseudo.scheme.is_some() || pseudo.path.is_some() {
            return Err(Rule::UnexpectedPseudoField);
        }
        self.head.target.read(text, authority, Method::Connect, limits)
    }

    /// What follows is for the tunnel: the request has no body. One that asks for a protocol is what the same request is in HTTP/1: a GET
    /// with an upgrade.
    #[cold]
    fn finish_connect(&mut self, text: &mut [u8]) {
        const GET: &[u8] = b"GET";
        self.head.facts.is_open = false;
        // A length of 0 says nothing about what follows; any other contradicts it.
        self.head.facts.content_length = self.head.facts.content_length.filter(|length| *length > 0);
        if let Some(protocol) = self.head.protocol {
            self.head.facts.connection = ConnectionOptions::of_upgrade();
            self.head.facts.add_upgrade(protocol);
            let start = self.head.method_span.start as usize;
            text[start..start + GET.len()].copy_from_slice(GET);
            self.head.method_span = TextSpan::new(start, start + GET.len());
            self.head.method = Method::Get;
        }
    }

    /// Reads the host, which `:authority` or Host names. The former becomes a Host, the last field, so that the lines of all fields are
    /// neighbours.
    #[inline]
    fn read_host(&mut self, text: &mut Vec<u8>) -> Result<(), Rule> {
        const NAME: &[u8] = b"host";
        let RequestHead { fields, facts, .. } = &mut *self.head;
        let host = match self.pseudo.authority {
            Some(authority) => {
                let start = text.len();
                text.extend_from_slice(b"host: ");
                text.extend_from_within(authority.range());
                let name = TextSpan::new(start, start + NAME.len());
                let value = TextSpan::new(start + NAME.len() + 2, text.len());
                text.extend_from_slice(b"\r\n");
                fields.push(Field { name, value, known: FieldName::Host });
                value
            }
            None => fields.first(FieldName::Host).ok_or(Rule::MissingHost)?.value,
        };
        facts.add_host(host, host.of(text))?;
        if facts.host_len == 0 { Err(Rule::EmptyHost) } else { Ok(()) }
    }
}
