//! The answers to commands about tables of counters, in the form of HAProxy.

use std::fmt::Write as _;

use weir_observe::printable;
use weir_sort::CompactSort as _;
use weir_traffic::table::{StoredCounter, TableCounter, TableEntry};

use super::table_command::{EntrySelection, TableCommand};
use weir_proxy::state::snapshot::{Snapshot, TablePlan};

/// Entries that an answer shows.
const SHOWN_MAX: usize = 10_000;

/// Answers a command that may be done.
pub(super) fn answer(command: &TableCommand, snapshot: &Snapshot) -> String {
    let (TableCommand::Show(name, _) | TableCommand::Clear(name, _) | TableCommand::Set(name, ..)) = command
    else {
        return snapshot.tables.iter().map(|plan| header(plan)).collect();
    };
    let Some(plan) = snapshot.table(name) else { return "No such table.\n".to_owned() };
    match command {
        TableCommand::Set(_, key, values) => set(plan, key, values),
        TableCommand::Clear(_, selection) => {
            select(plan, selection).iter().for_each(|entry| _ = plan.clear(entry.key));
            String::new()
        }
        TableCommand::Show(_, selection) => show(plan, &select(plan, selection)),
        TableCommand::List => String::new(),
    }
}

/// `# table: clients, type: ip, size:100000, used:1`.
fn header(plan: &TablePlan) -> String {
    let definition = &plan.config.definition;
    let kind = if definition.is_by_address() { "ip" } else { "string" };
    format!("# table: {}, type: {kind}, size:{}, used:{}\n", plan.name(), definition.keys_max, plan.keys())
}

fn show(plan: &TablePlan, entries: &[TableEntry]) -> String {
    let mut text = header(plan);
    let expire_ms = u64::try_from(plan.config.definition.expire.as_millis()).unwrap_or(u64::MAX);
    let counters: Vec<StoredCounter> = plan.counters().collect();
    for entry in entries.iter().take(SHOWN_MAX) {
        let key = String::from_utf8_lossy(&entry.text);
        let exp = if entry.in_use > 0 { 0 } else { expire_ms.saturating_sub(entry.idle_ms) };
        let _infallible = write!(
            text,
            "0x{:016x}: key={} use={} exp={exp}",
            entry.key,
            printable::shown(&key).replace(' ', "\\ "),
            entry.in_use
        );
        for (counter, value) in counters.iter().zip(&entry.values) {
            let name = counter.counter.name();
            let _infallible = match counter.period_ms {
                0 => write!(text, " {name}={value}"),
                period_ms => write!(text, " {name}({period_ms})={value}"),
            };
        }
        text.push('\n');
    }
    if entries.len() > SHOWN_MAX {
        let _infallible = writeln!(text, "# {} more", entries.len() - SHOWN_MAX);
    }
    text
}

/// The entries that are meant, in the order of their keys.
fn select(plan: &TablePlan, selection: &EntrySelection) -> Vec<TableEntry> {
    let counters: Vec<TableCounter> = plan.counters().map(|stored| stored.counter).collect();
    let mut entries = plan.entries();
    match selection {
        EntrySelection::Key(text) => {
            let key = plan.key_of_text(text);
            entries.retain(|entry| key == Some(entry.key) || key.is_none() && entry.text == text.as_bytes());
        }
        EntrySelection::Where(conditions) => entries.retain(|entry| {
            conditions.iter().all(|condition| {
                let mut counted = counters.iter().zip(&entry.values);
                let found = counted.find(|(counter, _)| **counter == condition.counter);
                found.is_some_and(|(_, value)| condition.holds(*value))
            })
        }),
    }
    entries.sort_compact_by(|one, other| one.text.cmp(&other.text).then(one.key.cmp(&other.key)));
    entries
}

fn set(plan: &TablePlan, text: &str, values: &[(TableCounter, u64)]) -> String {
    let Some(key) = plan.key_of_text(text) else {
        return "Invalid key: the table is by several values, or by addresses.\n".to_owned();
    };
    for (counter, value) in values {
        if !plan.set(key, *counter, *value, text) {
            return format!("Data type '{}' cannot be set in this table.\n", counter.name());
        }
    }
    String::new()
}
