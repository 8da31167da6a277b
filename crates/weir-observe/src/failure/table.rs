//! The table of reasons: one row per distinguishable way to fail, apart from broken rules of HTTP.
//!
//! A row says which failures it stands for, which status they get, what the client reads and what the operator reads. What
//! the client reads never tells what is behind Weir. Codes are stable: dashboards and scripts depend on them.

use super::{Cause, Party};
use crate::phase::Phase;

/// One reason.
pub(super) struct FailureRow {
    pub(super) code: &'static str,
    pub(super) cause: Cause,
    pub(super) party: Party,
    /// Where it is expected; the same cause elsewhere finds the row that fits best.
    pub(super) phases: &'static [Phase],
    /// The answer while the client has received no head; `None` when there is nobody to answer.
    pub(super) status: Option<u16>,
    pub(super) log_status: u16,
    pub(super) client: &'static str,
    pub(super) happened: &'static str,
    pub(super) change: &'static str,
}

pub(super) const BAD_GATEWAY: &str = "The service gave an answer that cannot be passed on.";
const UNREACHED: &str = "The service cannot be reached right now. Please try again in a moment.";
const UNAVAILABLE: &str = "The service is not available right now. Please try again in a moment.";
const BUSY: &str = "The service is busy right now. Please try again in a moment.";
const TOO_SLOW: &str = "The service took too long to answer.";
const INTERNAL: &str = "Something went wrong here.";
const GONE: &str = "";

