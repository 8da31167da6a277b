//! What each key that decides something may ask for: conditions, and texts with placeholders that decisions are made by.
//!
//! `docs/order.md` shows it. A test tries each value in each key, so that `weir check` and this table say the same.

use std::fmt::Write as _;

use super::{Stage, stages_markdown};

/// A key that asks for values of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStage {
    /// The key.
    pub key: &'static str,
    /// The last stage whose values it may ask for.
    pub stage: Stage,
    /// Whether it is a condition, and no text with placeholders.
    pub is_condition: bool,
}

const fn condition(key: &'static str, stage: Stage) -> KeyStage {
    KeyStage { key, stage, is_condition: true }
}

const fn template(key: &'static str, stage: Stage) -> KeyStage {
    KeyStage { key, stage, is_condition: false }
}

/// All of them, in the order in which they are asked.
pub const DECISIONS: &[KeyStage] = &[
    condition("listener.NAME.route.when", Stage::RequestHead),
    condition("list.NAME.when", Stage::Identity),
    template("list.NAME.key", Stage::Identity),
    condition("limit.NAME.when", Stage::Identity),
    template("limit.NAME.key", Stage::Identity),
    condition("table.NAME.when", Stage::Identity),
    template("table.NAME.key", Stage::Identity),
    template("listener.NAME.route.redirect.to", Stage::Identity),
    template("listener.NAME.route.respond.headers", Stage::Identity),
    condition("listener.NAME.route.mirror.when", Stage::BeforeServer),
    condition("listener.NAME.route.cache.when", Stage::BeforeServer),
    condition("listener.NAME.route.cache.refresh_when", Stage::BeforeServer),
    template("listener.NAME.route.cache.key", Stage::Identity),
    template("upstream.NAME.dynamic.server", Stage::Identity),
    condition("upstream.NAME.retry.when", Stage::Upstream),
    condition("listener.NAME.route.request_headers.when", Stage::Server),
    template("listener.NAME.route.request_headers.set", Stage::Server),
    condition("listener.NAME.route.cache.store_when", Stage::ResponseHead),
    condition("listener.NAME.route.error_pages.when", Stage::ResponseHead),
    condition("listener.NAME.route.expires.when", Stage::ResponseFields),
    condition("listener.NAME.route.response_headers.when", Stage::ResponseFields),
    template("listener.NAME.route.response_headers.set", Stage::ResponseFields),
    condition("table.NAME.increment.gpc0", Stage::Finish),
    condition("access_log.when", Stage::Finish),
];

/// Values of each stage, by their names as placeholders; maps and tables are known with what they are by.
pub const ASKED: &[(&str, Stage)] = &[
    ("path", Stage::RequestHead),
    ("map.country", Stage::RequestHead),
    ("table.clients.gpc0", Stage::RequestHead),
    ("match.1", Stage::Route),
    ("user", Stage::Identity),
    ("map.plan", Stage::Identity),
    ("table.users.gpc0", Stage::Identity),
    ("upstream", Stage::Upstream),
    ("server", Stage::Server),
    ("status", Stage::ResponseHead),
    ("compression", Stage::ResponseFields),
];

/// The generated part of `docs/order.md`: the stages, and what each key may ask for.
pub fn order_markdown() -> String {
    const BEHIND: &str = "### Facts";
    let page = stages_markdown();
    let (stages, facts) = page.split_once(BEHIND).expect("a test compares the page");
    format!("{stages}{}\n{BEHIND}{facts}", decisions_markdown())
}

fn decisions_markdown() -> String {
    let mut page = String::from(
        "### What each key may ask for\n\nA key decides at a fixed stage, and asks for what is known by then; `weir check` refuses all else. Conditions \
         (`when`) write names without braces. Here, `map.country` is by a database of addresses (GeoIP) with `source = \"{client_address}\"`, `map.plan` by \
         `{user}`; the table `clients` counts by `{client_address}`, `users` by `{user}`.\n\n| key |",
    );
    for (name, _) in ASKED {
        let _infallible = write!(page, " `{{{name}}}` |");
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(ASKED.len()));
    for KeyStage { key, stage, .. } in DECISIONS {
        let _infallible = write!(page, "\n| `{key}` |");
        for (_, known) in ASKED {
            page.push_str(if known <= stage { " works |" } else { " refused |" });
        }
    }
    page.push('\n');
    page
}
