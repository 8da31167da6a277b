//! Responses, from every server by way of every reader to every client.

use std::time::Duration;

use super::client::{Ask, Got, Reading, Speech};
use super::rig::PAGE;
use super::script::Content;
use super::server::{self, Plan, SHORT_LEN};
use super::tls::TlsSides;
use super::{Failures, NO_TIME, Rig, SHAPES, Shape, TLS_SHAPES, in_event_loop, same};

/// What reads or holds a body between its server and its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Nothing.
    Relay,
    /// The cache, which is filled, for two clients at once and then for others.
    Store,
    /// The cache, which is refreshed behind a client.
    Refresh,
    /// Memory.
    Buffer,
    /// A temporary file.
    Spill,
    /// A limit on bandwidth.
    Pace,
    Compress,
    /// The digest that is compared with that of a mirror.
    Mirror,
    /// A page in place of a failure.
    Page,
    /// Memory, for a page in place of a failure.
    RemotePage,
    /// Memory, for the answer of a server that denies a request.
    Denial,
    /// Memory, for the answer of a server that lets a request pass: its body is of no use.
    Grant,
    /// The cache, from whose files others have it.
    File,
    /// gRPC-Web.
    Web,
    /// The same, of a response that ends inside a message.
    WebInMessage,
}

impl Reader {
    const ALL: [Self; 15] = [
        Self::Relay,
        Self::Store,
        Self::Refresh,
        Self::Buffer,
        Self::Spill,
        Self::Pace,
        Self::Compress,
        Self::Mirror,
        Self::Page,
        Self::RemotePage,
        Self::Denial,
        Self::Grant,
        Self::File,
        Self::Web,
        Self::WebInMessage,
    ];

    fn path(self) -> &'static str {
        match self {
            Self::Relay => "/relay",
            Self::Store | Self::Refresh => "/store",
            Self::Buffer => "/buffer",
            Self::Spill => "/spill",
            Self::Pace => "/pace",
            Self::Compress => "/compress",
            Self::Mirror => "/mirror",
            Self::Page => "/page",
            Self::RemotePage => "/remote-page",
            Self::Denial | Self::Grant => "/auth",
            Self::File => "/filed",
            Self::Web | Self::WebInMessage => "/web",
        }
    }

    fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Store | Self::Refresh | Self::File => &[("cache-control", "max-age=60")],
            Self::Compress => &[("content-type", "text/plain")],
            Self::Web | Self::WebInMessage => &[("content-type", "application/grpc")],
            _ => &[],
        }
    }

    /// The time that it may take.
    fn time(self) -> Duration {
        match self {
            Self::Pace => Duration::from_secs(10),
            Self::Compress => Duration::from_millis(500),
            _ => NO_TIME,
        }
    }

    fn is_call(self) -> bool {
        matches!(self, Self::Web | Self::WebInMessage)
    }

    fn content(self) -> Content {
        match self {
            Self::Web => Content::GrpcMessage { missing: 0 },
            Self::WebInMessage => Content::GrpcMessage { missing: 1 },
            _ => Content::Salted(0),
        }
    }

    fn ask(self, number: usize) -> Ask {
        let is_call = self.is_call();
        let method = if is_call { "POST" } else { "GET" };
        let body = is_call.then_some((SHAPES[0], true));
        Ask { method, path: self.path(), number, body, is_call }
    }

    fn plan(self, shape: Shape) -> Plan {
        let status = match self {
            Self::Page => 503,
            Self::Denial => 403,
            _ => 200,
        };
        Plan { status, fields: self.fields(), shape, content: self.content(), is_early: false }
    }
}

/// One case.
#[derive(Debug, Clone, Copy)]
struct Case {
    reader: Reader,
    shape: Shape,
    server: server::Speech,
    client: Speech,
    reading: Reading,
    tls: TlsSides,
}