/// Declares the rows: `code: cause, party, [phases], status, client text, what happened, what to change`, where the status
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
    // Accept: there is no request yet, so nobody to answer.
    "connection-limit": TooManyConnections, Weir, [Accept], log 503, GONE,
        "The connection was closed unread: the process has as many connections as it may.",
        "Raise `process.connections_max` and the limit of open files, or lower `listener.NAME.timeouts.idle`.";
    "listener-connection-limit": TooManyListenerConnections, Weir, [Accept], log 503, GONE,
        "The connection was closed unread: the listener has as many connections as it may.",
        "Raise `listener.NAME.connections_max`, or lower `listener.NAME.timeouts.idle`.";
    "client-connection-limit": TooManyClientConnections, Weir, [Accept], log 429, GONE,
        "The connection was closed unread: its client address has as many connections as it may.",
        "Raise `listener.NAME.connections_per_client_max`; if the address is a proxy of yours, name it in `listener.NAME.trusted_proxies`, or have it send the PROXY protocol.";
    "accept-descriptor-limit": DescriptorLimit, Weir, [Accept], log 503, GONE,
        "No connection could be accepted: the process or the system has no file descriptor left.",
        "Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`.";
    "accept-draining": Drained, Weir, [Accept Tls], log 503, GONE,
        "The connection was closed because Weir is shutting down or the listener is being removed.",
        "Nothing, if the stop was intended. Take the address out of service before the stop to spare clients this.";
    "proxy-header-bad": ProxyHeaderBad, Client, [Accept], log 400, GONE,
        "The connection did not begin with a valid PROXY protocol header though the listener expects one.",
        "Have the balancer in front send the PROXY protocol, or take its address out of `listener.NAME.proxy_protocol.from`; the log of Weir says what was wrong.";
    "proxy-header-timeout": TimedOut, Client, [Accept], log 408, GONE,
        "The PROXY protocol header did not arrive in time.",
        "Check that the balancer in front sends the PROXY protocol as soon as it connects; raise `listener.NAME.proxy_protocol.timeout` if it does.";
    "accept-closed": Closed, Client, [Accept], log 499, GONE,
        "The client closed the connection before it sent anything.",
        "Nothing: browsers open connections ahead of need, and TCP health checks look like this.";
    "accept-reset": Reset, Client, [Accept], log 499, GONE,
        "The client reset the connection before it sent anything.",
        "Nothing: port scans and TCP health checks look like this.";

    // TLS with the client.
    "tls-handshake-timeout": TimedOut, Client, [Tls], log 408, GONE,
        "The client did not finish the TLS handshake in time.",
        "Nothing, unless it is frequent: then look for packet loss between client and Weir.";
    "tls-client-closed": Closed, Client, [Tls], log 499, GONE,
        "The client closed the connection during the TLS handshake.",
        "Check that the client trusts the certificate of this listener: many clients close without an alert when they do not.";
    "tls-client-reset": Reset, Client, [Tls], log 499, GONE,
        "The client reset the connection during the TLS handshake.",
        "Check that the client trusts the certificate of this listener.";
    "tls-handshake-failed": TlsHandshakeFailed, Client, [Tls], log 400, GONE,
        "The TLS handshake failed because the client did not keep to the protocol.",
        "Check that the client speaks TLS 1.2 or later.";
    "tls-no-shared-cipher": TlsNoSharedCipher, Client, [Tls], log 400, GONE,
        "Client and listener support no common TLS version, cipher suite or application protocol.",
        "Update the client, or offer more TLS versions and cipher suites on this listener.";
    "tls-unrecognized-name": TlsUnrecognizedName, Client, [Tls], log 421, GONE,
        "The client asked for a server name that the listener has no certificate for.",
        "Add a certificate for the name to the listener, or a default certificate.";
    "tls-handshake-rate": TooManyHandshakes, Weir, [Tls], log 503, GONE,
        "So many TLS handshakes waited for their turn that this one would have run out of time.",
        "Raise `listener.NAME.tls.handshake_rate`, or `listener.NAME.timeouts.tls` to let clients wait for longer.";
    "tls-client-certificate-missing": TlsCertificateMissing, Client, [Tls], log 400, GONE,
        "The listener requires a client certificate and the client sent none.",
        "Install a certificate in the client, or do not require one on this listener.";
    "tls-client-certificate-rejected": TlsCertificateRejected, Client, [Tls], log 400, GONE,
        "The certificate of the client is not signed by an authority that the listener trusts, or is not one for clients.",
        "Have the listener trust the authority (`listener.NAME.tls.client_certificates.ca`) if it should; give the client a certificate of one that is trusted otherwise.";
    "tls-client-certificate-expired": TlsCertificateExpired, Client, [Tls], log 400, GONE,
        "The certificate of the client has expired, or is not valid yet.",
        "Renew the certificate of the client; if it is new, compare the clocks of this machine and of the authority.";
    "tls-client-certificate-revoked": TlsCertificateRevoked, Client, [Tls], log 400, GONE,
        "The certificate of the client has been revoked by its authority.",
        "Nothing, if it should have been. Otherwise have the authority issue a new one.";
    "tls-revocation-unknown": TlsRevocationUnknown, Weir, [Tls], log 503, GONE,
        "Whether the certificate of the client has been revoked cannot be told: the list of its authority is missing, outdated, or not signed by it.",
        "Put the present list of every authority into the file of `listener.NAME.tls.client_certificates.crl`; it is read again when it changes.";
    "tls-client-alert": TlsAlert, Client, [Tls], log 400, GONE,
        "The client ended the TLS handshake with an alert; most often it does not trust our certificate.",
        "Check that the certificate of the listener comes with its whole chain and is not expired.";
    "plain-http-on-tls-port": PlainHttpOnTlsPort, Client, [Tls Request], answer 400,
        "This port expects HTTPS. Please use an https:// address.",
        "The client sent plain HTTP to a listener with TLS.",
        "Correct the address that the client uses, or offer plain HTTP on another listener that redirects.";
    "misdirected": Misdirected, Client, [Request Route], answer 421,
        "This connection was made for another host.",
        "The request names a host that the TLS connection was not made for.",
        "Nothing, if clients try again on a new connection. Otherwise give the hosts separate certificates or addresses.";

    // Reading the request.
    "request-head-timeout": TimedOut, Client, [Request], answer 408,
        "The request did not arrive in time.",
        "The client did not send the whole head of its request in time.",
        "Raise `listener.NAME.timeouts.request` for clients on very slow links.";
    "request-head-incomplete": Closed, Client, [Request], log 499, GONE,
        "The client closed the connection in the middle of the head of its request.",
        "Nothing, unless it is frequent: then look at the network or the time limits of the client.";
    "client-reset": Reset, Client, [Request Route Queue Connect Send Response Relay Finish], log 499, GONE,
        "The client reset the connection before it had the whole response.",
        "Compare the time limit of the client with the time per phase in the log: it often gives up first.";
    "client-closed": Closed, Client, [Route Queue Connect Response Relay Finish], log 499, GONE,
        "The client closed the connection before it had the whole response.",
        "Compare the time limit of the client with the time per phase in the log: it often gives up first.";
    "expectation-failed": ExpectationFailed, Client, [Request], answer 417,
        "The Expect field asks for something that is not supported.",
        "The request expects something other than 100-continue.",
        "Correct the client.";
    "connect-not-allowed": ConnectNotAllowed, Client, [Request Route], answer 501,
        "CONNECT is not supported here.",
        "The client sent CONNECT and no route allows it.",
        "Set `listener.NAME.route.allow_connect` if Weir is to open tunnels for clients.";
    "loop-detected": LoopDetected, Client, [Request Route], answer 508,
        "The request has been here before.",
        "The Via field of the request shows that it has passed this Weir already: an upstream leads back here.",
        "Correct the address in `upstream.NAME.servers` that leads back to a listener of Weir.";
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
        "The client sent the body of its request slower than the minimum rate.",
        "Lower `listener.NAME.timeouts.request_body.rate_min` for clients on very slow links.";
    "request-body-incomplete": Closed, Client, [Send], log 499, GONE,
        "The client closed the connection in the middle of the body of its request.",
        "Nothing, unless it is frequent: then look at the network or the time limits of the client.";
    "client-io-error": Io, Client, [Accept Tls Request Send Relay Finish], log 499, GONE,
        "Reading from or writing to the client failed with an error of the operating system.",
        "Look for the system error in the log of Weir at the same time.";

    // Choosing a route.
    "no-route": NoRoute, Weir, [Route], answer 404,
        "There is nothing at this address.",
        "No route of the listener matches the request.",
        "Run `weir explain` with the URL to see why; add a route, or one without conditions as the last resort.";
    "method-not-allowed": MethodNotAllowed, Client, [Route], answer 405,
        "The method of the request is not allowed here.",
        "Routes match the request, but none of them allows its method.",
        "Allow the method in one of these routes if it is legitimate; `weir explain` with `-X` shows which they are.";
    "request-connection-limit": TooManyConnections, Weir, [Request Route Connect], answer 503, BUSY,
        "The process has as many connections as it may.",
        "Raise `process.connections_max` and the limit of open files.";
    "request-client-limit": TooManyClientConnections, Weir, [Request Route], answer 429,
        "Too many connections. Please try again in a moment.",
        "The client address has as many connections as it may.",
        "Raise `listener.NAME.connections_per_client_max`.";
    "route-timeout": TimedOut, Weir, [Route], answer 503, UNAVAILABLE,
        "Choosing a route took longer than its time limit.",
        "Look for a worker that is overloaded.";
    "bad-rewrite": BadRewrite, Weir, [Route Send], answer 500, INTERNAL,
        "A rewrite of the route made a target or a field that is not valid in HTTP.",
        "Correct `listener.NAME.route.request_headers` or the rewriting of the path; `weir explain` shows the result for a URL.";
    "request-head-overflow": HeadOverflow, Weir, [Route Send], answer 431,
        "The head of the request is too large.",
        "The head of the request no longer fits its buffer after Weir added its fields.",
        "Raise `process.buffer_size`, or lower `listener.NAME.limits.head_size` so that there is room for the added fields.";

    // Choosing a server.
    "no-server": NoServer, Weir, [Route Queue Connect], answer 503, UNAVAILABLE,
        "No server of the upstream may take the exchange: all are down, ejected, draining or disabled, or there are none.",
        "Look at the state of the servers, in the log and in `weir_server_up` and `weir_server_ejected`; add servers, or one with `backup = true`, to `upstream.NAME.servers`.";
    "all-servers-full": AllServersFull, Weir, [Route Queue], answer 503, BUSY,
        "Every server of the upstream is at its limit, and the upstream has no queue.",
        "Raise `upstream.NAME.max_requests`, add servers, or set `upstream.NAME.queue.length_max` above 0.";
    "queue-full": QueueFull, Weir, [Queue], answer 503, BUSY,
        "Every server of the upstream is at its limit, and so is the queue.",
        "Raise `upstream.NAME.max_requests` or `upstream.NAME.queue.length_max`, or add servers.";
    "queue-evicted": QueueEvicted, Weir, [Queue], answer 503, BUSY,
        "The queue was full, and the place of this request went to one of a higher priority, or of a client that had fewer requests in it.",
        "Raise `upstream.NAME.max_requests` or `upstream.NAME.queue.length_max`, or add servers.";
    "queue-overload": QueueOverload, Weir, [Queue], answer 503, BUSY,
        "The upstream gets more requests than its servers can work on, for longer than `upstream.NAME.queue.delay_interval`, and this one had waited longer than `upstream.NAME.queue.delay_target`.",
        "Add servers, or raise `upstream.NAME.max_requests` if they can take more; raise `upstream.NAME.queue.delay_target` if clients can wait longer.";
    "queue-timeout": TimedOut, Weir, [Queue], answer 503, BUSY,
        "No server had a free slot before the time limit of the queue passed.",
        "Raise `upstream.NAME.max_requests` or `upstream.NAME.timeouts.queue`, or add servers.";
    "draining": Drained, Weir, [Request Route Queue Connect Send Response], answer 503, UNAVAILABLE,
        "Weir is shutting down, or the upstream is being removed, and the exchange could not be finished in the time left.",
        "Raise `process.stop_grace` so that running exchanges can finish.";

    // Connecting to a server.
    "connect-timeout": TimedOut, Server, [Connect], answer 504, TOO_SLOW,
        "The server did not accept the connection in time.",
        "Check that the address is right, that no firewall drops packets and that the listen backlog of the server is not full; or raise `upstream.NAME.timeouts.connect`.";
    "connect-refused": Refused, Server, [Connect], answer 502, UNREACHED,
        "The server refused the connection: nothing listens at the address.",
        "Check that the server runs and that its address in `upstream.NAME.servers` is right.";
    "connect-unreachable": Unreachable, Server, [Connect], answer 502, UNREACHED,
        "The host or network of the server cannot be reached.",
        "Check routes and firewalls between Weir and the address in `upstream.NAME.servers`.";
    "connect-reset": Reset, Server, [Connect], answer 502, UNREACHED,
        "The server reset the connection as soon as it was open.",
        "Look at the log and the connection limit of the server.";
    "connect-closed": Closed, Server, [Connect], answer 502, UNREACHED,
        "The server closed the connection as soon as it was open.",
        "Look at the log and the connection limit of the server; check whether it expects TLS or the PROXY protocol.";
    "connect-failed": ConnectFailed, Server, [Connect], answer 502, UNREACHED,
        "The connection to the server could not be opened.",
        "Look for the system error in the log of Weir at the same time.";
    "connect-denied": ConnectDenied, Weir, [Connect], answer 502, UNREACHED,
        "The operating system forbade the connection to the server.",
        "Give the user of Weir access to the Unix socket, or correct the firewall rule on this host.";
    "connect-socket-missing": SocketMissing, Server, [Connect], answer 502, UNREACHED,
        "The Unix socket of the server does not exist.",
        "Check that the server runs and that the path in `upstream.NAME.servers` is right, also inside a chroot.";
    "connect-ports-exhausted": PortsExhausted, Weir, [Connect], answer 503, BUSY,
        "No local port is free for a connection to this server.",
        "The server is not judged by it. Let more connections be reused (`upstream.NAME.pool.idle_max`), widen `net.ipv4.ip_local_port_range`, or give the server more addresses.";
    "connect-descriptor-limit": DescriptorLimit, Weir, [Connect], answer 503, BUSY,
        "No connection to the server could be opened: the process or the system has no file descriptor left.",
        "The server is not judged by it. Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`.";
    "connect-kernel-memory": KernelMemory, Weir, [Connect], answer 503, BUSY,
        "No connection to the server could be opened: the system has no memory left for sockets.",
        "The server is not judged by it. Look at `net.ipv4.tcp_mem` and at the memory of the machine or container; lower `process.connections_max`.";
    "connect-name-unresolved": NameUnresolved, Server, [Connect], answer 502, UNREACHED,
        "The host name of the server has no address.",
        "Check the name in `upstream.NAME.servers`, and `dns.resolvers` or `/etc/resolv.conf`.";
    "connect-tls-failed": TlsHandshakeFailed, Server, [Connect], answer 502, UNREACHED,
        "The TLS handshake with the server failed.",
        "Check that the server speaks TLS on this port; else take `tls` out of the upstream.";
    "connect-tls-no-shared-cipher": TlsNoSharedCipher, Server, [Connect], answer 502, UNREACHED,
        "Weir and the server support no common TLS version, cipher suite or application protocol.",
        "Update the server, or allow more TLS versions and cipher suites for this upstream.";
    "connect-tls-unrecognized-name": TlsUnrecognizedName, Server, [Connect], answer 502, UNREACHED,
        "The server has no certificate for the name that Weir asked for.",
        "Write a name that the server knows as `upstream.NAME.tls.server_name`.";
    "connect-tls-certificate-missing": TlsCertificateMissing, Server, [Connect], answer 502, UNREACHED,
        "The server wants a certificate of Weir, and none is configured.",
        "Name one in `upstream.NAME.tls.certificate` and `key`.";
    "connect-tls-certificate-rejected": TlsCertificateRejected, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server is not signed by an authority that Weir trusts.",
        "Name the authority, or the certificate itself, as `upstream.NAME.tls.ca`; with `debug` as `log.level` the log has the details.";
    "connect-tls-certificate-name-mismatch": TlsCertificateNameMismatch, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server is for other names than the one that Weir asked for.",
        "Write one of its names as `upstream.NAME.tls.server_name`, or have it issued for this one; with `debug` as `log.level` the log names both.";
    "connect-tls-certificate-revoked": TlsCertificateRevoked, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server has been revoked by its authority.",
        "Give the server a new certificate.";
    "connect-tls-revocation-unknown": TlsRevocationUnknown, Weir, [Connect], answer 503, UNREACHED,
        "Whether the certificate of the server has been revoked cannot be told: the list of its authority is missing, outdated, or not signed by it.",
        "Put the present list of every authority into the file of `upstream.NAME.tls.crl`; it is read again when it changes.";
    "connect-tls-certificate-expired": TlsCertificateExpired, Server, [Connect], answer 502, UNREACHED,
        "The certificate of the server has expired, or is not valid yet.",
        "Renew the certificate of the server; if it is new, compare the clocks of both machines.";
    "connect-tls-alert": TlsAlert, Server, [Connect], answer 502, UNREACHED,
        "The server ended the TLS handshake with an alert.",
        "Look at the log of the server; it may reject the certificate of the upstream.";
    "server-tls-certificate-missing": TlsCertificateMissing, Server, [Send Response], answer 502, UNREACHED,
        "The server wants a certificate of Weir, and none is configured; in TLS 1.3 it says so only after the handshake.",
        "Name one in `upstream.NAME.tls.certificate` and `key`.";
    "server-tls-alert": TlsAlert, Server, [Send Response Relay], answer 502, UNREACHED,
        "The server ended TLS with an alert; in TLS 1.3 that is how it rejects the certificate of the upstream.",
        "Look at the log of the server, and at `upstream.NAME.tls.certificate`.";
    "server-tls-protocol-error": TlsHandshakeFailed, Server, [Send Response Relay], answer 502, BAD_GATEWAY,
        "The server broke the TLS protocol after the handshake, or somebody changed its bytes on the way.",
        "Look at the log of the server and at what stands between it and Weir.";

    // Sending the request.
    "send-timeout": TimedOut, Server, [Send], answer 504, TOO_SLOW,
        "The server stopped taking the request.",
        "Look for the reason in the server, or raise `upstream.NAME.timeouts.send.credit`.";
    "send-too-slow": BodyTooSlow, Server, [Send], answer 504, TOO_SLOW,
        "The server took the body of the request slower than the minimum rate.",
        "Look for the reason in the server, or lower `upstream.NAME.timeouts.send.rate_min`.";
    "send-closed": Closed, Server, [Send], answer 502, UNREACHED,
        "The server closed the connection while the request was being sent, without a response.",
        "Look at the log and the body limit of the server.";
    "send-reset": Reset, Server, [Send], answer 502, UNREACHED,
        "The server reset the connection while the request was being sent, without a response.",
        "Look at the log and the body limit of the server.";
    "stale-connection": StaleConnection, Server, [Send Response], answer 502, UNREACHED,
        "A kept connection died as it was reused, and the request may not be repeated: its method is not idempotent, or its body is gone.",
        "Set `upstream.NAME.timeouts.idle` below the keep-alive time of the server. If the connection was idle for moments only, the server closes without saying so first, as some do on a body that they have not read: have it send `Connection: close`.";

    // Waiting for the response.
    "response-timeout": TimedOut, Server, [Response], answer 504, TOO_SLOW,
        "The server did not begin its response in time.",
        "Look for the reason in the server, or raise `upstream.NAME.timeouts.response`.";
    "response-closed": Closed, Server, [Response], answer 502, UNREACHED,
        "The server closed the connection without a response.",
        "Look for a crash or a worker limit in the log of the server.";
    "response-reset": Reset, Server, [Response], answer 502, UNREACHED,
        "The server reset the connection without a response.",
        "Look for a crash or a worker limit in the log of the server.";
    "response-head-incomplete": ResponseIncomplete, Server, [Response], answer 502, BAD_GATEWAY,
        "The server closed the connection in the middle of the head of its response.",
        "Look for a crash in the log of the server.";
    "response-unexpected-upgrade": UnexpectedUpgrade, Server, [Response], answer 502, BAD_GATEWAY,
        "The server switched to another protocol though the client did not ask for it.",
        "Correct the server.";
    "response-premature-upgrade": PrematureUpgrade, Server, [Response], answer 502, BAD_GATEWAY,
        "The server switched to another protocol before it had the whole request: what is left of the body would pass for bytes of that protocol.",
        "Correct the server: it has to read the body first, or to answer without switching.";
    "response-too-many-interim": TooManyInterimResponses, Server, [Response], answer 502, BAD_GATEWAY,
        "The server sent more 1xx responses before the final one than the limit.",
        "Correct the server.";
    "response-head-overflow": HeadOverflow, Server, [Response], answer 502, BAD_GATEWAY,
        "The head of the response no longer fits its buffer after Weir added its fields.",
        "Raise `process.buffer_size`, or have the server send a smaller head.";
    "response-bad-rewrite": BadRewrite, Weir, [Response], answer 500, INTERNAL,
        "The route made a response field that is not valid in HTTP.",
        "Correct `listener.NAME.route.response_headers`.";

    // The response to a probe: seen in the log and in the metrics of health checks only.
    "response-unexpected-status": UnexpectedStatus, Server, [Response], answer 502, UNREACHED,
        "A probe of the health check was answered with a status that it does not expect.",
        "Ask the server for `upstream.NAME.health.path` and see why; if that status is fine, add it to `upstream.NAME.health.status`.";
    "response-unexpected-body": UnexpectedBody, Server, [Response Relay], answer 502, UNREACHED,
        "A probe of the health check was answered with a body that lacks what it looks for.",
        "Ask the server for `upstream.NAME.health.path` and see why. Only the first `upstream.NAME.health.body_size` bytes are looked at.";

    "response-unexpected-answer": UnexpectedAnswer, Server, [Response], answer 502, UNREACHED,
        "A probe of the health check over TCP was answered with something else than it expects.",
        "At the log level `debug` Weir writes what the server said. Compare it with `upstream.NAME.health.expect`, or with what `upstream.NAME.health.preset` stands for: a user that may not log in, a server that starts up or turns clients away.";

    // Relaying the response, or a tunnel: the client has a head already.
    "response-incomplete": ResponseIncomplete, Server, [Relay], log 502, GONE,
        "The server closed the connection before the end of the body. The client got what had been received, without the end of the body.",
        "Look for a crash or a time limit in the log of the server.";
    "relay-server-closed": Closed, Server, [Relay Finish], log 502, GONE,
        "The server closed the connection before the end of the exchange.",
        "Look for a crash or a time limit in the log of the server.";
    "relay-server-reset": Reset, Server, [Relay Finish], log 502, GONE,
        "The server reset the connection before the end of the exchange.",
        "Look for a crash or a time limit in the log of the server.";
    "relay-server-timeout": TimedOut, Server, [Relay], log 504, GONE,
        "The server stopped in the middle of the body.",
        "Look for the reason in the server, or raise `upstream.NAME.timeouts.relay.credit`.";
    "relay-server-too-slow": BodyTooSlow, Server, [Relay], log 504, GONE,
        "The server sent the body slower than the minimum rate.",
        "Look for the reason in the server, or lower `upstream.NAME.timeouts.relay.rate_min`.";
    "relay-client-timeout": TimedOut, Client, [Relay], log 408, GONE,
        "The client stopped: it took no more of the response, or sent no more of the body of its request.",
        "Raise `listener.NAME.timeouts.send.credit` (or `listener.NAME.timeouts.request_body.credit`) for clients that pause for long.";
    "relay-client-too-slow": BodyTooSlow, Client, [Relay Finish], log 408, GONE,
        "The client took the response, or sent the rest of its request, slower than the minimum rate.",
        "Lower `listener.NAME.timeouts.send.rate_min` for clients on very slow links.";
    "response-excess-data": ResponseExcess, Server, [Relay Finish], log 200, GONE,
        "The server sent bytes beyond the end of its response; the client did not get them, and the connection was closed.",
        "Correct the length that the server declares.";
    "tunnel-idle-timeout": TunnelIdle, Weir, [Relay], log 408, GONE,
        "Neither side of the tunnel sent anything for longer than the time limit.",
        "Raise `upstream.NAME.timeouts.tunnel`, or have the application send pings.";
    "relay-draining": Drained, Weir, [Relay Finish], log 503, GONE,
        "The exchange was cut off at the end of the grace period: Weir is shutting down, or the server is being removed.",
        "Raise `process.stop_grace` so that long transfers and tunnels can finish.";

    // Finishing.
    "finish-timeout": TimedOut, Client, [Finish], log 408, GONE,
        "The client did not take the last bytes of the response in time.",
        "Raise `listener.NAME.timeouts.send.credit` for clients on very slow links.";

    // At any time.
    "exchange-timeout": ExchangeTimedOut, Weir, [Route Queue Connect Send Response Relay], answer 504, TOO_SLOW,
        "The exchange as a whole took longer than its route allows.",
        "See in the log in which phase the time went, or raise `listener.NAME.route.timeouts.exchange`.";
    "connection-max-age": ConnectionMaxAge, Weir, [Request Route Queue Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "The session reached its greatest age in the middle of an exchange.",
        "Raise `listener.NAME.timeouts.connection_age`.";
    "server-down": ServerDown, Server, [Connect Send Response Relay], answer 502, UNREACHED,
        "The server was marked down by its health check while the exchange ran, and `upstream.NAME.on_down` has connections through such a server closed.",
        "Look for the reason in the server; if it was well, the health check is too strict. `on_down = \"keep\"` lets exchanges go on.";
    "killed-by-operator": Killed, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "Somebody ended the session at the admin listener or the runtime socket, whatever it was doing, or Weir was stopping and the time for that was up.",
        "Nothing, if that was meant. The log of Weir says at the same time who asked for it; `process.stop_grace` is the time that a stop has.";
    "buffer-limit": BufferLimit, Weir, [Request], answer 503, BUSY,
        "The request waited for a buffer of Weir for as long as its head might have taken to arrive.",
        "Raise `process.buffers_max`, or lower `process.connections_max`.";
    "descriptor-limit": DescriptorLimit, Weir, [Tls Request Route Send Relay], answer 503, BUSY,
        "The process or the system has no file descriptor left.",
        "Raise the limit of open files (`LimitNOFILE=` in systemd, `ulimit -n`), or lower `process.connections_max`.";
    "kernel-memory": KernelMemory, Weir, [Send Response Relay], answer 503, BUSY,
        "The system has no memory left for sockets.",
        "Look at `net.ipv4.tcp_mem` and at the memory of the machine or container; lower `process.connections_max`.";
    "server-io-error": Io, Server, [Connect Send Response Relay], answer 502, UNREACHED,
        "Reading from or writing to the server failed with an error of the operating system.",
        "Look for the system error in the log of Weir at the same time.";
    "internal-timeout": TimedOut, Weir, [Accept Tls Request Connect Send Response Relay Finish], answer 503, UNAVAILABLE,
        "A time limit inside Weir passed that is neither the client's nor the server's.",
        "Look for a worker that is overloaded; report it if there is none.";
    "internal-error": Io, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 500, INTERNAL,
        "Weir met an error of the operating system that it has no answer to.",
        "Look for the system error in the log of Weir at the same time.";
    "panic": Panicked, Weir, [Accept Tls Request Route Queue Connect Send Response Relay Finish], answer 500, INTERNAL,
        "A defect of Weir ended the session; the process goes on.",
        "Report the message and the backtrace in the log of Weir.";
}
