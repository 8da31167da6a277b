//! The config that runs Weir beside the balancer whose config was imported: that one answers the clients, and copies of their requests go
//! through what was imported.
//!
//! Each listener becomes two: `front-NAME` at the address of the original, which hands every request to the old balancer, and the listener
//! itself at a socket of this process, which only gets the copies. Must not change what a request is answered there, nor reach what belongs
//! to the program that still runs: its log files, its sockets, its caches.

use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::{Position, StatementId};

mod front;
mod inner;
mod parts;
mod addresses;
mod options;

pub use options::{OldBalancer, ShadowListen, ShadowOptions};

use addresses::TcpEndpoint;
use parts::{ImportedListener, with_blocks};

/// A header that says which route of the imported config has answered a copy.
const ROUTE_HEADER: &str = "x-weir-shadow-route";

/// A header that counts how often a request came in at a front.
const HOPS_HEADER: &str = "x-weir-shadow";

/// The id of a request, under a name that no server uses: `X-Request-Id` of clients stays theirs.
const ID_HEADER: &str = "x-weir-shadow-id";

/// A listener that is compared with the old balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowedListener {
    /// Its name.
    pub name: String,
    /// Where clients come in now.
    pub addresses: Vec<String>,
    /// The address of the old balancer that answers them.
    pub old: String,
}

/// What becomes of the listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowReport {
    /// Those that are compared.
    pub shadowed: Vec<ShadowedListener>,
    /// The names of those that are not in the result (or one of their addresses), and why.
    pub left_out: Vec<(String, String)>,
}

/// Why a config cannot run beside the old balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// What is made of one listener.
struct FrontPlan {
    /// The name of the listener.
    listener: String,
    parts: ImportedListener,
    /// Where clients come in.
    addresses: Vec<String>,
    /// The old balancer.
    old: OldBalancer,
    /// Its address.
    old_address: String,
    /// The socket of the copies.
    socket: String,
}

/// Changes what was imported.
///
/// # Errors
/// A loop, two listeners for one address of the old balancer, or nothing that could be compared.
pub(crate) fn apply(
    draft: &mut Draft,
    options: &ShadowOptions,
    place: &dyn Fn(StatementId) -> Position,
) -> Result<ShadowReport, ShadowError> {
    let mut report = ShadowReport::default();
    let plans = plans(draft, options, &mut report)?;
    for (name, _) in &report.left_out {
        draft.table(&["listener"]).remove(name);
    }
    if !report.left_out.is_empty() {
        inner::forget_unused(draft);
    }
    inner::leave_alone(draft, &options.folder);
    inner::name_routes(draft, place);
    for plan in &plans {
        inner::hide(draft, plan);
        front::add(draft, plan, options);
    }
    say_what_it_is(draft, options, &report);
    Ok(report)
}

fn plans(
    draft: &Draft,
    options: &ShadowOptions,
    report: &mut ShadowReport,
) -> Result<Vec<FrontPlan>, ShadowError> {
    let servers = parts::servers(draft);
    let mut plans: Vec<FrontPlan> = Vec::new();
    for (name, table) in draft.get(&["listener"]).into_iter().flat_map(DraftTable::children) {
        let parts = ImportedListener::of(&with_blocks(draft, table));
        let old = match parts.old_balancer(options, &servers) {
            Ok(old) => old,
            Err(why) => {
                report.left_out.push((name.to_owned(), why));
                continue;
            }
        };
        for socket in &parts.sockets {
            let why = "a Unix socket stays with the old balancer".to_owned();
            report.left_out.push((format!("{name} at {socket}"), why));
        }
        let port = old.port.unwrap_or(parts.endpoints[0].port);
        let old_address = format!("{}:{port}", old.host);
        if let Some(before) = plans.iter().find(|plan| plan.old_address == old_address) {
            return Err(two_for_one(&before.listener, name, &old_address));
        }
        let addresses = parts.front_addresses(options.listen.as_ref(), plans.len());
        let old_endpoint = TcpEndpoint::of_server(&old_address);
        let is_itself = |address: &String| {
            let front = TcpEndpoint::of_listener(address);
            front.zip(old_endpoint.as_ref()).is_some_and(|(front, old)| old.reaches(&front))
        };
        if let Some(address) = addresses.iter().find(|address| is_itself(address)) {
            return Err(leads_to_itself(name, address, &old_address));
        }
        report.shadowed.push(ShadowedListener {
            name: name.to_owned(),
            addresses: addresses.clone(),
            old: old_address.clone(),
        });
        let socket = format!("unix:{}/shadow-{}.sock", options.folder, parts::file_name(name));
        plans.push(FrontPlan {
            listener: name.to_owned(),
            parts,
            addresses,
            old: old.clone(),
            old_address,
            socket,
        });
    }
    if plans.is_empty() { Err(nothing(report)) } else { Ok(plans) }
}

fn two_for_one(before: &str, name: &str, address: &str) -> ShadowError {
    ShadowError {
        message: format!("the listeners `{before}` and `{name}` would both hand their requests to {address}"),
        help: "leave the port of the URL out: each listener goes to its own port there".to_owned(),
    }
}

fn leads_to_itself(name: &str, address: &str, old: &str) -> ShadowError {
    ShadowError {
        message: format!("a loop: Weir would listen at {address} for `{name}`, and the old balancer is to be at {old}"),
        help: "move the old balancer to another port and name that, or give Weir another address with `--shadow-listen`"
            .to_owned(),
    }
}

fn nothing(report: &ShadowReport) -> ShadowError {
    let reasons: Vec<String> = report.left_out.iter().map(|(name, why)| format!("`{name}`: {why}")).collect();
    ShadowError {
        message: format!("no listener can be compared: {}", reasons.join("; ")),
        help:
            "name the old balancer as `--shadow http://ADDRESS:PORT`, and with `https` for listeners with TLS"
                .to_owned(),
    }
}

/// The first lines of the file.
fn say_what_it_is(draft: &mut Draft, options: &ShadowOptions, report: &ShadowReport) {
    let mut lines = vec![
        "Weir in front of the old balancer. Clients get the answers of the old one.".to_owned(),
        format!("A copy of {}% of the GET, HEAD and OPTIONS requests goes through the imported config, so its", options.share),
        "servers get these a second time; both answers are compared. `weir ctl mirrors` shows where they differ.".to_owned(),
    ];
    lines.extend(report.left_out.iter().map(|(name, why)| format!("Left out: `{name}`: {why}")));
    lines.iter().for_each(|line| draft.root().comment(line));
}

/// A list of changes of headers with one more at its end.
fn with_change(known: Option<TomlValue>, name: &str, value: &str) -> TomlValue {
    let set = TomlValue::inline([("set", TomlValue::inline([(name, value.into())]))]);
    match known {
        Some(TomlValue::Array(mut list)) => {
            list.push(set);
            TomlValue::Array(list)
        }
        Some(one) => TomlValue::Array(vec![one, set]),
        None => TomlValue::inline([("set", TomlValue::inline([(name, value.into())]))]),
    }
}
