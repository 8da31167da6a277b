//! Servers in DNS: every address of a name, or the records of type SRV. `records` reads answers, without I/O; asked again by their TTL.
//!
//! An answer that is missing in part (one address family, one target that cannot be resolved now) counts as none: the last servers stay.

mod records;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use weir_config::Dns;

use self::records::{SrvRecord, servers_of_srv};
use crate::backoff::Backoff;
use crate::clock;
use crate::report::Reporter;
use crate::server_set::DiscoveredServer;

/// Names that have no records now are asked for again this often at least, whatever the TTL of that: servers that come back serve soon.
const EMPTY_TTL_MAX: Duration = Duration::from_secs(5);

/// What is asked for.
pub(crate) enum DnsQuestion {
    Addresses { host: Box<str>, port: u16 },
    Srv(Box<str>),
}

/// The resolver that the config asks for.
///
/// # Errors
/// When the resolvers of the system cannot be read.
pub(crate) fn resolver(dns: &Dns) -> Result<Arc<TokioResolver>, NetError> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = if dns.resolvers.is_empty() {
        TokioResolver::builder(provider)?
    } else {
        let servers = dns.resolvers.iter().map(|addr| {
            let mut protocols = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for protocol in &mut protocols {
                protocol.port = addr.port();
            }
            NameServerConfig::new(addr.ip(), true, protocols.to_vec())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        TokioResolver::builder_with_config(config, provider)
    };
    builder.options_mut().timeout = dns.timeout;
    // The TTL is kept here, between the limits of the config.
    builder.options_mut().cache_size = 0;
    builder.build().map(Arc::new)
}

/// Asks until the task is dropped.
pub(crate) async fn follow(
    question: DnsQuestion,
    dns: Dns,
    resolver: Arc<TokioResolver>,
    reporter: Reporter,
) {
    let mut backoff = Backoff::default();
    loop {
        let wait = match ask(&question, &resolver).await {
            Ok(DnsAnswer { servers, valid_until }) => {
                backoff.reset();
                let ttl =
                    valid_until.map_or(EMPTY_TTL_MAX, |until| until.saturating_duration_since(clock::now()));
                let ttl = if servers.is_empty() { ttl.min(EMPTY_TTL_MAX) } else { ttl };
                reporter.said(servers);
                ttl
            }
            Err(error) => {
                reporter.failed(&error);
                backoff.next_wait(clock::random())
            }
        };
        tokio::time::sleep(wait.clamp(dns.ttl_min, dns.ttl_max)).await;
    }
}

struct DnsAnswer {
    servers: Vec<DiscoveredServer>,
    valid_until: Option<Instant>,
}

async fn ask(question: &DnsQuestion, resolver: &TokioResolver) -> Result<DnsAnswer, NetError> {
    match question {
        DnsQuestion::Addresses { host, port } => {
            let (ips, valid_until) = addresses(resolver, host).await?;
            let server =
                |ip: IpAddr| DiscoveredServer::new(weir_config::ServerAddress::Ip((ip, *port).into()));
            Ok(DnsAnswer { servers: ips.into_iter().map(server).collect(), valid_until })
        }
        DnsQuestion::Srv(name) => srv(resolver, name).await,
    }
}

/// A question with an answer, or none because there are no such records.
async fn lookup(resolver: &TokioResolver, name: &str, kind: RecordType) -> Result<Option<Lookup>, NetError> {
    match resolver.lookup(name, kind).await {
        Ok(found) => Ok(Some(found)),
        Err(NetError::Dns(DnsError::NoRecordsFound(nothing)))
            if matches!(nothing.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn addresses(resolver: &TokioResolver, host: &str) -> Result<(Vec<IpAddr>, Option<Instant>), NetError> {
    let (four, six) =
        tokio::join!(lookup(resolver, host, RecordType::A), lookup(resolver, host, RecordType::AAAA));
    let found: Vec<Lookup> = [four?, six?].into_iter().flatten().collect();
    let valid_until = found.iter().map(Lookup::valid_until).min();
    let ips = found.iter().flat_map(|lookup| lookup.answers()).filter_map(|record| ip_of(&record.data));
    Ok((ips.collect(), valid_until))
}

fn ip_of(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
        _ => None,
    }
}

async fn srv(resolver: &TokioResolver, name: &str) -> Result<DnsAnswer, NetError> {
    let Some(found) = lookup(resolver, name, RecordType::SRV).await? else {
        return Ok(DnsAnswer { servers: Vec::new(), valid_until: None });
    };
    let mut valid_until = found.valid_until();
    let mut records = Vec::new();
    for record in found.answers() {
        let RData::SRV(srv) = &record.data else { continue };
        // A target `.` says that there is no such service (RFC 2782).
        if srv.target.is_root() {
            continue;
        }
        let given = found.additionals().iter().filter(|glue| glue.name == srv.target);
        let mut ips: Vec<IpAddr> = given.filter_map(|glue| ip_of(&glue.data)).collect();
        if ips.is_empty() {
            let (resolved, until) = addresses(resolver, &srv.target.to_ascii()).await?;
            valid_until = until.map_or(valid_until, |until| until.min(valid_until));
            ips = resolved;
        }
        let target = srv.target.to_ascii().trim_end_matches('.').to_ascii_lowercase().into();
        records.push(SrvRecord { priority: srv.priority, weight: srv.weight, port: srv.port, target, ips });
    }
    Ok(DnsAnswer { servers: servers_of_srv(&records), valid_until: Some(valid_until) })
}
