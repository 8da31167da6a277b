//! `show info`: the process, under the keys of HAProxy that mean something here.

use serde_json::json;

use super::StatForm;
use super::field::{StatField, StatValue};
use super::rows::whole;
use crate::counters::counter::Level;
use crate::overview::{HandshakeCount, Overview, WorkerOverview};

/// The version of HAProxy that has these forms.
const SPOKEN: &str = "2.6.12";

/// `show info`.
pub fn info(overview: &Overview, form: StatForm) -> String {
    let fields = fields(overview);
    match form {
        StatForm::Text => fields.iter().map(|field| format!("{}: {}\n", field.name, field.value)).collect(),
        StatForm::Typed => fields.iter().map(|field| field.typed() + "\n").collect(),
        StatForm::Json => json!(fields.iter().map(StatField::json).collect::<Vec<_>>()).to_string() + "\n",
    }
}

fn fields(overview: &Overview) -> Vec<StatField> {
    let process = &overview.process;
    let seconds = process.at_ms.saturating_sub(process.started_ms) / 1000;
    let sum = |count: fn(&WorkerOverview) -> u64| overview.workers.iter().map(count).sum::<u64>();
    let rate = overview.listeners.iter().map(|listener| listener.rates.connections.now).sum::<f64>();
    let bytes_out = overview.listeners.iter().map(|listener| listener.stats.bytes_out).sum();
    let bytes_rate = overview.listeners.iter().map(|listener| listener.rates.bytes_out.now).sum::<f64>();
    let addresses: usize = overview.listeners.iter().map(|listener| listener.addresses.len()).sum();
    let handshakes = overview.listeners.iter().flat_map(|listener| &listener.tls_handshakes);
    let handshakes = handshakes.map(|HandshakeCount { full, resumed, .. }| full + resumed).sum();
    let Level { now: sessions, .. } = process.connections_open;
    let number = |place, name, tags, number| StatField { place, name, tags, value: StatValue::U32(number) };
    let large = |place, name, tags, number| StatField { place, name, tags, value: StatValue::U64(number) };
    let text = |place, name, tags, text: &str| StatField { place, name, tags, value: StatValue::text(text) };
    vec![
        // Programs require this very name.
        text(0, "Name", "POS", "HAProxy"),
        // The version of the forms, then that of Weir.
        text(1, "Version", "POS", &format!("{SPOKEN}-weir-{}", process.version)),
        // Programs insist on it, and Weir does not know it.
        text(2, "Release_date", "POS", "-"),
        number(3, "Nbthread", "CGS", overview.workers.len() as u64),
        number(4, "Nbproc", "CGS", 1),
        number(5, "Process_num", "KGP", 1),
        number(6, "Pid", "SGP", u64::from(process.pid)),
        text(7, "Uptime", "MDP", &uptime(seconds)),
        number(8, "Uptime_sec", "MDP", seconds),
        number(9, "Memmax_MB", "CLP", 0),
        number(13, "Ulimit-n", "CLP", process.open_files_max),
        number(14, "Maxsock", "CLP", process.open_files_max),
        number(15, "Maxconn", "CLP", process.connections_max),
        number(16, "Hard_maxconn", "CLP", process.connections_max),
        number(17, "CurrConns", "MGP", whole(sessions)),
        number(18, "CumConns", "MCP", sum(|worker| worker.stats.connections_accepted)),
        number(19, "CumReq", "MCP", sum(|worker| worker.stats.exchanges)),
        number(22, "CumSslConns", "MCP", handshakes),
        // Pipes are held by the workers and not counted.
        number(23, "Maxpipes", "CLP", 0),
        number(24, "PipesUsed", "MGP", 0),
        number(25, "PipesFree", "MGP", 0),
        number(26, "ConnRate", "MRP", rate.round() as u64),
        // 0 is no limit.
        number(27, "ConnRateLimit", "CLP", 0),
        number(29, "SessRate", "MRP", rate.round() as u64),
        number(30, "SessRateLimit", "CLP", 0),
        number(33, "SslRateLimit", "CLP", 0),
        number(42, "CompressBpsIn", "MRP", 0),
        number(43, "CompressBpsOut", "MRP", 0),
        number(44, "CompressBpsRateLim", "CLP", 0),
        number(47, "Tasks", "MGP", sum(|worker| whole(worker.stats.timers.now))),
        number(48, "Run_queue", "MGP", 0),
        text(50, "node", "COS", &process.name),
        number(52, "Stopping", "MGP", u64::from(process.is_stopping)),
        number(53, "Jobs", "MGP", whole(sessions)),
        number(55, "Listeners", "MGP", addresses as u64),
        number(58, "DroppedLogs", "MGP", sum(|worker| worker.stats.log_lines_dropped)),
        large(61, "TotalBytesOut", "MGP", bytes_out),
        large(63, "BytesOutRate", "MRP", bytes_rate.round() as u64),
        text(66, "Build info", "POS", &format!("Weir {}", process.version)),
        number(70, "Start_time_sec", "MDP", process.started_ms / 1000),
    ]
}

/// `1d 2h03m04s`.
fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("{days}d {hours}h{minutes:02}m{:02}s", seconds % 60)
}