impl Case {
    /// Whether there is such a thing.
    fn exists(&self) -> bool {
        // What Weir asks by itself is no script.
        let is_own = matches!(self.reader, Reader::RemotePage | Reader::Denial | Reader::Grant);
        if is_own && self.server == server::Speech::Fastcgi {
            return false;
        }
        let is_grpc = !self.reader.is_call() || self.server == server::Speech::Http2;
        // The end of a connection is the end of such a body, unless TLS shows that it was cut.
        let can_be_cut =
            self.server != server::Speech::UntilClose || self.tls.servers || !self.shape.is_cut();
        is_grpc && can_be_cut
    }

    async fn run(&self, rig: &mut Rig) -> Result<(), String> {
        match self.reader {
            Reader::Store => self.store(rig).await,
            Reader::Refresh => self.refresh(rig).await,
            Reader::File => self.file(rig).await,
            Reader::RemotePage => self.remote_page(rig).await,
            Reader::Grant => self.grant(rig).await,
            _ => {
                rig.begin(Reading::AtOnce, &[self.reader.plan(self.shape)]);
                let ask = self.reader.ask(rig.number);
                let got = rig.fetch(self.client, self.reading, ask, self.reader.time()).await?;
                self.check(&got)
            }
        }
    }

    fn check(&self, got: &Got) -> Result<(), String> {
        let sent = self.shape.content(self.reader.content());
        if self.reading == Reading::LeavesEarly {
            return Ok(());
        }
        if self.reader == Reader::Page && got.status == 503 && got.is_whole {
            return same(&got.body, PAGE.as_bytes());
        }
        if self.reader == Reader::WebInMessage && !sent.is_empty() {
            return Self::check_cut_in_message(got, &sent);
        }
        if self.shape.is_cut() {
            return self.check_cut(got, &sent);
        }
        let status = if self.reader == Reader::Denial { 403 } else { 200 };
        if (got.status, got.is_whole) != (status, true) {
            return Err(format!("{} {}, {} bytes", got.status, got.is_whole, got.body.len()));
        }
        match self.reader {
            reader if reader.is_call() => match got.body.strip_prefix(&sent[..]) {
                Some(b"\x80\0\0\0\x0ax-sum: 1\r\n") if self.shape.has_trailers() => Ok(()),
                Some([]) if !self.shape.has_trailers() => Ok(()),
                _ => Err(format!("{} bytes of a call", got.body.len())),
            },
            _ if got.is_gzip => same(&decompressed(&got.body, sent.len()), &sent),
            _ => same(&got.body, &sent),
        }
    }

    /// What has come of a response that is cut: all that was sent, and no end; or a failure in its place.
    fn check_cut(&self, got: &Got, sent: &[u8]) -> Result<(), String> {
        match (got.status, got.is_whole) {
            (502, true) => Ok(()),
            // A call has a status that says so.
            (200, true) if self.reader.is_call() => match got.body.strip_prefix(sent) {
                Some([0x80, ..]) => Ok(()),
                _ => Err(format!("{} bytes of a call", got.body.len())),
            },
            // The other client has asked once more.
            (200, true) if self.reader == Reader::Store && got.body.len() == SHORT_LEN => Ok(()),
            // What an encoder has taken is lost with the end of its body.
            (200, false) if self.reader == Reader::Compress => Ok(()),
            (200, false) => same(&got.body, sent),
            (status, _) => Err(format!("{status} passes for whole")),
        }
    }

    /// What has come of a call that is cut inside a message: nothing behind its bytes that could pass for more of it, and no end; or, in its place, a
    /// status in a head.
    fn check_cut_in_message(got: &Got, sent: &[u8]) -> Result<(), String> {
        match (got.status, got.is_whole) {
            (200, true) if got.body.is_empty() => Ok(()),
            (200, false) => same(&got.body, sent),
            (status, is_whole) => {
                Err(format!("{status} {is_whole}, {} bytes in place of {}", got.body.len(), sent.len()))
            }
        }
    }

