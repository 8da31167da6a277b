//! The directives of a response (RFC 9111 section 5.2.2, RFC 5861).

use super::list::{Directive, DirectiveList};
use super::seconds::parse_seconds;
use super::targeted;
use crate::head::HeadView;

/// What `private` or `no-cache` is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FieldScope {
    /// Nothing: the directive is absent.
    #[default]
    Absent,
    /// These fields, in lower case.
    Named(Vec<Box<[u8]>>),
    /// The whole response.
    Whole,
}

/// What a response says about caching it. Numbers are seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Whether there is any directive.
    pub is_present: bool,
    /// `max-age`; 0 when it is malformed, the smallest when there are several.
    pub max_age: Option<u64>,
    /// `s-maxage`, likewise.
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate`, likewise.
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error`, likewise.
    pub stale_if_error: Option<u64>,
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache`.
    pub no_cache: FieldScope,
    /// `private`.
    pub private: FieldScope,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
}

impl FieldScope {
    /// Whether it is about the whole response.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    /// The same as far as it is about single fields.
    pub(crate) fn of_fields(self) -> Self {
        if self.is_whole() { Self::Absent } else { self }
    }

    /// Whether it is about the field of this name.
    pub fn names(&self, name: &[u8]) -> bool {
        matches!(self, Self::Named(names) if names.iter().any(|named| named.eq_ignore_ascii_case(name)))
    }

    /// Adds one more directive with this argument. One that names no field is about all: it must not mean less than it says.
    fn add(&mut self, directive: &Directive<'_>) {
        let fields = |list: &[u8]| -> Vec<Box<[u8]>> {
            let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.filter(|name| !name.is_empty()).map(|name| name.to_ascii_lowercase().into()).collect()
        };
        let named = match &directive.argument {
            Some(list) if !directive.is_malformed => fields(list),
            _ => Vec::new(),
        };
        match self {
            Self::Whole => {}
            _ if named.is_empty() => *self = Self::Whole,
            Self::Absent => *self = Self::Named(named),
            Self::Named(names) => names.extend(named),
        }
    }
}

impl ResponseDirectives {
    /// Those of `Cache-Control`.
    pub fn new(head: HeadView<'_>) -> Self {
        let mut directives = Self::default();
        for directive in head.all("cache-control").flat_map(DirectiveList::new) {
            directives.add(&directive);
        }
        directives
    }

    /// Those of `CDN-Cache-Control`, which hold in place of `Cache-Control` and `Expires` (RFC 9213 section 2.1); `None` when there are none,
    /// or they are malformed.
    pub fn targeted(head: HeadView<'_>) -> Option<Self> {
        let members = targeted::parse_dictionary(head.all("cdn-cache-control"))?;
        let mut directives = Self::default();
        for member in &members {
            directives.add(&member.as_directive());
        }
        (!members.is_empty()).then_some(directives)
    }

    fn add(&mut self, directive: &Directive<'_>) {
        self.is_present = true;
        let seconds = || {
            let argument = directive.argument.as_deref().filter(|_| !directive.is_malformed);
            argument.and_then(parse_seconds).unwrap_or(0)
        };
        let least = |present: &mut Option<u64>| {
            let seconds = seconds();
            *present = Some(present.map_or(seconds, |other| other.min(seconds)));
        };
        match () {
            () if directive.is("max-age") => least(&mut self.max_age),
            () if directive.is("s-maxage") => least(&mut self.s_maxage),
            () if directive.is("stale-while-revalidate") => least(&mut self.stale_while_revalidate),
            () if directive.is("stale-if-error") => least(&mut self.stale_if_error),
            () if directive.is("no-store") => self.no_store = true,
            () if directive.is("no-cache") => self.no_cache.add(directive),
            () if directive.is("private") => self.private.add(directive),
            () if directive.is("public") => self.public = true,
            () if directive.is("must-revalidate") => self.must_revalidate = true,
            () if directive.is("proxy-revalidate") => self.proxy_revalidate = true,
            () if directive.is("must-understand") => self.must_understand = true,
            () if directive.is("no-transform") => self.no_transform = true,
            () if directive.is("immutable") => self.immutable = true,
            () => {}
        }
    }
}
