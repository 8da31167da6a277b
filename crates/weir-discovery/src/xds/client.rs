//! The stream to the control plane, shared by all upstreams that name it: opened anew when it breaks, with the versions that are known.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};
use weir_config::{XdsControlPlane, XdsNode};

use super::grpc::{Call, CallProblem};
use super::messages::base::{Locality, ProtoStruct, ProtoValue, ValueKind};
use super::messages::discovery::{DeltaRequest, DeltaResponse, Node};
use super::resources::{FollowedResource, FollowedResources, Reports};
use crate::backoff::Backoff;
use crate::clock;
use crate::report::Reporter;
use crate::source_connection::{self, SourceConnector};
use crate::source_state::SourceReport;

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// A stream that has lasted so long is one that the control plane serves: it says nothing about resources that have not changed, and refuses
/// sooner.
const SETTLED_TIME: Duration = Duration::from_secs(1);

/// What Weir does not do, and what it does: control planes ask for these names.
const CLIENT_FEATURES: [&str; 2] =
    ["envoy.lb.does_not_support_overprovisioning", "xds.config.supports-resource-ttl"];

enum ClientCommand {
    Follow { follows: FollowedResource, reporter: Reporter },
    Forget(u64),
}

/// The client of one control plane.
pub(crate) struct XdsClient {
    commands: UnboundedSender<ClientCommand>,
    task: AbortHandle,
}

impl Drop for XdsClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Gives up what an upstream follows.
struct Following {
    id: u64,
    commands: UnboundedSender<ClientCommand>,
}

impl Drop for Following {
    fn drop(&mut self) {
        let _client_gone = self.commands.send(ClientCommand::Forget(self.id));
    }
}

impl XdsClient {
    /// Starts it; it connects when there is something to follow.
    pub(crate) fn start(control_plane: XdsControlPlane) -> Self {
        let (commands, received) = unbounded_channel();
        let task = tokio::spawn(run(control_plane, received)).abort_handle();
        Self { commands, task }
    }

    /// Follows a resource until the task is dropped.
    pub(crate) fn follow(&self, follows: FollowedResource, reporter: Reporter) -> JoinHandle<()> {
        let following = Following { id: reporter.id, commands: self.commands.clone() };
        let _client_gone = self.commands.send(ClientCommand::Follow { follows, reporter });
        tokio::spawn(async move {
            let _following = following;
            std::future::pending::<()>().await;
        })
    }
}

/// What is followed, and by whom.
struct Session {
    resources: FollowedResources,
    reporters: HashMap<u64, Reporter>,
    /// Why the control plane does not answer now.
    outage: Option<String>,
}

impl Session {
    fn obey(&mut self, command: ClientCommand) {
        match command {
            ClientCommand::Follow { follows, reporter } => {
                let id = reporter.id;
                self.reporters.insert(id, reporter);
                let known = self.resources.follow(id, follows);
                self.tell(known);
                if let (Some(outage), Some(reporter)) = (&self.outage, self.reporters.get(&id)) {
                    reporter.failed(outage.as_str());
                }
            }
            ClientCommand::Forget(id) => {
                self.resources.forget(id);
                self.reporters.remove(&id);
            }
        }
    }

    fn tell(&self, reports: Reports) {
        for (id, report) in reports {
            if let Some(reporter) = self.reporters.get(&id) {
                reporter.send(report);
            }
        }
    }

    fn fail(&mut self, problem: &CallProblem) {
        let problem = problem.to_string();
        for reporter in self.reporters.values() {
            reporter.send(SourceReport::Failed(problem.as_str().into()));
        }
        self.outage = Some(problem);
    }
}

async fn run(control_plane: XdsControlPlane, mut commands: UnboundedReceiver<ClientCommand>) {
    let tls_of = |url| source_connection::connector(url, control_plane.tls.as_ref(), &[b"h2"]);
    let members: Vec<_> = control_plane.urls.iter().map(|url| (url, tls_of(url))).collect();
    let mut session = Session {
        resources: FollowedResources::new(control_plane.answer_timeout),
        reporters: HashMap::new(),
        outage: None,
    };
    let mut backoff = Backoff::default();
    let mut member = 0;
    loop {
        while session.resources.is_empty() {
            match commands.recv().await {
                Some(command) => session.obey(command),
                None => return,
            }
        }
        let Some((url, tls)) = members.get(member % members.len().max(1)) else {
            let missing = "`discovery.xds.url` is missing".to_owned();
            session.fail(&CallProblem::Refused("the control plane cannot be asked:".into(), missing));
            return;
        };
        let token = control_plane.token.as_ref().map(|token| &*token.0);
        let opening = Call::open(url, tls.as_ref().map(|tls: &SourceConnector| tls), PATH, token);
        let opened = while_obeying(opening, &mut session, &mut commands).await;
        let ended = match opened {
            Ok(call) => {
                let stream = Stream { call, node: Some(node(&control_plane.node)), settles_at: None };
                stream.serve(&mut session, &mut commands, &mut backoff).await
            }
            Err(problem) => Err(problem),
        };
        if let Err(problem) = ended {
            member += 1;
            // One of several addresses that does not answer is no outage; all of them are.
            if member % members.len() == 0 || session.outage.is_some() {
                session.fail(&problem);
            } else {
                tracing::debug!(%problem, "the next address of the control plane is asked");
            }
            let pause = tokio::time::sleep(backoff.next_wait(clock::random()));
            while_obeying(pause, &mut session, &mut commands).await;
        }
    }
}

