//! The table of reasons: complete, unique, and in step with the docs.

use std::collections::HashSet;
use std::path::Path;

use weir_http::Rule;

use super::table::ROWS;
use super::*;

fn every_cause() -> impl Iterator<Item = Cause> {
    let rules = Rule::ALL.iter().map(|rule| Cause::Rule(*rule));
    Cause::BARE.iter().copied().chain(rules)
}

fn every_failure() -> impl Iterator<Item = Failure> {
    Phase::ALL.into_iter().flat_map(|phase| {
        Party::ALL
            .into_iter()
            .flat_map(move |party| every_cause().map(move |cause| Failure { phase, party, cause }))
    })
}

#[test]
fn known_failures_have_known_reasons_and_statuses() {
    use Phase::{Accept, Connect, Finish, Queue, Relay, Request, Response, Route, Send, Tls};
    let cases: &[(Failure, &str, Option<u16>, u16)] = &[
        (Failure::client(Request, Cause::Rule(Rule::BareLf)), "bare-lf", Some(400), 400),
        (Failure::client(Request, Cause::Rule(Rule::TargetTooLong)), "target-too-long", Some(414), 414),
        (Failure::client(Request, Cause::Rule(Rule::HeadTooLarge)), "head-too-large", Some(431), 431),
        (Failure::client(Request, Cause::Rule(Rule::TooManyFields)), "too-many-fields", Some(431), 431),
        (
            Failure::client(Request, Cause::Rule(Rule::UnknownTransferCoding)),
            "unknown-transfer-coding",
            Some(501),
            501,
        ),
        (
            Failure::client(Request, Cause::Rule(Rule::UnsupportedVersion)),
            "unsupported-version",
            Some(505),
            505,
        ),
        (Failure::client(Send, Cause::Rule(Rule::BadChunkSize)), "bad-chunk-size", Some(400), 400),
        (Failure::client(Relay, Cause::Rule(Rule::BadChunkSize)), "bad-chunk-size", None, 400),
        (Failure::server(Response, Cause::Rule(Rule::BareLf)), "response-bare-lf", Some(502), 502),
        (Failure::server(Relay, Cause::Rule(Rule::BadChunkSize)), "response-bad-chunk-size", None, 502),
        (Failure::client(Request, Cause::TimedOut), "request-head-timeout", Some(408), 408),
        (Failure::client(Send, Cause::TimedOut), "request-body-timeout", Some(408), 408),
        (Failure::client(Relay, Cause::TimedOut), "relay-client-timeout", None, 408),
        (Failure::client(Finish, Cause::TimedOut), "finish-timeout", None, 408),
        (Failure::client(Tls, Cause::TimedOut), "tls-handshake-timeout", None, 408),
        (Failure::weir(Queue, Cause::TimedOut), "queue-timeout", Some(503), 503),
        (Failure::server(Connect, Cause::TimedOut), "connect-timeout", Some(504), 504),
        (Failure::server(Send, Cause::TimedOut), "send-timeout", Some(504), 504),
        (Failure::server(Response, Cause::TimedOut), "response-timeout", Some(504), 504),
        (Failure::server(Relay, Cause::TimedOut), "relay-server-timeout", None, 504),
        (Failure::weir(Response, Cause::ExchangeTimedOut), "exchange-timeout", Some(504), 504),
        (Failure::weir(Relay, Cause::ExchangeTimedOut), "exchange-timeout", None, 504),
        (Failure::client(Send, Cause::BodyTooSlow), "request-body-too-slow", Some(408), 408),
        (Failure::server(Relay, Cause::BodyTooSlow), "relay-server-too-slow", None, 504),
        (Failure::client(Relay, Cause::BodyTooSlow), "relay-client-too-slow", None, 408),
        (Failure::weir(Relay, Cause::TunnelIdle), "tunnel-idle-timeout", None, 408),
        (Failure::server(Connect, Cause::Refused), "connect-refused", Some(502), 502),
        (Failure::server(Connect, Cause::NameUnresolved), "connect-name-unresolved", Some(502), 502),
        (Failure::weir(Connect, Cause::PortsExhausted), "connect-ports-exhausted", Some(503), 503),
        (Failure::weir(Connect, Cause::DescriptorLimit), "connect-descriptor-limit", Some(503), 503),
        (Failure::weir(Accept, Cause::DescriptorLimit), "accept-descriptor-limit", None, 503),
        (Failure::server(Response, Cause::Closed), "response-closed", Some(502), 502),
        (Failure::server(Response, Cause::Reset), "response-reset", Some(502), 502),
        (Failure::server(Send, Cause::Reset), "send-reset", Some(502), 502),
        (Failure::server(Relay, Cause::Reset), "relay-server-reset", None, 502),
        (Failure::server(Response, Cause::StaleConnection), "stale-connection", Some(502), 502),
        (Failure::server(Response, Cause::ResponseIncomplete), "response-head-incomplete", Some(502), 502),
        (Failure::server(Response, Cause::BodyIncomplete), "response-body-incomplete", Some(502), 502),
        (Failure::server(Relay, Cause::ResponseIncomplete), "response-incomplete", None, 502),
        (Failure::server(Response, Cause::UnexpectedUpgrade), "response-unexpected-upgrade", Some(502), 502),
        (Failure::server(Response, Cause::PrematureUpgrade), "response-premature-upgrade", Some(502), 502),
        (
            Failure::server(Response, Cause::WebsocketAcceptMismatch),
            "response-websocket-accept-mismatch",
            Some(502),
            502,
        ),
        (Failure::server(Response, Cause::UnexpectedStatus), "response-unexpected-status", Some(502), 502),
        (Failure::server(Relay, Cause::UnexpectedBody), "response-unexpected-body", None, 502),
        (Failure::client(Response, Cause::Closed), "client-closed", None, 499),
        (Failure::client(Queue, Cause::Closed), "client-closed", None, 499),
        (Failure::client(Send, Cause::Closed), "request-body-incomplete", None, 499),
        (Failure::client(Request, Cause::Closed), "request-head-incomplete", None, 499),
        (Failure::client(Relay, Cause::Reset), "client-reset", None, 499),
        (Failure::weir(Route, Cause::NoRoute), "no-route", Some(404), 404),
        (Failure::weir(Route, Cause::TooManyReroutings), "too-many-reroutings", Some(500), 500),
        (Failure::server(Response, Cause::BadAccelTarget), "bad-accel-target", Some(404), 404),
        (Failure::client(Route, Cause::InternalRoute), "internal-route", Some(404), 404),
        (Failure::client(Route, Cause::CredentialsMissing), "credentials-missing", Some(401), 401),
        (Failure::client(Route, Cause::CredentialsMalformed), "credentials-malformed", Some(400), 400),
        (Failure::client(Route, Cause::CredentialsWrong), "credentials-wrong", Some(401), 401),
        (Failure::client(Route, Cause::TokenMissing), "token-missing", Some(401), 401),
        (Failure::client(Route, Cause::TokenUntrusted), "token-untrusted", Some(401), 401),
        (Failure::client(Route, Cause::TokenExpired), "token-expired", Some(401), 401),
        (Failure::client(Route, Cause::TokenInsufficient), "token-insufficient", Some(403), 403),
        (Failure::server(Route, Cause::AuthFailed), "auth-failed", Some(502), 502),
        (Failure::server(Route, Cause::AuthTimedOut), "auth-timed-out", Some(504), 504),
        (Failure::server(Route, Cause::AuthUnavailable), "auth-unavailable", Some(503), 503),
        (Failure::server(Route, Cause::KeysUnavailable), "keys-unavailable", Some(503), 503),
        (Failure::client(Route, Cause::CredentialChecksPending), "credential-checks-pending", Some(429), 429),
        (Failure::weir(Route, Cause::CredentialChecksFull), "credential-checks-full", Some(503), 503),
        (Failure::client(Route, Cause::MethodNotAllowed), "method-not-allowed", Some(405), 405),
        (Failure::client(Request, Cause::BodyTooLarge), "body-too-large", Some(413), 413),
        (Failure::client(Request, Cause::ClientAddressBad), "client-address-bad", Some(400), 400),
        (Failure::client(Request, Cause::ExpectationFailed), "expectation-failed", Some(417), 417),
        (Failure::client(Route, Cause::Misdirected), "misdirected", Some(421), 421),
        (Failure::client(Route, Cause::ConnectNotAllowed), "connect-not-allowed", Some(501), 501),
        (Failure::client(Request, Cause::LoopDetected), "loop-detected", Some(508), 508),
        (Failure::weir(Queue, Cause::NoServer), "no-server", Some(503), 503),
        (Failure::weir(Queue, Cause::QueueFull), "queue-full", Some(503), 503),
        (Failure::weir(Queue, Cause::QueueEvicted), "queue-evicted", Some(503), 503),
        (Failure::weir(Queue, Cause::QueueOverload), "queue-overload", Some(503), 503),
        (Failure::weir(Queue, Cause::AllServersFull), "all-servers-full", Some(503), 503),
        (Failure::weir(Accept, Cause::TooManyConnections), "connection-limit", None, 503),
        (Failure::weir(Request, Cause::TooManyConnections), "request-connection-limit", Some(503), 503),
        (Failure::weir(Relay, Cause::Drained), "relay-draining", None, 503),
        (Failure::weir(Queue, Cause::Drained), "draining", Some(503), 503),
        (Failure::weir(Send, Cause::Panicked), "panic", Some(500), 500),
        (Failure::weir(Route, Cause::Io), "internal-error", Some(500), 500),
        (Failure::server(Send, Cause::Io), "server-io-error", Some(502), 502),
        (Failure::client(Send, Cause::Io), "client-io-error", None, 499),
    ];
    for (failure, reason, status, log_status) in cases {
        assert_eq!(failure.reason(), *reason, "{failure:?}");
        assert_eq!(failure.status(), *status, "{failure:?}");
        assert_eq!(failure.log_status(), *log_status, "{failure:?}");
    }
}

