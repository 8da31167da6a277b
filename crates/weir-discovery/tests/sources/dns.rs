//! A small DNS server on UDP and TCP: several addresses of a name, SRV records, truncated answers, names that are gone, and an outage.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use weir_config::ServerSource;

use super::{FollowedSource, addresses};

#[derive(Default)]
struct Zone {
    records: HashMap<(String, RecordType), Vec<RData>>,
    additional: Vec<(String, RData)>,
    is_down: bool,
    /// So many questions over UDP get no answer at all.
    lost: usize,
    /// Whether answers over UDP are cut.
    truncates: bool,
    asked_by_tcp: usize,
}

#[derive(Clone)]
pub(crate) struct DnsServer {
    zone: Arc<Mutex<Zone>>,
    port: u16,
}

impl DnsServer {
    pub(crate) async fn start() -> Self {
        // The same port for both: another one when TCP has it already.
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let server = Self { zone: Arc::default(), port: udp.local_addr().unwrap().port() };
        let of_udp = server.clone();
        tokio::spawn(async move {
            let mut question = [0; 1500];
            while let Ok((len, peer)) = udp.recv_from(&mut question).await {
                if of_udp.loses_one() {
                    continue;
                }
                let answer = of_udp.answer(&question[..len], false);
                let _gone = udp.send_to(&answer, peer).await;
            }
        });
        let of_tcp = server.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let server = of_tcp.clone();
                tokio::spawn(async move {
                    while let Ok(len) = stream.read_u16().await {
                        let mut question = vec![0; usize::from(len)];
                        if stream.read_exact(&mut question).await.is_err() {
                            return;
                        }
                        let answer = server.answer(&question, true);
                        let _gone = stream.write_u16(answer.len() as u16).await;
                        let _gone = stream.write_all(&answer).await;
                    }
                });
            }
        });
        server
    }

    fn loses_one(&self) -> bool {
        let mut zone = self.zone.lock().unwrap();
        let is_lost = zone.lost > 0;
        zone.lost -= usize::from(is_lost);
        is_lost
    }

    fn answer(&self, question: &[u8], is_tcp: bool) -> Vec<u8> {
        let mut zone = self.zone.lock().unwrap();
        zone.asked_by_tcp += usize::from(is_tcp);
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        let mut answer = Message::new(question.id, MessageType::Response, OpCode::Query);
        answer.metadata.recursion_available = true;
        answer.metadata.recursion_desired = true;
        answer.add_query(query.clone());
        let name = query.name().to_ascii().to_lowercase();
        let found = zone.records.get(&(name.clone(), query.query_type()));
        if zone.is_down {
            answer.metadata.response_code = ResponseCode::ServFail;
        } else if zone.truncates && !is_tcp {
            answer.metadata.truncation = true;
        } else if let Some(found) = found {
            for data in found {
                answer.add_answer(Record::from_rdata(query.name().clone(), 0, data.clone()));
            }
            for (owner, data) in &zone.additional {
                answer.add_additional(Record::from_rdata(Name::from_ascii(owner).unwrap(), 0, data.clone()));
            }
        } else if !zone.records.keys().any(|(known, _)| *known == name) {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        answer.to_vec().unwrap()
    }

    pub(crate) fn set(&self, name: &str, kind: RecordType, data: Vec<RData>) {
        self.zone.lock().unwrap().records.insert((name.to_owned(), kind), data);
    }

    pub(crate) fn followed(&self, source: ServerSource) -> FollowedSource {
        let port = self.port;
        FollowedSource::start(source, |config| config.dns.resolvers = vec![([127, 0, 0, 1], port).into()])
    }
}

pub(crate) fn a(ip: [u8; 4]) -> RData {
    RData::A(A(ip.into()))
}

pub(crate) fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, port, Name::from_ascii(target).unwrap()))
}

