//! Runs one case: servers, the program, the client, the event; and what was observed of all of them.

mod weir;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use self::weir::WeirProcess;
use crate::array::{Case, Client, Event, Feature};
use crate::clock::{now, pause};
use crate::config::{self, Addresses, CONNECTIONS_MAX};
use crate::exchange::{BESIDE, FIRST, LAST, SAME_TARGET, SAME_TARGET_AGAIN, TRIED, happens_meanwhile};
use crate::peer::client::{ClientHandle, Conversation};
use crate::peer::server::{ScriptedServer, ServerRole};
use crate::peer::{CaseScript, ConnectionTape, LinkEnd, PeerCertificates, Tapes};

/// What was observed of a case.
#[derive(Clone)]
pub(crate) struct Observation {
    pub(crate) case: Case,
    pub(crate) config: String,
    pub(crate) records: Vec<ConnectionTape>,
    /// What the program wrote to its log.
    pub(crate) log: String,
    /// What went wrong beside the bytes: the program does not start, or does not reload.
    pub(crate) troubles: Vec<String>,
    /// The addresses of the servers, as they are in the config.
    pub(crate) servers: Vec<(&'static str, SocketAddr)>,
}

/// What all cases share.
#[derive(Clone)]
pub(crate) struct Setting<'a> {
    /// The program that is tried.
    pub(crate) program: &'a Path,
    /// The folder with certificates and keys.
    pub(crate) files: &'a Path,
    pub(crate) certificates: PeerCertificates,
    /// The former fault that the program is told to have, if it was built with them.
    pub(crate) fault: Option<&'a str>,
}

/// The servers of a case.
struct CaseServers {
    app: [ScriptedServer; 2],
    copies: ScriptedServer,
    judge: ScriptedServer,
    registry: ScriptedServer,
}

impl CaseServers {
    fn start(
        script: &Arc<CaseScript>,
        tapes: &Arc<Tapes>,
        certificates: &PeerCertificates,
    ) -> anyhow::Result<Self> {
        let start =
            |role| ScriptedServer::start(role, script, tapes, certificates).context("a server cannot listen");
        let app = [start(ServerRole::App("a"))?, start(ServerRole::App("b"))?];
        script.set_servers([("a", app[0].address), ("b", app[1].address)]);
        Ok(Self {
            app,
            copies: start(ServerRole::Copies)?,
            judge: start(ServerRole::Judge)?,
            registry: start(ServerRole::Registry)?,
        })
    }

    fn addresses(&self) -> Addresses {
        Addresses {
            app: [self.app[0].address, self.app[1].address],
            copies: self.copies.address,
            judge: self.judge.address,
            registry: self.registry.address,
        }
    }

    fn kill(&self, name: &str) {
        self.app[usize::from(name == "b")].kill();
    }
}

/// Opens a connection as the client of the case does.
type Connect<'a> = dyn Fn() -> Result<Conversation, LinkEnd> + Sync + 'a;

/// Between clients that come one after the other.
const BETWEEN_CLIENTS: Duration = Duration::from_millis(60);

/// How long a connection may be without a request where others wait for its place: less than the second of Weir.
const QUIET_MAX: Duration = Duration::from_millis(700);

/// Runs `case`.
pub(crate) fn run(case: Case, setting: &Setting<'_>) -> anyhow::Result<Observation> {
    let (script, tapes) = (Arc::new(CaseScript::new(case)), Arc::new(Tapes::default()));
    let servers = CaseServers::start(&script, &tapes, &setting.certificates)?;
    let addresses = servers.addresses();
    let config = config::text(&case, &addresses);
    let mut weir = WeirProcess::start(setting, &config)?;
    let mut troubles = Vec::new();
    match weir.web() {
        Some(web) => converse(case, web, setting, &script, &tapes, &servers, &mut weir, &mut troubles),
        None => troubles.push("the program does not get ready".to_owned()),
    }
    let log = weir.end();
    // The servers' ends of its connections have been read then, or are about to be.
    pause(Duration::from_millis(20));
    let servers = vec![
        ("a", addresses.app[0]),
        ("b", addresses.app[1]),
        ("copies", addresses.copies),
        ("judge", addresses.judge),
        ("registry", addresses.registry),
    ];
    Ok(Observation { case, config, records: tapes.records(), log, troubles, servers })
}

