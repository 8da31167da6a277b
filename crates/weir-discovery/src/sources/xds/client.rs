//! The stream to the control plane, shared by all upstreams that name it: opened anew when it breaks, with the versions that are known.

use std::collections::HashMap;
use std::future::Future;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};
use weir_config::{XdsControlPlane, XdsNode};

use super::followed_resource::FollowedResource;
use super::grpc::{Call, CallProblem};
use super::messages::base::{ProtoStruct, ProtoValue, ProtoValueKind, ResourceLocality};
use super::messages::discovery::{DeltaRequest, DeltaResponse, NodeMessage};
use super::resources::{FollowedResources, Reports};
use crate::clock;
use crate::last_known::report::{Reporter, TASK_PANICKED};
use crate::last_known::source_state::SourceReport;
use crate::sources::backoff::Backoff;
use crate::sources::source_client::destination;

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
        let client = Mutex::new(ClientTask {
            session: FollowingState::new(control_plane.answer_timeout),
            control_plane,
            commands: received,
        });
        let task = tokio::spawn(async move {
            let tell = || {
                if let Ok(mut client) = client.try_lock() {
                    client.session.fail(TASK_PANICKED);
                }
            };
            let make = || async { client.lock().await.run().await };
            weir_tasks::keep_telling("the stream of a control plane", make, tell).await;
        });
        Self { commands, task: task.abort_handle() }
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

/// What is followed, and by which upstreams.
struct FollowingState {
    resources: FollowedResources,
    answer_timeout: Duration,
    followers: HashMap<u64, (FollowedResource, Reporter)>,
    /// Why the control plane does not answer now.
    outage: Option<String>,
}

impl FollowingState {
    fn new(answer_timeout: Duration) -> Self {
        let resources = FollowedResources::new(answer_timeout);
        Self { resources, answer_timeout, followers: HashMap::new(), outage: None }
    }

    /// Everything is asked for anew, without the versions that were known.
    fn begin_anew(&mut self) {
        self.resources = FollowedResources::new(self.answer_timeout);
        for (id, (follows, _)) in &self.followers {
            self.resources.follow(*id, follows.clone());
        }
    }

    fn obey(&mut self, command: ClientCommand) {
        match command {
            ClientCommand::Follow { follows, reporter } => {
                let id = reporter.id;
                self.followers.insert(id, (follows.clone(), reporter));
                let known = self.resources.follow(id, follows);
                self.tell(known);
                if let (Some(outage), Some((_, reporter))) = (&self.outage, self.followers.get(&id)) {
                    reporter.failed(outage.as_str());
                }
            }
            ClientCommand::Forget(id) => {
                self.followers.remove(&id);
                self.resources.forget(id);
            }
        }
    }

    fn tell(&self, reports: Reports) {
        for (id, report) in reports {
            if let Some((_, reporter)) = self.followers.get(&id) {
                reporter.send(report);
            }
        }
    }

    fn fail(&mut self, problem: &str) {
        for (_, reporter) in self.followers.values() {
            reporter.send(SourceReport::Failed(problem.into()));
        }
        self.outage = Some(problem.to_owned());
    }
}

/// What outlives a panic.
struct ClientTask {
    control_plane: XdsControlPlane,
    session: FollowingState,
    commands: UnboundedReceiver<ClientCommand>,
}

impl ClientTask {
    async fn run(&mut self) {
        // After a panic, nothing that was read is trusted.
        self.session.begin_anew();
        let Self { control_plane, session, commands } = self;
        let tls = control_plane.tls.as_ref();
        let urls = control_plane.urls.iter();
        let members: Vec<_> = urls.map(|url| (url, destination(url, tls, &[b"h2"]))).collect();
        let mut backoff = Backoff::default();
        let mut member = 0;
        loop {
            while session.resources.is_empty() {
                match commands.recv().await {
                    Some(command) => session.obey(command),
                    None => return,
                }
            }
            let Some((url, destination)) = members.get(member % members.len().max(1)) else {
                let missing = "`discovery.xds.url` is missing".to_owned();
                let problem = CallProblem::Refused("the control plane cannot be asked:".into(), missing);
                session.fail(&problem.to_string());
                return;
            };
            let token = control_plane.token.as_ref().map(|token| &*token.0);
            let opening = Call::open(url, destination, PATH, token);
            let opened = while_obeying(opening, session, commands).await;
            let ended = match opened {
                Ok(call) => {
                    let node = Some(node(&control_plane.node));
                    let stream = ResourceStream { call, node, settles_at: None };
                    stream.serve(session, commands, &mut backoff).await
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = ended {
                member += 1;
                // One of several addresses that does not answer is no outage; all of them are.
                if member % members.len() == 0 {
                    session.fail(&problem.to_string());
                } else {
                    tracing::debug!(%problem, "the next address of the control plane is asked");
                }
                let pause = tokio::time::sleep(backoff.next_wait(clock::random()));
                while_obeying(pause, session, commands).await;
            }
        }
    }
}

/// Waits, and takes commands meanwhile.
async fn while_obeying<T>(
    what: impl Future<Output = T>,
    session: &mut FollowingState,
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
struct ResourceStream {
    call: Call,
    /// For the first request.
    node: Option<NodeMessage>,
    /// When it has lasted long enough.
    settles_at: Option<Instant>,
}

impl ResourceStream {
    /// Serves the stream until it breaks, or until nothing is followed any more.
    async fn serve(
        mut self,
        session: &mut FollowingState,
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
    fn settle(&mut self, session: &mut FollowingState, backoff: &mut Backoff) {
        if self.settles_at.take().is_none() {
            return;
        }
        backoff.reset();
        if session.outage.take().is_some() {
            tracing::info!(url = self.call.url(), "the control plane answers again");
            session.tell(session.resources.all_reports());
        }
    }

    fn take(&mut self, response: DeltaResponse, session: &mut FollowingState) -> Result<(), CallProblem> {
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

fn node(node: &XdsNode) -> NodeMessage {
    let id = node.id.as_deref().map(str::to_owned);
    let value = |text: &str| ProtoValue { kind: Some(ProtoValueKind::Text(text.to_owned())) };
    let metadata = node.metadata.iter().map(|(key, text)| (key.to_string(), value(text)));
    let locality = ResourceLocality {
        region: node.region.to_string(),
        zone: node.zone.to_string(),
        sub_zone: node.sub_zone.to_string(),
    };
    NodeMessage {
        id: id.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
        cluster: node.cluster.to_string(),
        metadata: (!node.metadata.is_empty()).then(|| ProtoStruct { fields: metadata.collect() }),
        locality: (locality != ResourceLocality::default()).then_some(locality),
        user_agent_name: "weir".into(),
        user_agent_version: env!("CARGO_PKG_VERSION").into(),
        client_features: CLIENT_FEATURES.map(str::to_owned).into(),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
