//! The resolvers of all sources in DNS: made when the first one asks, and tried again as long as they cannot be made.
//!
//! Without `dns.resolvers` they are those of a file of the system, which may not be there yet, or be written at this moment.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;
use weir_config::Dns;

/// The file of the system that names its resolvers.
pub const SYSTEM_FILE: &str = "/etc/resolv.conf";

/// How long a short question may take.
const SHORT_TIMEOUT: Duration = Duration::from_millis(750);

/// The same names, asked patiently and in a hurry.
pub(crate) struct DnsResolvers {
    /// As the config has it.
    pub(crate) patient: TokioResolver,
    /// A single question that is soon given up. One resolver cannot do both: it asks the same question once at a time.
    pub(crate) short: TokioResolver,
}

/// The resolvers that the config asks for, once they can be made.
pub(crate) struct SharedResolvers {
    dns: Dns,
    system_file: Box<Path>,
    made: OnceLock<Arc<DnsResolvers>>,
}

impl SharedResolvers {
    pub(crate) fn new(dns: Dns) -> Self {
        Self::with_system_file(dns, Path::new(SYSTEM_FILE))
    }

    pub(crate) fn with_system_file(dns: Dns, system_file: &Path) -> Self {
        Self { dns, system_file: system_file.into(), made: OnceLock::new() }
    }

    /// The shortest and the longest time for which an answer counts.
    pub(crate) fn ttl_limits(&self) -> (Duration, Duration) {
        (self.dns.ttl_min, self.dns.ttl_max)
    }

    /// # Errors
    /// When the file of the system cannot be read, or names no resolver.
    pub(crate) fn ready(&self) -> Result<Arc<DnsResolvers>, NetError> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let patient = dns_resolver(&self.dns, &self.system_file, |_| {})?;
        let short = dns_resolver(&self.dns, &self.system_file, |options| {
            options.timeout = self.dns.timeout.min(SHORT_TIMEOUT);
            options.attempts = 0;
        })?;
        Ok(Arc::clone(self.made.get_or_init(|| Arc::new(DnsResolvers { patient, short }))))
    }
}

/// A resolver that the config asks for, with options that `change` sets. It keeps no answers: for how long they count is for the caller to say.
///
/// # Errors
/// When `system_file` cannot be read, or names no resolver; it is read only if the config names none.
pub fn dns_resolver(
    dns: &Dns,
    system_file: &Path,
    change: impl FnOnce(&mut ResolverOpts),
) -> Result<TokioResolver, NetError> {
    let (config, options) = if dns.resolvers.is_empty() {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", system_file.display()));
        parse_resolv_conf(std::fs::read(system_file).map_err(named)?)?
    } else {
        let servers = dns.resolvers.iter().map(|addr| {
            let mut protocols = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for protocol in &mut protocols {
                protocol.port = addr.port();
            }
            NameServerConfig::new(addr.ip(), true, protocols.to_vec())
        });
        (ResolverConfig::from_parts(None, Vec::new(), servers.collect()), ResolverOpts::default())
    };
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.options_mut().timeout = dns.timeout;
    builder.options_mut().cache_size = 0;
    change(builder.options_mut());
    builder.build()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::last_known::report::{Reporter, SourceMessage};
    use crate::last_known::source_state::SourceReport;
    use crate::sources::dns::{DnsQuestion, follow};

    /// More than any of this takes, also on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_file_of_the_system_that_comes_later_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        let mut dns = Dns::default();
        dns.timeout = Duration::from_millis(100);
        let resolvers = Arc::new(SharedResolvers::with_system_file(dns, &file));
        let (reports, mut reported) = unbounded_channel();
        let reporter = Reporter { upstream: "app".into(), id: 0, reports };
        let question = DnsQuestion::Addresses { host: "app.test".into(), port: 80 };
        let task = tokio::spawn(follow(question, Arc::clone(&resolvers), PATIENCE, reporter));
        let mut until = async |is_wanted: fn(&str) -> bool| loop {
            let report: Option<SourceMessage> =
                tokio::time::timeout(PATIENCE, reported.recv()).await.expect("it is asked again");
            match report.expect("it goes on").report {
                SourceReport::Failed(why) if is_wanted(&why) => break,
                SourceReport::Failed(_) => {}
                said @ SourceReport::Said { .. } => panic!("no server can be known: {said:?}"),
            }
        };
        until(|why| why.contains("No such file")).await;
        std::fs::write(&file, "# nothing yet\n").unwrap();
        until(|why| why.contains("no nameservers")).await;
        // Nothing listens there, which is another failure.
        std::fs::write(&file, "nameserver 127.255.255.254\n").unwrap();
        until(|why| !why.contains("names cannot be resolved")).await;
        task.abort();
        // Once made, they stay.
        std::fs::remove_file(&file).unwrap();
        assert!(resolvers.ready().is_ok());
    }
}
