//! Challenges of authorities over HTTP (RFC 8555 section 8.3), for hosts whose certificates Weir obtains by itself.
//!
//! Answered by every listener before its routes: a redirect to HTTPS must not be in the way of the certificate that HTTPS needs. A
//! token that is nobody's here takes its route, as the server behind it may have an ACME client of its own.

use std::time::Duration;

use super::client::Client;
use super::stream::ClientStream;
use super::{End, Ended, Exchange, answer};
use crate::net::tls::issued::{Issuers, TokenAnswer};
use crate::responder::Answer;

/// Where authorities ask.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The longest token; they have 43 characters at Let's Encrypt.
const TOKEN_LEN_MAX: usize = 128;

/// How long the thread may take that looks for tokens of other nodes.
const LOOKUP_TIME: Duration = Duration::from_secs(2);

/// Whether the request may be a challenge.
#[inline]
pub(super) fn is_one(exchange: &Exchange) -> bool {
    exchange.request.normal_path(&exchange.request_text).starts_with(PATH)
}

/// Answers the challenge, if it is one of this node or of another one that shares the folder of its certificates.
///
/// # Errors
/// When the client does not take the answer.
pub(super) async fn pass(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    issuers: &Issuers,
) -> Result<Option<End>, Ended> {
    let token = &exchange.request.normal_path(&exchange.request_text)[PATH.len()..];
    let Some(token) = checked(token).map(str::to_owned) else { return Ok(None) };
    let Some(found) = find(issuers, &token).await else { return Ok(None) };
    let host = exchange.request.host().of(&exchange.request_text);
    if !host.eq_ignore_ascii_case(found.host.as_bytes()) {
        return Ok(None);
    }
    let answer = Answer::of(200).with(b"Content-Type", &b"application/octet-stream"[..]);
    let answer = Answer { body: found.text.as_bytes().into(), ..answer };
    answer::of_other(client, stream, exchange, &answer).await.map(Some)
}

async fn find(issuers: &Issuers, token: &str) -> Option<TokenAnswer> {
    if let Some(answer) = issuers.token(token) {
        return Some(answer);
    }
    let asked = issuers.look_up(token)?;
    tokio::time::timeout(LOOKUP_TIME, asked).await.ok()?.ok()?
}

/// The token, if it can be one: characters of base64url and no others (RFC 8555 section 8.3).
fn checked(token: &[u8]) -> Option<&str> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let fits = !token.is_empty() && token.len() <= TOKEN_LEN_MAX && token.iter().all(is_token);
    std::str::from_utf8(token).ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_are_looked_for() {
        let long = [b'a'; TOKEN_LEN_MAX + 1];
        for (token, expected) in [
            (&b"DGyRejmCefe7v4NfDGDKfA"[..], true),
            (b"a-b_c", true),
            (b"", false),
            (b"../lock", false),
            (b"a.b", false),
            (b"a/b", false),
            (&long, false),
            (&long[1..], true),
        ] {
            assert_eq!(checked(token).is_some(), expected, "{}", String::from_utf8_lossy(token));
        }
    }
}
