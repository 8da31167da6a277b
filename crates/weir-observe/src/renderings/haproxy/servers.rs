//! `show servers state` and `show servers conn`: the address of each server, its state and mode, and its connections.

use std::net::IpAddr;

use super::check::check_numbers;
use super::rows::{upstreams, whole};
use crate::overview::{Overview, ServerOverview, ServerStatus, UpstreamOverview};

/// `show servers state`, of all upstreams or of one; `None`: there is no such upstream.
pub fn servers_state(overview: &Overview, upstream: Option<&str>) -> Option<String> {
    let mut text = String::from(
        "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
         srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
         bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr \
         srv_agent_addr srv_agent_port\n",
    );
    each(overview, upstream, |proxy_id, upstream, server_id, server| {
        let ServerEndpoint { addr, port, name } = ServerEndpoint::new(server);
        let (state, admin) = states(server);
        let since = overview.process.at_ms.saturating_sub(server.since_ms) / 1000;
        let (weight, is_up) = (server.weight, server.stats.is_up);
        let (status, result) = check_numbers(server.probes.as_ref().map_or("INI", |probes| probes.check));
        let (checked, health) = (if server.probes.is_some() { 6 } else { 0 }, u8::from(is_up));
        text.push_str(&format!(
            "{proxy_id} {} {server_id} {} {addr} {state} {admin} {weight} {weight} {since} {status} {result} {health} {checked} 0 0 0 {name} \
             {port} - {} 0 - - 0\n",
            upstream.name,
            server.name,
            u8::from(server.stats.tls_handshakes > 0),
        ));
    })?;
    Some(text)
}

/// `show servers conn`, of all upstreams or of one; `None`: there is no such upstream.
pub fn servers_conn(overview: &Overview, upstream: Option<&str>) -> Option<String> {
    let mut text = String::from(
        "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim idle_cur \
         idle_per_thr[1]\n",
    );
    each(overview, upstream, |proxy_id, upstream, server_id, server| {
        let ServerEndpoint { addr, port, .. } = ServerEndpoint::new(server);
        let (open, idle) = (server.stats.connections_open, whole(server.stats.connections_idle.now));
        let used = whole(open.now).saturating_sub(idle);
        text.push_str(&format!(
            "{}/{} {proxy_id}/{server_id} {addr} {port} - 0 {used} {peak} {peak} 0 {idle} -1 {idle} {idle}\n",
            upstream.name,
            server.name,
            peak = whole(open.peak),
        ));
    })?;
    Some(text)
}

/// `show backend`: the names of the upstreams.
pub fn backends(overview: &Overview) -> String {
    let names = overview.upstreams.iter().map(|upstream| upstream.name.clone() + "\n");
    "# name\n".to_owned() + &names.collect::<String>()
}

/// Calls `tell` for each server of all upstreams, or of one; `None` when there is none of this name.
fn each(
    overview: &Overview,
    only: Option<&str>,
    mut tell: impl FnMut(u64, &UpstreamOverview, u64, &ServerOverview),
) -> Option<()> {
    let mut found = only.is_none();
    for (proxy_id, upstream) in upstreams(overview) {
        if only.is_some_and(|name| name != upstream.name) {
            continue;
        }
        found = true;
        for (server_id, server) in (1..).zip(&upstream.servers) {
            tell(proxy_id, upstream, server_id, server);
        }
    }
    found.then_some(())
}

/// Where a server is, as HAProxy writes it.
struct ServerEndpoint {
    addr: String,
    port: u16,
    /// The name that is resolved.
    name: String,
}

impl ServerEndpoint {
    fn new(server: &ServerOverview) -> Self {
        let split = |text: &str| {
            let (host, port) = text.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some((host.to_owned(), port.parse::<u16>().ok()?))
        };
        let is_ip = |host: &str| host.parse::<IpAddr>().is_ok();
        let named = split(&server.address).filter(|(host, _)| !is_ip(host));
        let at = server.endpoints.first().and_then(|text| split(text)).filter(|(host, _)| is_ip(host));
        let port = at.as_ref().or(named.as_ref()).map_or(0, |(_, port)| *port);
        let none = || "-".to_owned();
        Self {
            addr: at.map_or_else(none, |(host, _)| host),
            port,
            name: named.map_or_else(none, |(host, _)| host),
        }
    }
}

/// The state and the mode of a server, in the numbers of HAProxy: 0 stopped, 2 running, 3 stopping; 1 forced maintenance, 8 forced
/// drain.
fn states(server: &ServerOverview) -> (u8, u8) {
    match server.status {
        ServerStatus::Leaving => (3, 1),
        ServerStatus::Maintenance => (0, 1),
        ServerStatus::Draining => (2, 8),
        ServerStatus::Down | ServerStatus::Ejected => (0, 0),
        ServerStatus::Up => (2, 0),
    }
}
