//! Signed tokens: the signature is verified once, what the token says with every request.
//!
//! A signature takes some ten microseconds, which a worker can spare. Must not believe a token about how it is to be verified.

use std::future::Future as _;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_access::{KeySet, SignedToken, TimeProblem, TokenError};
use weir_config::{JwtAuth, TokenSource};
use weir_http::{Field, FieldName};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::route::query_values;

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::placeholders::cookies;
use crate::net::clock;
use crate::state::connections::activity::Activity;
use crate::state::routes::access::LiveKeys;

/// For how long a signature is remembered at most.
const REMEMBERED_MAX: Duration = Duration::from_secs(3600);

/// The scheme of tokens (RFC 6750 section 2.1), with the space behind it.
const SCHEME: &[u8] = b"bearer ";

/// When a client may try again as long as there are no keys.
const RETRY_SECONDS: u32 = 2;

const fn refused(cause: Cause) -> Failure {
    Failure::client(Phase::Route, cause)
}

/// Admits a request with a token that is valid for the route.
pub(in crate::exchange) async fn admit<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    config: &JwtAuth,
    live: &LiveKeys,
) -> Result<(), Ended> {
    let text = find(context.exchange, &config.source).map_err(refused)?;
    let now = clock::unix_now().as_secs_f64();
    let Some(keys) = live.now() else {
        context.exchange.retry_after = Some(RETRY_SECONDS);
        return Err(Failure::server(Phase::Route, Cause::KeysUnavailable).into());
    };
    let token = match verify(context.client, text, config, &keys, now) {
        Ok(token) => token,
        Err(TokenError::Malformed) => return Err(refused(Cause::TokenMalformed).into()),
        Err(TokenError::Key) => {
            let text = text.to_vec();
            let Some(keys) = newer(context, live, &keys).await? else {
                return Err(refused(Cause::TokenUntrusted).into());
            };
            verify(context.client, &text, config, &keys, now).map_err(|_| refused(Cause::TokenUntrusted))?
        }
        Err(TokenError::Algorithm | TokenError::Signature) => {
            return Err(refused(Cause::TokenUntrusted).into());
        }
    };
    let outcome = check(&token, config, now);
    let granted = context.exchange.authorization.get_or_insert_default();
    if outcome.is_ok() && granted.user.is_empty() {
        granted.user.extend_from_slice(token.claims.text("sub").unwrap_or_default().as_bytes());
    }
    granted.token = Some(token);
    Ok(outcome.map_err(refused)?)
}

/// Other keys than these, for a token whose key is not among them: fetched for its sake, unless that was done lately. The issuer may use a new one.
async fn newer<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    live: &LiveKeys,
    known: &KeySet,
) -> Result<Option<Arc<KeySet>>, Failure> {
    let Some(fetched) = live.fetched() else { return Ok(None) };
    if let Some(mut ended) = fetched.ask(clock::now()) {
        context.client.deadline.set(clock::now(), Some(fetched.settings.timeout));
        let mut changed = pin!(ended.changed());
        let outcome = std::future::poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if let Some(cause) = context.stream.poll_gone(cx, context.client) {
                return Poll::Ready(Err(refused(cause)));
            }
            context.report(Activity::Credentials);
            context.client.deadline.poll_passed().map(|()| over(context.client))
        })
        .await;
        let now = clock::now();
        context.client.now = now;
        context.exchange.record.spend(Phase::Route, now);
        outcome?;
    }
    Ok(fetched.now().filter(|keys| **keys != *known))
}

/// The wait is over before the fetch: with the exchange, or without new keys.
fn over(client: &mut Client) -> Result<(), Failure> {
    if client.deadline.ends_with_ceiling() {
        return Err(Failure::weir(Phase::Route, Cause::ExchangeTimedOut));
    }
    client.deadline.cut_failure(Phase::Route).map_or(Ok(()), Err)
}

/// The text of the token.
fn find<'a>(exchange: &'a Exchange, source: &TokenSource) -> Result<&'a [u8], Cause> {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let fields = request.fields();
    let value_of = |field: &Field| field.value.of(text);
    let value = match source {
        TokenSource::Authorization => {
            let value = only(fields.all(FieldName::Authorization).map(value_of))?;
            let scheme = value.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
            scheme.map(|scheme| value[scheme.len()..].trim_ascii())
        }
        TokenSource::Header(name) => Some(only(fields.all_by_name(text, name).map(value_of))?),
        TokenSource::Cookie(name) => Some(only(cookies(exchange, name))?),
        TokenSource::QueryParameter(name) => {
            let query = request.query().map_or(&b""[..], |query| query.of(text));
            Some(only(query_values(query, name.as_bytes()))?)
        }
    };
    value.filter(|value| !value.is_empty()).ok_or(Cause::TokenMissing)
}

/// The only one of these values, be they of fields, cookies or parameters: of several, Weir and the server might not believe the same one.
fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Result<&'a [u8], Cause> {
    match (values.next(), values.next()) {
        (None, _) => Err(Cause::TokenMissing),
        (Some(value), None) => Ok(value),
        (Some(_), Some(_)) => Err(Cause::CredentialsMalformed),
    }
}

/// The token, if one of the keys has signed it.
fn verify(
    client: &Client,
    text: &[u8],
    config: &JwtAuth,
    keys: &KeySet,
    now: f64,
) -> Result<Rc<SignedToken>, TokenError> {
    let worker = &client.worker;
    // All that the verdict hangs on: it ends with the keys that it was found with.
    let algorithms = config.algorithms.bits().to_be_bytes();
    let digest = worker.shared.passwords.key.digest(&[b"jwt", keys.id(), &algorithms, text]);
    if let Some(token) = worker.tokens.borrow().get(digest, client.now) {
        return Ok(Rc::clone(token));
    }
    let token = Rc::new(SignedToken::verify(text, keys, config.algorithms)?);
    let left = token.claims.expires().map_or(f64::MAX, |expires| expires + config.leeway.as_secs_f64() - now);
    let kept =
        Duration::try_from_secs_f64(left.max(0.0)).map_or(REMEMBERED_MAX, |left| left.min(REMEMBERED_MAX));
    let weight = token.claims.bytes() + size_of::<SignedToken>();
    worker.tokens.borrow_mut().insert(digest, Rc::clone(&token), clock::now() + kept, weight);
    Ok(token)
}

/// What the route wants to read in a token.
fn check(token: &SignedToken, config: &JwtAuth, now: f64) -> Result<(), Cause> {
    let claims = &token.claims;
    claims.check_time(now, config.leeway.as_secs_f64(), config.expiry_required).map_err(|problem| {
        match problem {
            TimeProblem::Expired => Cause::TokenExpired,
            TimeProblem::NotYet => Cause::TokenEarly,
        }
    })?;
    // One party has issued it (RFC 7519 section 4.1.1): of a list, others might believe another.
    let is_issuer = |issuer: &str| config.issuers.iter().any(|one| **one == *issuer);
    let is_issued = config.issuers.is_empty() || claims.string("iss").is_some_and(is_issuer);
    let is_for_us = config.audiences.is_empty() || claims.has_one_of("aud", &config.audiences);
    if !is_issued || !is_for_us {
        return Err(Cause::TokenForOthers);
    }
    let has_claims = config.claims.iter().all(|(name, wanted)| claims.has_one_of(name, wanted));
    let has_scopes = config.scopes.iter().all(|scope| claims.has_scope(scope));
    if has_claims && has_scopes { Ok(()) } else { Err(Cause::TokenInsufficient) }
}
