//! Which of several processes writes statuses: the holder of a Lease.
//!
//! Clocks of machines differ, so no time that another process wrote is compared with the own clock: a lease has run out when its record has
//! not changed for its duration as observed here. The holder stops to write before others can believe that.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Error as ClientError};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use weir_gateway::ObjectKey;

/// How long a record that does not change holds.
const LEASE_TIME: Duration = Duration::from_secs(15);

/// The longest time for which the record of another process is believed. Anyone who may write the Lease may name 68 years, and no process would lead
/// behind one that is gone. Records of other programs have seconds to minutes.
const FOREIGN_LEASE_TIME_MAX: Duration = Duration::from_secs(3_600);

/// How long the holder writes without having renewed it.
const HOLD_TIME: Duration = Duration::from_secs(10);

/// Between two renewals, and between two looks of the others.
const RENEW_PAUSE: Duration = Duration::from_secs(2);

/// How long one request may take: with it and a pause, the holder notices in time that it holds no more.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(2);

/// Which Lease, and who takes part.
#[derive(Debug, Clone)]
pub struct ElectionSettings {
    /// The Lease.
    pub lease: ObjectKey,
    /// The name of this process, which no other one has.
    pub identity: Box<str>,
}

/// Takes part in the election, if there is one, until `stop`. Without one `leads` stays as it is.
pub(crate) async fn take_part(
    client: Client,
    election: Option<ElectionSettings>,
    leads: watch::Sender<bool>,
    mut stop: watch::Receiver<bool>,
) {
    let Some(settings) = election else { return drop(stop.wait_for(|stop| *stop).await) };
    let election = Mutex::new(Election::new(client, settings));
    let ended = stop.clone();
    let make = || async { election.lock().await.run(&leads, ended.clone()).await };
    // During the pause the lease is not renewed, so that another process may get it.
    let tell = || {
        leads.send_replace(false);
    };
    tokio::select! {
        () = weir_tasks::keep_telling("the election of a leader", make, tell) => {}
        // In such a pause it would notice later.
        () = async {
            let _ended = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(2 * REQUEST_TIME).await;
        } => {}
    }
}

/// One of those that take part in an election.
struct Election {
    api: Api<Lease>,
    settings: ElectionSettings,
    /// The last record, and since when it is seen.
    seen: Option<(String, Instant)>,
    renewed: Option<Instant>,
    problem: Option<String>,
}

impl Election {
    fn new(client: Client, settings: ElectionSettings) -> Self {
        let api = Api::namespaced(client, &settings.lease.namespace);
        Self { api, settings, seen: None, renewed: None, problem: None }
    }

    /// Takes part until `stop`; then the lease is given up, so that another process need not wait for its end.
    async fn run(&mut self, leads: &watch::Sender<bool>, mut stop: watch::Receiver<bool>) {
        loop {
            let attempt = tokio::select! {
                attempt = tokio::time::timeout(REQUEST_TIME, self.attempt()) => attempt,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let outcome = attempt.map_err(|_late| "the API server does not answer".to_owned());
            match outcome.and_then(|outcome| outcome.map_err(|error| error.to_string())) {
                Ok(is_held) => {
                    self.renewed = is_held.then(Instant::now);
                    self.problem = None;
                }
                Err(why) => {
                    if self.problem.as_ref() != Some(&why) {
                        tracing::warn!(lease = %self.settings.lease, why, "the lease of the leader could not be read or written");
                    }
                    self.problem = Some(why);
                }
            }
            let is_leader = self.renewed.is_some_and(|renewed| renewed.elapsed() < HOLD_TIME);
            leads.send_if_modified(|leads| {
                let changes = *leads != is_leader;
                if changes {
                    tracing::info!(lease = %self.settings.lease, leader = is_leader, "leadership");
                }
                *leads = is_leader;
                changes
            });
            // Others need not look at the same time.
            let pause = RENEW_PAUSE.mul_f64(0.9 + fastrand::f64() / 5.0);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        let was_leader = leads.send_replace(false);
        if was_leader {
            let _outcome = tokio::time::timeout(REQUEST_TIME, self.release()).await;
        }
    }

    /// Gets or renews the lease if it is free, has run out, or is held; whether it is held now.
    async fn attempt(&mut self) -> Result<bool, ClientError> {
        let name = &*self.settings.lease.name;
        let Some(mut lease) = self.api.get_opt(name).await? else {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.record(None)) };
            return was_written(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder != &*self.settings.identity && !holder.is_empty() {
            let version = lease.metadata.resource_version.clone().unwrap_or_default();
            match &self.seen {
                Some((seen, since)) if *seen == version => {
                    if since.elapsed() < foreign_lease_time(&spec) {
                        return Ok(false);
                    }
                }
                _ => {
                    self.seen = Some((version, Instant::now()));
                    return Ok(false);
                }
            }
        }
        lease.spec = Some(self.record(Some(&spec)));
        was_written(self.api.replace(name, &PostParams::default(), &lease).await)
    }

    /// The record of this process as the holder, after that of another or its own.
    fn record(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let identity = Some(self.settings.identity.to_string());
        let own = before.filter(|before| before.holder_identity == identity);
        let transitions = before.and_then(|before| before.lease_transitions).unwrap_or(0);
        LeaseSpec {
            acquire_time: own.map_or(now.clone(), |own| own.acquire_time.clone()),
            holder_identity: identity,
            lease_duration_seconds: i32::try_from(LEASE_TIME.as_secs()).ok(),
            // As another process has counted them, or anyone who may write the lease.
            lease_transitions: Some(transitions.saturating_add((before.is_some() && own.is_none()).into())),
            renew_time: now,
            ..LeaseSpec::default()
        }
    }

    /// Gives the lease up.
    async fn release(&self) -> Result<(), ClientError> {
        let name = &*self.settings.lease.name;
        let Some(mut lease) = self.api.get_opt(name).await? else { return Ok(()) };
        let Some(spec) = &mut lease.spec else { return Ok(()) };
        if spec.holder_identity.as_deref() == Some(&*self.settings.identity) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.api.replace(name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

/// How long the record of another process holds while it does not change.
fn foreign_lease_time(record: &LeaseSpec) -> Duration {
    let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(LEASE_TIME, Duration::from_secs).min(FOREIGN_LEASE_TIME_MAX)
}

/// Whether a write took place: another process may have been faster.
fn was_written(outcome: Result<Lease, ClientError>) -> Result<bool, ClientError> {
    match outcome {
        Ok(_) => Ok(true),
        Err(ClientError::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_another_process_is_believed_for_an_hour_at_most() {
        for (named, expected) in [
            (None, LEASE_TIME),
            (Some(i32::MIN), LEASE_TIME),
            (Some(-1), LEASE_TIME),
            (Some(0), Duration::ZERO),
            (Some(1), Duration::from_secs(1)),
            (Some(60), Duration::from_secs(60)),
            (Some(3_600), FOREIGN_LEASE_TIME_MAX),
            (Some(3_601), FOREIGN_LEASE_TIME_MAX),
            (Some(i32::MAX), FOREIGN_LEASE_TIME_MAX),
        ] {
            let record = LeaseSpec { lease_duration_seconds: named, ..LeaseSpec::default() };
            assert_eq!(foreign_lease_time(&record), expected, "{named:?}");
        }
    }
}