#[tokio::test]
async fn every_address_of_a_name_is_a_server() {
    let dns = DnsServer::start().await;
    let name = "app.example.";
    dns.set(name, RecordType::A, vec![a([10, 0, 0, 1]), a([10, 0, 0, 2])]);
    dns.set(name, RecordType::AAAA, vec![RData::AAAA(AAAA("fd00::1".parse().unwrap()))]);
    let mut followed = dns.followed(ServerSource::Dns { host: "app.example".into(), port: 80 });
    followed.until_servers(&["10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"]).await;
    dns.set(name, RecordType::A, vec![a([10, 0, 0, 2])]);
    followed.until_servers(&["10.0.0.2:80", "[fd00::1]:80"]).await;

    dns.zone.lock().unwrap().is_down = true;
    let set = followed.until("that is stale", |set| set.origin.is_stale).await;
    assert_eq!(addresses(&set).len(), 2, "the last answer stays");
    dns.zone.lock().unwrap().is_down = false;
    followed.until_servers(&["10.0.0.2:80", "[fd00::1]:80"]).await;

    dns.zone.lock().unwrap().records.clear();
    let set = followed.until_problem("names no server any more").await;
    assert_eq!(addresses(&set).len(), 2, "a name that is gone is not believed at once");
    followed.stop().await;
}

/// The question that is lost when the resolver goes away takes as long as `timeout` lets it. Others are asked meanwhile.
#[tokio::test]
async fn a_resolver_that_was_silent_is_heard_before_the_lost_question_times_out() {
    let dns = DnsServer::start().await;
    let name = "app.example.";
    dns.set(name, RecordType::A, vec![a([10, 0, 0, 1])]);
    let port = dns.port;
    let source = ServerSource::Dns { host: "app.example".into(), port: 80 };
    let mut followed = FollowedSource::start(source, |config| {
        config.dns.resolvers = vec![([127, 0, 0, 1], port).into()];
        config.dns.timeout = Duration::from_secs(3600);
    });
    followed.until_servers(&["10.0.0.1:80"]).await;
    // More than the packets of one question for both families, each sent up to three times.
    dns.zone.lock().unwrap().lost = 10;
    dns.set(name, RecordType::A, vec![a([10, 0, 0, 2])]);
    followed.until_servers(&["10.0.0.2:80"]).await;
    assert_eq!(dns.zone.lock().unwrap().lost, 0);
    followed.stop().await;
}

#[tokio::test]
async fn answers_that_are_cut_are_asked_for_over_tcp() {
    let dns = DnsServer::start().await;
    dns.zone.lock().unwrap().truncates = true;
    let many: Vec<RData> = (1..=200).map(|last| a([10, 0, 0, last])).collect();
    dns.set("app.example.", RecordType::A, many);
    let mut followed = dns.followed(ServerSource::Dns { host: "app.example".into(), port: 80 });
    followed.until("with all servers", |set| set.servers.len() == 200).await;
    assert!(dns.zone.lock().unwrap().asked_by_tcp > 0);
    followed.stop().await;
}

#[tokio::test]
async fn srv_records_have_ports_weights_and_priorities() {
    let dns = DnsServer::start().await;
    let name = "_http._tcp.app.example.";
    dns.set(
        name,
        RecordType::SRV,
        vec![
            srv(20, 1, 8003, "c.example."),
            srv(10, 30, 8001, "a.example."),
            srv(10, 10, 8002, "b.example."),
        ],
    );
    dns.set("a.example.", RecordType::A, vec![a([10, 0, 0, 1])]);
    dns.set("b.example.", RecordType::A, vec![a([10, 0, 0, 2])]);
    // Only in the additional section.
    dns.zone.lock().unwrap().additional = vec![("c.example.".to_owned(), a([10, 0, 0, 3]))];
    let mut followed = dns.followed(ServerSource::Srv("_http._tcp.app.example".into()));
    let set = followed.until_servers(&["10.0.0.1:8001", "10.0.0.2:8002", "10.0.0.3:8003"]).await;
    let weights: Vec<(u16, bool)> = set.servers.iter().map(|server| (server.weight, server.backup)).collect();
    assert_eq!(weights, [(30, false), (10, false), (1, true)]);
    dns.set(name, RecordType::SRV, vec![srv(20, 1, 8003, "c.example.")]);
    let set = followed.until_servers(&["10.0.0.3:8003"]).await;
    assert!(!set.servers[0].backup, "the lowest priority that is there");
    followed.stop().await;
}
