//! Servers in DNS: every address of a name, or the records of type SRV. `records` reads answers, without I/O; asked again by their TTL.
//!
//! A question that is lost costs `dns.timeout`, several times. So another, short one is asked beside it each second, and the first answer counts: a
//! resolver that is back is heard within two seconds.
//!
//! An answer that is missing in part (one address family, one target that cannot be resolved now) counts as none: the last servers stay.

mod resolvers;
mod records;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};

use self::records::{SrvRecord, servers_of_srv};
use self::resolvers::DnsResolvers;
pub(crate) use self::resolvers::SharedResolvers;
pub use self::resolvers::{SYSTEM_FILE, dns_resolver};
use crate::clock;
use crate::last_known::report::Reporter;
use crate::server_set::DiscoveredServer;
use crate::sources::backoff::Backoff;

/// How often a name without records is asked for at least, until that is believed: a name that comes and goes is not one that is gone.
const EMPTY_QUESTIONS: u32 = 4;

/// From one question to the next for a name without records, at least.
const EMPTY_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// From one short question to the next, at most; a quarter of it is random.
const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(Clone)]
pub(crate) enum DnsQuestion {
    Addresses { host: Box<str>, port: u16 },
    Srv(Box<str>),
}

/// Asks until the task is dropped. An answer without records is believed after `empty_grace`.
pub(crate) async fn follow(
    question: DnsQuestion,
    resolvers: Arc<SharedResolvers>,
    empty_grace: Duration,
    reporter: Reporter,
) {
    let ttl_limits = resolvers.ttl_limits();
    let mut backoff = Backoff::default();
    loop {
        let began = clock::now();
        let answer = match resolvers.ready() {
            Ok(resolvers) => ask_on(&question, &resolvers).await.map_err(|error| error.to_string()),
            Err(error) => Err(format!("names cannot be resolved: {error} (see the section [dns])")),
        };
        let wait = match answer {
            Ok(DnsAnswer { servers, valid_until }) => {
                backoff.reset();
                let ttl = valid_until.map(|until| until.saturating_duration_since(clock::now()));
                let wait = wait_after(ttl.filter(|_| !servers.is_empty()), ttl_limits, empty_grace);
                reporter.said(servers);
                wait
            }
            Err(error) => {
                reporter.failed(&error);
                // Whatever the TTL was, and counted from the question: one that was lost has taken its time already.
                backoff.next_wait(clock::random()).saturating_sub(clock::now().duration_since(began))
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// The time to the next question after an answer that counts for `ttl`; `None`: there are no records, and however long that counts, servers that
/// come back are to serve soon.
fn wait_after(
    ttl: Option<Duration>,
    (ttl_min, ttl_max): (Duration, Duration),
    empty_grace: Duration,
) -> Duration {
    match ttl {
        Some(ttl) => ttl.clamp(ttl_min, ttl_max),
        None => ttl_min.min((empty_grace / EMPTY_QUESTIONS).max(EMPTY_INTERVAL_MIN)),
    }
}

/// Asks patiently, and when there is no answer soon, in short as well.
async fn ask_on(question: &DnsQuestion, resolvers: &DnsResolvers) -> Result<DnsAnswer, NetError> {
    let short = async {
        let mut began = clock::now();
        loop {
            let interval = SHORT_INTERVAL.mul_f64(0.75 + clock::random() / 4.0);
            tokio::time::sleep_until((began + interval).into()).await;
            began = clock::now();
            // The patient question says what is wrong.
            if let Ok(answer) = ask(question, &resolvers.short).await {
                return answer;
            }
        }
    };
    tokio::select! {
        answer = ask(question, &resolvers.patient) => answer,
        answer = short => Ok(answer),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_records_is_asked_for_as_often_as_allowed() {
        let millis = Duration::from_millis;
        let (limits, grace) = ((millis(1000), millis(300_000)), millis(30_000));
        assert_eq!(wait_after(Some(millis(60_000)), limits, grace), millis(60_000));
        assert_eq!(wait_after(Some(millis(0)), limits, grace), millis(1000));
        assert_eq!(wait_after(None, limits, grace), millis(1000), "the shortest time of the config");
        assert_eq!(
            wait_after(None, limits, millis(2000)),
            millis(500),
            "several times before it is believed"
        );
        assert_eq!(wait_after(None, limits, millis(0)), millis(50));
        assert_eq!(wait_after(None, (millis(20), millis(40)), grace), millis(20));
    }
}