    /// Two clients at once, of which one may leave; then others have it without the server.
    async fn store(&self, rig: &mut Rig) -> Result<(), String> {
        rig.begin(Reading::AtOnce, &[self.reader.plan(self.shape)]);
        let ask = self.reader.ask(rig.number);
        let other = if self.client == Speech::Http1 { Speech::Http2 } else { Speech::Http1 };
        let mut clients = [rig.ask(self.client, self.reading, ask), rig.ask(other, Reading::AtOnce, ask)];
        rig.drive(&mut clients, NO_TIME).await?;
        let [first, second] = clients.map(|client| client.got);
        self.check(&first)?;
        if self.shape.is_cut() {
            return Ok(());
        }
        Self { reading: Reading::AtOnce, ..*self }
            .check(&second)
            .map_err(|failure| format!("joined: {failure}"))?;
        for client in [self.client, other] {
            let got = rig.fetch(client, Reading::AtOnce, ask, NO_TIME).await?;
            Self { reading: Reading::AtOnce, ..*self }
                .check(&got)
                .map_err(|failure| format!("{client:?} from the cache: {failure}"))?;
        }
        match rig.server.count {
            1 => Ok(()),
            count => Err(format!("the server was asked {count} times")),
        }
    }

    /// A response is stored and then only in a file: those who ask next have it from there.
    async fn file(&self, rig: &mut Rig) -> Result<(), String> {
        rig.begin(Reading::AtOnce, &[self.reader.plan(self.shape)]);
        let (ask, at_once) = (self.reader.ask(rig.number), Self { reading: Reading::AtOnce, ..*self });
        let got = rig.fetch(self.client, Reading::AtOnce, ask, NO_TIME).await?;
        at_once.check(&got)?;
        rig.move_to_files().await;
        let got = rig.fetch(self.client, self.reading, ask, NO_TIME).await?;
        if self.shape.is_cut() {
            // It is fetched anew.
            let is_left = self.reading == Reading::LeavesEarly;
            let is_new = is_left || got.body.len() == SHORT_LEN && rig.server.count == 2;
            return is_new.then_some(()).ok_or_else(|| "what is cut is kept".to_owned());
        }
        self.check(&got).map_err(|failure| format!("from the file: {failure}"))?;
        let got = rig.fetch(self.client, Reading::AtOnce, ask, NO_TIME).await?;
        at_once.check(&got).map_err(|failure| format!("behind the file: {failure}"))?;
        match rig.server.count {
            1 => Ok(()),
            count => Err(format!("the server was asked {count} times")),
        }
    }

    /// The page of a server replaces its failure; one that is cut does not.
    async fn remote_page(&self, rig: &mut Rig) -> Result<(), String> {
        let failure = Plan {
            status: 503,
            shape: SHAPES[0],
            content: Content::Salted(9),
            ..self.reader.plan(self.shape)
        };
        rig.begin(Reading::AtOnce, &[failure, self.reader.plan(self.shape)]);
        let got = rig.fetch(self.client, self.reading, self.reader.ask(rig.number), NO_TIME).await?;
        if self.reading == Reading::LeavesEarly {
            return Ok(());
        }
        if (got.status, got.is_whole) != (503, true) {
            return Err(format!("{} {}, {} bytes", got.status, got.is_whole, got.body.len()));
        }
        match self.shape.is_cut() {
            true => same(&got.body, &failure.shape.body(9)),
            false => same(&got.body, &self.shape.body(0)),
        }
    }

    /// A server lets a request pass, and another answer is the response; without the whole of its answer, the request does not pass.
    async fn grant(&self, rig: &mut Rig) -> Result<(), String> {
        let response = Plan { shape: SHAPES[4], content: Content::Salted(5), ..self.reader.plan(self.shape) };
        rig.begin(Reading::AtOnce, &[self.reader.plan(self.shape), response]);
        let got = rig.fetch(self.client, self.reading, self.reader.ask(rig.number), NO_TIME).await?;
        if self.reading == Reading::LeavesEarly {
            return Ok(());
        }
        let (status, count) = if self.shape.is_cut() { (502, 1) } else { (200, 2) };
        if (got.status, got.is_whole, rig.server.count) != (status, true, count) {
            return Err(format!("{} {}, {} requests", got.status, got.is_whole, rig.server.count));
        }
        if self.shape.is_cut() { Ok(()) } else { same(&got.body, &SHAPES[4].body(5)) }
    }

