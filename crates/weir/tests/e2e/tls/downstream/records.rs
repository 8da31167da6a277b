//! Records as they may come: in pieces with a pause between them, many at once, under new keys.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection};

use super::Site;
use crate::harness::origin::ok;
use crate::harness::scripts::echo;
use crate::harness::{Origin, latin1, watchdog};

/// A client whose records the test sends as it likes.
struct Raw {
    tcp: TcpStream,
    session: ClientConnection,
}

impl Raw {
    fn connect(site: &Site, config: ClientConfig) -> Raw {
        let mut tcp = TcpStream::connect(site.weir.web()).expect("the listener accepts");
        tcp.set_nodelay(true).expect("a connected socket takes its options");
        let name = "a.test".try_into().expect("a host name");
        let mut session = ClientConnection::new(Arc::new(config), name).expect("sound settings");
        while session.is_handshaking() {
            session.complete_io(&mut tcp).expect("Weir shakes hands");
        }
        let mut raw = Raw { tcp, session };
        let rest = raw.records();
        raw.send(&rest);
        raw
    }

    /// What the session has to send.
    fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut records).expect("a vector takes everything");
        }
        records
    }

    /// A record with these bytes.
    fn record(&mut self, text: &str) -> Vec<u8> {
        self.session.writer().write_all(text.as_bytes()).expect("it is buffered");
        self.records()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.tcp.write_all(bytes).expect("Weir reads");
    }

    /// Reads until what was received ends with `end`.
    fn receive(&mut self, end: &str) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            assert_ne!(self.session.read_tls(&mut self.tcp).expect("Weir answers"), 0, "{}", latin1(&answer));
            let state = self.session.process_new_packets().expect("Weir keeps to the protocol");
            let mut piece = vec![0; state.plaintext_bytes_to_read()];
            self.session.reader().read_exact(&mut piece).expect("that much is there");
            answer.extend(piece);
            let answers = self.records();
            self.send(&answers);
        }
        latin1(&answer)
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

#[test]
fn a_record_may_come_in_pieces_with_pauses() {
    let origin = echo();
    let site = Site::start(&origin);
    for version in rustls::ALL_VERSIONS {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut client = Raw::connect(&site, site.authority.client_with(provider, &[version]));
        for (number, at) in [1, 4, 5, 6, 30].into_iter().enumerate() {
            let record = client.record(&get(&format!("/{number}")));
            client.send(&record[..at]);
            watchdog::work(Duration::from_millis(30));
            client.send(&record[at..]);
            assert!(client.receive(&format!("/{number}")).starts_with("HTTP/1.1 200 "));
        }
    }
}

/// A long body in the largest records, so that each comes with the next one's beginning, and some do not fit into a buffer.
#[test]
fn many_records_may_come_at_once_and_a_piece_of_another() {
    const LEN: usize = 400_000;
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let sum = request.body.bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            conn.send(ok(&format!("{} {sum} end", request.body.bytes.len())))?;
        }
    });
    let site = Site::start(&origin);
    for piece_len in [1, 17, 1_000, 16_384] {
        let len = if piece_len == 1 { 3_000 } else { LEN };
        let mut client = Raw::connect(&site, site.authority.client());
        let body = "0123456789".repeat(len / 10);
        let sum = body.bytes().map(u64::from).sum::<u64>();
        let mut records =
            client.record(&format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n\r\n"));
        for piece in body.as_bytes().chunks(piece_len) {
            let piece = str::from_utf8(piece).expect("digits");
            records.extend(client.record(piece));
        }
        client.send(&records);
        let answer = client.receive(" end");
        assert!(answer.ends_with(&format!("{len} {sum} end")), "records of {piece_len}: {answer}");
    }
}

