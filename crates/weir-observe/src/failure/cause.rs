//! Causes of failures, without the place and the party: the closed list.
//!
//! A cause names the event as the data path sees it (a time limit, a reset, a full queue). Together with phase and party it
//! becomes a reason; the sentences are in `table.rs`.

use weir_http::Rule;

/// Declares [`Cause`] with the stable names of its variants.
macro_rules! causes {
    ($($variant:ident $name:literal $doc:literal,)+) => {
        /// The cause of a failed exchange.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause {
            /// A message broke a rule of HTTP, or a limit on its head or framing.
            Rule(Rule),
            $(#[doc = $doc] $variant,)+
        }

        /// The causes without payload, to count and index them.
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Bare { $($variant,)+ }

        impl Cause {
            /// Every cause but [`Cause::Rule`].
            pub const BARE: &[Cause] = &[$(Cause::$variant,)+];

            /// The stable kebab-case name; of a broken rule, the name of the rule.
            pub const fn name(self) -> &'static str {
                match self {
                    Cause::Rule(rule) => rule.name(),
                    $(Cause::$variant => $name,)+
                }
            }

            /// The index in [`Cause::BARE`]; `None` for a broken rule.
            pub(super) const fn bare_index(self) -> Option<usize> {
                match self {
                    Cause::Rule(_) => None,
                    $(Cause::$variant => Some(Bare::$variant as usize),)+
                }
            }
        }
    };
}

