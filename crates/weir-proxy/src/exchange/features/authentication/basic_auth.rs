//! HTTP Basic: a user and a password, verified by another thread unless that was done lately.

use std::future::Future as _;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_access::{BasicCredentials, Users};
use weir_config::BasicAuth;
use weir_http::FieldName;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::stream::ClientStream;
use crate::net::clock;
use crate::state::connections::activity::Activity;
use crate::state::routes::access::CredentialDigest;
use crate::state::routes::access::password_checks::{CheckRefused, PasswordAnswer, PasswordCheck};

/// How long an exchange waits for the verdict about its password.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// When a client may try again that was turned away for too many passwords.
const RETRY_SECONDS: u32 = 2;

const fn refused(cause: Cause) -> Failure {
    Failure::client(Phase::Route, cause)
}

/// Admits a request with the password of one of the users.
pub(in crate::exchange) async fn admit<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    config: &BasicAuth,
    users: &Users,
) -> Result<(), Ended> {
    let credentials = credentials_of(context.exchange)?;
    if let Some(granted) = &mut context.exchange.authorization {
        granted.user.extend_from_slice(credentials.user());
    }
    let address = context.client_address();
    let (digest, answer) =
        ask(context.client, address, &credentials, config, users).inspect_err(|failure| {
            if matches!(failure.cause, Cause::CredentialChecksPending | Cause::CredentialChecksFull) {
                context.exchange.retry_after = Some(RETRY_SECONDS);
            }
        })?;
    let is_right = match answer {
        PasswordAnswer::Known(is_right) => is_right,
        PasswordAnswer::Coming(verdict) => {
            let outcome = wait(context, verdict).await;
            let now = clock::now();
            context.client.now = now;
            context.exchange.record.spend(Phase::Route, now);
            outcome?
        }
    };
    context.client.worker.passwords.borrow_mut().insert(digest, is_right, config.remember);
    if is_right { Ok(()) } else { Err(refused(Cause::CredentialsWrong).into()) }
}

/// The credentials of the request: one field, of this scheme and well-formed.
fn credentials_of(exchange: &Exchange) -> Result<BasicCredentials, Failure> {
    let mut fields = exchange.request.fields().all(FieldName::Authorization);
    let Some(field) = fields.next() else { return Err(refused(Cause::CredentialsMissing)) };
    if fields.next().is_some() {
        // Weir and the server might not believe the same one.
        return Err(refused(Cause::CredentialsMalformed));
    }
    match BasicCredentials::parse(field.value.of(&exchange.request_text)) {
        Some(credentials) => credentials.map_err(|_| refused(Cause::CredentialsMalformed)),
        None => Err(refused(Cause::CredentialsMissing)),
    }
}

/// What is known of the credentials, or will be.
pub(in crate::exchange) fn ask(
    client: &Client,
    address: IpAddr,
    credentials: &BasicCredentials,
    config: &BasicAuth,
    users: &Users,
) -> Result<(CredentialDigest, PasswordAnswer), Failure> {
    let user = users.find(credentials.user());
    let Some(hash) = user.hash else { return Err(refused(Cause::CredentialsWrong)) };
    let checks = &client.worker.shared.passwords;
    // All that the verdict hangs on: it ends with the hash that it was found with.
    let digest = checks.key.digest(&[
        credentials.user(),
        hash.text().as_bytes(),
        &[u8::from(user.is_known)],
        &config.remember.as_nanos().to_be_bytes(),
        credentials.password(),
    ]);
    if let Some(is_right) = client.worker.passwords.borrow().get(digest) {
        return Ok((digest, PasswordAnswer::Known(is_right)));
    }
    let answer = checks.ask(digest, address, || PasswordCheck {
        digest,
        hash: hash.clone(),
        is_known: user.is_known,
        password: credentials.password().into(),
        kept: config.remember,
        client: address,
    });
    let answer = answer.map_err(|why| match why {
        CheckRefused::ClientFull => refused(Cause::CredentialChecksPending),
        CheckRefused::Full => Failure::weir(Phase::Route, Cause::CredentialChecksFull),
    });
    Ok((digest, answer?))
}

/// Waits for the verdict, as long as the client does.
async fn wait<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    mut verdict: oneshot::Receiver<bool>,
) -> Result<bool, Failure> {
    context.client.deadline.set(clock::now(), Some(WAIT_MAX));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = Pin::new(&mut verdict).poll(cx) {
            return Poll::Ready(outcome.map_err(|_| Failure::weir(Phase::Route, Cause::Io)));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(refused(cause)));
        }
        context.report(Activity::Credentials);
        context.client.deadline.poll_passed().map(|()| Err(too_late(context.client)))
    })
    .await
}

/// The failure when no verdict has come in time.
fn too_late(client: &mut Client) -> Failure {
    let cause = if client.deadline.ends_with_ceiling() {
        Cause::ExchangeTimedOut
    } else {
        Cause::CredentialChecksFull
    };
    let passed = Failure::weir(Phase::Route, cause);
    client.deadline.cut_failure(Phase::Route).unwrap_or(passed)
}
