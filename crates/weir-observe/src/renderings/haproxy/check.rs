//! The result of the last probe of a server, in the words of HAProxy's `check_status`: the layer that it got to, and the outcome.

use crate::failure::{Cause, Reason};
use crate::words::phase::Phase;

/// The layer that a probe of a server checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckLayer {
    /// Whether it takes connections.
    Connection,
    /// Whether it completes a TLS handshake.
    Tls,
    /// The answer of the application: to a request, or in a conversation.
    Answer,
}

/// The word for the last probe; `INI` before the first.
pub fn check_status(layer: CheckLayer, last: Option<Result<(), Reason>>) -> &'static str {
    match (last, layer) {
        (None, _) => "INI",
        (Some(Ok(())), CheckLayer::Connection) => "L4OK",
        (Some(Ok(())), CheckLayer::Tls) => "L6OK",
        (Some(Ok(())), CheckLayer::Answer) => "L7OK",
        (Some(Err(reason)), _) => failed(reason),
    }
}

/// The same word in the numbers of HAProxy's `srv_check_status` and `srv_check_result`: 0 not known yet, 2 failed, 3 passed.
pub(super) fn check_numbers(word: &str) -> (u8, u8) {
    match word {
        "L4OK" => (6, 3),
        "L4TOUT" => (7, 2),
        "L4CON" => (8, 2),
        "L6OK" => (9, 3),
        "L6RSP" => (11, 2),
        "L7TOUT" => (12, 2),
        "L7RSP" => (13, 2),
        "L7OK" => (15, 3),
        "L7STS" => (17, 2),
        // Also of a server that is not checked at all.
        _ => (1, 0),
    }
}

fn failed(reason: Reason) -> &'static str {
    let connects = reason.phases().contains(&Phase::Connect);
    match reason.cause() {
        Cause::TlsHandshakeFailed
        | Cause::TlsNoSharedCipher
        | Cause::TlsUnrecognizedName
        | Cause::TlsCertificatePending
        | Cause::TlsCertificateMissing
        | Cause::TlsCertificateRejected
        | Cause::TlsCertificateNameMismatch
        | Cause::TlsCertificateExpired
        | Cause::TlsCertificateRevoked
        | Cause::TlsRevocationUnknown
        | Cause::TlsAlert => "L6RSP",
        Cause::TimedOut if connects => "L4TOUT",
        Cause::TimedOut => "L7TOUT",
        _ if connects => "L4CON",
        Cause::UnexpectedStatus => "L7STS",
        _ => "L7RSP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn the_words_are_those_of_haproxy() {
        let server = |phase, cause| Some(Err(Failure::server(phase, cause).reason_id()));
        for (layer, last, word) in [
            (CheckLayer::Connection, None, "INI"),
            (CheckLayer::Connection, Some(Ok(())), "L4OK"),
            (CheckLayer::Tls, Some(Ok(())), "L6OK"),
            (CheckLayer::Answer, Some(Ok(())), "L7OK"),
            (CheckLayer::Answer, server(Phase::Connect, Cause::Refused), "L4CON"),
            (CheckLayer::Answer, server(Phase::Connect, Cause::TimedOut), "L4TOUT"),
            (CheckLayer::Tls, server(Phase::Connect, Cause::TlsCertificateExpired), "L6RSP"),
            (CheckLayer::Answer, server(Phase::Response, Cause::TimedOut), "L7TOUT"),
            (CheckLayer::Answer, server(Phase::Response, Cause::UnexpectedStatus), "L7STS"),
            (CheckLayer::Answer, server(Phase::Response, Cause::UnexpectedAnswer), "L7RSP"),
        ] {
            assert_eq!(check_status(layer, last), word, "{layer:?} {last:?}");
            let (status, result) = check_numbers(word);
            let expected = last.map_or(0, |last| if last.is_ok() { 3 } else { 2 });
            assert_eq!((result, status > 1), (expected, last.is_some()), "{word}");
        }
    }
}
