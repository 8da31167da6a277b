//! Who may send requests to a route: what has to be proved, and how.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_access::{Algorithms, KeySet, SignatureAlgorithm, Users};

use crate::config::{ForwardHost, UpstreamIndex};
use crate::key::choice;
use crate::masked_text::MaskedText;
use crate::value::{HeaderName, HeaderTemplate, Size, Template, TemplateValue};

/// What a request has to prove before a route takes it.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Access {
    /// A user and a password.
    pub basic: Option<BasicAuth>,
    /// A signed token.
    pub jwt: Option<JwtAuth>,
    /// External authorization: another server decides.
    pub forward: Option<ForwardAuth>,
    /// Whether all of these are wanted, and that no list refuses.
    pub satisfy: Satisfy,
}

choice! {
    /// What a request has to satisfy that comes under lists and under authentication.
    pub enum Satisfy {
        /// no list refuses it, and each kind of authentication admits it
        #[default]
        All = "all",
        /// a list with `action = "allow"` has it, or one kind of authentication admits it
        Any = "any",
    }
}

/// `forward_auth`: a server of another upstream decides.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ForwardAuth {
    /// The upstream.
    pub upstream: UpstreamIndex,
    /// The target of the question: a path, with or without a query.
    pub path: MaskedText,
    /// The `Host` of the question.
    pub forward_host: ForwardHost,
    /// The headers of the client that it has; `None`: all that are of use.
    pub request_headers: Option<Vec<HeaderName>>,
    /// Further headers of the question, that no client may send.
    pub headers: Vec<(HeaderName, HeaderTemplate)>,
    /// Headers of the answer that the request gets, and that no client may send.
    pub response_headers: Vec<HeaderName>,
    /// The body of an answer at most.
    pub body_size: Size,
    /// How long the answer may take in all; `None`: as long as the upstream lets it.
    pub timeout: Option<Duration>,
    /// How answers are kept; `None`: not at all.
    pub cache: Option<Box<ForwardAuthCache>>,
    /// Whether requests pass without an answer.
    pub fail_open: bool,
}

/// How answers of the server of `forward_auth` are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardAuthCache {
    /// The name of the upstream whose answers these are: its place may be that of another in the next config.
    pub upstream: Box<str>,
    /// What the server decides by, beside what is part of every key.
    pub key: Template,
    /// How long a 2xx is kept.
    pub time: Duration,
    /// How long 401 and 403 are kept.
    pub denied_time: Option<Duration>,
    /// How many answers are kept at most.
    pub entries: usize,
}

/// Fields that prove nothing, beside those that begin with one of [`NO_PROOF_PREFIXES`]: anyone sends them, or they say something of the request.
const NO_PROOF: [&str; 16] = [
    "cache-control",
    "connection",
    "date",
    "dnt",
    "forwarded",
    "from",
    "host",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-real-ip",
];

const NO_PROOF_PREFIXES: [&str; 7] =
    ["accept", "content-", "if-", "sec-", "trace", "x-forwarded-", "x-request"];

impl ForwardAuthCache {
    /// Whether a value is a credential that a client sends: what tells one that may from one that may not.
    pub fn is_credential(value: &TemplateValue) -> bool {
        match value {
            TemplateValue::Header(name) => {
                !NO_PROOF.contains(&&**name)
                    && !NO_PROOF_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            }
            TemplateValue::Cookie(_)
            | TemplateValue::QueryParameter(_)
            | TemplateValue::TlsClientFingerprint => true,
            _ => false,
        }
    }

    /// Whether the key tells clients apart by what they prove to the server, which gets the headers that `is_sent` says.
    pub(crate) fn has_credentials(&self, is_sent: impl Fn(&str) -> bool) -> bool {
        self.key.values().filter(|value| Self::is_credential(value)).any(|value| match value {
            TemplateValue::Header(name) => is_sent(name),
            TemplateValue::Cookie(_) => is_sent("cookie"),
            _ => true,
        })
    }
}

/// `jwt`: signed tokens (RFC 7519).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JwtAuth {
    /// Where its keys are from.
    pub keys: TokenKeys,
    /// The algorithms that count.
    pub algorithms: Algorithms,
    /// One of these has issued it; empty: any.
    pub issuers: Vec<Box<str>>,
    /// It is for one of these; empty: for anything.
    pub audiences: Vec<Box<str>>,
    /// How much clocks may differ.
    pub leeway: Duration,
    /// Whether it must expire.
    pub expiry_required: bool,
    /// Where it is in a request.
    pub source: TokenSource,
    /// Claims that it must have, each with one of these values.
    pub claims: Vec<(Box<str>, Vec<Box<str>>)>,
    /// Scopes that it must have.
    pub scopes: Vec<Box<str>>,
    /// The name of what it is for.
    pub realm: Box<str>,
    /// Whether servers get the credentials.
    pub forward_credentials: bool,
}

