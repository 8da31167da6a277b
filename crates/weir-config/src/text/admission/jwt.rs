//! `jwt` of a route in the text.

use std::time::Duration;

use super::basic::Realm;
use super::forward_auth::AuthPath;
use crate::config::{ForwardHost, RemoteKeys, TokenAlgorithm, TokenSource, UpstreamIndex};
use crate::key::{Map, NonEmpty, OneOrMany, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::value::{HeaderName, Size, ValueError};

section! {
    /// Signed tokens (JWT, RFC 7519), verified with the keys of a file or of a server. Claims are the placeholders `{jwt.NAME}`, `sub` also `{user}`. Preflights
    /// of CORS pass without.
    #[derive(Debug, Clone)]
    pub(crate) struct JwtText at "listener.NAME.route.jwt" {
        /// A file of keys (JWK Set, RFC 7517): RSA of 2048 to 4096 bits, P-256, P-384, Ed25519, or secrets for HMAC.
        /// One of `keys_file` and `remote_keys` has to be there.
        keys_file: Spanned<Box<str>> = optional, like "nginx `auth_jwt_key_file`, Envoy `local_jwks`";
        /// The keys are fetched from a server instead.
        remote_keys: SpannedTable<RemoteKeysText> = optional, like "nginx `auth_jwt_key_request`, Envoy `remote_jwks`";
        /// The algorithms that count. Those of HMAC (`HS256` and so on) have to be named: who can verify their tokens can make some.
        algorithms: NonEmpty<Spanned<TokenAlgorithm>> = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
        /// The issuer (`iss`) is one of these. Without it, any.
        issuer: OneOrMany<Box<str>> = optional, like "Envoy `issuer`";
        /// The token is for one of these (`aud`). Without it, for anything: also tokens that the issuer has made for other services.
        audience: OneOrMany<Box<str>> = optional, like "Envoy `audiences`";
        /// How much the clocks of issuer and Weir may differ, for `exp` and `nbf`.
        leeway: Duration = "30s", in 0..=3_600_000, like "nginx `auth_jwt_leeway`, Envoy `clock_skew_seconds`";
        /// Whether a token has to say when it expires (`exp`).
        expiry_required: bool = true, like "Envoy `require_expiration`";
        /// Where the token is: in `Authorization: Bearer`, another header, a cookie, or a parameter of the query. Addresses with tokens in them end
        /// up in logs and histories.
        from: TokenSource = "authorization", like "nginx `auth_jwt token=`, Envoy `from_headers`, `from_params`, `from_cookies`";
        /// Claims that the token must have, each with one of these values, or as a member of its list; otherwise 403. `realm_access.roles` is in
        /// an object.
        claims: Map<OneOrMany<Box<str>>> = {}, like "nginx `auth_jwt_require`, Envoy RBAC on metadata";
        /// Scopes that the token must have (`scope` or `scp`), all of them; otherwise 403.
        scopes: Vec<Spanned<Box<str>>> = [];
        /// The name of what a token is for, in `WWW-Authenticate`.
        realm: Realm = "Restricted", like "nginx `auth_jwt`";
        /// How often the file is checked for changes. New keys count for the requests that follow; if they cannot be used, the old ones stay in use
        /// and the log reports it.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
        /// Whether servers get the `Authorization` of the client.
        forward_credentials: bool = true, like "Envoy `forward`";
    }
}

section! {
    /// Keys of tokens that are fetched from a path of an upstream, as issuers publish them below the `jwks_uri` of their metadata: when Weir
    /// starts, then again and again. One fetch serves all workers and all routes with the same settings. As long as there are no keys,
    /// requests are answered 503; when a fetch fails later, the keys of before stay in use.
    #[derive(Debug, Clone)]
    pub(crate) struct RemoteKeysText at "listener.NAME.route.jwt.remote_keys" {
        /// The upstream of the issuer, with its TLS, balancing, time limits and retries.
        upstream: Spanned<Box<str>> = required, like "nginx `auth_jwt_key_request`, Envoy `remote_jwks.http_uri.cluster`";
        /// The path of the keys (JWK Set, RFC 7517), with a query or without.
        path: AuthPath = "/.well-known/jwks.json", like "nginx `auth_jwt_key_request`, Envoy `remote_jwks.http_uri.uri`";
        /// The `Host` of the request: that of the server, or a name.
        forward_host: ForwardHost = "server";
        /// How often the keys are fetched. A shorter `max-age` of the response counts, from 10 s on; a longer one does not, since a key that the
        /// issuer has withdrawn must not be used for longer than this.
        refresh: Duration = "10m", in 100..=86_400_000, like "nginx `auth_jwt_key_cache`, Envoy `remote_jwks.cache_duration`";
        /// The least time between a fetch and one that a token gives rise to whose key is not among those here. Such a request waits for it.
        cooldown: Duration = "30s", in 100..=86_400_000;
        /// How long a fetch may take in all.
        timeout: Duration = "5s", in 1..=3_600_000, like "Envoy `remote_jwks.http_uri.timeout`";
        /// The longest document that is taken.
        body_size: Size = "256KiB", in 1..=16_777_216;
    }
}

impl RemoteKeys {
    /// Keys that this upstream has, with the defaults of the product.
    pub fn new(upstream: UpstreamIndex, upstream_name: &str) -> Self {
        let text = RemoteKeysText::default();
        Self {
            upstream,
            upstream_name: upstream_name.into(),
            path: text.path.0.into(),
            forward_host: text.forward_host,
            refresh: text.refresh,
            cooldown: text.cooldown,
            timeout: text.timeout,
            body_size: text.body_size,
        }
    }
}

text_values! {
    TokenSource, parse_source, print_source, TextFormat {
        name: "source of a token",
        article: "`\"authorization\"`, or a header, cookie or parameter",
        examples: &["authorization", "cookie.session", "query.access_token", "header.x-token"],
        pattern: r"^(authorization|(cookie|query|header)\..+)$",
        about: "`authorization` is `Authorization: Bearer TOKEN` (RFC 6750), `header.NAME` another header with nothing but the token.",
    };
}

fn parse_source(text: &str) -> Result<TokenSource, ValueError> {
    let help = "write `authorization`, `cookie.NAME`, `query.NAME` or `header.NAME`";
    match text.split_once('.') {
        Some(("cookie", name)) if !name.is_empty() => Ok(TokenSource::Cookie(name.into())),
        Some(("query", name)) if !name.is_empty() => Ok(TokenSource::QueryParameter(name.into())),
        Some(("header", name)) if !name.is_empty() => {
            let name: HeaderName = name.parse()?;
            match &*name {
                "authorization" => Ok(TokenSource::Authorization),
                name => Ok(TokenSource::Header(name.into())),
            }
        }
        _ if text == "authorization" => Ok(TokenSource::Authorization),
        _ => Err(ValueError::new(format!("`{text}` is no place for a token")).help(help)),
    }
}

fn print_source(source: &TokenSource) -> String {
    match source {
        TokenSource::Authorization => "authorization".to_owned(),
        TokenSource::Header(name) => format!("header.{name}"),
        TokenSource::Cookie(name) => format!("cookie.{name}"),
        TokenSource::QueryParameter(name) => format!("query.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_printed() {
        for text in ["authorization", "cookie.session", "query.access_token", "header.x-token"] {
            assert_eq!(print_source(&parse_source(text).unwrap()), text);
        }
        assert_eq!(parse_source("header.Authorization"), Ok(TokenSource::Authorization));
        for text in ["", "bearer", "cookie.", "cookie", "header.a b", "body.token"] {
            assert!(parse_source(text).is_err(), "{text}");
        }
    }
}