/// Waits, and takes commands meanwhile.
async fn while_obeying<T>(
    what: impl Future<Output = T>,
    session: &mut Session,
    commands: &mut UnboundedReceiver<ClientCommand>,
) -> T {
    tokio::pin!(what);
    loop {
        tokio::select! {
            done = &mut what => return done,
            Some(command) = commands.recv() => session.obey(command),
        }
    }
}

/// A stream that is open.
struct Stream {
    call: Call,
    /// For the first request.
    node: Option<Node>,
    /// When it has lasted long enough.
    settles_at: Option<Instant>,
}

impl Stream {
    /// Serves the stream until it breaks, or until nothing is followed any more.
    async fn serve(
        mut self,
        session: &mut Session,
        commands: &mut UnboundedReceiver<ClientCommand>,
        backoff: &mut Backoff,
    ) -> Result<(), CallProblem> {
        let now = clock::now();
        self.settles_at = Some(now + SETTLED_TIME);
        for request in session.resources.first_requests(now) {
            self.send(request)?;
        }
        while !session.resources.is_empty() {
            while let Some(request) = session.resources.next_request(clock::now()) {
                self.send(request)?;
            }
            let due = [session.resources.due(), self.settles_at].into_iter().flatten().min();
            tokio::select! {
                command = commands.recv() => {
                    // Whoever follows keeps a sender: without one, nothing is followed.
                    let Some(command) = command else { return Ok(()) };
                    session.obey(command);
                    while let Ok(command) = commands.try_recv() {
                        session.obey(command);
                    }
                }
                message = self.call.next() => {
                    let message = message?;
                    let response = DeltaResponse::decode(message);
                    let response = response.map_err(|error| self.call.refused(&format!("sent no response of xDS: {error}")))?;
                    self.settle(session, backoff);
                    self.take(response, session)?;
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(clock::now).into()), if due.is_some() => {
                    let now = clock::now();
                    if self.settles_at.is_some_and(|at| at <= now) {
                        self.settle(session, backoff);
                    }
                    let reports = session.resources.expire(now);
                    session.tell(reports);
                }
            }
        }
        Ok(())
    }

    /// The control plane serves this stream: what is known is what it has said, unless it says otherwise.
    fn settle(&mut self, session: &mut Session, backoff: &mut Backoff) {
        if self.settles_at.take().is_none() {
            return;
        }
        backoff.reset();
        if session.outage.take().is_some() {
            tracing::info!(url = self.call.url(), "the control plane answers again");
            session.tell(session.resources.all_reports());
        }
    }

    fn take(&mut self, response: DeltaResponse, session: &mut Session) -> Result<(), CallProblem> {
        let type_url = response.type_url.clone();
        let Some((reply, reports)) = session.resources.respond(response, clock::now()) else {
            tracing::warn!(type_url, "the control plane sent resources that it was not asked for");
            return Ok(());
        };
        if let Some(refusal) = &reply.error_detail {
            let why = refusal.message.as_str();
            tracing::warn!(
                type_url,
                why,
                "resources of the control plane are refused; their last versions stay in use"
            );
        }
        self.send(reply)?;
        session.tell(reports);
        Ok(())
    }

    fn send(&mut self, mut request: DeltaRequest) -> Result<(), CallProblem> {
        request.node = self.node.take();
        self.call.send(&request)
    }
}

fn node(node: &XdsNode) -> Node {
    let id = node.id.as_deref().map(str::to_owned);
    let value = |text: &str| ProtoValue { kind: Some(ValueKind::Text(text.to_owned())) };
    let metadata = node.metadata.iter().map(|(key, text)| (key.to_string(), value(text)));
    let locality = Locality {
        region: node.region.to_string(),
        zone: node.zone.to_string(),
        sub_zone: node.sub_zone.to_string(),
    };
    Node {
        id: id.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
        cluster: node.cluster.to_string(),
        metadata: (!node.metadata.is_empty()).then(|| ProtoStruct { fields: metadata.collect() }),
        locality: (locality != Locality::default()).then_some(locality),
        user_agent_name: "weir".into(),
        user_agent_version: env!("CARGO_PKG_VERSION").into(),
        client_features: CLIENT_FEATURES.map(str::to_owned).into(),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
