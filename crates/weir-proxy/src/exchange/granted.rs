//! What is known of the client of a request after its route has asked for proof, and what it is told when proof is missing.

use weir_config::Access;
use weir_http::{FieldName, FieldSet, FieldWriter};
use weir_observe::Cause;

use super::Exchange;

/// What is known of a client.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// The user that it has named, right or wrong: a request goes to a server only when it is right.
    pub(crate) user: Vec<u8>,
}

/// The user that the client has named; empty without one.
pub(super) fn user(exchange: &Exchange) -> &[u8] {
    exchange.granted.as_ref().map_or(&[], |granted| &granted.user)
}

/// Whether the request is well-formed and only its credentials are not enough: the next one on its connection may bring others.
pub(super) const fn is_about_credentials(cause: Cause) -> bool {
    matches!(cause, Cause::CredentialsMissing | Cause::CredentialsWrong | Cause::CredentialChecksPending)
}

/// Adds what a client has to present (RFC 9110 section 11.6.1), to an answer for want of it.
pub(super) fn write_challenge(out: &mut impl FieldWriter, access: &Access, cause: Cause) {
    let asks = matches!(cause, Cause::CredentialsMissing | Cause::CredentialsWrong);
    if let Some(basic) = access.basic.as_ref().filter(|_| asks) {
        out.field_with(b"WWW-Authenticate", |out| {
            out.extend_from_slice(b"Basic realm=\"");
            out.extend_from_slice(basic.realm.as_bytes());
            out.extend_from_slice(b"\", charset=\"UTF-8\"");
        });
    }
}

/// Fields of the request that its server does not get.
pub(super) fn withheld(access: &Access) -> FieldSet {
    if access.forwards_credentials() { FieldSet::EMPTY } else { FieldSet::of(&[FieldName::Authorization]) }
}
