//! TXT records for `dns-01` by dynamic updates of the zone (RFC 2136), signed with a shared key (RFC 8945), over TCP.
//!
//! Own code, since the form of three messages is all that is needed; the HMAC is that of the library for TLS. Must not know challenges.

mod signature;
mod message;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weir_config::{DnsUpdate, ServerAddress};
use weir_proxy::net::clock;

use super::delegation::RecordName;
use super::issuer::IssuanceError;
use super::luck;
use message::{DnsResponse, RecordChange, WireName, code_name};
use signature::{SignatureVerdict, Signer};

const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;
const NOTAUTH: u8 = 9;
const NOTZONE: u8 = 10;

/// Adds the record of a challenge; others of the same name stay.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub(super) async fn add(update: &DnsUpdate, record: &RecordName, value: &str) -> Result<(), IssuanceError> {
    change(update, record, value, RecordChange::Add { ttl: seconds(update.ttl) }).await
}

/// Removes it.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub(super) async fn remove(
    update: &DnsUpdate,
    record: &RecordName,
    value: &str,
) -> Result<(), IssuanceError> {
    change(update, record, value, RecordChange::Remove).await
}

fn seconds(ttl: Duration) -> u32 {
    u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX)
}

async fn change(
    update: &DnsUpdate,
    record: &RecordName,
    value: &str,
    change: RecordChange,
) -> Result<(), IssuanceError> {
    let changed = tokio::time::timeout(update.timeout, change_in_time(update, record, value, change));
    changed.await.unwrap_or_else(|_| {
        let limit = update.timeout.as_secs();
        Err(IssuanceError::unreached(format!(
            "the name server {} did not answer within {limit} s (`dns_timeout`)",
            update.server
        )))
    })
}

async fn change_in_time(
    update: &DnsUpdate,
    record: &RecordName,
    value: &str,
    change: RecordChange,
) -> Result<(), IssuanceError> {
    let no_name = |name: &str| IssuanceError::refused(format!("`{name}` is not a name of the DNS"));
    let name = WireName::new(&record.target).ok_or_else(|| no_name(&record.target))?;
    let signer = Signer::new(&update.key).ok_or_else(|| no_name(&update.key.name))?;
    let mut exchange = DnsConnection::open(update, signer).await?;
    let zone = match &update.zone {
        Some(zone) => WireName::new(zone).ok_or_else(|| no_name(zone))?,
        None => exchange.zone_of(&name).await?,
    };
    if !name.is_in(&zone) {
        return Err(IssuanceError::refused(format!(
            "the record `{name}` is not in the zone `{zone}` of `dns_update`"
        )));
    }
    let id = luck::random() as u16;
    let response = exchange.send(message::update(id, &zone, &name, value, change), id).await?;
    exchange.check(&response, &zone)
}

/// A connection to the server.
struct DnsConnection<'a> {
    server: &'a ServerAddress,
    signer: Signer,
    stream: TcpStream,
}

impl<'a> DnsConnection<'a> {
    async fn open(update: &'a DnsUpdate, signer: Signer) -> Result<Self, IssuanceError> {
        let server = &update.server;
        let connected = match server {
            ServerAddress::Ip(address) => TcpStream::connect(address).await,
            ServerAddress::Name { host, port } => TcpStream::connect((&**host, *port)).await,
            ServerAddress::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let failed = |error: std::io::Error| {
            IssuanceError::unreached(format!("the name server {server} cannot be reached: {error}"))
        };
        Ok(Self { server, signer, stream: connected.map_err(failed)? })
    }

    /// The zone that a name belongs to: the owner of the SOA record that the server answers with, or adds when there is no such name. Where the name is a
    /// CNAME, by a wildcard for example, there is none: then that of the name above.
    async fn zone_of(&mut self, name: &WireName) -> Result<WireName, IssuanceError> {
        let mut asked = Some(name.clone());
        while let Some(name_or_above) = asked {
            let id = luck::random() as u16;
            let response = self.send(message::zone_query(id, &name_or_above), id).await?;
            match (response.code, response.zone) {
                (0 | NXDOMAIN, Some(zone)) if name.is_in(&zone) => return Ok(zone),
                (0 | NXDOMAIN, _) => asked = name_or_above.parent(),
                (REFUSED | NOTAUTH, _) => break,
                (code, _) => return Err(self.refusal(code, "the query for the zone")),
            }
        }
        Err(IssuanceError::refused(format!(
            "the name server {} has no zone for `{name}`: is it the primary one? (`dns_update.zone` names a zone)",
            self.server
        )))
    }

    /// Sends a message with a signature, and verifies that of the response.
    async fn send(&mut self, mut message: Vec<u8>, id: u16) -> Result<DnsResponse, IssuanceError> {
        let mac = self.signer.sign(&mut message, clock::unix_now().as_secs());
        let server = self.server;
        let broken = |error: std::io::Error| {
            IssuanceError::unreached(format!("the connection to the name server {server} broke: {error}"))
        };
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        self.stream.write_all(&framed).await.map_err(broken)?;
        let len = self.stream.read_u16().await.map_err(broken)?;
        let mut answer = vec![0; usize::from(len)];
        self.stream.read_exact(&mut answer).await.map_err(broken)?;
        let distrusted = |why: &str| {
            IssuanceError::refused(format!("the response of the name server {server} cannot be used: {why}"))
        };
        let response = DnsResponse::read(&answer, id).map_err(distrusted)?;
        let now = clock::unix_now().as_secs();
        match response.signature.clone() {
            Some(signature) => match self.signer.verify(&answer, signature, &mac, now) {
                SignatureVerdict::Verified => Ok(response),
                SignatureVerdict::Rejected(code) => Err(IssuanceError::refused(format!(
                    "the name server {server} does not accept the key: {} ({})",
                    code_name(code),
                    why_rejected(code)
                ))),
                SignatureVerdict::Bad(why) => Err(distrusted(why)),
            },
            // A refusal need not be signed; nothing follows from it.
            None if !matches!(response.code, 0 | NXDOMAIN) => Ok(response),
            None => Err(distrusted("it is not signed")),
        }
    }

    fn check(&self, response: &DnsResponse, zone: &WireName) -> Result<(), IssuanceError> {
        match response.code {
            0 => Ok(()),
            code => Err(self.refusal(code, &format!("the update of the zone `{zone}`"))),
        }
    }

    fn refusal(&self, code: u8, what: &str) -> IssuanceError {
        let why = match code {
            REFUSED => ": does its policy permit it with this key?",
            NOTAUTH => ": it is not the primary server of the zone, or does not know the key",
            NOTZONE => ": the name is not in that zone",
            _ => "",
        };
        let text = format!(
            "the name server {} refuses {what} with {}{why}",
            self.server,
            code_name(u16::from(code))
        );
        match code {
            SERVFAIL => IssuanceError::unreached(text),
            _ => IssuanceError::refused(text),
        }
    }
}

fn why_rejected(code: u16) -> &'static str {
    match code {
        16 => "the secret is another one",
        17 => "it does not know a key of this name and algorithm",
        18 => "the clocks of the server and of Weir differ by more than five minutes",
        _ => "see its log",
    }
}
