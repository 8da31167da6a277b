//! The table of reasons: one row per distinguishable way to fail, apart from broken rules of HTTP.
//!
//! A row has the failures that it covers, the status, the text for the client and the text for the operator. The text for
//! the client reveals nothing about servers. Codes are stable: dashboards and scripts depend on them.

use super::{Cause, Party};
use crate::words::phase::Phase;

/// One reason.
pub(super) struct FailureRow {
    pub(super) code: &'static str,
    pub(super) cause: Cause,
    pub(super) party: Party,
    /// Where it is expected; the same cause elsewhere finds the row that fits best.
    pub(super) phases: &'static [Phase],
    /// The status of the response while the client has received no head; `None` when no response can be sent.
    pub(super) status: Option<u16>,
    pub(super) log_status: u16,
    pub(super) client: &'static str,
    pub(super) happened: &'static str,
    pub(super) change: &'static str,
}

pub(super) const BAD_GATEWAY: &str = "The service sent an invalid response.";
const UNREACHED: &str = "The service cannot be reached. Please try again in a moment.";
const UNAVAILABLE: &str = "The service is not available. Please try again in a moment.";
const BUSY: &str = "The service is busy. Please try again in a moment.";
const TOO_SLOW: &str = "The service took too long to respond.";
const INTERNAL: &str = "Internal error.";
const GONE: &str = "";

/// Declares the rows: `code: cause, party, [phases], status, client text, meaning, advice`, where the status
/// is `answer N`, or `log N` when nothing can be sent.
macro_rules! rows {
    ($($code:literal: $cause:ident, $party:ident, [$($phase:ident)+], $how:ident $status:literal,
        $client:expr, $happened:literal, $change:literal;)+) => {
        pub(super) const ROWS: &[FailureRow] = &[$(FailureRow {
            code: $code,
            cause: Cause::$cause,
            party: Party::$party,
            phases: &[$(Phase::$phase,)+],
            status: rows!(@$how $status),
            log_status: $status,
            client: $client,
            happened: $happened,
            change: $change,
        },)+];
    };
    (@answer $status:literal) => { Some($status) };
    (@log $status:literal) => { None };
}

