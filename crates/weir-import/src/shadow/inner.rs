//! What was imported, where no client comes in any more: only copies do, over a socket of this process.

use std::cell::RefCell;
use std::collections::HashSet;

use super::parts::with_blocks;
use super::{FrontPlan, ROUTE_HEADER, with_change};
use crate::document::{Draft, DraftTable};
use crate::source::{Position, StatementId};

/// What a socket for clients has, and limits on connections, which copies have none of.
const OF_SOCKETS: [&str; 10] = [
    "backlog",
    "tcp_nodelay",
    "tcp_keepalive",
    "defer_accept",
    "fast_open",
    "connections_max",
    "connections_per_client_max",
    "connections_per_client_rate",
    "connections_exempt",
    "access_log",
];

/// Characters of a file that a name of a route has.
const FILE_NAME_MAX: usize = 40;

/// Takes out what the old balancer writes: its log files, its process id, its sockets, its cache on disk.
pub(super) fn leave_alone(draft: &mut Draft, folder: &str) {
    draft.root().remove("access_log");
    if draft.has(&["process"]) {
        draft.table(&["process"]).remove("pid_file");
        if draft.table(&["process"]).is_empty() {
            draft.root().remove("process");
        }
    }
    draft.root().remove("admin");
    draft.table(&["admin"]).set_plain("socket", format!("unix:{folder}/shadow.sock"));
    for section in ["listener", "block"] {
        for table in children_of(draft, section) {
            table.remove("access_log");
            table.tables_mut("route").iter_mut().for_each(|route| route.remove("access_log"));
        }
    }
    for cache in children_of(draft, "cache") {
        cache.remove("disk");
    }
}

/// Names routes by their lines, so that a difference leads there. Names that the config needs stay.
pub(super) fn name_routes(draft: &mut Draft, place: &dyn Fn(StatementId) -> Position) {
    let mut taken = HashSet::new();
    for section in ["listener", "block"] {
        for table in children_of(draft, section) {
            for route in table.tables_mut("route") {
                let Some(origin) = route.origin().filter(|_| !route.has("name")) else { continue };
                let name = free_name(&line(&place(origin)), &taken);
                route.set_first("name", name.as_str());
                taken.insert(name);
            }
        }
    }
}

/// `nginx.conf-12`: names have no colon, and no more than 64 characters.
fn line(at: &Position) -> String {
    let file = at.file.rsplit('/').next().unwrap_or(&at.file);
    let named = |one: char| if one.is_ascii_alphanumeric() || matches!(one, '.' | '_') { one } else { '-' };
    let file: String = file.chars().take(FILE_NAME_MAX).map(named).collect();
    format!("{file}-{}", at.line)
}

fn free_name(wish: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{wish}-{number}"));
    let mut names = std::iter::once(wish.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).expect("numbers do not end")
}

/// Moves a listener to the socket of the copies, which say who their client is.
pub(super) fn hide(draft: &mut Draft, plan: &FrontPlan) {
    let all = with_blocks(draft, draft.get(&["listener", &plan.listener]).expect("the plan is of it"));
    let responses = with_change(all.value("response_headers"), ROUTE_HEADER, "{listener} {route}");
    let requests = with_change(all.value("request_headers"), "x-weir-mirror", "1");
    let listener = draft.table(&["listener", &plan.listener]);
    OF_SOCKETS.iter().for_each(|key| listener.remove(key));
    // Datagrams come to the front alone.
    listener.remove("http3");
    listener.remove("proxy_protocol");
    listener.set_plain("address", plan.socket.as_str());
    listener.table("proxy_protocol").set_plain("from", vec!["unix"]);
    listener.set_plain("request_headers", requests);
    listener.set_plain("response_headers", responses);
    for block in children_of(draft, "block") {
        OF_SOCKETS.iter().for_each(|key| block.remove(key));
    }
}

/// Takes out upstreams whose name stands nowhere any more: those of listeners that are left out.
pub(super) fn forget_unused(draft: &mut Draft) {
    let texts = RefCell::new(HashSet::new());
    draft.root().change_texts(&|_, text| {
        texts.borrow_mut().insert(text.to_owned());
        None
    });
    let texts = texts.into_inner();
    let names: Vec<String> = draft.table(&["upstream"]).keys().map(str::to_owned).collect();
    for name in names.iter().filter(|name| !texts.contains(*name)) {
        draft.table(&["upstream"]).remove(name);
    }
}

fn children_of<'d>(draft: &'d mut Draft, section: &str) -> Vec<&'d mut DraftTable> {
    if !draft.has(&[section]) {
        return Vec::new();
    }
    draft.table(&[section]).children_mut().map(|(_, table)| table).collect()
}
