//! What is known of the client of a request after its route has asked for proof, and what it is told when proof is missing.

use std::rc::Rc;

use weir_access::SignedToken;
use weir_config::{Access, Feature, JwtAuth, Satisfy, Stage, TokenSource};

use super::header_changes::HeadChanges;
use weir_http::{FieldName, FieldSet, FieldWriter};
use weir_observe::access_log::AuthRecord;
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;

/// What is known of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Authorization {
    /// The user that it has named, right or wrong: a request goes to a server only when it is right.
    pub(crate) user: Vec<u8>,
    /// Its token, whose signature is right.
    pub(crate) token: Option<Rc<SignedToken>>,
    /// What another server has said of it, and adds to its request.
    pub(crate) auth: Option<AuthRecord>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether its `Authorization` is right, where something else might have admitted it.
    pub(crate) is_proven: bool,
}

/// Adds the fields that the server that decides about requests has given to this one. What is removed is removed of clients' requests, as on routes
/// where that server is not asked.
pub(in crate::exchange) fn write_fields(
    out: &mut impl FieldWriter,
    granted: &Authorization,
    changes: HeadChanges<'_>,
) {
    let fields = granted.fields.iter();
    acting::note(Stage::Server, Feature::Authentication);
    for (name, value) in fields.filter(|(name, _)| !changes.sets(name)) {
        out.field(name, value);
    }
}

/// What is asked for with the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Challenge {
    /// A user and a password.
    Password,
    /// A token, without an error: there was none.
    Token,
    /// Another token.
    OtherToken,
    /// A token that allows more.
    StrongerToken,
}

const fn challenge(cause: Cause) -> Option<Challenge> {
    Some(match cause {
        Cause::CredentialsMissing | Cause::CredentialsWrong => Challenge::Password,
        Cause::TokenMissing => Challenge::Token,
        Cause::TokenMalformed
        | Cause::TokenUntrusted
        | Cause::TokenExpired
        | Cause::TokenEarly
        | Cause::TokenForOthers => Challenge::OtherToken,
        Cause::TokenInsufficient => Challenge::StrongerToken,
        _ => return None,
    })
}

/// Whether a kind of authentication has looked at the credentials of a request, or their absence, and refuses it for that.
pub(in crate::exchange) const fn is_refusal(cause: Cause) -> bool {
    challenge(cause).is_some()
}

/// A refusal for this cause.
pub(in crate::exchange) const fn refused(cause: Cause) -> Failure {
    Failure::client(Phase::Route, cause)
}

/// Whether the request is well-formed and only its credentials are not enough: the next one on its connection may bring others.
pub(in crate::exchange) const fn is_about_credentials(cause: Cause) -> bool {
    challenge(cause).is_some() || matches!(cause, Cause::CredentialChecksPending)
}

/// Adds what a client has to present (RFC 9110 section 11.6.1), to an answer for want of it.
pub(in crate::exchange) fn write_challenge(out: &mut impl FieldWriter, access: &Access, cause: Cause) {
    let Some(challenge) = challenge(cause) else { return };
    match (challenge, &access.basic, &access.jwt) {
        (Challenge::Password, Some(basic), _) => out.field_with(b"WWW-Authenticate", |out| {
            out.extend_from_slice(b"Basic realm=\"");
            out.extend_from_slice(basic.realm.as_bytes());
            out.extend_from_slice(b"\", charset=\"UTF-8\"");
        }),
        (Challenge::Password, None, _) | (_, _, None) => {}
        (challenge, _, Some(jwt)) => {
            out.field_with(b"WWW-Authenticate", |out| write_bearer(out, jwt, challenge, cause));
        }
    }
}

/// Writes the challenge of RFC 6750 section 3.
fn write_bearer(out: &mut Vec<u8>, jwt: &JwtAuth, challenge: Challenge, cause: Cause) {
    out.extend_from_slice(b"Bearer realm=\"");
    out.extend_from_slice(jwt.realm.as_bytes());
    out.push(b'"');
    match challenge {
        Challenge::OtherToken => {
            out.extend_from_slice(b", error=\"invalid_token\", error_description=\"");
            out.extend_from_slice(Failure::client(Phase::Route, cause).client_text().as_bytes());
            out.push(b'"');
        }
        Challenge::StrongerToken => {
            out.extend_from_slice(b", error=\"insufficient_scope\"");
            if !jwt.scopes.is_empty() {
                out.extend_from_slice(b", scope=\"");
                out.extend_from_slice(jwt.scopes.join(" ").as_bytes());
                out.push(b'"');
            }
        }
        Challenge::Password | Challenge::Token => {}
    }
}

/// Fields of the request that its server does not get: also credentials that are for Weir, and that nothing has verified because something else has
/// admitted the request.
pub(in crate::exchange) fn withheld(access: &Access, granted: Option<&Authorization>) -> FieldSet {
    let is_for_weir = || {
        let of_token = |jwt: &JwtAuth| jwt.source == TokenSource::Authorization;
        access.basic.is_some() || access.jwt.as_ref().is_some_and(of_token)
    };
    let is_unproven =
        access.satisfy == Satisfy::Any && is_for_weir() && !granted.is_some_and(|granted| granted.is_proven);
    if access.forwards_credentials() && !is_unproven {
        FieldSet::EMPTY
    } else {
        FieldSet::new(&[FieldName::Authorization])
    }
}
