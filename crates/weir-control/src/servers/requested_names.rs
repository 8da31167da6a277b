//! The names that requests give of servers (`dynamic`), looked up as requests ask for them and again when their TTL is over.
//!
//! One task for each upstream. An address that the upstream does not allow is dropped here, before anything else knows it. Must not put names into use: that
//! does the owner of the proxy.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use tokio::task::JoinSet;
use weir_config::{ServerAddress, Upstream};
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::servers::requested_names::RequestedNames;
use weir_proxy::state::snapshot::{CurrentSnapshot, UpstreamPlan};
use weir_traffic::names::NameAnswer;

use super::dns_names::NameResolver;
use crate::workers::commands::{CommandSender, CommandsUnderWay};

/// Least time between two lines about addresses that are not allowed.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Names that are resolved within this time come into use together: each time is the work of a change of all servers of the upstream.
const COALESCING: Duration = Duration::from_millis(5);

/// How often is looked where nothing is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// Whose names they are, and who looks them up.
#[derive(Clone)]
pub(crate) struct NamesTask {
    pub(crate) upstream: Box<str>,
    pub(crate) names: Arc<RequestedNames>,
    pub(crate) current: CurrentSnapshot,
    pub(crate) resolver: Arc<NameResolver>,
    pub(crate) commands: CommandSender,
}

impl NamesTask {
    /// The plan of the upstream, and how long names that are gone stay.
    fn plan(&self) -> Option<(Arc<UpstreamPlan>, Duration)> {
        let current = self.current.load();
        current.upstream(&self.upstream).map(|(_, plan)| (Arc::clone(plan), current.empty_grace))
    }

    /// Looks up what requests ask for, until the task is dropped.
    pub(crate) async fn run(self) {
        let (mut lookups, under_way) = (JoinSet::new(), CommandsUnderWay::default());
        let (mut told_at, mut used_at) = (None, None::<Instant>);
        self.names.begin_again();
        loop {
            let wait = self.plan().and_then(|(plan, empty_grace)| {
                let times = (plan.config.dynamic.as_ref()?, empty_grace, self.resolver.dns().ttl_min);
                let (due, wait) = self.names.due(times, |name| plan.is_busy(name));
                for name in due {
                    let (resolver, config) = (Arc::clone(&self.resolver), Arc::clone(&plan.config));
                    lookups.spawn(async move {
                        let found = look_up(&resolver, &config, &name).await;
                        (name, found)
                    });
                }
                wait
            });
            let mut wait = wait.unwrap_or(LOOK_INTERVAL);
            if self.names.has_changed() && under_way.count() == 0 {
                let now = clock::now();
                let pause =
                    used_at.map_or(Duration::ZERO, |at| (at + COALESCING).saturating_duration_since(now));
                if pause.is_zero() {
                    used_at = Some(now);
                    let _no_owner = self.commands.use_names(self.upstream.clone(), under_way.one_more());
                } else {
                    wait = wait.min(pause);
                }
            }
            tokio::select! {
                Some(looked_up) = lookups.join_next(), if !lookups.is_empty() => {
                    // One that has panicked is asked for again when all begin anew.
                    if let Ok((name, found)) = looked_up {
                        self.tell_refused(&name, &found, &mut told_at);
                        self.names.answered(&name, found.answer);
                    } else {
                        self.names.begin_again();
                    }
                }
                () = self.names.work() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Says which addresses are not allowed, not each time.
    fn tell_refused(&self, name: &str, found: &FoundName, told_at: &mut Option<Instant>) {
        let now = clock::now();
        let is_due = told_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if found.refused.is_empty() || !is_due {
            return;
        }
        *told_at = Some(now);
        let addresses: Vec<String> = found.refused.iter().take(4).map(ToString::to_string).collect();
        tracing::warn!(
            upstream = &*self.upstream,
            name,
            ?addresses,
            "a name that requests give leads to addresses that `allow` does not have: no request goes there"
        );
    }
}

/// What is known of a name.
struct FoundName {
    answer: NameAnswer,
    /// Addresses that are not allowed.
    refused: Vec<IpAddr>,
}

async fn look_up(resolver: &NameResolver, config: &Upstream, name: &str) -> FoundName {
    let nothing = |answer| FoundName { answer, refused: Vec::new() };
    let settings = config.dynamic.as_ref();
    let Some((settings, ServerAddress::Name { host, port })) =
        settings.and_then(|settings| Some((settings, settings.allow.find(name.as_bytes())?)))
    else {
        return nothing(NameAnswer::Addresses(Vec::new(), 0));
    };
    match resolver.lookup(&host).await {
        Ok(found) => {
            let is_allowed = |ip: &IpAddr| settings.allow.allows_address(*ip, port);
            let (allowed, refused) = found.iter().partition(is_allowed);
            let dns = resolver.dns();
            let ttl = clock::until(found.valid_until()).clamp(dns.ttl_min, dns.ttl_max);
            let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            FoundName { answer: NameAnswer::Addresses(allowed, ttl_ms), refused }
        }
        Err(error) => nothing(if is_absence(&error) { NameAnswer::NotFound } else { NameAnswer::NoAnswer }),
    }
}

/// Whether a resolver says that there are no addresses.
fn is_absence(error: &NetError) -> bool {
    let NetError::Dns(DnsError::NoRecordsFound(nothing)) = error else { return false };
    matches!(nothing.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
}
