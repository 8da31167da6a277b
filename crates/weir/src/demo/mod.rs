//! `weir demo`: three servers, Weir in front of them, a steady load, and a table that shows what happens.
//!
//! The proxy is the real one with its defaults, and everything goes over real connections; only servers and clients live
//! in the same process. Nothing of it leaves the machine.

mod server;
mod load;
mod table;
mod interval;
mod screen;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;
use weir_config::{Config, ListenAddress, parse_duration};
use weir_control::Proxy;
use weir_observe::Stats;
use weir_proxy::net::listening::BoundAddress;

use crate::clock;
use crate::error::{CommandError, FAILED};
use crate::help_text::with_exit_codes;
use crate::start::{self, Origin};
use load::LoadGenerator;
use screen::DemoScreen;
use server::{DemoServer, DemoServers};

const EXAMPLES: &str = "\
Examples:
  weir demo
  weir demo --for 10s
  weir demo --listen 127.0.0.1:0";

const EXIT_CODES: &str = "\
Exit codes:
  0  ended by Ctrl-C or after `--for`, and every request was answered
  1  the address cannot be bound, or a request failed
  2  the command line cannot be used";

/// How often the table is drawn anew; also the time that its figures are about.
const REFRESH: Duration = Duration::from_secs(1);

/// The time for running exchanges at the end. Those of the load have completed by then, so it is for manual requests.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Watch Weir balance requests over three servers, one of them slow.
///
/// Everything runs in this process and on this machine: three small servers, Weir with its defaults in front of them,
/// and clients that send about 300 requests per second. In a terminal, a table shows the requests of each server every second;
/// otherwise there is one table at the end.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct DemoArguments {
    /// Where Weir accepts connections. With port 0 the system chooses a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = parse_listen)]
    listen: ListenAddress,
    /// End after this time, such as `10s`. Without it, Ctrl-C ends the demo.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
}

fn parse_listen(text: &str) -> Result<ListenAddress, String> {
    match text.parse() {
        Ok(ListenAddress::Unix(_)) => {
            Err("the demo needs an address with a port, for a browser to find".to_owned())
        }
        Ok(address) => Ok(address),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode, CommandError> {
    let servers = DemoServers::start(&SERVERS)?;
    let config = config(&arguments.listen, &servers)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before anything runs, so that no signal is missed.
        let mut signals = StopSignals::new()?;
        let opened = start::open(
            &config,
            weir_control::InheritedSockets::default(),
            weir_control::Handover::default(),
            Origin::Demo,
        )?;
        let commands = weir_control::CommandSender::disconnected();
        let mut proxy = start::proxy(&config, opened, Origin::Demo, commands)?;
        start::accept(&mut proxy, Origin::Demo)?;
        let address = reachable(&proxy)?;
        let mut screen = DemoScreen::new();
        screen.print(&introduction(address, arguments.time))?;
        let load = LoadGenerator::start(address);
        let mut show = RunningDemo { proxy, load, screen, began: clock::now() };
        let watched = show.watch(arguments.time, &mut signals).await;
        let ended = show.end().await;
        watched?;
        ended
    })
}

/// Two quick servers and a slow one: with least requests the slow one gets fewer, without any setting.
const SERVERS: [DemoServer; 3] = [
    DemoServer { name: "quick-1", delay: Duration::from_millis(2) },
    DemoServer { name: "quick-2", delay: Duration::from_millis(2) },
    DemoServer { name: "slow", delay: Duration::from_millis(20) },
];

/// The config of the demo: one listener, one upstream of the three servers, everything else as it is without a config.
fn config(listen: &ListenAddress, servers: &DemoServers) -> Result<Config, CommandError> {
    let addresses: Vec<String> = servers.addresses().iter().map(ToString::to_string).collect();
    let mut config =
        Config::from_arguments(&[listen.to_string()], &addresses).map_err(CommandError::Config)?;
    config.set_servers(|upstream| {
        let mut servers = upstream.servers.clone();
        servers.iter_mut().zip(SERVERS).for_each(|(server, known)| server.name = known.name.into());
        Some(servers)
    });
    Ok(config)
}

