//! The listener at which clients come in, the old balancer that answers them, and the way of the copies.

use super::addresses::TcpEndpoint;
use super::parts;
use super::{FrontPlan, HOPS_HEADER, ID_HEADER, ROUTE_HEADER, ShadowOptions};
use crate::document::{Draft, DraftTable, TomlValue};

/// What the front has of the listener: what decides who the client is and how it may speak.
const OF_CLIENTS: [&str; 13] = [
    "tls",
    "http2",
    "http3",
    "proxy_protocol",
    "trusted_proxies",
    "client_address_header",
    "client_address_recursive",
    "lenient",
    "backlog",
    "tcp_nodelay",
    "tcp_keepalive",
    "defer_accept",
    "fast_open",
];

/// Limits of heads: one that the old balancer takes has to come to it.
const OF_HEADS: [&str; 3] = ["head_size", "target_size", "headers"];

/// How often a request may come in at a front: sites that lead to others of the same balancer do that. More is a loop.
const HOPS_MAX: usize = 8;

/// Headers that differ between two products on purpose where the config has this.
const DELIBERATE: [(&str, &[&str]); 3] =
    [("compression", &["vary"]), ("files", &["accept-ranges", "etag"]), ("http3", &["alt-svc"])];

/// Adds the front of a listener, with both upstreams.
pub(super) fn add(draft: &mut Draft, plan: &FrontPlan, options: &ShadowOptions) {
    let name = |prefix: &str| format!("{prefix}-{}", plan.listener);
    let front = free(draft, "listener", &name("front"));
    let old = free(draft, "upstream", &name("old"));
    let copies = free(draft, "upstream", &name("shadow"));
    let is_asked = |key: &str| parts::is_asked(draft, key) || plan.parts.all.has(key);
    let ignored = DELIBERATE.iter().filter(|(key, _)| is_asked(key));
    let ignored: Vec<&str> = ignored.flat_map(|(_, names)| names.iter().copied()).collect();
    *draft.table(&["listener", &front]) = front_of(plan, route(options, (&old, &copies), ignored));
    *draft.table(&["upstream", &old]) = old_of(plan);
    *draft.table(&["upstream", &copies]) = copies_of(plan);
}

fn free(draft: &Draft, section: &str, wish: &str) -> String {
    let numbered = (2..).map(|number| format!("{wish}-{number}"));
    let mut names = std::iter::once(wish.to_owned()).chain(numbered);
    names.find(|name| draft.get(&[section, name]).is_none()).expect("numbers do not end")
}

fn front_of(plan: &FrontPlan, route: DraftTable) -> DraftTable {
    let mut front = DraftTable::beside(&plan.parts.all);
    front.comment(&format!("Clients of `{}` come in here.", plan.listener));
    let address = match plan.addresses.as_slice() {
        [one] => TomlValue::from(one.as_str()),
        several => TomlValue::from(several.to_vec()),
    };
    front.set_plain("address", address);
    for key in OF_CLIENTS {
        front.copy_from(key, &plan.parts.all);
    }
    if let Some(limits) = plan.parts.all.get_table("limits") {
        for key in OF_HEADS.into_iter().filter(|key| limits.has(key)) {
            front.table("limits").copy_from(key, limits);
        }
    }
    front.table("paths").set_plain("forward", "as-received");
    front.table("forwarded").set_plain("via", false);
    front.table("request_id").set_plain("header", ID_HEADER);
    front.push_table("route", route);
    front.push_table("route", loops());
    front
}

/// All requests: to the old balancer, and copies of some to the imported listener.
fn route(options: &ShadowOptions, (old, copies): (&str, &str), ignored: Vec<&str>) -> DraftTable {
    let mut route = DraftTable::default();
    route.set_plain("name", "all");
    route.set_plain("upstream", old);
    route.set_plain("x_accel", vec!["pass"]);
    route.set_plain("request_headers", changes());
    let mirror = route.table("mirror");
    mirror.comment("Methods that may change something are not copied: add them only if no server is reached that clients need.");
    mirror.set_plain("upstream", copies);
    mirror.set_plain("share", format!("{}%", options.share));
    mirror.set_plain("methods", vec!["GET", "HEAD", "OPTIONS"]);
    mirror.set_plain("when", format!("header[\"{HOPS_HEADER}\"] == \"\""));
    mirror.set_plain("compare", vec!["status", "headers", "decoded-body"]);
    if !ignored.is_empty() {
        mirror.set_plain("ignore_headers", ignored);
    }
    mirror.set_plain("route_header", ROUTE_HEADER);
    route
}

