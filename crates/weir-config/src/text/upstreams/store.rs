//! `[store.NAME]` in the text.

use std::time::Duration;

use crate::key::{NonEmpty, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::text::TlsServerName;
use crate::value::ValueError;

section! {
    /// A Redis or Valkey in which several nodes share limits: `shared` of `[limit.NAME]` names it. Requests never wait for it: each node decides by its own
    /// table and exchanges with the store in between; without the store, the limits are those of each node. [limits.md](limits.md#shared-by-several-nodes)
    #[derive(Debug, Clone)]
    pub(crate) struct StoreText at "store.NAME" {
        /// Its address: `redis://host`, `redis://host:port`, `redis://host:port/database`, or `unix:/path`; `rediss://` in place of `redis://` for TLS. The port
        /// is 6379 and the database 0 unless written. With `sentinel`, the name of the master in place of host and port: `rediss://mymaster`.
        address: Spanned<Box<str>> = required, like "Traefik `rateLimit.redis.endpoints`, Envoy `rate_limit_service`, HAProxy `peers`";
        /// The user (ACL). Without it, `default`.
        user: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis.username`";
        /// The password. Keep it out of the file: `"${REDIS_PASSWORD}"`.
        password: StorePasswordText = optional, like "Traefik `rateLimit.redis.password`";
        /// A file with the password on its only line, read at start and on reload.
        password_file: Spanned<Box<str>> = optional;
        /// A PEM file with the authorities for the certificates of the store and of its sentinels. Without it, those of the system. Read at start and on reload, as
        /// are `certificate` and `key`.
        ca: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis.tls.ca`";
        /// A PEM file with the certificate that Weir presents where one is requested, followed by its intermediates.
        certificate: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis.tls.cert`";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis.tls.key`";
        /// The name sent in the handshake (SNI), for which the certificate of the store has to be valid. Without it, the host of its address; with `sentinel`, the
        /// address that the sentinels name, which is an IP address unless they announce names.
        server_name: TlsServerName = optional;
        /// The Sentinels that name the master.
        sentinel: SpannedTable<SentinelText> = optional;
        /// What the names of all keys in the store begin with. Nodes share a limit when they use one store with one prefix, and the limit has the same name, key
        /// and rate.
        prefix: Spanned<Box<str>> = "weir:";
        /// The time between two exchanges: for so long, and the time that the store takes, a node does not know what others have admitted.
        interval: Duration = "100ms", in 10..=10_000;
        /// The time limit of a connection attempt and of an exchange. After it, the limits are those of each node until the store answers again.
        timeout: Duration = "500ms", in 10..=60_000, like "Traefik `rateLimit.redis.readTimeout`";
    }
}

section! {
    /// Redis Sentinel: they are asked in turn which server is the master, and asked again every second and whenever the connection to it is lost. A server that does
    /// not call itself the master is not used. [limits.md](limits.md#redis-sentinel)
    #[derive(Debug, Clone)]
    pub(crate) struct SentinelText at "store.NAME.sentinel" {
        /// Their addresses: `redis://host` or `redis://host:port`, `rediss://` for TLS. The port is 26379 unless written.
        addresses: NonEmpty<Spanned<Box<str>>> = required;
        /// The user (ACL) of the sentinels. Without it, `default`. Nothing is taken over from the store.
        user: Spanned<Box<str>> = optional;
        /// The password of the sentinels, where they want one.
        password: StorePasswordText = optional;
        /// A file with that password on its only line, read at start and on reload.
        password_file: Spanned<Box<str>> = optional;
        /// The name sent in the handshake (SNI), for which the certificates of the sentinels have to be valid. Without it, the host of each address.
        server_name: TlsServerName = optional;
    }
}

/// A password; debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StorePasswordText(pub(crate) Box<str>);

impl std::fmt::Debug for StorePasswordText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StorePasswordText(..)")
    }
}

text_values! {
    StorePasswordText, parse_password, |value: &StorePasswordText| value.0.clone(), TextFormat {
        name: "password",
        article: "a password",
        examples: &["${REDIS_PASSWORD}"],
        pattern: r"^.+$",
        about: "At least one character.",
    };
}

fn parse_password(text: &str) -> Result<StorePasswordText, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("the password is empty")
            .help("leave the key out where the store has no password"));
    }
    Ok(StorePasswordText(text.into()))
}
