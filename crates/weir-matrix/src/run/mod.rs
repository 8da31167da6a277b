//! Runs one case: servers, the program, the client, the event; and what was observed of all of them.

mod weir;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use self::weir::WeirProcess;
use crate::array::{Case, Client, Event, Feature};
use crate::clock::pause;
use crate::config::{self, Addresses};
use crate::exchange::{FIRST, LAST, SAME_TARGET, SAME_TARGET_AGAIN, TRIED};
use crate::peer::client::{Conversation, cut};
use crate::peer::server::{Role, ScriptedServer};
use crate::peer::{Certificates, End, Record, Script, Tapes};

/// What was observed of a case.
#[derive(Clone)]
pub(crate) struct Observation {
    pub(crate) case: Case,
    pub(crate) config: String,
    pub(crate) records: Vec<Record>,
    /// What the program wrote to its log.
    pub(crate) log: String,
    /// What went wrong beside the bytes: the program does not start, or does not reload.
    pub(crate) troubles: Vec<String>,
    /// The addresses of the servers, as they are in the config.
    pub(crate) servers: Vec<(&'static str, std::net::SocketAddr)>,
}

/// What all cases share.
pub(crate) struct Setting<'a> {
    /// The program that is tried.
    pub(crate) program: &'a Path,
    /// The folder with certificates and keys.
    pub(crate) files: &'a Path,
    pub(crate) certificates: Certificates,
}

/// The servers of a case.
struct Servers {
    app: [ScriptedServer; 2],
    copies: ScriptedServer,
    judge: ScriptedServer,
}

impl Servers {
    fn start(script: &Arc<Script>, tapes: &Arc<Tapes>, certificates: &Certificates) -> anyhow::Result<Self> {
        let start =
            |role| ScriptedServer::start(role, script, tapes, certificates).context("a server cannot listen");
        Ok(Self {
            app: [start(Role::App("a"))?, start(Role::App("b"))?],
            copies: start(Role::Copies)?,
            judge: start(Role::Judge)?,
        })
    }

    fn addresses(&self) -> Addresses {
        Addresses {
            app: [self.app[0].address, self.app[1].address],
            copies: self.copies.address,
            judge: self.judge.address,
        }
    }

    fn kill(&self, name: &str) {
        self.app[usize::from(name == "b")].kill();
    }
}

/// Runs `case`.
pub(crate) fn run(case: Case, setting: &Setting<'_>) -> anyhow::Result<Observation> {
    let (script, tapes) = (Arc::new(Script::new(case)), Arc::new(Tapes::default()));
    let servers = Servers::start(&script, &tapes, &setting.certificates)?;
    let addresses = servers.addresses();
    let config = config::text(&case, &addresses);
    let mut weir = WeirProcess::start(setting.program, setting.files, &config)?;
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
    ];
    Ok(Observation { case, config, records: tapes.records(), log, troubles, servers })
}

#[expect(clippy::too_many_arguments, reason = "everything of a case, once")]
fn converse(
    case: Case,
    web: std::net::SocketAddr,
    setting: &Setting<'_>,
    script: &Script,
    tapes: &Tapes,
    servers: &Servers,
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
        first_client(case, script, client, &connect);
        happening.join().unwrap_or_else(|_| Some("the event has panicked".to_owned()))
    });
    troubles.extend(trouble);
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
    script: &Script,
    servers: &Servers,
    weir: &mut WeirProcess,
    client: Option<&std::net::TcpStream>,
) -> Option<String> {
    if !matches!(case.event, Event::Reload | Event::Upgrade | Event::ServerKilled | Event::ClientGone) {
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
                cut(client);
            }
            None
        }
    }
}

/// All but the last exchange, on one connection as far as it lasts.
fn first_client(
    case: Case,
    script: &Script,
    mut client: Conversation,
    connect: &dyn Fn() -> Result<Conversation, End>,
) {
    let exchange = |id: &str| script.exchange(id).expect("every case has it");
    let (first, tried, same) = (exchange(FIRST), exchange(TRIED), exchange(SAME_TARGET));
    let outcome = match case.client {
        Client::Pipelined => client.ask_together(&[first, tried, same]),
        Client::H2 | Client::H2c => client.ask_together(&[first]).and_then(|()| {
            if case.has(Feature::Affinity) {
                client.take_cookie();
            }
            client.ask_together(&[tried, same])
        }),
        Client::Http1 | Client::GrpcWeb | Client::Proxy => client.ask_together(&[first]).and_then(|()| {
            if case.has(Feature::Affinity) {
                client.take_cookie();
            }
            client.ask_together(&[tried])?;
            script.answered();
            client.ask_together(&[same])
        }),
    };
    script.answered();
    client.end();
    let is_unanswered = matches!(outcome, Err(End::Closed | End::Broken)) && case.event != Event::ClientGone;
    if is_unanswered && let Ok(mut client) = connect() {
        // How it ends is on its tape.
        let _ = client.ask_together(&[exchange(SAME_TARGET_AGAIN)]);
        client.end();
    }
}
