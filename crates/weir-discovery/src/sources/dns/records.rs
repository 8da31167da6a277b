//! SRV records to servers (RFC 2782). Pure.

use std::net::IpAddr;

use weir_config::ServerAddress;
use weir_sort::CompactSort as _;

use crate::server_set::DiscoveredServer;
use crate::sources::weights::scaled;

/// A record with the addresses of its target.
#[derive(Debug, Clone)]
pub(super) struct SrvRecord {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) port: u16,
    pub(super) target: Box<str>,
    pub(super) ips: Vec<IpAddr>,
}

/// The servers: those of the lowest priority that has any address get the requests, all others are backups. Weights count within a priority;
/// a target with several addresses shares its own among them.
pub(super) fn servers_of_srv(records: &[SrvRecord]) -> Vec<DiscoveredServer> {
    let mut priorities: Vec<u16> =
        records.iter().filter(|record| !record.ips.is_empty()).map(|record| record.priority).collect();
    priorities.sort_compact();
    priorities.dedup();
    let mut servers = Vec::new();
    for (rank, priority) in priorities.iter().enumerate() {
        let group = records.iter().filter(|record| record.priority == *priority);
        let entries: Vec<(f64, &SrvRecord, IpAddr)> = group
            .flat_map(|record| {
                let share = f64::from(record.weight) / record.ips.len().max(1) as f64;
                record.ips.iter().map(move |ip| (share, record, *ip))
            })
            .collect();
        let shares: Vec<f64> = entries.iter().map(|(share, ..)| *share).collect();
        for ((_, record, ip), weight) in entries.into_iter().zip(scaled(&shares)) {
            let metadata = [("target", record.target.to_string()), ("priority", priority.to_string())];
            servers.push(DiscoveredServer {
                weight,
                backup: rank > 0,
                metadata: metadata.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
                ..DiscoveredServer::new(ServerAddress::Ip((ip, record.port).into()))
            });
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(priority: u16, weight: u16, port: u16, ips: &[&str]) -> SrvRecord {
        let ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        SrvRecord { priority, weight, port, target: "t.example".into(), ips }
    }

    fn shown(records: &[SrvRecord]) -> Vec<(String, u16, bool)> {
        let servers = servers_of_srv(records).into_iter();
        servers.map(|server| (server.address.to_string(), server.weight, server.backup)).collect()
    }

    #[test]
    fn the_lowest_priority_serves_and_all_others_are_backups() {
        let records = [
            record(20, 5, 3, &["10.0.0.3"]),
            record(10, 1, 1, &["10.0.0.1"]),
            record(10, 3, 2, &["10.0.0.2", "::1"]),
            record(30, 9, 4, &["10.0.0.4"]),
        ];
        let expected = [
            ("10.0.0.1:1", 171, false),
            ("10.0.0.2:2", 256, false),
            ("[::1]:2", 256, false),
            ("10.0.0.3:3", 5, true),
            ("10.0.0.4:4", 9, true),
        ];
        assert_eq!(
            shown(&records),
            expected.map(|(address, weight, backup)| (address.to_owned(), weight, backup))
        );
    }

    #[test]
    fn a_priority_without_addresses_does_not_count() {
        let records = [record(1, 1, 1, &[]), record(2, 0, 2, &["10.0.0.2"])];
        assert_eq!(shown(&records), [("10.0.0.2:2".to_owned(), 1, false)]);
        assert!(shown(&[]).is_empty());
    }
}
