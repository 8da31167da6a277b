//! `[listener.NAME.tls.acme]`: certificates that Weir obtains by itself.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::route::HostPattern;

use crate::certificate::Authorities;
use crate::key::choice;
use crate::masked_text::MaskedText;
use crate::value::ServerAddress;

/// Certificates by ACME (RFC 8555).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Acme {
    /// The hosts, in lower case, each once; a leading `*.` is a wildcard, proved by DNS.
    pub hosts: Vec<Box<str>>,
    /// Hosts that get a certificate when a client asks for one.
    pub on_demand: Vec<HostPattern>,
    /// How it is obtained.
    pub issuer: AcmeIssuer,
    /// How long a handshake waits for a certificate that is not there yet.
    pub wait: Duration,
}

/// How and from which authorities certificates are obtained. Listeners with the same ones share certificates.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AcmeIssuer {
    /// The address for mail from the authority.
    pub email: Option<Box<str>>,
    /// The URLs of the directories of authorities, in the order in which they are asked; at least one.
    pub ca: Vec<Box<str>>,
    /// What their servers are verified by; `None`: by the authorities of the system.
    pub ca_root: Option<Arc<Authorities>>,
    /// The folder for accounts and certificates.
    pub directory: PathBuf,
    /// The ways to prove a host, in the order of attempts; at least one.
    pub challenges: Vec<AcmeChallenge>,
    /// The profile of certificates.
    pub profile: Option<Box<str>>,
    /// The accounts at authorities that require one.
    pub external_accounts: Vec<ExternalAccount>,
    /// What decides for which hosts on demand there is one; `None`: all that match.
    pub on_demand_ask: Option<MaskedText>,
    /// The maximum number of certificates that were obtained on demand.
    pub on_demand_max: usize,
    /// The maximum number of orders in three hours at one authority.
    pub orders_max: usize,
    /// What sets records, for `dns-01`.
    pub dns: Option<DnsRecords>,
    /// Whether they are set where the CNAME of the challenge leads.
    pub dns_follow_cname: bool,
}

/// An account that binds another (RFC 8555 section 7.3.4).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExternalAccount {
    /// The authority, one of [`AcmeIssuer::ca`].
    pub ca: Box<str>,
    /// The id of the key.
    pub key_id: Box<str>,
    /// The key, decoded; empty only when the config was read without its files.
    pub key: AccountSecret,
}

/// A secret, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountSecret(pub Box<[u8]>);

impl fmt::Debug for AccountSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountSecret")
    }
}

/// What sets and removes TXT records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsRecords {
    /// A program.
    Command(DnsHook),
    /// A name server that takes updates.
    Update(DnsUpdate),
}

impl DnsRecords {
    /// The time until its work is seen everywhere.
    pub const fn wait(&self) -> Duration {
        match self {
            Self::Command(hook) => hook.wait,
            Self::Update(update) => update.wait,
        }
    }
}

/// Dynamic updates of a zone (RFC 2136).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DnsUpdate {
    /// The primary server of the zone, no Unix socket.
    pub server: ServerAddress,
    /// The zone, in lower case, without a dot at its end; `None`: the server is asked.
    pub zone: Option<Box<str>>,
    /// The key that signs.
    pub key: TsigKey,
    /// How long resolvers may keep the record.
    pub ttl: Duration,
    /// How long one exchange may take.
    pub timeout: Duration,
    /// The time until a change is seen everywhere.
    pub wait: Duration,
}

/// A key that a name server shares (RFC 8945).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TsigKey {
    /// The name that the server knows it by, in lower case, without a dot at its end.
    pub name: Box<str>,
    /// The algorithm.
    pub algorithm: TsigAlgorithm,
    /// The secret, decoded; empty only when the config was read without its files.
    pub secret: AccountSecret,
}

impl TsigKey {
    /// A key by the name that the server knows.
    pub fn new(name: impl Into<Box<str>>, algorithm: TsigAlgorithm, secret: AccountSecret) -> Self {
        Self { name: name.into(), algorithm, secret }
    }
}

choice! {
    /// The algorithm of a key for TSIG (RFC 8945 section 6).
    pub enum TsigAlgorithm {
        /// the one that every server knows
        #[default]
        HmacSha256 = "hmac-sha256",
        /// with SHA-384
        HmacSha384 = "hmac-sha384",
        /// with SHA-512
        HmacSha512 = "hmac-sha512",
    }
}

/// A program that sets and removes TXT records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DnsHook {
    /// The program and its first arguments.
    pub command: Vec<Box<str>>,
    /// How long it may take.
    pub timeout: Duration,
    /// The time until its work is seen everywhere.
    pub wait: Duration,
}

impl DnsHook {
    /// A program whose work is seen everywhere when it ends.
    pub fn new(command: Vec<Box<str>>, timeout: Duration) -> Self {
        Self { command, timeout, wait: Duration::ZERO }
    }
}

choice! {
    /// A way to prove to an authority that a host is one's own.
    pub enum AcmeChallenge {
        /// the authority opens a TLS connection to port 443 of the host (RFC 8737); no other port is needed
        #[default]
        TlsAlpn01 = "tls-alpn-01",
        /// the authority sends a request to port 80 of the host; any listener answers it, before its routes
        Http01 = "http-01",
        /// the authority looks up a TXT record, which `dns_update` or `dns_command` sets; no port is needed, and wildcards can be had
        Dns01 = "dns-01",
    }
}

impl Acme {
    /// Whether this host may get a certificate when a client asks for one.
    pub fn is_on_demand(&self, host: &str) -> bool {
        self.on_demand.iter().any(|pattern| pattern.matches(host.as_bytes()))
    }
}