/// Where the keys of tokens are from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenKeys {
    /// A file.
    File {
        /// What is in it; no keys when the config was read without its files.
        keys: Arc<KeySet>,
        /// The file.
        file: Arc<Path>,
        /// How often it is checked for changes.
        reload: Option<Duration>,
    },
    /// A server.
    Remote(RemoteKeys),
}

/// `remote_keys`: keys of tokens that are fetched from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteKeys {
    /// The upstream.
    pub upstream: UpstreamIndex,
    /// Its name.
    pub upstream_name: Box<str>,
    /// The target of the request: a path, with or without a query.
    pub path: MaskedText,
    /// The `Host` of the request; never that of a client.
    pub forward_host: ForwardHost,
    /// How often they are fetched.
    pub refresh: Duration,
    /// The least time between a fetch and one for the sake of a token.
    pub cooldown: Duration,
    /// How long a fetch may take.
    pub timeout: Duration,
    /// The longest document.
    pub body_size: Size,
}

impl RemoteKeys {
    /// Whether these are the same keys, fetched in the same way: the place of the upstream in the config aside.
    pub fn is_same(&self, other: &RemoteKeys) -> bool {
        *self == RemoteKeys { upstream: self.upstream, ..other.clone() }
    }
}

/// Where a token is in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// In `Authorization`, with the scheme `Bearer`.
    Authorization,
    /// In the header of this name, in lower case.
    Header(Box<str>),
    /// In this cookie.
    Cookie(Box<str>),
    /// In this parameter of the query.
    QueryParameter(Box<str>),
}

choice! {
    /// An algorithm of a signature (RFC 7518 section 3.1, RFC 8037).
    pub enum TokenAlgorithm {
        /// RSA with PKCS #1 v1.5 and SHA-256
        #[default]
        Rs256 = "RS256",
        /// RSA with PKCS #1 v1.5 and SHA-384
        Rs384 = "RS384",
        /// RSA with PKCS #1 v1.5 and SHA-512
        Rs512 = "RS512",
        /// RSA with PSS and SHA-256
        Ps256 = "PS256",
        /// RSA with PSS and SHA-384
        Ps384 = "PS384",
        /// RSA with PSS and SHA-512
        Ps512 = "PS512",
        /// ECDSA with P-256 and SHA-256
        Es256 = "ES256",
        /// ECDSA with P-384 and SHA-384
        Es384 = "ES384",
        /// Ed25519
        EdDsa = "EdDSA",
        /// HMAC with SHA-256
        Hs256 = "HS256",
        /// HMAC with SHA-384
        Hs384 = "HS384",
        /// HMAC with SHA-512
        Hs512 = "HS512",
    }
}

impl TokenAlgorithm {
    /// As those know it that verify.
    pub(crate) fn to_algorithm(self) -> SignatureAlgorithm {
        SignatureAlgorithm::named(self.name()).expect("both have the names of RFC 7518: a test compares them")
    }
}

/// `basic`: HTTP Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BasicAuth {
    /// What browsers show.
    pub realm: Box<str>,
    /// The users; none when the config was read without its files.
    pub users: Arc<Users>,
    /// The file that they are from.
    pub file: Option<Arc<Path>>,
    /// How often the file is checked for changes.
    pub reload: Option<Duration>,
    /// For how long a right password is remembered.
    pub remember: Duration,
    /// Whether servers get the credentials.
    pub forward_credentials: bool,
}

impl Access {
    /// Whether `basic` or `jwt` look for credentials in the header of this name.
    pub fn reads_credentials_of(&self, name: &[u8]) -> bool {
        let of_token = self.jwt.as_ref().and_then(|jwt| match &jwt.source {
            TokenSource::Authorization => Some("authorization"),
            TokenSource::Header(name) => Some(&**name),
            TokenSource::Cookie(_) => Some("cookie"),
            TokenSource::QueryParameter(_) => None,
        });
        let of_password = self.basic.as_ref().map(|_| "authorization");
        of_password.into_iter().chain(of_token).any(|read| name.eq_ignore_ascii_case(read.as_bytes()))
    }

    /// Whether servers get the `Authorization` of the client.
    pub fn forwards_credentials(&self) -> bool {
        self.basic.as_ref().is_none_or(|basic| basic.forward_credentials)
            && self.jwt.as_ref().is_none_or(|jwt| jwt.forward_credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Bounds, ConfigValue as _, ValueKind};

    #[test]
    fn the_algorithms_are_those_that_can_be_verified() {
        let ValueKind::Choice(words) = TokenAlgorithm::kind(Bounds::NONE) else { panic!("it is a choice") };
        let known: Vec<_> = SignatureAlgorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        assert_eq!(words.iter().map(|word| word.name).collect::<Vec<_>>(), known);
    }
}