#[expect(clippy::too_many_arguments, reason = "everything of a case, once")]
fn converse(
    case: Case,
    web: SocketAddr,
    setting: &Setting<'_>,
    script: &CaseScript,
    tapes: &Tapes,
    servers: &CaseServers,
    weir: &mut WeirProcess,
    troubles: &mut Vec<String>,
) {
    let connect = || Conversation::connect(case, web, &setting.certificates, tapes);
    let Ok(mut client) = connect() else {
        troubles.push("the listener accepts no connection".to_owned());
        return;
    };
    let handle = client.handle();
    let trouble = thread::scope(|scope| {
        let happening = scope.spawn(|| {
            let trouble = happen(case, script, servers, weir, handle.as_ref());
            script.release();
            trouble
        });
        if case.event == Event::Upgrade && case.has(Feature::Discovered) {
            scope.spawn(|| come_meanwhile(script, &connect));
        }
        first_client(case, script, client, &connect);
        happening.join().unwrap_or_else(|_| Some("the event has panicked".to_owned()))
    });
    troubles.extend(trouble);
    if case.event == Event::ConnectionsFull {
        fill(script, &connect);
    }
    if let (Ok(mut client), Some(last)) = (connect(), script.exchange(LAST)) {
        // How it ends is on its tape.
        let _ = client.ask_together(&[last]);
        client.end();
    } else {
        troubles.push("the listener accepts no further connection".to_owned());
    }
}

/// Waits until the tried request is at a server, and has the event happen.
fn happen(
    case: Case,
    script: &CaseScript,
    servers: &CaseServers,
    weir: &mut WeirProcess,
    client: Option<&ClientHandle>,
) -> Option<String> {
    if !happens_meanwhile(&case) {
        return None;
    }
    let server = script.wait_for_arrival(TRIED)?;
    match case.event {
        Event::Reload => weir.reload(),
        Event::Upgrade => weir.upgrade(),
        Event::ServerKilled => {
            servers.kill(server);
            None
        }
        _ => {
            if let Some(client) = client {
                client.cut();
            }
            None
        }
    }
}

/// Clients that connect one after the other while another process takes over, and ask.
fn come_meanwhile(script: &CaseScript, connect: &Connect<'_>) {
    if script.wait_for_arrival(TRIED).is_none() {
        return;
    }
    thread::scope(|scope| {
        for (id, _) in BESIDE {
            scope.spawn(move || ask_beside(script, connect, id));
            pause(BETWEEN_CLIENTS);
        }
    });
}

/// Asks on a connection of its own; how it ends is on its tape.
fn ask_beside(script: &CaseScript, connect: &Connect<'_>, id: &str) {
    if let (Ok(mut client), Some(exchange)) = (connect(), script.exchange(id)) {
        let _ = client.ask_together(&[exchange]);
        client.end();
    }
}

/// Clients take all connections that there may be and ask nothing yet, another one comes, and then all of them ask.
fn fill(script: &CaseScript, connect: &Connect<'_>) {
    let (surplus, quiet) = BESIDE[..=CONNECTIONS_MAX].split_last().expect("one more than there may be");
    let clients: Vec<_> =
        quiet.iter().filter_map(|(id, _)| Some((connect().ok()?, script.exchange(id)?))).collect();
    let full = now();
    thread::scope(|scope| {
        scope.spawn(|| ask_beside(script, connect, surplus.0));
        pause(BETWEEN_CLIENTS);
        for (mut client, exchange) in clients {
            // After a second without a request they make room.
            if full.elapsed() < QUIET_MAX {
                // How it ends is on its tape.
                let _ = client.ask_together(&[exchange]);
            }
            client.end();
        }
    });
}

/// All but the last exchange, on one connection as far as it lasts.
fn first_client(case: Case, script: &CaseScript, mut client: Conversation, connect: &Connect<'_>) {
    let exchange = |id: &str| script.exchange(id).expect("every case has it");
    let (first, tried, same) = (exchange(FIRST), exchange(TRIED), exchange(SAME_TARGET));
    let has_cookie = case.has(Feature::Affinity) && !case.has(Feature::SessionKeys);
    let outcome = match case.client {
        Client::Pipelined => client.ask_together(&[first, tried, same]),
        Client::H2 | Client::H2c | Client::H2Certificate | Client::H3 | Client::H3Certificate => {
            client.ask_together(&[first]).and_then(|()| {
                if has_cookie {
                    client.take_cookie();
                }
                client.ask_together(&[tried, same])
            })
        }
        Client::Http1 | Client::GrpcWeb | Client::Proxy => client.ask_together(&[first]).and_then(|()| {
            if has_cookie {
                client.take_cookie();
            }
            client.ask_together(&[tried])?;
            script.answered();
            client.ask_together(&[same])
        }),
    };
    script.answered();
    client.end();
    let is_unanswered =
        matches!(outcome, Err(LinkEnd::Closed | LinkEnd::Broken)) && case.event != Event::ClientGone;
    if is_unanswered && let Ok(mut client) = connect() {
        // How it ends is on its tape.
        let _ = client.ask_together(&[exchange(SAME_TARGET_AGAIN)]);
        client.end();
    }
}
