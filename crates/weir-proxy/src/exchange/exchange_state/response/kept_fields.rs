//! What stays of the response of a server that has sent the request on to another route (`X-Accel-Redirect`), or in place of which an error page is sent:
//! fields that go with the response of that route, and the rate at which it is sent.

use std::rc::Rc;

use weir_config::{Feature, Stage};
use weir_http::{FieldRun, FieldWriter};

use crate::exchange::acting;
use crate::exchange::exchange_state::header_changes::HeadChanges;

/// Fields that stay, as nginx has it; each server adds its cookies, and all else replaces what the other route has.
const NAMES: [&[u8]; 6] =
    [b"Content-Type", b"Content-Disposition", b"Accept-Ranges", SET_COOKIE, b"Cache-Control", b"Expires"];

const SET_COOKIE: &[u8] = b"Set-Cookie";

/// Those of them that a response without a body has, too (RFC 9110 section 15.4.5).
const OF_FRESHNESS: [&[u8]; 2] = [b"Cache-Control", b"Expires"];

/// Fields that a client needs to understand a status (RFC 9110 sections 11.6.1, 10.2.3 and 10.2.1): they stay where the client gets that status with a page.
pub(in crate::exchange) const EXPLAINING: [&[u8]; 3] = [b"WWW-Authenticate", b"Retry-After", b"Allow"];

/// What stays of a response.
#[derive(Debug, Default)]
pub(in crate::exchange) struct KeptResponse {
    fields: Vec<(&'static [u8], Vec<u8>)>,
    /// Bytes per second.
    pub(in crate::exchange) rate: Option<u64>,
}

impl KeptResponse {
    /// What stays when another server sends the request on again.
    pub(in crate::exchange) fn of_earlier(earlier: &Self) -> Self {
        let stay = |(name, _): &&(&'static [u8], Vec<u8>)| *name == SET_COOKIE || EXPLAINING.contains(name);
        Self { fields: earlier.fields.iter().filter(stay).cloned().collect(), rate: earlier.rate }
    }

    /// Keeps a field, if it explains the status that the client gets.
    pub(in crate::exchange) fn keep_explaining(&mut self, name: &[u8], value: &[u8]) {
        if let Some(name) = EXPLAINING.iter().find(|known| name.eq_ignore_ascii_case(known)) {
            self.fields.push((name, value.to_vec()));
        }
    }

    /// Keeps a field, if it is one that stays.
    pub(in crate::exchange) fn keep(&mut self, name: &[u8], value: &[u8]) {
        if let Some(name) = NAMES.iter().find(|known| name.eq_ignore_ascii_case(known)) {
            self.fields.push((name, value.to_vec()));
        }
    }
}

impl FieldWriter for KeptResponse {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.keep(name, value);
    }

    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.keep(name, &value);
    }

    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        if !value.is_empty() {
            self.keep(name, &value);
        }
    }

    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.keep(name, value.to_string().as_bytes());
    }

    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.keep(field.name.of(run.text), field.value.of(run.text));
        }
    }
}

/// The fields that go with the response at hand.
#[derive(Debug, Clone, Default)]
pub(in crate::exchange) struct KeptFields {
    kept: Option<Rc<KeptResponse>>,
    scope: KeptScope,
}

/// Which of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum KeptScope {
    All,
    /// All but the type: the response is of several parts, each with its own.
    Parts,
    /// Those of a response that the client has already.
    Freshness,
    /// Cookies alone: it is another response than the server has spoken of.
    #[default]
    Cookies,
    /// Cookies, and what explains the status: it is the page in place of a response of the server.
    Page,
}

/// What the response at hand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum KeptWith {
    /// That of the route that the server has sent the request to.
    Response,
    /// A page in place of a failure.
    Failure,
    /// A page with the status of the response that it is in place of.
    Page,
}

impl KeptFields {
    /// Those of them that go with a response with this status and `Content-Type`.
    pub(in crate::exchange) fn new(
        kept: &Rc<KeptResponse>,
        response: KeptWith,
        (status, content_type): (u16, Option<&[u8]>),
    ) -> Self {
        let is_of_parts = content_type.is_some_and(|value| {
            value.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
        });
        let scope = match status {
            _ if response == KeptWith::Failure => KeptScope::Cookies,
            _ if response == KeptWith::Page => KeptScope::Page,
            206 if is_of_parts => KeptScope::Parts,
            200..=299 => KeptScope::All,
            304 => KeptScope::Freshness,
            _ => KeptScope::Cookies,
        };
        Self { kept: Some(Rc::clone(kept)), scope }
    }

    fn goes(&self, name: &[u8]) -> bool {
        match self.scope {
            _ if name == SET_COOKIE => true,
            KeptScope::Page => EXPLAINING.contains(&name),
            _ if EXPLAINING.contains(&name) => false,
            KeptScope::All => true,
            KeptScope::Parts => name != NAMES[0],
            KeptScope::Freshness => OF_FRESHNESS.contains(&name),
            KeptScope::Cookies => false,
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&'static [u8], &[u8])> {
        let fields = self.kept.iter().flat_map(|kept| &kept.fields);
        fields.filter(|(name, _)| self.goes(name)).map(|(name, value)| (*name, &value[..]))
    }

    /// Whether one of them replaces this field of the response.
    pub(in crate::exchange) fn replaces(&self, name: &[u8]) -> bool {
        self.kept.is_some()
            && self.fields().any(|(own, _)| own != SET_COOKIE && own.eq_ignore_ascii_case(name))
    }

    /// The values of those of this name.
    pub(in crate::exchange) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields()
            .filter(move |(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Adds them.
    pub(in crate::exchange) fn write(&self, out: &mut impl FieldWriter, changes: HeadChanges<'_>) {
        if self.kept.is_none() {
            return;
        }
        acting::note(Stage::ResponseFields, Feature::Accel);
        for (name, value) in self.fields().filter(|(name, _)| !changes.is_changed_away(name)) {
            out.field(name, value);
        }
    }
}
