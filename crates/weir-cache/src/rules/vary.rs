//! `Vary`: which fields of a request select a stored response (RFC 9111 section 4.1), and their normal form.

use std::hash::Hasher;

use weir_http::{AcceptedCodings, ContentCoding};

use crate::head::HeadView;

/// The fields that `Vary` may name for a response to be stored.
pub const SELECTING_FIELDS_MAX: usize = 16;

/// The names of `Vary`: in lower case, each once, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VaryRule {
    names: Vec<Box<str>>,
}

/// Fields that `Vary` may name without making variants: the operator has said so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredVary {
    /// Names in lower case.
    pub names: Vec<Box<str>>,
    /// All others, too, and `Vary: *`: except `Authorization` and `Cookie`, which are ignored only by their names, and those that the server gets with a value
    /// of the exchange.
    pub others: bool,
}

/// Fields of credentials: a response that depends on one of them is for one client.
const NEVER_BY_DEFAULT: [&str; 2] = ["authorization", "cookie"];

/// The field that says what a client can decode: it is never ignored.
const CODINGS: &str = "accept-encoding";

impl IgnoredVary {
    /// Whether a field makes no variants. `name` is in lower case, `written` are the fields that servers get with a value of the exchange.
    fn ignores(&self, name: &str, written: &[Box<str>]) -> bool {
        let is_named = |names: &[Box<str>]| names.iter().any(|other| **other == *name);
        let is_other = || self.others && !NEVER_BY_DEFAULT.contains(&name) && !is_named(written);
        name != CODINGS && (is_named(&self.names) || is_other())
    }
}

/// How the values of a field are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Only the codings that the client prefers among those that Weir knows.
    Codings,
    /// A list of tokens without regard to case.
    Tokens,
    /// A list.
    List,
    /// One value that may contain commas.
    Text,
}

impl Comparison {
    fn new(name: &str) -> Self {
        match name {
            "accept-encoding" => Self::Codings,
            "accept" | "accept-language" | "accept-charset" => Self::Tokens,
            "cookie" | "user-agent" | "authorization" | "referer" => Self::Text,
            _ => Self::List,
        }
    }
}

impl VaryRule {
    /// What the fields of a response say: `None` for `*`, a name that is none, or more than [`SELECTING_FIELDS_MAX`].
    pub fn new(response: HeadView<'_>) -> Option<Self> {
        Self::without(response, &IgnoredVary::default(), &[])
    }

    /// The same without what the operator ignores. `written` are the fields that servers get with a value of the exchange.
    pub(super) fn without(
        response: HeadView<'_>,
        ignored: &IgnoredVary,
        written: &[Box<str>],
    ) -> Option<Self> {
        let mut names: Vec<Box<str>> = Vec::new();
        for value in response.all("vary") {
            for name in
                value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
            {
                if name == b"*" && ignored.others {
                    continue;
                }
                let is_token = name.iter().copied().all(is_token_byte);
                if name == b"*" || !is_token {
                    return None;
                }
                let name = str::from_utf8(name).ok()?.to_ascii_lowercase().into_boxed_str();
                if let Err(at) = names.binary_search(&name)
                    && !ignored.ignores(&name, written)
                {
                    names.insert(at, name);
                }
            }
        }
        (names.len() <= SELECTING_FIELDS_MAX).then_some(Self { names })
    }

    /// Adds a field that selects as if `Vary` named it.
    pub fn add(&mut self, name: &str) {
        let name = name.to_ascii_lowercase().into_boxed_str();
        if let Err(at) = self.names.binary_search(&name) {
            self.names.insert(at, name);
        }
    }

    /// The rule of these names, which are those of a rule; `None` when they are none.
    pub(crate) fn from_names<'n>(names: impl Iterator<Item = &'n [u8]>) -> Option<Self> {
        let mut rule = Self::default();
        for name in names {
            rule.add(
                str::from_utf8(name).ok().filter(|name| name.bytes().all(is_token_byte) && *name != "*")?,
            );
        }
        (rule.names.len() <= SELECTING_FIELDS_MAX).then_some(rule)
    }

    /// Whether any request may be answered.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.names.iter().map(|name| name.len() + size_of::<Box<str>>()).sum()
    }

    /// Feeds the selecting fields of a request to `hasher`, in normal form. Allocates nothing.
    pub(crate) fn hash_request(&self, request: HeadView<'_>, hasher: &mut impl Hasher) {
        for name in &self.names {
            hasher.write(name.as_bytes());
            hasher.write_u8(0);
            let is_present = request.contains(name);
            hasher.write_u8(u8::from(is_present));
            match Comparison::new(name) {
                Comparison::Codings => hash_codings(request, hasher),
                Comparison::Text => request.all(name).for_each(|value| {
                    hasher.write(value);
                    hasher.write_u8(0);
                }),
                list => {
                    let is_tokens = list == Comparison::Tokens;
                    request.all(name).for_each(|value| hash_list(value, is_tokens, hasher));
                }
            }
            hasher.write_u8(1);
        }
    }
}

/// Whether a field name may contain it (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The codings that a client accepts, and which of them it wants most: what a response may depend on.
fn hash_codings(request: HeadView<'_>, hasher: &mut impl Hasher) {
    let accepted = AcceptedCodings::parse(request.all("accept-encoding"));
    for coding in ContentCoding::ALL {
        hasher.write_u8(u8::from(accepted.accepts(coding)));
    }
    hasher.write_u8(accepted.preferred(ContentCoding::ALL).map_or(0, |coding| coding as u8 + 1));
}

/// Members of a list, without white space about them. Several lines are one list.
fn hash_list(value: &[u8], is_tokens: bool, hasher: &mut impl Hasher) {
    // A comma in quotes separates nothing.
    if value.contains(&b'"') {
        hasher.write(value);
        return hasher.write_u8(0);
    }
    for member in
        value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
    {
        if is_tokens {
            let bytes = member.iter().filter(|byte| !matches!(byte, b' ' | b'\t'));
            bytes.for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
        } else {
            hasher.write(member);
        }
        hasher.write_u8(b',');
    }
}
