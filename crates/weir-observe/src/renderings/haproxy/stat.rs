//! `show stat`: rows as CSV, typed or JSON, all or the requested ones.

use serde_json::{Value as Json, json};

use super::StatForm;
use super::columns::COLUMNS;
use super::rows::{StatRow, rows};
use crate::overview::Overview;

/// Which rows are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatFilter {
    /// The listener or upstream by its id or name; `None`: all.
    pub proxy: Option<ProxyName>,
    /// The sum of 1 for listeners, 2 for upstreams, 4 for servers; -1 for all.
    pub types: i64,
    /// The server by its id; -1: all.
    pub server_id: i64,
    /// Whether servers in maintenance are left out.
    pub without_maintenance: bool,
    /// Whether objects that are not up are left out.
    pub only_up: bool,
}

impl Default for StatFilter {
    fn default() -> Self {
        Self { proxy: None, types: -1, server_id: -1, without_maintenance: false, only_up: false }
    }
}

/// A listener or an upstream as a command names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyName {
    /// By the id of `show stat`.
    Id(i64),
    /// By its name.
    Name(String),
}

impl StatFilter {
    fn takes(&self, row: &StatRow, overview: &Overview) -> bool {
        let of_proxy = match &self.proxy {
            None => true,
            Some(ProxyName::Id(id)) => *id == row.proxy_id as i64,
            Some(ProxyName::Name(name)) => names_of(overview, row.proxy_id) == Some(name.as_str()),
        };
        let of_type = self.types < 0 || self.types & row.object.bit() != 0;
        let of_server = self.server_id < 0 || self.server_id == row.server_id as i64;
        let in_state = (!self.without_maintenance || !row.is_in_maintenance) && (!self.only_up || row.is_up);
        of_proxy && of_type && of_server && in_state
    }

    /// Whether it names a listener or an upstream that is not there.
    pub fn is_vain(&self, overview: &Overview) -> bool {
        match &self.proxy {
            Some(ProxyName::Name(name)) => {
                let listeners = overview.listeners.iter().map(|listener| &listener.name);
                let upstreams = overview.upstreams.iter().map(|upstream| &upstream.name);
                !listeners.chain(upstreams).any(|known| known == name)
            }
            _ => false,
        }
    }
}

fn names_of(overview: &Overview, id: u64) -> Option<&str> {
    let listeners = overview.listeners.iter().map(|listener| listener.name.as_str());
    let upstreams = overview.upstreams.iter().map(|upstream| upstream.name.as_str());
    listeners.chain(upstreams).nth(id.checked_sub(2)? as usize)
}

/// `show stat`.
pub fn stat(overview: &Overview, filter: &StatFilter, form: StatForm) -> String {
    let rows: Vec<StatRow> = rows(overview).into_iter().filter(|row| filter.takes(row, overview)).collect();
    match form {
        StatForm::Text => csv(&rows),
        StatForm::Typed => typed(&rows),
        StatForm::Json => json!(rows.iter().map(row_json).collect::<Vec<_>>()).to_string() + "\n",
    }
}

fn csv(rows: &[StatRow]) -> String {
    let mut text = String::from("# ");
    for (name, _) in COLUMNS {
        text.push_str(name);
        text.push(',');
    }
    text.push('\n');
    for row in rows {
        text.push_str(&row.csv());
        text.push('\n');
    }
    text
}

fn typed(rows: &[StatRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let StatRow { object, proxy_id, server_id, .. } = row;
        for field in row.fields() {
            text.push_str(&format!("{}.{proxy_id}.{server_id}.{}\n", object.letter(), field.typed()));
        }
    }
    text
}

fn row_json(row: &StatRow) -> Json {
    let fields = row.fields().map(|field| {
        let mut object = field.json();
        object["objType"] = json!(row.object.word());
        object["proxyId"] = json!(row.proxy_id);
        object["id"] = json!(row.server_id);
        object
    });
    Json::Array(fields.collect())
}