    /// A stale response is sent, and refreshed behind its client.
    async fn refresh(&self, rig: &mut Rig) -> Result<(), String> {
        const STALE: &[(&str, &str)] = &[("cache-control", "max-age=0, stale-while-revalidate=60")];
        let old = Plan { fields: STALE, ..self.reader.plan(SHAPES[0]) };
        let new = Plan { content: Content::Salted(7), ..self.reader.plan(self.shape) };
        rig.begin(Reading::AtOnce, &[old, new]);
        let ask = self.reader.ask(rig.number);
        for _ in 0..2 {
            let got = rig.fetch(self.client, self.reading, ask, NO_TIME).await?;
            if self.reading != Reading::LeavesEarly {
                same(&got.body, &SHAPES[0].body(0)).map_err(|failure| format!("stale: {failure}"))?;
            }
        }
        if rig.server.count != 2 {
            return Err(format!("the server was asked {} times", rig.server.count));
        }
        let got = rig.fetch(self.client, Reading::AtOnce, ask, NO_TIME).await?;
        if self.shape.is_cut() {
            // It is fetched anew.
            return if got.body.len() == SHORT_LEN { Ok(()) } else { Err("what is cut is kept".to_owned()) };
        }
        same(&got.body, &self.shape.body(7)).map_err(|failure| format!("refreshed: {failure}"))
    }
}

fn decompressed(body: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len + 1];
    // With a header of gzip.
    let config = zlib_rs::InflateConfig { window_bits: 31 };
    let (made, _) = zlib_rs::decompress_slice(&mut out, body, config);
    made.to_vec()
}

fn every_shape_from(server: server::Speech) {
    run(server, TlsSides::NEITHER, &Reader::ALL, &SHAPES);
}

/// The rows with TLS: on either side and on both where nothing holds the body, since what relays it differs.
fn every_shape_over_tls_from(server: server::Speech) {
    let shapes = TLS_SHAPES.map(|shape| SHAPES[shape]);
    for tls in TlsSides::WITH_TLS {
        run(server, tls, &[Reader::Relay], &shapes);
    }
    run(server, TlsSides::BOTH, &[Reader::Store, Reader::Buffer, Reader::Compress, Reader::File], &shapes);
}

fn run(server: server::Speech, tls: TlsSides, readers: &[Reader], shapes: &[Shape]) {
    in_event_loop(async {
        let mut failures = Failures::default();
        let mut rig = Rig::open(server, tls);
        for reader in readers.iter().copied() {
            for client in [Speech::Http1, Speech::Http2] {
                for reading in [Reading::AtOnce, Reading::Slowly, Reading::LeavesEarly] {
                    for shape in shapes.iter().copied() {
                        let case = Case { reader, shape, server, client, reading, tls };
                        if case.exists() {
                            let outcome = case.run(&mut rig).await;
                            if failures.note(|| format!("{case:?}"), outcome) {
                                rig = Rig::open(server, tls);
                            }
                        }
                    }
                }
            }
        }
        failures.check();
    });
}

#[test]
fn responses_with_a_length_are_the_same_for_all() {
    every_shape_from(server::Speech::Length);
}

#[test]
fn responses_in_chunks_are_the_same_for_all() {
    every_shape_from(server::Speech::Chunked);
}

#[test]
fn responses_that_end_with_their_connections_are_the_same_for_all() {
    every_shape_from(server::Speech::UntilClose);
}

#[test]
fn responses_of_http2_are_the_same_for_all() {
    every_shape_from(server::Speech::Http2);
}

#[test]
fn responses_of_fastcgi_are_the_same_for_all() {
    every_shape_from(server::Speech::Fastcgi);
}

#[test]
fn responses_with_a_length_are_the_same_over_tls() {
    every_shape_over_tls_from(server::Speech::Length);
}

#[test]
fn responses_in_chunks_are_the_same_over_tls() {
    every_shape_over_tls_from(server::Speech::Chunked);
}

#[test]
fn responses_that_end_with_their_connections_are_the_same_over_tls() {
    every_shape_over_tls_from(server::Speech::UntilClose);
}

#[test]
fn responses_of_http2_are_the_same_over_tls() {
    every_shape_over_tls_from(server::Speech::Http2);
}