/// What the old balancer is told: who the client is, and how often the request has come in.
fn changes() -> TomlValue {
    // One address, that of the client: a chain would have that of a proxy in front at its end, which the old balancer may believe.
    let client = ("x-forwarded-for", TomlValue::from("{client_address}"));
    let first = TomlValue::inline([client, (HOPS_HEADER, "1".into())]);
    let hops = format!("{{header.{HOPS_HEADER}}}1");
    let again = [
        ("when", TomlValue::from(format!("header[\"{HOPS_HEADER}\"] != \"\""))),
        ("set", TomlValue::inline([(HOPS_HEADER, hops.into())])),
    ];
    TomlValue::Array(vec![TomlValue::inline([("set", first)]), TomlValue::inline(again)])
}

/// A request that comes in again and again.
fn loops() -> DraftTable {
    let mut route = DraftTable::default();
    route.comment("A loop: the old balancer has sent the request back this often.");
    route.set_plain("name", "loop");
    let ones = "1".repeat(HOPS_MAX);
    route.set_plain("when", format!("header[\"{HOPS_HEADER}\"].startsWith(\"{ones}\")"));
    route.table("respond").set_plain("status", 508);
    route
}

fn old_of(plan: &FrontPlan) -> DraftTable {
    let mut old = DraftTable::beside(&plan.parts.all);
    old.comment(
        "The old balancer. It sees Weir as its client: have it believe `X-Forwarded-For` of this machine,",
    );
    old.comment("or read the PROXY protocol; then add `proxy_protocol = \"v2\"`.");
    old.set_plain("servers", vec![plan.old_address.as_str()]);
    if plan.old.tls {
        old.set_plain("protocol", "auto");
        let endpoint = TcpEndpoint::of_server(&plan.old_address);
        let is_here = endpoint.as_ref().is_some_and(TcpEndpoint::is_loopback);
        let is_address = plan.old.host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        let site = plan.parts.host();
        let server_name = if is_address || is_here { site } else { Some(plan.old.host.clone()) };
        let tls = old.table("tls");
        if let Some(name) = server_name {
            tls.set_plain("server_name", name);
        }
        // Nothing stands between two programs of one machine.
        if is_here {
            tls.set_plain("verify", false);
        }
        if tls.is_empty() {
            tls.set_plain("verify", true);
        }
    } else if speaks_http2(&plan.parts.all) {
        old.set_plain("protocol", "h2c");
    }
    let timeouts = old.table("timeouts");
    for key in ["send", "response", "relay", "tunnel"] {
        timeouts.set_plain(key, "off");
    }
    old.set_plain("ejection", "off");
    old
}

fn copies_of(plan: &FrontPlan) -> DraftTable {
    let mut copies = DraftTable::beside(&plan.parts.all);
    copies.comment(&format!("`{}`, in this process.", plan.listener));
    copies.set_plain("servers", vec![plan.socket.as_str()]);
    copies.set_plain("proxy_protocol", "v2");
    if plan.parts.has_tls {
        let name = plan.parts.host().unwrap_or_else(|| "shadow.internal".to_owned());
        let tls = copies.table("tls");
        tls.set_plain("server_name", name);
        tls.set_plain("verify", false);
    }
    copies.table("retry").set_plain("attempts_max", 1);
    copies.set_plain("ejection", "off");
    copies
}

/// Whether clients may speak HTTP/2 without TLS.
fn speaks_http2(listener: &DraftTable) -> bool {
    listener.get_table("http2").is_some_and(|http2| http2.text("prior_knowledge") == Some("allowed"))
}