#[test]
fn every_failure_has_an_explanation() {
    for failure in every_failure() {
        let explanation = failure.explanation();
        assert!(
            !failure.reason().is_empty()
                && !explanation.happened.is_empty()
                && !explanation.change.is_empty(),
            "{failure:?}"
        );
        assert!((200..=599).contains(&failure.log_status()), "{failure:?}");
        if let Some(status) = failure.status() {
            assert!((400..=599).contains(&status) && status != 499, "{failure:?}");
            assert!(!failure.client_text().is_empty(), "{failure:?} is answered without a word");
        }
    }
}

#[test]
fn nothing_is_sent_to_a_client_that_has_a_head_or_no_request() {
    for failure in every_failure() {
        let silent = failure.phase >= Phase::Relay || failure.phase <= Phase::Tls;
        let plain_http = failure.phase == Phase::Tls && failure.cause == Cause::PlainHttpOnTlsPort;
        assert!(!silent || plain_http || failure.status().is_none(), "{failure:?}");
    }
    for failure in every_failure() {
        let gone = matches!(failure.cause, Cause::Closed | Cause::Reset | Cause::Io)
            && failure.party == Party::Client;
        assert!(!gone || failure.status().is_none(), "{failure:?} answers a client that has gone");
    }
}

/// A row can be reached: at least the failures that it names lead to it.
#[test]
fn every_row_is_reached_by_its_failures() {
    for reason in Reason::all().filter(|reason| reason.is_possible()) {
        assert!(!reason.phases().is_empty(), "{}", reason.code());
        for phase in reason.phases() {
            let failure = Failure { phase: *phase, party: reason.party(), cause: reason.cause() };
            assert_eq!(failure.reason(), reason.code(), "{failure:?}");
        }
    }
}

