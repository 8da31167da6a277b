//! The client: sends a request of the script to one of the programs, and keeps what came back in a form that can be compared.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use super::script::Step;
use crate::harness::message::{Fields, latin1};
use crate::harness::stream::{Address, Stream};
use crate::harness::wire::End;
use crate::harness::{CertificateAuthority, Client, Http2Client, tls};

/// What a client has of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// 0 where the connection ended without one.
    pub(super) status: u16,
    /// Names in lower case, and all values in their order.
    pub(super) fields: BTreeMap<String, Vec<String>>,
    pub(super) body: String,
}

impl Answer {
    fn new(status: u16, fields: &Fields, body: &[u8]) -> Answer {
        let mut answer = Answer { status, ..Answer::default() };
        for (name, value) in &fields.0 {
            answer.fields.entry(name.to_ascii_lowercase()).or_default().push(value.clone());
        }
        let is_gzip = answer.field("content-encoding") == Some("gzip") && !body.is_empty();
        answer.body = if is_gzip { gunzip(body) } else { latin1(body) };
        answer
    }

    /// The first value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    /// Whether the body is of a server of the script.
    pub(super) fn is_of_server(&self) -> bool {
        self.body.contains("seen by ")
    }
}

fn gunzip(bytes: &[u8]) -> String {
    let mut out = vec![0; 1 << 20];
    let mut inflate = zlib_rs::Inflate::new(true, 31);
    let status = inflate.decompress(bytes, &mut out, zlib_rs::InflateFlush::SyncFlush);
    assert_eq!(status, Ok(zlib_rs::Status::StreamEnd), "the body is whole");
    latin1(&out[..inflate.total_out() as usize])
}

/// One of the programs, as clients see it.
pub(super) struct Target<'a> {
    pub(super) address: SocketAddr,
    pub(super) authority: Option<&'a CertificateAuthority>,
    pub(super) host: &'a str,
    /// The validator of the last response that had one.
    pub(super) etag: &'a str,
}

impl Target<'_> {
    /// Sends the request of `step` as often as it says, each time on a connection of its own.
    pub(super) fn ask(&self, step: &Step) -> Vec<Answer> {
        // Each ends when it is dropped.
        let mut held = Vec::new();
        let mut answers = Vec::new();
        for _ in 0..step.times {
            if step.is_http2 {
                answers.push(self.ask_http2(step));
                continue;
            }
            let (answer, client) =
                if step.method == "TCP" { self.ask_tcp(step) } else { self.ask_http1(step) };
            answers.push(answer);
            held.extend(step.is_held.then_some(client));
        }
        if step.method == "TCP" {
            answers.sort_by(|one, other| one.body.cmp(&other.body));
        }
        if step.is_same && answers.iter().all(|answer| answer.body == answers[0].body) {
            answers.iter_mut().for_each(|answer| answer.body = "one server".to_owned());
        }
        answers
    }

    /// Sends the target on a connection; the body is the name of the server that has repeated it.
    fn ask_tcp(&self, step: &Step) -> (Answer, Client) {
        let mut client = self.connect(step);
        client.exempt("it is no HTTP");
        // A connection that is refused ends without a word.
        let _ = client.send_what_is_taken(&step.target);
        let mut text = Vec::new();
        let whole = |text: &[u8]| text.ends_with(step.target.as_bytes()) && text.contains(&b'\n');
        while !whole(&text) {
            let mut byte = [0];
            match client.skim_or_end(&mut byte) {
                Some(len) if len > 0 => text.extend(byte),
                _ => break,
            }
        }
        let body = latin1(&text).lines().next().unwrap_or_default().to_owned();
        (Answer { status: u16::from(whole(&text)), body, ..Answer::default() }, client)
    }

    fn fields(&self, step: &Step) -> Vec<(String, String)> {
        let filled = |(name, value): &(String, String)| (name.clone(), value.replace("{etag}", self.etag));
        step.fields.iter().map(filled).collect()
    }

    fn ask_http1(&self, step: &Step) -> (Answer, Client) {
        let mut client = self.connect(step);
        client.exempt("both programs are asked the same, and what they answer is compared");
        let mut fields = self.fields(step);
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            fields.insert(0, ("Host".to_owned(), self.host.to_owned()));
        }
        fields.retain(|(name, value)| !(name == "Host" && value == "none"));
        let is_chunked = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        let mut bytes = format!("{} {} HTTP/{}\r\n", step.method, step.target, step.version).into_bytes();
        for (name, value) in &fields {
            bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        match &step.body {
            Some(body) if is_chunked => {
                bytes.extend(format!("\r\n{:x}\r\n{}\r\n0\r\n\r\n", body.len(), latin1(body)).into_bytes());
            }
            Some(body) => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
                bytes.extend(body);
            }
            None => bytes.extend(b"\r\n"),
        }
        // A request that is refused while it is being sent is refused all the same.
        let _ = client.send_what_is_taken(bytes);
        let answer = read_http1(&mut client, &step.method);
        (answer, client)
    }

    fn connect(&self, step: &Step) -> Client {
        match (self.authority, &step.from) {
            (Some(authority), from) => {
                let name = step.host(self.host).split(':').next().unwrap_or_default();
                let from = from.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), |from| {
                    from.parse().expect("the script gives an address")
                });
                tls::connect_from(from, self.address, authority.client(), name)
            }
            (None, Some(from)) => Client::connect_from(from, self.address),
            (None, None) => Client::connect(self.address),
        }
    }

    fn ask_http2(&self, step: &Step) -> Answer {
        let authority = self.authority.expect("HTTP/2 is for listeners with TLS");
        let host = step.host(self.host);
        let mut client = Http2Client::connect_tls_as(authority, self.address, host);
        let fields = self.fields(step);
        let own = [
            (":method", &*step.method),
            (":scheme", "https"),
            (":authority", host),
            (":path", &*step.target),
        ];
        let given = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
        let lower: Vec<_> = given.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        let all: Vec<(&str, &str)> =
            own.into_iter().chain(lower.iter().map(|(name, value)| (&**name, *value))).collect();
        let stream = client.open(&all, step.body.is_none());
        if let Some(body) = &step.body {
            client.data(stream, body, true);
        }
        let received = client.outcome(stream);
        Answer::new(received.status, &received.fields, &received.body)
    }
}

fn read_http1(client: &mut Client, method: &str) -> Answer {
    loop {
        match client.try_response_to(method) {
            Ok(response) if response.status == 101 => {
                client.send("hello");
                let echoed = client.take(5);
                return Answer::new(101, response.fields(), &echoed);
            }
            Ok(response) if response.status < 200 => {}
            Ok(response) => return Answer::new(response.status, response.fields(), &response.body.bytes),
            Err(End::Silence) => panic!("no answer to {method}"),
            Err(_) => return Answer::default(),
        }
    }
}

/// Whether something accepts connections at `address`.
pub(super) fn accepts(address: SocketAddr) -> bool {
    Stream::connect(&Address::Tcp(address)).is_ok()
}
