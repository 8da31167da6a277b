//! `rewrite_body`, `rewrite_location`, `rewrite_cookies`: what servers send, rewritten for clients.

use std::sync::Arc;

use weir_rewrite::{AttributePattern, BodyRules, Flag, LocationRules};

use super::compression::MediaPattern;
use crate::value::{GroupTemplate, Template, TemplateValue};

/// How the bodies of responses are rewritten.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BodyRewrite {
    /// What is searched for.
    pub rules: Arc<BodyRules>,
    /// What each rule puts in place of its matches.
    pub to: Vec<Vec<BodyPart>>,
    /// The media types of bodies that are rewritten.
    pub types: Vec<MediaPattern>,
}

/// A piece of what replaces a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyPart {
    /// Text as it is.
    Literal(Box<str>),
    /// A value of the exchange.
    Value(TemplateValue),
    /// What a group of the regular expression has matched; 0 is the whole match.
    Group(usize),
}

impl BodyRewrite {
    /// Whether bodies of this media type are rewritten: a `Content-Type`, with or without parameters; those without one where all types are.
    pub fn covers(&self, content_type: Option<&[u8]>) -> bool {
        let Some(content_type) = content_type else { return self.types.iter().any(MediaPattern::is_any) };
        let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.types.iter().any(|pattern| pattern.matches(media))
    }

    /// The values of the exchange that are put in.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        self.to.iter().flatten().filter_map(|part| match part {
            BodyPart::Value(value) => Some(value),
            BodyPart::Literal(_) | BodyPart::Group(_) => None,
        })
    }
}

/// How the URLs of `Location` and `Refresh` are rewritten: the first rule that is for a URL counts.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct LocationRewrite {
    /// What is searched for.
    pub rules: LocationRules,
    /// What each rule puts in place of its match.
    pub to: Vec<Vec<BodyPart>>,
}

impl LocationRewrite {
    /// The values of the exchange that are put in.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        self.to.iter().flatten().filter_map(|part| match part {
            BodyPart::Value(value) => Some(value),
            BodyPart::Literal(_) | BodyPart::Group(_) => None,
        })
    }
}

/// How cookies that servers set are changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CookieRewrite {
    /// The names of the cookies: one, or those that begin so where a `*` stands behind it; `None`: all.
    pub name: Option<Box<str>>,
    /// The domain.
    pub domain: Option<AttributeRewrite>,
    /// The path.
    pub path: Option<AttributeRewrite>,
    /// `Secure`.
    pub secure: Option<Flag>,
    /// `HttpOnly`.
    pub http_only: Option<Flag>,
    /// `Partitioned`.
    pub partitioned: Option<Flag>,
    /// The value of `SameSite`; empty: without.
    pub same_site: Option<&'static str>,
}

/// How an attribute of a cookie is changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttributeRewrite {
    /// What is replaced of it.
    pub from: AttributePattern,
    /// What replaces it; empty: nothing.
    pub to: GroupTemplate,
}

impl CookieRewrite {
    /// Whether it is for cookies of a name.
    pub fn is_for(&self, name: &[u8]) -> bool {
        let Some(own) = &self.name else { return true };
        match own.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning.as_bytes()),
            None => name == own.as_bytes(),
        }
    }

    /// The values of the exchange that are put in.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        let attributes = self.domain.iter().chain(&self.path);
        attributes.flat_map(|attribute| attribute.to.templates()).flat_map(Template::values)
    }
}
