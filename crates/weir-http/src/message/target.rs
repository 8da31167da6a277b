//! The request target in its four forms (RFC 9112 section 3.2), split without copying or decoding.
//!
//! The bytes have passed the table of target bytes before they come here, so neither space nor `#` occurs.

use super::authority::Authority;
use super::limits::HeadLimits;
use super::method::Method;
use super::percent;
use super::rule::Rule;
use super::span::TextSpan;
use crate::bytes::path_run;

/// The form of a request target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, with CONNECT only.
    Authority,
    /// `*`, with OPTIONS only.
    Asterisk,
}

/// A valid request target and its parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestTarget {
    pub(crate) span: TextSpan,
    pub(crate) form: TargetForm,
    pub(crate) path: TextSpan,
    pub(crate) query: Option<TextSpan>,
    /// The authority; empty in the origin and asterisk forms.
    pub(crate) authority: TextSpan,
    /// Length of the host at the start of the authority.
    pub(crate) host_len: u32,
    pub(crate) port: Option<u16>,
    /// Whether the path may have another spelling that means the same.
    pub(crate) is_odd: bool,
}

impl RequestTarget {
    /// Splits and checks the target at `span` of a request with `method`.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        span: TextSpan,
        method: Method,
        limits: &HeadLimits,
    ) -> Result<(), Rule> {
        self.span = span;
        self.form = TargetForm::Origin;
        self.is_odd = false;
        let text = span.of(bytes);
        if text.first() == Some(&b'/') && method != Method::Connect {
            self.read_path(text, span.start as usize, limits)
        } else {
            self.read_other_form(bytes, method, limits)
        }
    }

    /// Splits `text`, which starts at `start`, into path and query. A path must be percent-encoded properly. In a query a
    /// bare `%` is accepted: browsers send it, and proxies do not decode queries.
    #[inline(always)]
    fn read_path(&mut self, text: &[u8], start: usize, limits: &HeadLimits) -> Result<(), Rule> {
        let (path_len, is_odd) = path_run(text);
        if is_odd {
            check_odd_path(&text[..path_len], limits)?;
            self.is_odd = true;
        }
        self.path = TextSpan::new(start, start + path_len);
        self.query = None;
        if path_len < text.len() {
            self.query = Some(TextSpan::new(start + path_len + 1, start + text.len()));
        }
        Ok(())
    }

    #[cold]
    fn read_other_form(&mut self, bytes: &[u8], method: Method, limits: &HeadLimits) -> Result<(), Rule> {
        self.query = None;
        let text = self.span.of(bytes);
        if method == Method::Connect {
            self.form = TargetForm::Authority;
            self.set_authority(bytes, self.span)?;
            self.path = TextSpan::new(self.span.end(), self.span.end());
            return if self.port.is_some() { Ok(()) } else { Err(Rule::BadTarget) };
        }
        if text == b"*" && method == Method::Options {
            self.form = TargetForm::Asterisk;
            self.path = self.span;
            return Ok(());
        }
        let Some(colon) = memchr::memmem::find(text, b"://") else { return Err(Rule::BadTarget) };
        let scheme = &text[..colon];
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
            return Err(if is_scheme { Rule::BadScheme } else { Rule::BadTarget });
        }
        self.form = TargetForm::Absolute;
        let start = self.span.start as usize + colon + 3;
        let rest = &text[colon + 3..];
        let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        if len == 0 {
            return Err(Rule::BadHost);
        }
        self.set_authority(bytes, TextSpan::new(start, start + len))?;
        if rest.get(len) == Some(&b'/') {
            return self.read_path(&rest[len..], start + len, limits);
        }
        // The empty path is "/" (RFC 9110 section 4.2.3): its span is the slash before the authority.
        self.path = TextSpan::new(start - 1, start);
        if len < rest.len() {
            self.query = Some(TextSpan::new(start + len + 1, self.span.end()));
        }
        Ok(())
    }

    fn set_authority(&mut self, bytes: &[u8], span: TextSpan) -> Result<(), Rule> {
        let authority = Authority::parse(span.of(bytes)).ok_or(Rule::BadHost)?;
        self.authority = span;
        self.host_len = authority.host.len() as u32;
        self.port = authority.port;
        Ok(())
    }
}

/// Checks a path that holds `%`, `//` or `/.`.
#[cold]
fn check_odd_path(path: &[u8], limits: &HeadLimits) -> Result<(), Rule> {
    if !percent::is_well_formed(path) || (limits.refuse_encoded_nul && percent::has_encoded_nul(path)) {
        return Err(Rule::BadTarget);
    }
    Ok(())
}