#[test]
fn codes_are_unique_and_lead_back() {
    let mut seen = HashSet::new();
    for reason in Reason::all() {
        let code = reason.code();
        assert!(seen.insert(code), "{code} is the code of two reasons");
        assert!(
            code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{code}"
        );
        assert_eq!(Reason::from_code(code), Some(reason));
    }
    assert_eq!(seen.len(), Reason::COUNT);
    assert_eq!(Reason::from_code("no-such-code"), None);
}

#[test]
fn causes_have_unique_names() {
    let names: HashSet<&str> = every_cause().map(Cause::name).collect();
    assert_eq!(names.len(), every_cause().count());
}

/// The text for the client must reveal neither the servers nor the config.
#[test]
fn client_texts_reveal_nothing() {
    let inside = ["upstream", "server", "connection refused", "`", "weir", "queue", "backend", "pool"];
    for row in ROWS {
        let text = row.client.to_lowercase();
        for word in inside {
            assert!(!text.contains(word), "{}: {text}", row.code);
        }
        assert_eq!(
            row.client.is_empty(),
            row.status.is_none(),
            "{}: a text if and only if there is an answer",
            row.code
        );
    }
}

#[test]
fn texts_for_the_operator_are_sentences() {
    for reason in Reason::all() {
        for text in [reason.happened(), reason.change()] {
            assert!(
                text.ends_with('.') && text.starts_with(|first: char| first.is_uppercase()),
                "{}: {text}",
                reason.code()
            );
            assert_eq!(text.matches('`').count() % 2, 0, "{}: {text}", reason.code());
        }
    }
}

