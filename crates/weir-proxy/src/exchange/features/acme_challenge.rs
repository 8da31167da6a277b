//! Challenges of authorities over HTTP (RFC 8555 section 8.3), for hosts whose certificates Weir obtains by itself.
//!
//! Answered by every listener before its routes: a redirect to HTTPS must not be in the way of the certificate that HTTPS needs. A
//! token that is not known here takes its route, as the server behind it may have an ACME client of its own.

use std::time::Duration;
use weir_config::{Feature, Stage};

use tokio::sync::oneshot;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::phases::end::End;
use crate::exchange::phases::pause;
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
pub(in crate::exchange) fn is_one(exchange: &Exchange) -> bool {
    exchange.request.normal_path(&exchange.request_text).starts_with(PATH)
}

/// Answers the challenge, if it is one of this node or of another one that shares the folder of its certificates.
///
/// # Errors
/// When the client does not take the answer.
pub(in crate::exchange) async fn pass<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    issuers: &Issuers,
) -> Result<Option<End>, Ended> {
    acting::note(Stage::RequestHead, Feature::AcmeChallenge);
    let token = &context.exchange.request.normal_path(&context.exchange.request_text)[PATH.len()..];
    let Some(token) = checked(token).map(str::to_owned) else { return Ok(None) };
    let known = issuers.token(&token);
    let found = match known {
        Some(answer) => Some(answer),
        None => look_up(context, issuers.look_up(&token)).await?,
    };
    let Some(found) = found else { return Ok(None) };
    let host = context.exchange.request.host().of(&context.exchange.request_text);
    if !host.eq_ignore_ascii_case(found.host.as_bytes()) {
        return Ok(None);
    }
    let answer = Answer::new(200).with(b"Content-Type", &b"application/octet-stream"[..]);
    let answer = Answer { body: found.text.as_bytes().into(), ..answer };
    answer::pass_on(context, &answer).await.map(Some)
}

/// Waits for the thread that looks for tokens of other nodes.
///
/// # Errors
/// When the client leaves meanwhile, or the time of the exchange is over.
async fn look_up<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    asked: Option<oneshot::Receiver<Option<TokenAnswer>>>,
) -> Result<Option<TokenAnswer>, Ended> {
    let Some(asked) = asked else { return Ok(None) };
    pause::for_answer(context, asked, LOOKUP_TIME).await
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
