//! `[store.NAME]` in the text.

use std::time::Duration;

use crate::key::{Spanned, TextFormat, section, text_values};
use crate::value::ValueError;

section! {
    /// A Redis or Valkey in which several nodes share limits: `shared` of `[limit.NAME]` names it. Requests never wait for it: each node decides by its own
    /// table and exchanges with the store in between; without the store, the limits are those of each node. [limits.md](limits.md#shared-by-several-nodes)
    #[derive(Debug, Clone)]
    pub(crate) struct StoreText at "store.NAME" {
        /// Its address: `redis://host`, `redis://host:port`, `redis://host:port/database`, or `unix:/path`. The port is 6379 and the database 0 unless written.
        address: Spanned<Box<str>> = required, like "Traefik `rateLimit.redis.endpoints`, Envoy `rate_limit_service`, HAProxy `peers`";
        /// The user (ACL). Without it, `default`.
        user: Spanned<Box<str>> = optional, like "Traefik `rateLimit.redis.username`";
        /// The password. Keep it out of the file: `"${REDIS_PASSWORD}"`.
        password: StorePasswordText = optional, like "Traefik `rateLimit.redis.password`";
        /// A file with the password on its only line, read at start and on reload.
        password_file: Spanned<Box<str>> = optional;
        /// What the names of all keys in the store begin with. Nodes share a limit when they use one store with one prefix, and the limit has the same name, key
        /// and rate.
        prefix: Spanned<Box<str>> = "weir:";
        /// The time between two exchanges: for so long, and the time that the store takes, a node does not know what others have admitted.
        interval: Duration = "100ms", in 10..=10_000;
        /// The time limit of a connection attempt and of an exchange. After it, the limits are those of each node until the store answers again.
        timeout: Duration = "500ms", in 10..=60_000, like "Traefik `rateLimit.redis.readTimeout`";
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
