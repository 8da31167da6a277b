//! Where the master of a store is, by its sentinels: asked in turn for the first time, and every second afterwards. Must not know what the store is for.
//!
//! A sentinel that was cut off from the others may name a master of before. So a master has to call itself one, and after a failure the next sentinel is asked.

use std::time::Duration;

use weir_config::{MonitoredMaster, Sentinel, ServerAddress};
use weir_http::resp::RespReply;

use super::connection::StoreConnection;
use super::failure::{StoreError, StoreFailure, StorePeer, StorePeerKind};

/// How often a sentinel is asked while all is well.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The sentinels of a store, the first of which is asked first.
pub(super) struct Sentinels<'a> {
    master: &'a MonitoredMaster,
    timeout: Duration,
    first: usize,
}

/// What a sentinel has said, and the connection to it.
pub(super) struct NamedMaster {
    pub(super) address: ServerAddress,
    connection: StoreConnection,
}

impl<'a> Sentinels<'a> {
    pub(super) fn new(master: &'a MonitoredMaster, timeout: Duration) -> Self {
        Self { master, timeout, first: 0 }
    }

    /// Has the next sentinel asked first: what the last one has named is of no use.
    pub(super) fn turn(&mut self) {
        self.first = (self.first + 1) % self.master.sentinels.len().max(1);
    }

    /// Asks one sentinel after the other until one knows the master.
    ///
    /// # Errors
    /// When none does, what is wrong with each.
    pub(super) async fn find(&mut self) -> Result<NamedMaster, StoreFailure> {
        let mut failures = Vec::new();
        for _ in 0..self.master.sentinels.len() {
            let sentinel = &self.master.sentinels[self.first];
            match self.ask(sentinel).await {
                Ok(named) => return Ok(named),
                Err(error) => {
                    let peer = StorePeer { kind: StorePeerKind::Sentinel, address: sentinel.address.clone() };
                    failures.push((peer, error));
                }
            }
            self.turn();
        }
        Err(StoreFailure::of_all(failures))
    }

    async fn ask(&self, sentinel: &Sentinel) -> Result<NamedMaster, StoreError> {
        let Sentinel { address, tls, .. } = sentinel;
        let login = self.master.login.as_ref();
        let mut connection = StoreConnection::open(address, tls.as_ref(), login, self.timeout).await?;
        let address = ask(&mut connection, &self.master.name).await?;
        Ok(NamedMaster { address, connection })
    }

    /// Ends when a sentinel names another master: its address. Sentinels that do not answer change nothing.
    pub(super) async fn watch(&mut self, named: NamedMaster) -> ServerAddress {
        let NamedMaster { address: current, connection } = named;
        let mut connection = Some(connection);
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let answer = match &mut connection {
                Some(open) => ask(open, &self.master.name).await,
                None => match self.find().await {
                    Ok(found) => {
                        connection = Some(found.connection);
                        Ok(found.address)
                    }
                    Err(failure) => {
                        tracing::debug!(%failure, "no sentinel answers: the master in use stays");
                        continue;
                    }
                },
            };
            match answer {
                Ok(address) if address != current => return address,
                Ok(_) => {}
                Err(_) => {
                    connection = None;
                    self.turn();
                }
            }
        }
    }
}

/// The address of the master of this name.
async fn ask(connection: &mut StoreConnection, name: &str) -> Result<ServerAddress, StoreError> {
    let words = [&b"SENTINEL"[..], b"get-master-addr-by-name", name.as_bytes()];
    match connection.ask_one(&words).await? {
        RespReply::Array(None) => Err(StoreError::UnknownMaster(name.into())),
        RespReply::Array(Some(parts)) => {
            parse_address(&parts).ok_or(StoreError::Unexpected("SENTINEL get-master-addr-by-name"))
        }
        _ => Err(StoreError::Unexpected("SENTINEL get-master-addr-by-name")),
    }
}

/// Host and port, as a sentinel names them: an IP address, or a name where it announces names.
fn parse_address(parts: &[RespReply]) -> Option<ServerAddress> {
    let [RespReply::String(Some(host)), RespReply::String(Some(port))] = parts else { return None };
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?);
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => Some(ServerAddress::Ip((ip, port.parse().ok()?).into())),
        Err(_) => {
            let address = format!("{host}:{port}").parse().ok()?;
            matches!(address, ServerAddress::Name { .. }).then_some(address)
        }
    }
}

/// That a server calls itself the master.
///
/// # Errors
/// When it is a replica, or is about to become one.
pub(super) async fn check_role(connection: &mut StoreConnection) -> Result<(), StoreError> {
    let RespReply::Array(Some(role)) = connection.ask_one(&[b"ROLE"]).await? else {
        return Err(StoreError::Unexpected("ROLE"));
    };
    match role.first() {
        Some(RespReply::String(Some(role))) if role == b"master" => Ok(()),
        Some(RespReply::String(Some(role))) => {
            Err(StoreError::NotMaster(role.escape_ascii().to_string().chars().take(32).collect()))
        }
        _ => Err(StoreError::Unexpected("ROLE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_masters_are_those_of_hosts() {
        let parse = |host: &str, port: &str| {
            let text = |text: &str| RespReply::String(Some(text.into()));
            parse_address(&[text(host), text(port)]).map(|address| address.to_string())
        };
        assert_eq!(parse("10.0.0.2", "6379").as_deref(), Some("10.0.0.2:6379"));
        assert_eq!(parse("2001:db8::2", "6379").as_deref(), Some("[2001:db8::2]:6379"));
        assert_eq!(parse("redis-2.internal", "6380").as_deref(), Some("redis-2.internal:6380"));
        for (host, port) in [
            ("", "6379"),
            ("10.0.0.2", "x"),
            ("10.0.0.2", "66666"),
            ("unix", "/run/x"),
            ("unix:/run/x", "1"),
            ("a b", "1"),
        ] {
            assert_eq!(parse(host, port), None, "{host} {port}");
        }
        assert_eq!(parse_address(&[]), None);
    }
}