/// Where clients on this machine reach the listener.
fn reachable(proxy: &Proxy) -> Result<SocketAddr, CommandError> {
    match proxy.bound_listeners().first().map(|listened| &listened.address) {
        Some(BoundAddress::Inet(address)) => Ok(match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
            IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
            _ => *address,
        }),
        other => Err(anyhow::anyhow!("the proxy has no address that can be reached, but {other:?}").into()),
    }
}

fn introduction(address: SocketAddr, time: Option<Duration>) -> String {
    let servers: Vec<String> =
        SERVERS.iter().map(|server| format!("{} ({} ms)", server.name, server.delay.as_millis())).collect();
    let end = time.map_or_else(
        || "Ctrl-C ends the demo.".to_owned(),
        |time| format!("The demo ends after {}; Ctrl-C ends it sooner.", weir_config::print_duration(time)),
    );
    format!(
        "Weir balances over {}: the server with the fewest requests in flight is next.\nTry it: curl http://{address}/\n{end}\n",
        servers.join(", ")
    )
}

/// SIGINT, which is Ctrl-C, and SIGTERM.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The demo while it runs.
struct RunningDemo {
    proxy: Proxy,
    load: LoadGenerator,
    screen: DemoScreen,
    began: Instant,
}

impl RunningDemo {
    /// Draws the table again and again, until the time is over or a signal comes.
    async fn watch(&mut self, time: Option<Duration>, signals: &mut StopSignals) -> Result<(), CommandError> {
        let end = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(end);
        let mut ticks = tokio::time::interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = (clock::now(), self.proxy.figures());
        loop {
            tokio::select! {
                () = signals.wait() => return Ok(()),
                () = &mut end => return Ok(()),
                _ = ticks.tick() => {}
            }
            let now = (clock::now(), self.proxy.figures());
            if self.screen.is_live() {
                let interval = interval::between(&before.1, &now.1, now.0 - before.0);
                let text = format!("{}{}\n", table::render(&interval), self.load.tally().sentence());
                self.screen.draw(&text)?;
            }
            before = now;
        }
    }

    /// Ends the load, then the proxy, and shows what it all came to.
    async fn end(mut self) -> Result<ExitCode, CommandError> {
        let tally = self.load.stop().await;
        let lasted = clock::now() - self.began;
        let whole = interval::between(&Stats::default(), &self.proxy.figures(), lasted);
        self.proxy.stop(STOP_GRACE, |_| false);
        let text =
            format!("In {:.1} s:\n\n{}{}\n", lasted.as_secs_f64(), table::render(&whole), tally.sentence());
        self.screen.draw(&text)?;
        Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_is_the_default_one_with_three_named_servers() {
        let servers = DemoServers::start(&SERVERS).unwrap();
        let listen = parse_listen("127.0.0.1:0").unwrap();
        let config = config(&listen, &servers).unwrap();
        let [upstream] = &config.upstreams[..] else { panic!("{config:?}") };
        let names: Vec<&str> = upstream.servers.iter().map(|server| &*server.name).collect();
        assert_eq!(names, ["quick-1", "quick-2", "slow"]);
        assert_eq!(upstream.balance, weir_traffic::balance::Policy::default());
        assert_eq!(config.listeners[0].addresses, [listen]);
    }

    #[test]
    fn addresses_without_a_port_are_refused() {
        assert!(parse_listen("unix:/run/weir.sock").is_err_and(|error| error.contains("port")));
        assert!(parse_listen("8080").is_err_and(|error| error.contains("has no `:`")));
    }

    #[test]
    fn the_introduction_says_what_to_try() {
        let text = introduction(([127, 0, 0, 1], 8080).into(), Some(Duration::from_secs(10)));
        assert!(text.contains("quick-1 (2 ms), quick-2 (2 ms), slow (20 ms)"), "{text}");
        assert!(text.contains("curl http://127.0.0.1:8080/\n") && text.contains("after 10s"), "{text}");
        assert!(introduction(([127, 0, 0, 1], 8080).into(), None).ends_with("\nCtrl-C ends the demo.\n"));
    }
}
