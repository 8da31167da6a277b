//! Contradictions in a scenario. Must not depend on the machine: whether it fits there is found when it runs.

use anyhow::{bail, ensure};

use super::bar::Bar;
use super::clients::{LadderWork, SlowClientsWork};
use super::http2::FloodWork;
use super::steady::check_message;
use super::{CrowdWork, IdleWork, Scenario, SteadyWork};
use crate::topology::listener::{CertificateKey, TargetProtocol};
use crate::topology::product::Product;
use crate::topology::target::{TargetVariant, TuningClass};
use crate::topology::upstream::{OriginKind, OriginProtocol, UpstreamSetup};

impl Scenario {
    /// Finds contradictions.
    ///
    /// # Errors
    /// All that do not depend on each other.
    pub fn check(&self) -> anyhow::Result<()> {
        let parts = [
            self.check_whole(),
            self.check_targets(),
            self.upstream.check(),
            self.check_listener(),
            self.check_work(),
        ];
        let bars = self.bars.iter().map(Bar::check);
        let found: Vec<String> =
            parts.into_iter().chain(bars).filter_map(Result::err).map(|error| format!("{error:#}")).collect();
        match &found[..] {
            [] => Ok(()),
            [one] => bail!("{one}"),
            several => bail!("\n  {}", several.join("\n  ")),
        }
    }

    /// What concerns several parts.
    fn check_whole(&self) -> anyhow::Result<()> {
        ensure!(
            self.works().iter().filter(|is_there| **is_there).count() == 1,
            "exactly one kind of work is needed, such as [steady] or [queue]"
        );
        ensure!(!self.targets.is_empty() && self.rounds.count > 0, "no targets or no rounds");
        let is_http1 = self.upstream.protocol == OriginProtocol::Http1;
        ensure!(
            is_http1 || self.steady.is_some() || self.slow_stream.is_some(),
            "servers of HTTP/2 and gRPC are for a steady load or a slow stream, and for no other work"
        );
        ensure!(
            self.gets_pages() || self.upstream.origin == OriginKind::Own,
            "a web server as origin has the page and nothing else: a steady load of it, idle clients or a crowd"
        );
        Ok(())
    }

    /// Which kinds of work are there.
    fn works(&self) -> [bool; 17] {
        [
            self.steady.is_some(),
            self.idle.is_some(),
            self.crowd.is_some(),
            self.queue.is_some(),
            self.outage.is_some(),
            self.overload.is_some(),
            self.slow.is_some(),
            self.probes.is_some(),
            self.persistence.is_some(),
            self.unfinished.is_some(),
            self.ladder.is_some(),
            self.slow_clients.is_some(),
            self.reload.is_some(),
            self.soak.is_some(),
            self.slow_stream.is_some(),
            self.flood.is_some(),
            self.site.is_some(),
        ]
    }

    fn check_targets(&self) -> anyhow::Result<()> {
        for (index, target) in self.all_targets().enumerate() {
            ensure!(
                !self.all_targets().take(index).any(|other| other == target),
                "target {target} is there twice"
            );
            ensure!(
                match (self.class, target.variant) {
                    (_, TargetVariant::Usual) => true,
                    (TuningClass::Tuned, variant) => variant != TargetVariant::Tuned,
                    (TuningClass::AsShipped, variant) => variant == TargetVariant::Tuned,
                },
                "target {target}: variants are of tuned targets, and each class is there once"
            );
        }
        Ok(())
    }

    fn check_listener(&self) -> anyhow::Result<()> {
        if self.listener.protocol == TargetProtocol::Tcp {
            let is_plain = self.upstream == UpstreamSetup::default();
            let is_class = |variant| {
                matches!(variant, TargetVariant::Usual | TargetVariant::AsShipped | TargetVariant::Tuned)
            };
            let is_usual = self.all_targets().all(|target| is_class(target.variant));
            ensure!(
                is_plain && is_usual && self.steady.is_some(),
                "`protocol = \"tcp\"` is for a steady load on targets without variants, and one server"
            );
        }
        if let Some(tls) = self.listener.tls {
            let has_direct = self.all_targets().any(|target| target.product == Product::Direct);
            ensure!(
                !has_direct && (self.steady.is_some() || self.unfinished.is_some()),
                "`tls` is for a steady load, or unfinished handshakes, on targets: the origin itself has none"
            );
            ensure!(self.listener.protocol == TargetProtocol::Http, "`tls` is for HTTP");
            ensure!(
                tls.suite.is_tls13() || tls.key == CertificateKey::Rsa2048,
                "the suites of TLS 1.2 are those for RSA keys"
            );
        }
        Ok(())
    }

    fn check_work(&self) -> anyhow::Result<()> {
        let upstream = &self.upstream;
        self.steady.iter().try_for_each(|work| work.check(&self.listener, upstream))?;
        self.idle.iter().try_for_each(IdleWork::check)?;
        self.crowd.iter().try_for_each(CrowdWork::check)?;
        self.queue.iter().try_for_each(|work| work.check(upstream))?;
        self.outage.iter().try_for_each(|work| work.check(upstream))?;
        self.overload.iter().try_for_each(|work| work.check(upstream))?;
        self.slow.iter().try_for_each(|work| work.check(upstream))?;
        self.probes.iter().try_for_each(|work| work.check(upstream))?;
        self.persistence.iter().try_for_each(|work| work.check(upstream))?;
        self.ladder.iter().try_for_each(LadderWork::check)?;
        self.slow_clients.iter().try_for_each(SlowClientsWork::check)?;
        self.slow_stream.iter().try_for_each(|work| work.check(upstream))?;
        self.flood.iter().try_for_each(FloodWork::check)?;
        self.reload.iter().try_for_each(|work| work.check(upstream))?;
        self.soak.iter().try_for_each(|work| work.check(upstream))?;
        self.unfinished.iter().try_for_each(|work| work.check(&self.listener))
    }

    /// Whether the servers need nothing but their page.
    fn gets_pages(&self) -> bool {
        let has_no_tunnels = |idle: &IdleWork| idle.tunnels.is_none();
        self.steady.as_ref().is_some_and(SteadyWork::is_of_the_page)
            || self.idle.as_ref().is_some_and(has_no_tunnels)
            || self.crowd.is_some()
    }
}

impl IdleWork {
    fn check(&self) -> anyhow::Result<()> {
        let rising = self.clients.windows(2).all(|pair| pair[0] < pair[1]);
        ensure!(self.clients.len() >= 2 && rising, "idle clients: two numbers or more, rising");
        ensure!(
            self.before == 0 || self.tunnels.is_none(),
            "idle clients: a tunnel is one exchange, so none come before"
        );
        ensure!(!self.http2 || self.tunnels.is_none(), "idle clients: tunnels are of HTTP/1.1");
        if let Some(tunnels) = self.tunnels {
            check_message(tunnels.message)?;
            ensure!(!tunnels.heartbeat.is_zero(), "a heartbeat takes some time");
        }
        Ok(())
    }
}

impl CrowdWork {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.clients.is_empty() && !self.tools.is_empty(), "no clients or no tools");
        Ok(())
    }
}