causes! {
    // Time.
    TimedOut "timed-out" "The time limit of the phase passed.",
    ExchangeTimedOut "exchange-timed-out" "The time limit of the exchange as a whole passed, in whatever phase.",
    BodyTooSlow "body-too-slow" "A body moved slower than the minimum rate, its credit used up.",
    TunnelIdle "tunnel-idle-timeout" "Neither side of a tunnel sent anything for too long.",
    ConnectionMaxAge "connection-max-age" "The connection reached its greatest age.",

    // The connection.
    Refused "refused" "The connection was refused: nothing listens there.",
    Unreachable "unreachable" "No way to the host or network.",
    Reset "reset" "The peer reset the connection.",
    Closed "closed" "The peer closed the connection before it was time.",
    StaleConnection "stale-connection" "A reused server connection died before the first response byte, and a fresh attempt was not allowed.",
    ConnectFailed "connect-failed" "The connection could not be opened, for a reason without its own cause.",
    ConnectDenied "connect-denied" "The operating system forbade the connection: file permission or firewall.",
    SocketMissing "socket-missing" "The Unix socket of the server does not exist.",
    PortsExhausted "ports-exhausted" "No local port is free for a connection to this server.",
    SourceAddress "source-address" "The connection cannot come from the source address that the config says.",
    NameUnresolved "name-unresolved" "The host name of the server has no address.",
    ServerNotAllowed "server-not-allowed" "The request names a server that the upstream does not allow.",
    AddressNotAllowed "address-not-allowed" "The name of the server leads to no address that the upstream allows.",
    NameNotFound "name-not-found" "The name that the request gives has no address.",
    ResolverFailed "resolver-failed" "No resolver has an answer about the name that the request gives.",
    ResolveTimedOut "resolve-timed-out" "The name that the request gives was not resolved in time.",
    TooManyNames "too-many-names" "The names that requests give are too many.",
    ProxyHeaderBad "proxy-header-bad" "The expected PROXY protocol header is malformed or missing.",

    // A stream of HTTP/2.
    NotHttp2 "not-http2" "The server does not speak HTTP/2.",
    StreamRefused "stream-refused" "The server refused the request before it did anything with it.",
    GoAway "go-away" "The server ended the connection without taking the request.",
    Http1Required "http1-required" "The server wants the request over HTTP/1.1.",
    NoFreeStream "no-free-stream" "All connections that Weir may open to the server have as many requests as they may.",
    PingTimedOut "ping-timed-out" "The server did not answer a ping in time: its connection is dead.",

    // FastCGI.
    FastcgiOverloaded "fastcgi-overloaded" "The server has no room for the request, or cannot serve it beside another.",
    FastcgiCaughtError "fastcgi-caught-error" "The server has written a text to its error stream that the config names as a failure.",
    FastcgiNoResponse "fastcgi-no-response" "The server has ended the request without a response.",
    FastcgiNoResponder "fastcgi-no-responder" "The server is no responder: it does not answer requests.",
    LengthUnknown "length-unknown" "The server has to be told the length of the body, which is not known.",

    // TLS, by the party at the other end.
    TlsHandshakeFailed "tls-handshake-failed" "The TLS handshake broke the protocol, or failed without its own cause.",
    TlsEmptyRecords "tls-empty-records" "TLS records without content came in a row.",
    TlsNoSharedCipher "tls-no-shared-cipher" "No TLS version, cipher suite or application protocol is supported by both.",
    TlsUnrecognizedName "tls-unrecognized-name" "No certificate for the server name that was asked for.",
    TlsCertificatePending "tls-certificate-pending" "The certificate for the server name that was asked for has not been obtained yet.",
    TlsCertificateMissing "tls-certificate-missing" "The peer sent no certificate though one is required.",
    TlsCertificateRejected "tls-certificate-rejected" "The certificate of the peer is not one of an authority that is trusted, or is for another use.",
    TlsCertificateNameMismatch "tls-certificate-name-mismatch" "The certificate of the server is for another name than the one that it was asked for.",
    TlsCertificateExpired "tls-certificate-expired" "The certificate of the peer is not valid today.",
    TlsCertificateRevoked "tls-certificate-revoked" "The certificate of the peer has been revoked.",
    TlsRevocationUnknown "tls-revocation-unknown" "Whether the certificate of the peer has been revoked cannot be determined.",
    TlsAlert "tls-alert" "The peer ended TLS with an alert, as when it rejects our certificate.",
    PlainHttpOnTlsPort "plain-http-on-tls-port" "Plain HTTP arrived where TLS is spoken.",
    Misdirected "misdirected" "The request is for a host that the TLS connection was not made for.",

    // The request.
    ExpectationFailed "expectation-failed" "The request expects something other than 100-continue.",
    UpgradeNotAllowed "upgrade-not-allowed" "No route allows the protocol that the client asks for.",
    ConnectNotAllowed "connect-not-allowed" "CONNECT without a route that allows it.",
    MethodNotAllowed "method-not-allowed" "Routes match the request, but none of them its method.",
    ClientAddressBad "client-address-bad" "The field in which a trusted proxy names the client names none, or several.",
    LoopDetected "loop-detected" "The request has come in at this listener before.",
    BodyTooLarge "body-too-large" "The body of the request is larger than the limit.",
    HeadOverflow "head-overflow" "The head no longer fits its buffer after fields were added.",
    TooManyReroutings "too-many-reroutings" "The request was routed anew as often as it may be, by rewrites and routes that lead to others.",
    InternalRoute "internal-route" "The request asks for a route that only requests from inside of the listener take.",
    BadAccelTarget "bad-accel-target" "A server has sent the request on to what is no path or route inside of the listener.",
    BadRewrite "bad-rewrite" "A rewrite made a target or field that is not valid.",

    // The response.
    UnexpectedUpgrade "unexpected-upgrade" "The server switched to a protocol that the client did not ask for.",
    PrematureUpgrade "premature-upgrade" "The server switched protocols before it had the whole request.",
    UpgradeIgnored "upgrade-ignored" "The server answered with success instead of switching protocols.",
    WebsocketAcceptMismatch "websocket-accept-mismatch" "The server agreed to a WebSocket without the proof that it had understood the request.",
    WebsocketNotSupported "websocket-not-supported" "The server takes no WebSocket over HTTP/2.",
    TooManyInterimResponses "too-many-interim-responses" "The server sent more 1xx responses than the limit.",
    ResponseIncomplete "response-incomplete" "The response ended before its head or body was complete.",
    BodyIncomplete "body-incomplete" "The body of the response broke off before any of the response had gone to the client.",
    ResponseExcess "response-excess-data" "The server sent bytes beyond the end of its response.",

    // The response to a probe.
    UnexpectedStatus "unexpected-status" "The status of the response is none that the health check expects.",
    NotServing "not-serving" "The server does not say of itself, by the gRPC health protocol, that it is serving.",
    UnexpectedBody "unexpected-body" "The body of the response lacks what the health check looks for.",

    UnexpectedAnswer "unexpected-answer" "What the server said to a probe over TCP is not what the health check expects.",

    // Choosing a server.
    NoRoute "no-route" "No route matches the request.",
    NoServer "no-server" "No server of the upstream may take the exchange: down, draining, disabled, or none at all.",
    UnknownUpstream "unknown-upstream" "What chooses the upstream of the request names none of those of the route.",
    AffinityUnavailable "affinity-unavailable" "The server that the request belongs to may not take it, and no other one may.",
    AllServersFull "all-servers-full" "Every server is at its limit and the upstream has no queue.",
    QueueFull "queue-full" "Every server is at its limit and so is the queue.",
    QueueEvicted "queue-evicted" "The place in a full queue went to a request of higher priority, or of a client with fewer.",
    QueueOverload "queue-overload" "The wait was longer than the target while the upstream was overloaded for good.",

    // What a request has to prove.
    CredentialsMissing "credentials-missing" "The request has no credentials, or some of another kind.",
    CredentialsMalformed "credentials-malformed" "The credentials of the request are not well-formed, or it has several.",
    CredentialsWrong "credentials-wrong" "There is no such user, or the password is another one.",
    TokenMissing "token-missing" "The request has no token.",
    TokenMalformed "token-malformed" "The token of the request is none.",
    TokenUntrusted "token-untrusted" "The token of the request is not signed by a key that counts.",
    TokenExpired "token-expired" "The token of the request has expired.",
    TokenEarly "token-early" "The token of the request is not valid yet.",
    TokenForOthers "token-for-others" "The token of the request has another issuer, or is for another service.",
    TokenInsufficient "token-insufficient" "The token of the request lacks a claim or a scope.",
    KeysUnavailable "keys-unavailable" "The keys of tokens could not be fetched yet.",
    AuthFailed "auth-failed" "The server that decides about requests gave no answer that can be used.",
    AuthTimedOut "auth-timed-out" "The server that decides about requests did not answer in time.",
    AuthUnavailable "auth-unavailable" "No server that decides about requests is available.",
    CredentialChecksPending "credential-checks-pending" "As many passwords of this client are being verified as may be.",
    CredentialChecksFull "credential-checks-full" "As many passwords wait to be verified as may.",

    // Files.
    FileMissing "file-missing" "There is no file at the path, or none that may be served.",
    FileForbidden "file-forbidden" "The process may not read the file, or the folder has no index file.",
    FileFailed "file-failed" "The file could not be opened or read.",
    DiskTimedOut "disk-timed-out" "The disk did not answer in time.",

    // Limits.
    TooManyConnections "too-many-connections" "The process has as many connections as it may.",
    TooManyListenerConnections "too-many-listener-connections" "The listener has as many connections as it may.",
    TooManyClientConnections "too-many-client-connections" "This client address has as many connections as it may.",
    ClientConnectionRate "client-connection-rate" "This client address opens as many connections in the time as it may.",
    AccessDenied "access-denied" "A list of the config denies the request.",
    RateLimited "rate-limited" "The key of the request has made as many requests in the time as its limit allows.",
    ConcurrencyLimited "concurrency-limited" "The key of the request has as many requests at once as its limit allows.",
    TooManyHandshakes "too-many-handshakes" "The listener begins as many TLS handshakes per second as it may.",
    BufferLimit "buffer-limit" "The worker has no buffer left.",
    SlowHeadAtLimit "slow-head-at-limit" "The client was slow to send its request while the process or the listener had as many connections as it may.",
    MemoryLimit "memory-limit" "The process is near its memory budget.",
    KernelMemory "kernel-memory" "The system has no memory left for sockets.",
    DescriptorLimit "descriptor-limit" "The process or the system has no file descriptor left.",

    // Operation.
    Maintenance "maintenance" "The operator has put the listener into maintenance.",
    Drained "drained" "Weir is shutting down, or the listener or server is being removed.",
    ServerDown "server-down" "The server was marked down while the exchange ran.",
    Killed "killed" "The operator ended the connection.",
    Panicked "panicked" "A defect of Weir; the connection ended, the process lives.",
    WorkerCrashed "worker-crashed" "A defect of Weir; the worker lost its connections and was started anew.",
    FramingViolation "framing-violation" "Weir was about to send a body other than its head had said.",
    Io "io-error" "Another error of the operating system.",
}

impl Cause {
    /// The number of causes without payload.
    pub(super) const BARE_COUNT: usize = Cause::BARE.len();
}