#[test]
fn keys_may_change_on_the_way() {
    let origin = echo();
    let site = Site::start(&origin);
    let mut client = Raw::connect(&site, site.authority.client());
    for number in 0..20 {
        // Asks for new keys of the other side as well, which come with the answer.
        client.session.refresh_traffic_keys().expect("TLS 1.3 can");
        let record = client.record(&get(&format!("/{number}")));
        client.send(&record);
        assert!(client.receive(&format!("/{number}")).starts_with("HTTP/1.1 200 "));
    }
    // Alone, while nothing else is on its way.
    client.session.refresh_traffic_keys().expect("TLS 1.3 can");
    let alone = client.records();
    client.send(&alone);
    watchdog::work(Duration::from_millis(50));
    let record = client.record(&get("/last"));
    client.send(&record);
    assert!(client.receive("/last").starts_with("HTTP/1.1 200 "));
}

/// Records of a client, made by hand after a real handshake: its library sends none without content.
struct Forger {
    tcp: TcpStream,
    key: aws_lc_rs::aead::LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Forger {
    fn connect(site: &Site, mut config: ClientConfig) -> Forger {
        use rustls::ConnectionTrafficSecrets as Secrets;
        config.enable_secret_extraction = true;
        let Raw { tcp, session } = Raw::connect(site, config);
        let (sequence, secrets) = session.dangerous_extract_secrets().expect("the handshake is over").tx;
        let (algorithm, key, iv) = match secrets {
            Secrets::Aes128Gcm { key, iv } => (&aws_lc_rs::aead::AES_128_GCM, key, iv),
            Secrets::Aes256Gcm { key, iv } => (&aws_lc_rs::aead::AES_256_GCM, key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (&aws_lc_rs::aead::CHACHA20_POLY1305, key, iv),
            _ => panic!("TLS 1.3 has no others"),
        };
        let key = aws_lc_rs::aead::UnboundKey::new(algorithm, key.as_ref()).expect("the key fits");
        let iv = iv.as_ref().try_into().expect("12 bytes");
        Forger { tcp, key: aws_lc_rs::aead::LessSafeKey::new(key), iv, sequence }
    }

    /// The next record, with this content (RFC 8446 section 5.2).
    fn record(&mut self, content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, part)| *byte ^= part);
        self.sequence += 1;
        // Application data, behind the content.
        let mut inner = [content, &[23]].concat();
        let len = u16::try_from(inner.len() + 16).expect("it is short").to_be_bytes();
        let mut record = vec![23, 3, 3, len[0], len[1]];
        let nonce = aws_lc_rs::aead::Nonce::assume_unique_for_key(nonce);
        let header = aws_lc_rs::aead::Aad::from(record.clone());
        self.key.seal_in_place_append_tag(nonce, header, &mut inner).expect("it is short");
        record.append(&mut inner);
        record
    }

    fn empty(&mut self, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.record(b"")).collect()
    }
}

/// Records without content may come (RFC 8446 section 5.4), but not for ever: each costs as much to decrypt as one with a byte.
#[test]
fn records_without_content_are_skipped_and_a_flood_of_them_ends_the_connection() {
    let origin = echo();
    let site = Site::start(&origin);
    let mut client = Forger::connect(&site, site.authority.client());
    let mut request = client.empty(20);
    request.extend(client.record(b"GET /first HTTP/1.1\r\nHost: a.test\r\n"));
    request.extend(client.empty(20));
    request.extend(client.record(b"\r\n"));
    client.tcp.write_all(&request).expect("Weir reads");
    let requests = || site.weir.metrics().sum("weir_listener_requests_total", &[]);
    watchdog::eventually("the request is answered", || requests() == 1.0);
    // The series exists from the first one on.
    let failures = || {
        let found =
            site.weir.metrics().all("weir_listener_failures_total", &["reason=\"tls-empty-records\""]);
        found.iter().sum::<f64>()
    };
    assert_eq!(failures(), 0.0);
    // Either the kernel says that the other end is gone, or there is nothing to read any more.
    for _ in 0..100 {
        let flood = client.empty(100);
        if client.tcp.write_all(&flood).is_err() {
            break;
        }
    }
    watchdog::eventually("it is cut off", || failures() == 1.0);
}