#[test]
fn explanation_reads_well() {
    let explanation = Failure::server(Phase::Response, Cause::TimedOut).explanation();
    assert_eq!(
        explanation.to_string(),
        "The server did not begin its response in time. (server, phase response) \
         Check the load of the server, or raise `upstream.NAME.timeouts.response`."
    );
}

/// `UPDATE=1 cargo test -p weir-observe` writes the page anew.
#[test]
fn failures_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/failures.md");
    let page = failures_markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/failures.md is stale: run `UPDATE=1 cargo test -p weir-observe`");
}

#[test]
fn failures_page_lists_every_reason() {
    let page = failures_markdown();
    for reason in Reason::all().filter(|reason| reason.is_possible()) {
        let code = reason.code();
        let (heading, anchor) = (format!("\n### {code}\n"), format!("<a id=\"{code}\"></a>"));
        assert_eq!(page.matches(&heading).count() + page.matches(&anchor).count(), 1, "{code}");
    }
}

#[test]
fn config_keys_are_keys_and_nothing_else() {
    let keys = config_keys_named();
    assert!(
        keys.contains(&"upstream.NAME.timeouts.response") && keys.contains(&"process.connections_max"),
        "{keys:?}"
    );
    for key in keys {
        let parts: Vec<&str> = key.split('.').collect();
        let is_word = |part: &&str| {
            let is_of_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            part.bytes().all(is_of_word) && !part.is_empty()
        };
        assert!(parts.iter().all(|part| *part == "NAME" || is_word(part)), "{key}");
    }
}

/// A limit or a permission in an advice has a key, or is one of the system: otherwise the operator cannot follow it.
#[test]
fn advice_names_the_key_to_change() {
    let vague: Vec<&str> = Reason::all()
        .map(Reason::change)
        .filter(|change| ["Raise ", "Lower ", "Set ", "Allow "].iter().any(|verb| change.starts_with(verb)))
        .filter(|change| !change.contains('`'))
        .collect();
    assert!(vague.is_empty(), "{vague:?}");
}