rows! {
    // Accept: there is no request yet, so no response can be sent.
    "connection-limit": TooManyConnections, Weir, [Accept], log 503, GONE,
        "The connection was closed without a response: the process is at its limit of connections.",
        "Raise `process.connections_max` and the limit of open files, or lower `listener.NAME.timeouts.idle`.";
    "accept-memory-limit": MemoryLimit, Weir, [Accept], log 503, GONE,
        "The connection was closed without a response: the process was near `process.memory_max` for longer than a second, and nothing that could be freed was enough.",
        "Raise `process.memory_max` or the memory of the machine or container, or lower `process.connections_max`.";
    "listener-connection-limit": TooManyListenerConnections, Weir, [Accept], log 503, GONE,
        "The connection was closed without a response: the listener is at its limit of connections.",
        "Raise `listener.NAME.connections_max`, or lower `listener.NAME.timeouts.idle`.";
    "client-connection-limit": TooManyClientConnections, Weir, [Accept], log 429, GONE,
        "The connection was closed without a response: the client address is at its limit of connections.",
        "Raise `listener.NAME.connections_per_client_max`; if the address is a proxy of yours, add it to `listener.NAME.trusted_proxies`, or enable the PROXY protocol on it.";
    "client-connection-rate": ClientConnectionRate, Weir, [Accept], log 429, GONE,
        "The connection was closed without a response: the client address has opened as many connections in the time as it may.",
        "Raise `listener.NAME.connections_per_client_rate` if such clients are legitimate.";
    "accept-descriptor-limit": DescriptorLimit, Weir, [Accept], log 503, GONE,
        "No connection could be accepted: the process or the system is out of file descriptors.",
        "Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`.";
    "accept-draining": Drained, Weir, [Accept Tls], log 503, GONE,
        "The connection was closed because Weir is shutting down or the listener is being removed.",
        "None if the stop was intended. To avoid it, take the address out of service before the stop.";
    "proxy-header-bad": ProxyHeaderBad, Client, [Accept], log 400, GONE,
        "The connection did not begin with a valid PROXY protocol header, which the listener requires.",
        "Enable the PROXY protocol on the load balancer in front, or remove its address from `listener.NAME.proxy_protocol.from`; the log of Weir has the details.";
    "proxy-header-timeout": TimedOut, Client, [Accept], log 408, GONE,
        "The PROXY protocol header did not arrive in time.",
        "Check that the load balancer in front sends the header as soon as it connects. If it does, raise `listener.NAME.proxy_protocol.timeout`.";
    "accept-closed": Closed, Client, [Accept], log 499, GONE,
        "The client closed the connection before it sent anything.",
        "None: browsers open connections in advance, and TCP health checks look like this.";
    "accept-reset": Reset, Client, [Accept], log 499, GONE,
        "The client reset the connection before it sent anything.",
        "None: port scans and TCP health checks look like this.";

    // TLS with the client.
    "tls-handshake-timeout": TimedOut, Client, [Tls], log 408, GONE,
        "The client did not finish the TLS handshake in time.",
        "None, unless it is frequent. Then check for packet loss between client and Weir.";
    "tls-client-closed": Closed, Client, [Tls], log 499, GONE,
        "The client closed the connection during the TLS handshake.",
        "Check that the client trusts the certificate of this listener: many clients close without an alert if they do not.";
    "tls-client-reset": Reset, Client, [Tls], log 499, GONE,
        "The client reset the connection during the TLS handshake.",
        "Check that the client trusts the certificate of this listener.";
    "tls-handshake-failed": TlsHandshakeFailed, Client, [Tls], log 400, GONE,
        "The TLS handshake failed: the client violated the protocol.",
        "Check that the client speaks TLS 1.2 or later.";
    "tls-no-shared-cipher": TlsNoSharedCipher, Client, [Tls], log 400, GONE,
        "Client and listener support no common TLS version, cipher suite or application protocol.",
        "Update the client, or enable more TLS versions and cipher suites on this listener.";
    "tls-unrecognized-name": TlsUnrecognizedName, Client, [Tls], log 421, GONE,
        "The listener has no certificate for the server name (SNI) of the client.",
        "Add a certificate for the name to the listener, or a default certificate.";
    "tls-certificate-pending": TlsCertificatePending, Weir, [Tls], log 503, GONE,
        "The listener has no certificate for the server name (SNI) of the client yet: the authority has not issued it.",
        "Look up the cause with `weir ctl certificates`, on the status page or in the log: the last attempt and the time of the next one.";
    "tls-handshake-rate": TooManyHandshakes, Weir, [Tls], log 503, GONE,
        "The listener is at its limit of TLS handshakes per second, and this one would have exceeded its time limit.",
        "Raise `listener.NAME.tls.handshake_rate`, or raise `listener.NAME.timeouts.tls` so that handshakes can wait longer.";
    "tls-client-certificate-missing": TlsCertificateMissing, Client, [Tls], log 400, GONE,
        "The listener requires a client certificate, and the client sent none.",
        "Install a certificate in the client, or make client certificates optional on this listener.";
    "tls-client-certificate-rejected": TlsCertificateRejected, Client, [Tls], log 400, GONE,
        "The client certificate is not signed by a trusted CA, or is not valid for client authentication.",
        "Add the CA to `listener.NAME.tls.client_certificates.ca`, or install a certificate of a trusted CA in the client.";
    "tls-client-certificate-expired": TlsCertificateExpired, Client, [Tls], log 400, GONE,
        "The client certificate has expired, or is not valid yet.",
        "Renew the client certificate. If it is new, compare the clocks of this machine and of the CA.";
    "tls-client-certificate-revoked": TlsCertificateRevoked, Client, [Tls], log 400, GONE,
        "The client certificate has been revoked by its CA.",
        "None if the revocation was intended. Otherwise request a new certificate from the CA.";
    "tls-revocation-unknown": TlsRevocationUnknown, Weir, [Tls], log 503, GONE,
        "The revocation status of the client certificate is unknown: the CRL of its CA is missing, has expired, or is not signed by the CA.",
        "Put the current CRL of every CA into the file of `listener.NAME.tls.client_certificates.crl`; Weir reads the file again when it changes.";
    "tls-client-alert": TlsAlert, Client, [Tls], log 400, GONE,
        "The client ended the TLS handshake with an alert. The usual cause is a certificate that the client does not trust.",
        "Check that the certificate of the listener has not expired and that its file contains the whole chain.";
    "tls-empty-records": TlsEmptyRecords, Client, [Tls Request Route Queue Connect Send Response Relay Finish], log 400, GONE,
        "The client sent more than 32 TLS records without content in a row, which costs CPU time and nothing else.",
        "None, unless the client is a known one: no TLS library does this. Limit hostile clients by `listener.NAME.connections_per_client_rate`.";
    "plain-http-on-tls-port": PlainHttpOnTlsPort, Client, [Tls Request], answer 400,
        "This port expects HTTPS. Please use an https:// address.",
        "The client sent plain HTTP to a listener with TLS.",
        "Correct the URL that the client uses, or add a listener with plain HTTP that redirects.";
    "misdirected": Misdirected, Client, [Request Route], answer 421,
        "This connection is for another host.",
        "The host of the request is not covered by the TLS connection.",
        "None if clients retry on a new connection. Otherwise use separate certificates or addresses for the hosts.";

    // Reading the request.
    "request-head-timeout": TimedOut, Client, [Request], answer 408,
        "The request did not arrive in time.",
        "The client did not send the complete head of its request in time.",
        "Raise `listener.NAME.timeouts.request` for clients on very slow links.";
    "request-head-incomplete": Closed, Client, [Request], log 499, GONE,
        "The client closed the connection in the middle of the head of its request.",
        "None, unless it is frequent. Then check the network and the time limits of the client.";
    "client-reset": Reset, Client, [Request Route Queue Connect Send Response Relay Finish], log 499, GONE,
        "The client reset the connection before the response was complete.",
        "Compare the time limit of the client with the time per phase in the log: often the limit of the client is the shorter one.";
    "client-closed": Closed, Client, [Route Queue Connect Response Relay Finish], log 499, GONE,
        "The client closed the connection before the response was complete.",
        "Compare the time limit of the client with the time per phase in the log: often the limit of the client is the shorter one.";
    "expectation-failed": ExpectationFailed, Client, [Request], answer 417,
        "The Expect field has an unsupported value.",
        "The Expect field of the request has a value other than 100-continue.",
        "Correct the client.";
    "client-address-bad": ClientAddressBad, Client, [Request], answer 400,
        "The address of the client cannot be read.",
        "A trusted proxy has sent `listener.NAME.client_address_header` with something else than one address, in several lines, or malformed: the client may have added to it.",
        "Have the proxy replace the header, and not pass on or extend what its clients send in it. If it names several hops, use `x-forwarded-for` or `forwarded`.";
    "connect-not-allowed": ConnectNotAllowed, Client, [Request Route], answer 501,
        "CONNECT is not supported here.",
        "The client sent CONNECT, and no route allows it.",
        "Set `listener.NAME.route.allow_connect` to let clients open tunnels.";
    "loop-detected": LoopDetected, Client, [Request Route], answer 508,
        "Loop detected.",
        "The Via field of the request names this listener of this Weir: an upstream leads back to it.",
        "Correct the address in `upstream.NAME.servers` that leads back to the listener. From one listener to another a request may go.";
    "body-too-large": BodyTooLarge, Client, [Request Route Send Response], answer 413,
        "The body of the request is too large.",
        "The body of the request is larger than the limit.",
        "Raise `listener.NAME.limits.body_size` or `listener.NAME.route.limits.body_size`.";
    "request-body-timeout": TimedOut, Client, [Send Response], answer 408,
        "The body of the request did not arrive in time.",
        "The client stopped sending the body of its request.",
        "Raise `listener.NAME.timeouts.request_body.credit` for clients on very slow links.";
    "request-body-too-slow": BodyTooSlow, Client, [Send Response], answer 408,
        "The body of the request arrived too slowly.",
        "The client sent the body of its request below the minimum rate.",
        "Lower `listener.NAME.timeouts.request_body.rate_min` for clients on very slow links.";
    "request-body-incomplete": Closed, Client, [Send], log 499, GONE,
        "The client closed the connection in the middle of the body of its request.",
        "None, unless it is frequent. Then check the network and the time limits of the client.";
    "client-io-error": Io, Client, [Accept Tls Request Send Relay Finish], log 499, GONE,
        "Reading from or writing to the client failed with an error of the operating system.",
        "See the system error in the log of Weir at the same time.";

    // Choosing a route.
    "no-route": NoRoute, Weir, [Route], answer 404,
        "Not found.",
        "No route of the listener matches the request.",
        "Run `weir explain` with the URL to see why. Add a route; a route without conditions matches every request.";
    "maintenance": Maintenance, Weir, [Route], answer 503,
        "The service is under maintenance. Please try again later.",
        "The listener is in maintenance, by `weir ctl maintenance on`: every request gets this answer.",
        "None while it is intended. `weir ctl maintenance off` ends it; `error_pages` with the status 503 changes the page.";
    "upgrade-not-allowed": UpgradeNotAllowed, Client, [Route], answer 501, "This protocol is not available here.",
        "A client of HTTP/2 asked for a tunnel with a protocol (extended CONNECT) that the route does not allow.",
        "Add the protocol to `upgrades` of the route, if its servers speak it.";
    "method-not-allowed": MethodNotAllowed, Client, [Route], answer 405,
        "The method of the request is not allowed here.",
        "The route serves files, which can only be read: with GET and HEAD.",
        "None if clients have no business writing here. Otherwise name an `upstream` beside `files`, or add a route with this `method`.";
    "credentials-missing": CredentialsMissing, Client, [Route], answer 401,
        "Please log in.",
        "The route wants a user and a password, and the request has none. Browsers ask for them when they get this response.",
        "None if it is the first request of a client. Routes without `listener.NAME.route.basic` want none.";
    "credentials-malformed": CredentialsMalformed, Client, [Route], answer 400,
        "The credentials of the request cannot be read.",
        "The `Authorization` of the request is not well-formed: not base64, without a colon, with control characters, longer than 1 KiB, or there is more than one.",
        "Correct the client (RFC 7617).";
    "credentials-wrong": CredentialsWrong, Client, [Route], answer 401,
        "User or password are wrong.",
        "There is no such user, or the password is another one; the log has the name as `{user}`.",
        "Check the file of `listener.NAME.route.basic.users_file`, or `listener.NAME.route.basic.users`: `htpasswd -v FILE USER` verifies a password.";
    "token-missing": TokenMissing, Client, [Route], answer 401,
        "Please log in.",
        "The route wants a signed token (JWT), and the request has none where `listener.NAME.route.jwt.from` says.",
        "None if it is the first request of a client. Otherwise check how the client sends its token.";
    "token-malformed": TokenMalformed, Client, [Route], answer 401,
        "The token cannot be read. Please log in again.",
        "What the request has in place of a token is none: not three parts of base64url, no JSON, without `alg`, or with an extension (`crit`).",
        "Correct the client or the issuer (RFC 7519).";
    "token-untrusted": TokenUntrusted, Client, [Route], answer 401,
        "The token is not valid. Please log in again.",
        "The token is not signed by one of the keys, by an algorithm that counts.",
        "Check that the file of `listener.NAME.route.jwt.keys_file` has the present keys of the issuer, or with `weir ctl keys` that those of `listener.NAME.route.jwt.remote_keys` are fetched, and that `listener.NAME.route.jwt.algorithms` has the `alg` of the token. None while tokens are being forged.";
    "token-expired": TokenExpired, Client, [Route], answer 401,
        "The token has expired. Please log in again.",
        "The token has expired, or does not say when it does.",
        "None if clients get a new token then. Compare the clocks of this machine and of the issuer, or raise `listener.NAME.route.jwt.leeway`. For tokens without `exp`, set `listener.NAME.route.jwt.expiry_required`.";
    "token-early": TokenEarly, Client, [Route], answer 401,
        "The token is not valid yet.",
        "The token is valid from a time in the future on (`nbf`).",
        "Compare the clocks of this machine and of the issuer, or raise `listener.NAME.route.jwt.leeway`.";
    "token-for-others": TokenForOthers, Client, [Route], answer 401,
        "The token is not for this service.",
        "The token has another issuer than `listener.NAME.route.jwt.issuer`, or is not for `listener.NAME.route.jwt.audience`.",
        "Compare these keys with `iss` and `aud` of the token.";
    "token-insufficient": TokenInsufficient, Client, [Route], answer 403,
        "This is not allowed.",
        "The token is valid, but lacks a claim of `listener.NAME.route.jwt.claims` or a scope of `listener.NAME.route.jwt.scopes`.",
        "None if the user may not do this. Otherwise grant the role or the scope at the issuer.";
    "keys-unavailable": KeysUnavailable, Server, [Route], answer 503, UNAVAILABLE,
        "The keys of `listener.NAME.route.jwt.remote_keys` have not been fetched since Weir started, so that no token can be verified. Weir tries again and again.",
        "See the log or `weir ctl keys` for what is wrong with the fetches; check the servers of that upstream, and `listener.NAME.route.jwt.remote_keys.path`.";
    "auth-failed": AuthFailed, Server, [Route], answer 502, UNREACHED,
        "The upstream of `listener.NAME.route.forward_auth` gave no answer: it could not be reached, broke off, or its answer was longer than `listener.NAME.route.forward_auth.body_size`. The log has the reason as `{auth.reason}`.",
        "Check the servers of that upstream. With `listener.NAME.route.forward_auth.fail_open`, requests pass without an answer.";
    "auth-timed-out": AuthTimedOut, Server, [Route], answer 504, TOO_SLOW,
        "The upstream of `listener.NAME.route.forward_auth` did not answer in time. The log has the reason as `{auth.reason}`.",
        "Check the load of that upstream, or raise its `upstream.NAME.timeouts.response`.";
    "auth-unavailable": AuthUnavailable, Server, [Route], answer 503, UNAVAILABLE,
        "No server of the upstream of `listener.NAME.route.forward_auth` is available: all are down or full. The log has the reason as `{auth.reason}`.",
        "Check the state of the servers of that upstream, and its queue.";
    "credential-checks-pending": CredentialChecksPending, Client, [Route], answer 429,
        "Too many passwords to verify. Please try again in a moment.",
        "As many different passwords of this client address are being verified as may be at once.",
        "None while passwords are being guessed. If many users share the address, raise `listener.NAME.route.basic.remember`, or use hashes that are cheaper to compute.";
    "credential-checks-full": CredentialChecksFull, Weir, [Route], answer 503, BUSY,
        "As many passwords wait to be verified as may, or this one has waited for too long. Passwords that are known to be right are not affected.",
        "None while passwords are being guessed. Otherwise raise `listener.NAME.route.basic.remember`, or use hashes that are cheaper to compute.";
    "file-missing": FileMissing, Weir, [Response], answer 404,
        "Not found.",
        "There is no such file below the `root` of the route, or none that is served: hidden names, links that lead outside and devices are not.",
        "None if the file is not meant to exist. Otherwise compare the path with `listener.NAME.route.files.root`; `try_files` names what is sent instead.";
    "file-forbidden": FileForbidden, Weir, [Response], answer 403,
        "Access denied.",
        "The system does not let Weir read the file, or the path is a folder without index file.",
        "Give the user that Weir runs as the right to read the file and to enter the folders above it; for folders, see `index` and `listing` of `listener.NAME.route.files`.";
    "file-failed": FileFailed, Weir, [Response Relay], answer 500, INTERNAL,
        "The file could not be opened or read, or it became shorter while it was sent.",
        "See the log of the system for errors of the disk. Replace files by renaming a new one over the old, which leaves responses under way whole.";
    "disk-timeout": DiskTimedOut, Weir, [Response Relay], answer 504, TOO_SLOW,
        "The disk that the file is on did not answer in 30 s.",
        "Check the disk, or the network file system and its server.";
    "request-connection-limit": TooManyConnections, Weir, [Request Route Connect], answer 503, BUSY,
        "The process is at its limit of connections.",
        "Raise `process.connections_max` and the limit of open files.";
    "request-client-limit": TooManyClientConnections, Weir, [Request Route], answer 429,
        "Too many connections. Please try again in a moment.",
        "The client address is at its limit of connections.",
        "Raise `listener.NAME.connections_per_client_max`.";
    "access-denied": AccessDenied, Weir, [Route], answer 403,
        "Access denied.",
        "A list of the config, named in `lists` of the listener or the route, denies the client address or another key of the request.",
        "Take the entry out of `list.NAME` or its file if the client is legitimate, or add a more specific one to a list with `action = \"allow\"`.";
    "rate-limited": RateLimited, Weir, [Route], answer 429,
        "Too many requests. Please try again later.",
        "The key of the request, such as its client address, has made more requests than a limit allows, or is blocked by it.",
        "Look at the keys that are refused most with `weir ctl limits`. Raise `limit.NAME.rate` or `limit.NAME.burst` if they are legitimate; `limit.NAME.dry_run` tries a limit.";
    "concurrency-limited": ConcurrencyLimited, Weir, [Route], answer 429,
        "Too many requests at once. Please try again later.",
        "The key of the request, such as its client address, has as many requests at once as a limit allows.",
        "Raise `limit.NAME.concurrent` if such clients are legitimate.";
    "route-timeout": TimedOut, Weir, [Route], answer 503, UNAVAILABLE,
        "The choice of a route took longer than its time limit.",
        "Check the CPU time of the workers for overload.";
    "bad-rewrite": BadRewrite, Weir, [Route Send], answer 500, INTERNAL,
        "A rewrite of the route produced a target or a field that is not valid in HTTP.",
        "Correct `listener.NAME.route.request_headers` or the path rewrite; `weir explain` shows the result for a URL.";
    "too-many-reroutings": TooManyReroutings, Weir, [Route], answer 500, INTERNAL,
        "The request was routed anew ten times, by `rewrite`, `then`, `try_files` or `error_pages`: they lead round in a circle.",
        "Run `weir explain` with the URL, which shows each step. Write `flag = \"break\"` where the request is to stay on the route, or a pattern that no longer matches what it has made.";
    "internal-route": InternalRoute, Client, [Route], answer 404,
        "Not found.",
        "The request asks for a route with `internal = true`, which only rewrites and other routes lead to.",
        "None, unless clients should reach it: then leave `internal` out.";
    "request-head-overflow": HeadOverflow, Weir, [Route Send], answer 431,
        "The head of the request is too large.",
        "The head of the request does not fit the buffer with the fields that Weir adds.",
        "Raise `process.buffer_size`, or lower `listener.NAME.limits.head_size` to leave room for the added fields.";

    // Choosing a server.
    "no-server": NoServer, Weir, [Route Queue Connect], answer 503, UNAVAILABLE,
        "No server of the upstream is available: all are down, ejected, draining or in maintenance, or there are none.",
        "Check the state of the servers in the log and in `weir_server_up` and `weir_server_ejected`. Add servers, or one with `backup = true`, to `upstream.NAME.servers`. Where `discovery` names a source, the status page has its state.";
    "unknown-upstream": UnknownUpstream, Weir, [Route], answer 502, UNAVAILABLE,
        "The value of `split_by` of the route names none of the upstreams in its `split`.",
        "Add the upstream to `split`, correct the map, or add `{ respond = 404 }` to `split` for values that name none; `weir explain` shows the value for a URL.";
    "server-not-allowed": ServerNotAllowed, Weir, [Route Connect], answer 502, UNAVAILABLE,
        "The text of `upstream.NAME.dynamic.server` comes to no server that `allow` lists, or to none that has one meaning: a name and a port, or an address and a port.",
        "Add the server to `upstream.NAME.dynamic.allow` if requests may name it. If clients try others, nothing is to be done: no request leaves Weir. `weir explain` shows the text for a URL.";
    "address-not-allowed": AddressNotAllowed, Weir, [Route Connect], answer 502, UNAVAILABLE,
        "The name of the server is allowed, and none of its addresses is: they are in no network of `upstream.NAME.dynamic.allow`, or special ones such as loopback, which need a network that names them.",
        "Add the network to `upstream.NAME.dynamic.allow` if servers are there. Otherwise see who changes the name: it may be an attack (DNS rebinding).";
    "name-not-found": NameNotFound, Weir, [Route Connect], answer 502, UNREACHED,
        "The name of the server, which the request gives, has no address in DNS.",
        "Correct the map or the request that names the server, or add the record. A name that leads nowhere is asked for again after `dns.ttl_min`.";
    "resolver-failed": ResolverFailed, Weir, [Route Connect], answer 503, UNAVAILABLE,
        "No resolver has an answer about the name of the server, which the request gives: none can be reached, or they fail.",
        "Check the resolvers in `dns.resolvers`, or those of `/etc/resolv.conf`. Names in use keep their last addresses.";
    "resolve-timed-out": ResolveTimedOut, Weir, [Route Connect], answer 504, TOO_SLOW,
        "The name of the server, which the request gives, was not resolved within `upstream.NAME.timeouts.connect`.",
        "Check how fast the resolvers answer. `dns.timeout` has to be shorter than `upstream.NAME.timeouts.connect` for another one to be asked.";
    "too-many-names": TooManyNames, Weir, [Route Connect], answer 503, BUSY,
        "Requests give more names than `upstream.NAME.dynamic.names_max`, and all of them are in use or being resolved.",
        "Raise `upstream.NAME.dynamic.names_max`. If clients choose the names, narrow `allow`.";
    "affinity-unavailable": AffinityUnavailable, Weir, [Route Queue Connect], answer 503, UNAVAILABLE,
        "The request belongs to a server by `upstream.NAME.affinity`, which is `strict`, and that server is down, ejected, in maintenance or gone.",
        "Bring the server back, or leave `strict` out, so that such a request goes to another server.";
    "all-servers-full": AllServersFull, Weir, [Route Queue], answer 503, BUSY,
        "Every server of the upstream is at its limit, and the upstream has no queue.",
        "Raise `upstream.NAME.max_requests`, add servers, or set `upstream.NAME.queue.length_max` above 0.";
    "queue-full": QueueFull, Weir, [Queue], answer 503, BUSY,
        "Every server of the upstream is at its limit, and so is the queue. No request in it had to make room: none has a lower priority, and no client has clearly more than the client of this one.",
        "Raise `upstream.NAME.max_requests` or `upstream.NAME.queue.length_max`, or add servers.";
    "queue-evicted": QueueEvicted, Weir, [Queue], answer 503, BUSY,
        "The queue was full, and this request was the newest of the client with most requests in it: it made room for a client with fewer, or for a request with a higher priority.",
        "If one client sends that many, limit it (`limit.NAME.concurrent`). Otherwise raise `upstream.NAME.max_requests` or `upstream.NAME.queue.length_max`, or add servers.";
    "queue-overload": QueueOverload, Weir, [Queue], answer 503, BUSY,
        "The upstream has been overloaded for longer than `upstream.NAME.queue.delay_interval`, and this request had waited longer than `upstream.NAME.queue.delay_target`.",
        "Add servers, or raise `upstream.NAME.max_requests` if the servers have capacity left. Raise `upstream.NAME.queue.delay_target` if clients can wait longer.";
    "queue-timeout": TimedOut, Weir, [Queue], answer 503, BUSY,
        "No slot on a server became free within the time limit of the queue.",
        "Raise `upstream.NAME.max_requests` or `upstream.NAME.timeouts.queue`, or add servers.";
    "draining": Drained, Weir, [Request Route Queue Connect Send Response], answer 503, UNAVAILABLE,
        "Weir is shutting down, or the upstream is being removed, and the exchange did not finish within the grace period.",
        "Raise `process.stop_grace` so that running exchanges can finish.";

    // Connecting to a server.
    "connect-timeout": TimedOut, Server, [Connect], answer 504, TOO_SLOW,
        "The server did not accept the connection in time.",
        "Check the address, the firewalls in between and the listen backlog of the server, or raise `upstream.NAME.timeouts.connect`.";
    "connect-refused": Refused, Server, [Connect], answer 502, UNREACHED,
        "The server refused the connection: nothing listens at the address.",
        "Check that the server is running and that its address in `upstream.NAME.servers` is correct.";
    "connect-unreachable": Unreachable, Server, [Connect], answer 502, UNREACHED,
        "The host or network of the server cannot be reached.",
        "Check routes and firewalls between Weir and the address in `upstream.NAME.servers`.";
    "connect-reset": Reset, Server, [Connect], answer 502, UNREACHED,
        "The server reset the connection right after it was opened.",
        "Check the log and the connection limit of the server.";
    "connect-closed": Closed, Server, [Connect], answer 502, UNREACHED,
        "The server closed the connection right after it was opened.",
        "Check the log and the connection limit of the server, and whether it expects TLS or the PROXY protocol.";
    "connect-failed": ConnectFailed, Server, [Connect], answer 502, UNREACHED,
        "The connection to the server could not be opened.",
        "See the system error in the log of Weir at the same time.";
    "connect-denied": ConnectDenied, Weir, [Connect], answer 502, UNREACHED,
        "The operating system denied the connection to the server.",
        "Give the user that Weir runs as access to the Unix socket, or correct the firewall rule on this host.";
    "connect-socket-missing": SocketMissing, Server, [Connect], answer 502, UNREACHED,
        "The Unix socket of the server does not exist.",
        "Check that the server is running and that the path in `upstream.NAME.servers` is correct, also inside a chroot.";
    "connect-ports-exhausted": PortsExhausted, Weir, [Connect], answer 503, BUSY,
        "No local port is free for a connection to this server.",
        "The failure does not count against the server. Let more connections be reused (`upstream.NAME.pool.idle_max`), widen `net.ipv4.ip_local_port_range`, or give the server more addresses.";
    "connect-source-address": SourceAddress, Weir, [Connect], answer 502, UNREACHED,
        "The connection cannot come from the address that `source_address` says: this machine does not have it, it is of another family than that of the server, the client has none, or the process may not use the addresses of others.",
        "The failure does not count against the server. The log of Weir has the error of the system. Check `upstream.NAME.source_address` and that of the server, the addresses of this machine (`ip address`), and for `{client_address}` that Weir was started with CAP_NET_RAW.";
    "connect-descriptor-limit": DescriptorLimit, Weir, [Connect], answer 503, BUSY,
        "No connection to the server could be opened: the process or the system is out of file descriptors, or connections to servers had their whole share of them for longer than `upstream.NAME.timeouts.queue`.",
        "The failure does not count against the server. Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`. Where clients have many streams of HTTP/2, set `upstream.NAME.protocol` to `h2`, `h2c` or `auto` if the servers speak HTTP/2, or lower `listener.NAME.http2.streams_max`.";
    "connect-kernel-memory": KernelMemory, Weir, [Connect], answer 503, BUSY,
        "No connection to the server could be opened: the system is out of memory for sockets.",
        "The failure does not count against the server. Check `net.ipv4.tcp_mem` and the memory of the machine or container, or lower `process.connections_max`.";
    "connect-name-unresolved": NameUnresolved, Server, [Connect], answer 502, UNREACHED,
        "The host name of the server has no address.",
        "Check the name in `upstream.NAME.servers`, and `dns.resolvers` or `/etc/resolv.conf`.";
    "connect-tls-failed": TlsHandshakeFailed, Server, [Connect], answer 502, UNREACHED,
        "The TLS handshake with the server failed.",
        "Check that the server speaks TLS on this port. If it does not, remove `tls` from the upstream.";
    "connect-tls-no-shared-cipher": TlsNoSharedCipher, Server, [Connect], answer 502, UNREACHED,
        "Weir and the server support no common TLS version, cipher suite or application protocol.",
        "Update the server, or enable more TLS versions and cipher suites for this upstream.";
    "connect-tls-unrecognized-name": TlsUnrecognizedName, Server, [Connect], answer 502, UNREACHED,
        "The server has no certificate for the server name (SNI) that Weir sent.",
        "Set `upstream.NAME.tls.server_name` to a name that the server has a certificate for.";
    "connect-tls-certificate-missing": TlsCertificateMissing, Server, [Connect], answer 502, UNREACHED,
        "The server requires a client certificate, and none is configured.",
        "Set `upstream.NAME.tls.certificate` and `key`.";
    "connect-tls-certificate-rejected": TlsCertificateRejected, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server is not signed by a trusted CA.",
        "Set `upstream.NAME.tls.ca` to the CA, or to the certificate itself. With `log.level` set to `debug`, the log has the details.";
    "connect-tls-certificate-name-mismatch": TlsCertificateNameMismatch, Server, [Connect], answer 502, UNREACHED,
        "The names in the certificate of the server do not include the server name that Weir expects.",
        "Set `upstream.NAME.tls.server_name` to a name in the certificate, or add the expected name to the certificate. With `log.level` set to `debug`, the log has both names.";
    "connect-tls-certificate-revoked": TlsCertificateRevoked, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server has been revoked by its CA.",
        "Install a new certificate on the server.";
    "connect-tls-revocation-unknown": TlsRevocationUnknown, Weir, [Connect], answer 503, UNREACHED,
        "The revocation status of the certificate of the server is unknown: the CRL of its CA is missing, has expired, or is not signed by the CA.",
        "Put the current CRL of every CA into the file of `upstream.NAME.tls.crl`; Weir reads the file again when it changes.";
    "connect-tls-certificate-expired": TlsCertificateExpired, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server has expired, or is not valid yet.",
        "Renew the certificate of the server. If it is new, compare the clocks of both machines.";
    "connect-tls-alert": TlsAlert, Server, [Connect], answer 502, UNREACHED,
        "The server ended the TLS handshake with an alert.",
        "Check the log of the server: it may reject the client certificate of the upstream.";
    "server-tls-certificate-missing": TlsCertificateMissing, Server, [Send Response], answer 502, UNREACHED,
        "The server requires a client certificate, and none is configured. In TLS 1.3 the server reports this after the handshake.",
        "Set `upstream.NAME.tls.certificate` and `key`.";
    "connect-no-free-stream": NoFreeStream, Weir, [Connect], answer 503, BUSY,
        "No stream to the server became free in time: all connections that Weir may open to it have as many requests as they may.",
        "Raise `upstream.NAME.http2.connections_max` or `upstream.NAME.http2.streams_max`, or the limit of the server on concurrent streams, which Weir obeys.";
    "connect-not-http2": NotHttp2, Server, [Connect], answer 502, UNREACHED,
        "The server does not speak HTTP/2: over TLS it did not agree on `h2` (ALPN), or without TLS it did not begin with SETTINGS.",
        "Enable HTTP/2 on the server, or set `upstream.NAME.protocol` to `http1`, or to `auto` if its servers differ.";
    "server-tls-alert": TlsAlert, Server, [Send Response Relay], answer 502, UNREACHED,
        "The server ended TLS with an alert. In TLS 1.3 a server rejects a client certificate this way.",
        "Check the log of the server, and `upstream.NAME.tls.certificate`.";
    "server-tls-empty-records": TlsEmptyRecords, Server, [Connect Send Response Relay], answer 502, BAD_GATEWAY,
        "The server sent more than 32 TLS records without content in a row.",
        "Check the TLS library of the server.";
    "server-tls-protocol-error": TlsHandshakeFailed, Server, [Send Response Relay], answer 502, BAD_GATEWAY,
        "The server violated the TLS protocol after the handshake, or its bytes were modified on the way.",
        "Check the log of the server and the devices between it and Weir.";

    // Sending the request.
    "send-timeout": TimedOut, Server, [Send], answer 504, TOO_SLOW,
        "The server stopped reading the request.",
        "Check the load of the server, or raise `upstream.NAME.timeouts.send.credit`.";
    "send-too-slow": BodyTooSlow, Server, [Send], answer 504, TOO_SLOW,
        "The server read the body of the request below the minimum rate.",
        "Check the load of the server, or lower `upstream.NAME.timeouts.send.rate_min`.";
    "send-closed": Closed, Server, [Send], answer 502, UNREACHED,
        "The server closed the connection without a response while the request was being sent.",
        "Check the log and the body limit of the server.";
    "send-reset": Reset, Server, [Send], answer 502, UNREACHED,
        "The server reset the connection without a response while the request was being sent.",
        "Check the log and the body limit of the server.";
    "stale-connection": StaleConnection, Server, [Send Response], answer 502, UNREACHED,
        "The server closed a pooled connection as it was reused, and the request cannot be retried: its method is not idempotent and the server may have read it, or its body is no longer buffered.",
        "Set `upstream.NAME.timeouts.idle` below the keep-alive time of the server. If the connection was idle for moments only, the server closes connections without announcing it, for example after a body that it did not read: configure it to send `Connection: close`.";

    // Waiting for the response.
    "response-timeout": TimedOut, Server, [Response], answer 504, TOO_SLOW,
        "The server did not begin its response in time.",
        "Check the load of the server, or raise `upstream.NAME.timeouts.response`.";
    "response-closed": Closed, Server, [Response], answer 502, UNREACHED,
        "The server closed the connection without a response.",
        "Check the log of the server for a crash or a worker limit.";
    "response-reset": Reset, Server, [Response], answer 502, UNREACHED,
        "The server reset the connection without a response.",
        "Check the log of the server for a crash or a worker limit.";
    "response-head-incomplete": ResponseIncomplete, Server, [Response], answer 502, BAD_GATEWAY,
        "The server closed the connection in the middle of the head of its response.",
        "Check the log of the server for a crash.";
    "response-body-incomplete": BodyIncomplete, Server, [Response], answer 502, BAD_GATEWAY,
        "The server closed the connection before the end of the body of a response that was to be stored, and nothing of the response had gone to the client.",
        "Check the log of the server for a crash or a time limit.";
    "response-unexpected-upgrade": UnexpectedUpgrade, Server, [Response], answer 502, BAD_GATEWAY,
        "The server switched protocols (101), and the client had not requested it, or had requested another protocol than the one in `Upgrade` of the response.",
        "Correct the server: its response names the protocol of the request in `Upgrade` (RFC 9110 section 7.8).";
    "response-upgrade-ignored": UpgradeIgnored, Server, [Response], answer 502, BAD_GATEWAY,
        "The server answered with success without switching protocols: a client of HTTP/2 would take that for consent to the tunnel that it asked for.",
        "Correct the server: it has to switch protocols (101) or respond with an error.";
    "response-premature-upgrade": PrematureUpgrade, Server, [Response], answer 502, BAD_GATEWAY,
        "The server switched protocols before it had the complete request: the rest of the body would be taken for bytes of the new protocol.",
        "Correct the server: it has to read the body first, or respond without switching.";
    "response-websocket-accept-mismatch": WebsocketAcceptMismatch, Server, [Response], answer 502, BAD_GATEWAY,
        "The server agreed to a WebSocket, but its `Sec-WebSocket-Accept` does not match the key of the request.",
        "Correct the server: it has to compute the field from `Sec-WebSocket-Key` (RFC 6455 section 4.2.2).";
    "response-websocket-not-supported": WebsocketNotSupported, Server, [Response], answer 502, BAD_GATEWAY,
        "The server speaks HTTP/2 and takes no WebSocket: it has not announced extended CONNECT (RFC 8441).",
        "Enable extended CONNECT on the server, or route WebSockets to an upstream with `protocol = \"http1\"`.";
    "response-stream-refused": StreamRefused, Server, [Send Response], answer 502, UNREACHED,
        "The server refused the request before it did anything with it (REFUSED_STREAM), and so did further attempts, or the body of the request is no longer buffered.",
        "Check the limits of the server on concurrent streams and its load, or lower `upstream.NAME.http2.streams_max`. For large bodies raise `upstream.NAME.retry.body_size`.";
    "response-go-away": GoAway, Server, [Send Response], answer 502, UNREACHED,
        "The server ended its connection without taking the request (GOAWAY), and so did further attempts, or the body of the request is no longer buffered.",
        "Check why the server ends its connections so often: a limit of requests per connection, or restarts. For large bodies raise `upstream.NAME.retry.body_size`.";
    "response-http1-required": Http1Required, Server, [Send Response], answer 502, UNREACHED,
        "The server takes the request over HTTP/1.1 only (HTTP_1_1_REQUIRED), and the upstream sends requests over HTTP/2 only, or the body of the request is no longer buffered.",
        "Set `upstream.NAME.protocol` to `auto`, so that such requests go again over HTTP/1.1, or to `http1`; without TLS only `http1` remains. For large bodies raise `upstream.NAME.retry.body_size`.";
    "response-fastcgi-overloaded": FastcgiOverloaded, Server, [Send Response], answer 503, BUSY,
        "The server of FastCGI took the request for one too many (overloaded, or one request at a time on a connection), and so did further attempts.",
        "Give the server more processes (PHP-FPM: `pm.max_children`), or set `max_requests` of the upstream to the number that it has.";
    "response-fastcgi-caught-error": FastcgiCaughtError, Server, [Response], answer 502, BAD_GATEWAY,
        "Before its response, the program has written a text to its error stream that `fastcgi.catch_stderr` of the route names.",
        "See the error of the program in Weir's log, under the id of the request.";
    "response-fastcgi-no-response": FastcgiNoResponse, Server, [Response], answer 502, BAD_GATEWAY,
        "The server of FastCGI ended the request without a response.",
        "Check the log of the server, and the lines of its error stream in the log of Weir.";
    "response-fastcgi-no-responder": FastcgiNoResponder, Server, [Response], answer 502, BAD_GATEWAY,
        "The server of FastCGI does not answer requests: it has another role.",
        "Name a server with the role of a responder, such as PHP-FPM.";
    "length-required": LengthUnknown, Server, [Response], answer 411,
        "The request needs a Content-Length.",
        "A server of FastCGI has to be told the length of the body, and a call of gRPC is not taken in to measure it.",
        "None: FastCGI does not carry gRPC. Send such calls to an upstream with HTTP/2.";
    "server-ping-timeout": PingTimedOut, Server, [Connect Send Response Relay], answer 504, TOO_SLOW,
        "The server did not answer a ping: its connection is dead, and all requests on it have failed.",
        "Check the network and the devices between Weir and the server: firewalls and NAT drop connections that are idle. If the server stalls for longer, raise `upstream.NAME.http2.ping_timeout`.";
    "response-too-many-interim": TooManyInterimResponses, Server, [Response], answer 502, BAD_GATEWAY,
        "The server sent more 1xx responses than the limit before the final response.",
        "Correct the server.";
    "response-head-overflow": HeadOverflow, Server, [Response], answer 502, BAD_GATEWAY,
        "The head of the response does not fit the buffer with the fields that Weir adds.",
        "Raise `process.buffer_size`, or reduce the head that the server sends.";
    "bad-accel-target": BadAccelTarget, Server, [Response], answer 404,
        "Not found.",
        "The server has sent the request on (`X-Accel-Redirect`, `X-Sendfile`) to what is no path of the listener: it has `..`, is no path or `@` with the name of a route, or is no file below the folder of the route that `x_sendfile` names.",
        "Have the server send the path of an internal route, or the absolute path of a file below `files.root` of that route. If clients choose the name of the file, the server lets them choose too much.";
    "response-bad-rewrite": BadRewrite, Weir, [Response], answer 500, INTERNAL,
        "A rewrite of the route produced a response field that is not valid in HTTP.",
        "Correct `listener.NAME.route.response_headers`.";

    // The response to a probe: only in the log and in the metrics of health checks.
    "response-unexpected-status": UnexpectedStatus, Server, [Response], answer 502, UNREACHED,
        "The response to a health check has an unexpected status.",
        "Request `upstream.NAME.health.path` from the server to see why. If the status is acceptable, add it to `upstream.NAME.health.status`.";
    "response-not-serving": NotServing, Server, [Response], answer 502, UNREACHED,
        "A gRPC health check was not answered by `SERVING`: the service is not ready, or the server does not know it or the health protocol.",
        "Check the log of the server and `upstream.NAME.health.service`. The server has to register `grpc.health.v1.Health`.";
    "response-unexpected-body": UnexpectedBody, Server, [Response Relay], answer 502, UNREACHED,
        "The body of the response to a health check does not contain the expected text.",
        "Request `upstream.NAME.health.path` from the server to see why. Weir searches the first `upstream.NAME.health.body_size` bytes.";

    "response-unexpected-answer": UnexpectedAnswer, Server, [Response], answer 502, UNREACHED,
        "The response to a TCP health check is not the expected one.",
        "At the log level `debug` Weir writes what the server said. Compare it with `upstream.NAME.health.expect`, or with the exchange of `upstream.NAME.health.preset`: a user that may not log in, a server that starts up or turns clients away.";

    // Relaying the response, or a tunnel: the client has a head already.
    "response-incomplete": ResponseIncomplete, Server, [Relay], log 502, GONE,
        "The server closed the connection before the end of the body. The client received the body up to there, and no end of it.",
        "Check the log of the server for a crash or a time limit.";
    "relay-server-closed": Closed, Server, [Relay Finish], log 502, GONE,
        "The server closed the connection before the end of the exchange.",
        "Check the log of the server for a crash or a time limit.";
    "relay-server-reset": Reset, Server, [Relay Finish], log 502, GONE,
        "The server reset the connection before the end of the exchange.",
        "Check the log of the server for a crash or a time limit.";
    "relay-server-timeout": TimedOut, Server, [Relay], log 504, GONE,
        "The server stopped sending in the middle of the body.",
        "Check the load of the server, or raise `upstream.NAME.timeouts.relay.credit`.";
    "relay-server-too-slow": BodyTooSlow, Server, [Relay], log 504, GONE,
        "The server sent the body below the minimum rate.",
        "Check the load of the server, or lower `upstream.NAME.timeouts.relay.rate_min`.";
    "relay-client-timeout": TimedOut, Client, [Relay], log 408, GONE,
        "The client stopped reading the response, or stopped sending the body of its request.",
        "Raise `listener.NAME.timeouts.send.credit` (or `listener.NAME.timeouts.request_body.credit`) for clients with long pauses.";
    "relay-client-too-slow": BodyTooSlow, Client, [Relay Finish], log 408, GONE,
        "The client read the response, or sent the rest of its request, below the minimum rate.",
        "Lower `listener.NAME.timeouts.send.rate_min` for clients on very slow links.";
    "response-excess-data": ResponseExcess, Server, [Relay Finish], log 200, GONE,
        "The server sent data after the end of its response. The data was dropped and the connection closed.",
        "Correct the Content-Length that the server sends.";
    "tunnel-idle-timeout": TunnelIdle, Weir, [Relay], log 408, GONE,
        "Neither side of the tunnel sent anything for longer than the time limit.",
        "Raise `upstream.NAME.timeouts.tunnel`, or enable pings in the application.";
    "relay-draining": Drained, Weir, [Relay Finish], log 503, GONE,
        "The exchange was aborted at the end of the grace period: Weir is shutting down, or the server is being removed.",
        "Raise `process.stop_grace` so that long transfers and tunnels can finish.";

    // Finishing.
    "finish-timeout": TimedOut, Client, [Finish], log 408, GONE,
        "The client did not read the last bytes of the response in time.",
        "Raise `listener.NAME.timeouts.send.credit` for clients on very slow links.";

    // At any time.
    "exchange-timeout": ExchangeTimedOut, Weir, [Route Queue Connect Send Response Relay], answer 504, TOO_SLOW,
        "The exchange exceeded the time limit of its route.",
        "Check the time per phase in the log, or raise `listener.NAME.route.timeouts.exchange`.";
    "connection-max-age": ConnectionMaxAge, Weir, [Request Route Queue Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "The client connection reached its maximum age during an exchange.",
        "Raise `listener.NAME.timeouts.connection_age`.";
    "server-down": ServerDown, Server, [Connect Send Response Relay], answer 502, UNREACHED,
        "The server was marked down by its health check while the exchange ran, and `upstream.NAME.on_down` has connections through such a server closed.",
        "Check the server. If it was healthy, the health check is too strict. Set `on_down` to `\"keep\"` to let running exchanges continue.";
    "killed-by-operator": Killed, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "The connection was closed by a command at the admin listener or the runtime socket, or at the end of the grace period of a stop.",
        "None if it was intended. The log of Weir names the origin of the command; `process.stop_grace` is the grace period of a stop.";
    "buffer-limit": BufferLimit, Weir, [Request], answer 503, BUSY,
        "No buffer became free within the time limit for the head of the request.",
        "Raise `process.buffers_max`, or lower `process.connections_max`.";
    "memory-limit": MemoryLimit, Weir, [Tls Request Route Queue Connect Send Response Relay Finish], answer 503, BUSY,
        "The exchange was ended because its client made the slowest progress while the process was near `process.memory_max`, or while all buffers were in use and other requests waited for one.",
        "Raise `process.memory_max` or `process.buffers_max`. If the clients are hostile, limit them (`listener.NAME.connections_per_client_max`).";
    "slow-head-at-limit": SlowHeadAtLimit, Weir, [Accept Tls Request], answer 408,
        "The request did not arrive in time.",
        "The client had sent no whole PROXY header, TLS handshake or request head for a second or longer, longest of all, and new connections had waited for a second: `connections_max` was reached, and no connection was idle.",
        "Raise `process.connections_max` or `listener.NAME.connections_max`, and the limit of open files. If the clients are hostile, limit them (`listener.NAME.connections_per_client_max`).";
    "descriptor-limit": DescriptorLimit, Weir, [Tls Request Route Send Relay], answer 503, BUSY,
        "The process or the system is out of file descriptors.",
        "Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`.";
    "kernel-memory": KernelMemory, Weir, [Send Response Relay], answer 503, BUSY,
        "The system is out of memory for sockets.",
        "Check `net.ipv4.tcp_mem` and the memory of the machine or container, or lower `process.connections_max`.";
    "server-io-error": Io, Server, [Connect Send Response Relay], answer 502, UNREACHED,
        "Reading from or writing to the server failed with an error of the operating system.",
        "See the system error in the log of Weir at the same time.";
    "internal-timeout": TimedOut, Weir, [Accept Tls Request Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "An internal time limit of Weir was exceeded.",
        "Check the CPU time of the workers for overload; if there is none, report a bug.";
    "framing-violation": FramingViolation, Weir, [Send Relay], answer 500, INTERNAL,
        "A body was about to leave that is not what the head of its message had said: more bytes, or an early end. This is a defect of Weir; nothing of it left, and the connection or the stream was closed.",
        "Report it, with the lines of the log that say `message framing violated` and the protocols of client and server; `weir_framing_violations_total` counts them.";
    "internal-error": Io, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 500, INTERNAL,
        "Weir met an unexpected error of the operating system.",
        "See the system error in the log of Weir at the same time.";
    "panic": Panicked, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 500, INTERNAL,
        "A bug in Weir ended the connection; the process and all other connections continue.",
        "Report it with the output of `weir report`, which has the message and the backtrace; the log of Weir has them, too.";
    "worker-crash": WorkerCrashed, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], log 500, GONE,
        "A bug in Weir ended the event loop of a worker, and with it all its connections; the worker was started anew, and other workers continue.",
        "Report it with the output of `weir report`, which has the message and the backtrace; the log of Weir has them, too.";
}
