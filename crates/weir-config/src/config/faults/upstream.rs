//! What may not hold of an upstream.

use std::fmt;
use std::time::Duration;

use crate::value::print_duration;

/// A rule about upstreams that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpstreamFault {
    ServerTwice(String),
    ServerNameTwice(Box<str>),
    NoWeight(Box<str>),
    /// Of this protocol.
    WithoutTls(&'static str),
    H2cWithTls,
    ProxyHeaderForFastcgi,
    /// Of this protocol.
    ProxyHeaderForHttp2(&'static str),
    /// Of this protocol.
    ClientSourceForHttp2(&'static str),
    /// Of this server, by its address.
    SourceFamily(String),
    RetryAfterSuccess,
    EjectionTimes {
        base: Duration,
        max: Duration,
    },
    ProbeIntervals {
        fast: Duration,
        usual: Duration,
    },
    TunnelAsProbe,
    GrpcProbeOverHttp1,
    GrpcProbeOverFastcgi,
    NoTlsVersion,
    /// Of this version of TLS.
    NoSuite(&'static str),
}

impl fmt::Display for UpstreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerTwice(address) => write!(f, "the server `{address}` is listed twice"),
            Self::ServerNameTwice(name) => write!(f, "two servers are named `{name}`"),
            Self::NoWeight(upstream) => {
                write!(f, "every server of `{upstream}` has the weight 0: none would get a request")
            }
            Self::WithoutTls(protocol) => write!(
                f,
                "`protocol = \"{protocol}\"` needs `tls`: HTTP/2 is agreed on in the TLS handshake (ALPN)"
            ),
            Self::H2cWithTls => {
                f.write_str("`protocol = \"h2c\"` is HTTP/2 without TLS, and the upstream has `tls`")
            }
            Self::ProxyHeaderForFastcgi => {
                f.write_str("servers of FastCGI do not read the header of the PROXY protocol")
            }
            Self::ProxyHeaderForHttp2(protocol) => write!(
                f,
                "`protocol = \"{protocol}\"` excludes `proxy_protocol`: clients share a connection, and its header can name only one"
            ),
            Self::ClientSourceForHttp2(protocol) => write!(
                f,
                "`protocol = \"{protocol}\"` excludes `source_address = \"{{client_address}}\"`: clients share a connection, which has one address"
            ),
            Self::SourceFamily(server) => {
                write!(f, "`source_address` is not of the address family of the server `{server}`")
            }
            Self::RetryAfterSuccess => {
                f.write_str("`on_grpc_status` cannot contain `ok`: it is the status of a successful call")
            }
            Self::EjectionTimes { base, max } => {
                let (base, max) = (print_duration(*base), print_duration(*max));
                write!(f, "`base_time` ({base}) is longer than `max_time` ({max})")
            }
            Self::ProbeIntervals { fast, usual } => {
                let (fast, usual) = (print_duration(*fast), print_duration(*usual));
                write!(f, "`fast_interval` ({fast}) is longer than `interval` ({usual})")
            }
            Self::TunnelAsProbe => f.write_str("a probe cannot open a tunnel"),
            Self::GrpcProbeOverFastcgi => {
                f.write_str("gRPC is spoken over HTTP/2, and the servers are spoken to in FastCGI")
            }
            Self::GrpcProbeOverHttp1 => {
                f.write_str("gRPC is spoken over HTTP/2, and the servers are spoken to in HTTP/1.1")
            }
            Self::NoTlsVersion => f.write_str("`versions` is an empty list"),
            Self::NoSuite(version) => {
                write!(f, "no suite of `cipher_suites` is for TLS {version}")
            }
        }
    }
}
