//! The tables of the running proxy for the next process, and those of the process before for the one that starts.

use std::collections::HashMap;
use std::time::Duration;

use weir_config::Config;
use weir_traffic::ServerId;
use weir_traffic::ejection::EjectedServer;

use crate::lifecycle::upgrade::handover::{
    ENTRIES_MAX, HandedCookies, HandedEjection, HandedRate, HandedTable, HandedTables, HandedTickets,
    LearnedOf,
};
use weir_proxy::net::clock;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};

/// Everything that the next process can go on with.
pub(super) fn collect(snapshot: &Snapshot) -> HandedTables {
    let mut tables = HandedTables::default();
    let mut room = EntryRoom(ENTRIES_MAX);
    for plan in &snapshot.upstreams {
        tables.ejections.extend(ejections(plan));
        tables.cookies.extend(cookies(plan, &mut room));
    }
    for plan in &snapshot.limits {
        let debts = plan.debts().filter(|debts| room.takes(&plan.config.name, debts.debts.len()));
        tables.limits.extend(debts.map(|debts| HandedRate::new(&plan.config.name, debts)));
    }
    for plan in &snapshot.tables {
        let contents = plan.contents();
        if room.takes(plan.name(), contents.entries.len()) {
            tables.tables.push(HandedTable::new(plan.name(), contents));
        }
    }
    for plan in &snapshot.listeners {
        let name = &plan.config.name;
        let debts = plan.connection_rate.as_ref().map(|rate| rate.debts());
        let debts = debts.filter(|debts| room.takes(name, debts.debts.len()));
        tables.connection_rates.extend(debts.map(|debts| HandedRate::new(name, debts)));
        let tickets = plan.tls.as_ref().and_then(|tls| tls.tickets.as_ref()?.hand_over());
        tables.tickets.extend(tickets.map(|keys| HandedTickets::new(name, &keys)));
    }
    tables
}

/// How many more entries fit in.
struct EntryRoom(usize);

impl EntryRoom {
    /// Whether so many do. A table that does not begins anew in the next process.
    fn takes(&mut self, name: &str, entries: usize) -> bool {
        match self.0.checked_sub(entries) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => {
                tracing::warn!(
                    name,
                    entries,
                    "a table is too large to be handed over: it begins anew in the next process"
                );
                false
            }
        }
    }
}

fn ejections(plan: &UpstreamPlan) -> Vec<HandedEjection> {
    let (table, now_ms) = (plan.outlier_detector.lock(), plan.millis(clock::now()));
    let ejection = |(at, server): (usize, &weir_config::Server)| {
        let stays = !plan.is_vacant(at) && plan.leaves_at[at].is_none();
        let EjectedServer { left_ms, times } = table.ejected(id(at), now_ms).filter(|_| stays)?;
        let (upstream, server) = (plan.config.name.to_string(), server.name.to_string());
        Some(HandedEjection { upstream, server, left_ms, times })
    };
    plan.config.servers.iter().enumerate().filter_map(ejection).collect()
}

fn cookies(plan: &UpstreamPlan, room: &mut EntryRoom) -> Option<HandedCookies> {
    let affinity = plan.affinity.as_ref()?;
    let learned = affinity.learned_servers(plan.seconds(clock::now()));
    if learned.is_empty() || !room.takes(&plan.config.name, learned.len()) {
        return None;
    }
    let servers = plan.config.servers.iter().map(|server| server.name.to_string()).collect();
    let stays = |server: &ServerId| plan.leaves_at.get(server.index()).is_some_and(Option::is_none);
    let cookies = learned.into_iter().filter(|(_, server)| stays(server));
    let cookies = cookies.map(|(cookie, server)| (cookie, u64::from(server.0)));
    let of =
        LearnedOf { upstream: &plan.config.name, cookie: affinity.cookie(), hash_key: affinity.hash_key() };
    Some(HandedCookies::new(&of, servers, cookies))
}

/// Goes on with the tables of the process before, as they are after this time; no worker runs yet.
pub(super) fn resume(config: &Config, snapshot: &Snapshot, tables: &HandedTables, later: Duration) {
    for ejection in &tables.ejections {
        resume_ejection(snapshot, ejection, later);
    }
    for handed in &tables.limits {
        if let Some(plan) = snapshot.limits.iter().find(|plan| *plan.config.name == *handed.name) {
            plan.resume(&handed.debts(later));
        }
    }
    for handed in &tables.tables {
        if let Some(plan) = snapshot.table(&handed.name) {
            plan.resume(&handed.contents(later));
        }
    }
    let listener = |name: &str| {
        let place = config.listeners.iter().position(|listener| *listener.name == *name)?;
        snapshot.listeners.get(place)
    };
    for handed in &tables.connection_rates {
        if let Some(rate) = listener(&handed.name).and_then(|plan| plan.connection_rate.as_ref()) {
            rate.resume(&handed.debts(later));
        }
    }
    for handed in &tables.tickets {
        let keys = listener(&handed.listener).and_then(|plan| plan.tls.as_ref()?.tickets.as_ref());
        if let Some(keys) = keys {
            keys.resume(&handed.keys(later));
        }
    }
    for handed in &tables.cookies {
        resume_cookies(snapshot, handed);
    }
}

fn resume_ejection(snapshot: &Snapshot, ejection: &HandedEjection, later: Duration) {
    let HandedEjection { upstream, server, left_ms, times } = ejection;
    let Some((_, plan)) = snapshot.upstream(upstream) else { return };
    let Some(at) = plan.in_service(server) else { return };
    let later_ms = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
    let ejected = EjectedServer { left_ms: left_ms.saturating_sub(later_ms), times: *times };
    let now_ms = plan.millis(clock::now());
    if plan.outlier_detector.lock().resume(id(at), ejected, now_ms) {
        plan.live[at].last_change.record("it was ejected when another process took over".to_owned());
    }
}

fn resume_cookies(snapshot: &Snapshot, handed: &HandedCookies) {
    let Some((_, plan)) = snapshot.upstream(&handed.upstream) else { return };
    let Some(affinity) = plan.affinity.as_ref().filter(|affinity| affinity.cookie() == handed.cookie) else {
        return;
    };
    affinity.set_hash_key(handed.hash_key);
    let now_s = plan.seconds(clock::now());
    let places: HashMap<&str, usize> =
        handed.servers.iter().filter_map(|name| Some((name.as_str(), plan.in_service(name)?))).collect();
    for (cookie, server) in handed.cookies() {
        if let Some(at) = places.get(server) {
            affinity.remember(cookie, id(*at), now_s);
        }
    }
}

fn id(at: usize) -> ServerId {
    ServerId(u32::try_from(at).expect("there are fewer servers"))
}
