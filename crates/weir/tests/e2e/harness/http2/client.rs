//! The client: what it sends, and what a test asks of it.

use std::collections::{BTreeMap, HashMap};
use std::net::{Shutdown, SocketAddr};
use std::thread::{self, JoinHandle};

use super::frame::{self, FrameHeader, PREFACE, WINDOW};
use super::hpack::Hpack;
use super::received::Received;
use crate::harness::stream::{Address, Stream};
use crate::harness::tls::{WEB_TLS, try_connect_stream};
use crate::harness::wire::{End, Wire};
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, latin1};

/// Lets clients of the listener `web` speak HTTP/2 without TLS, on the port of HTTP/1.
pub(crate) const H2C: &str = "listener.web.http2.prior_knowledge = \"allowed\"\n";

/// Weir with an admin listener in front of `origin`, whose clients may speak HTTP/2 without TLS; one worker, so that all is in one place.
pub(crate) fn start(origin: &Origin) -> Weir {
    start_with(origin, "")
}

/// The same with more settings, in the form of dotted keys, one a line.
pub(crate) fn start_with(origin: &Origin, settings: &str) -> Weir {
    Weir::start(&config_of_origin(origin, &format!("{H2C}{settings}")))
}

/// The same with so many slots on the server.
pub(crate) fn start_with_slots(origin: &Origin, max_requests: usize, settings: &str) -> Weir {
    let server =
        format!("{{ name = \"a\", address = \"{}\", max_requests = {max_requests} }}", origin.address());
    Weir::start(&config_with(&[server], &format!("process.workers = 1\n{H2C}{settings}")))
}

/// The same with TLS, and the authority that clients trust.
pub(crate) fn start_with_tls(origin: &Origin, settings: &str) -> (CertificateAuthority, Weir) {
    let authority = CertificateAuthority::new();
    let text = config_of_origin(origin, &format!("{WEB_TLS}{settings}"));
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    (authority, weir)
}

fn config_of_origin(origin: &Origin, settings: &str) -> String {
    config_with(&[origin.named("a")], &format!("process.workers = 1\n{settings}"))
}

/// One connection of HTTP/2.
#[derive(Debug)]
pub(crate) struct Http2Client {
    pub(super) wire: Wire,
    pub(super) hpack: Hpack,
    /// The scheme of requests.
    scheme: &'static str,
    /// The number of the next stream.
    next: u32,
    /// What came, by stream.
    pub(super) streams: BTreeMap<u32, Received>,
    /// The block that is not complete: its stream, whether that ends, and its bytes.
    pub(super) block: Option<(u32, bool, Vec<u8>)>,
    /// The headers of all frames that came.
    pub(super) frames: Vec<FrameHeader>,
    /// The GOAWAY frames that came: last stream and code.
    pub(crate) goaways: Vec<(u32, u32)>,
    /// The payloads of acknowledged pings.
    pub(super) pongs: Vec<[u8; 8]>,
    /// Weir's settings, once they are here.
    pub(super) settings: Option<HashMap<u16, u32>>,
    /// Settings of ours that Weir has acknowledged.
    pub(super) acknowledged: usize,
    /// Whether settings and pings of Weir are answered.
    pub(crate) answers: bool,
    /// Whether room in windows is given back as soon as data came.
    pub(crate) gives_back: bool,
    /// The window of new streams, for Weir.
    pub(super) stream_window: i64,
    /// What Weir may still send on all streams together.
    pub(super) window: i64,
    /// What we may still send, and what changes of a stream's window came.
    pub(super) send_window: i64,
    pub(super) sent: HashMap<u32, i64>,
}

impl Http2Client {
    /// Connects without TLS and begins.
    pub(crate) fn connect(to: SocketAddr) -> Http2Client {
        Http2Client::connect_with(to, &[])
    }

    /// The same with these settings.
    pub(crate) fn connect_with(to: SocketAddr, settings: &[(u16, u32)]) -> Http2Client {
        let mut client = Http2Client::silent(to);
        client.begin(settings);
        client
    }

    /// Connects without TLS and sends nothing.
    pub(crate) fn silent(to: SocketAddr) -> Http2Client {
        let stream =
            Stream::connect(&Address::Tcp(to)).unwrap_or_else(|error| panic!("no connection: {error}"));
        Http2Client::on(stream, "http")
    }

    /// Connects with a small receive buffer, so that a reader that stops is felt at once, and begins with these settings.
    pub(crate) fn connect_narrow(to: SocketAddr, settings: &[(u16, u32)]) -> Http2Client {
        let stream = Stream::connect_from([127, 0, 0, 1].into(), to, 4096).expect("the listener accepts");
        let mut client = Http2Client::on(stream, "http");
        client.begin(settings);
        client
    }

    /// Connects with TLS to `a.test`, agrees on `h2`, and begins.
    pub(crate) fn connect_tls(authority: &CertificateAuthority, to: SocketAddr) -> Http2Client {
        Http2Client::connect_tls_as(authority, to, "a.test")
    }

    /// The same to this server name.
    pub(crate) fn connect_tls_as(
        authority: &CertificateAuthority,
        to: SocketAddr,
        name: &str,
    ) -> Http2Client {
        let mut config = authority.client();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut tls = try_connect_stream(to, config, name).unwrap_or_else(|error| panic!("no TLS: {error}"));
        assert_eq!(tls.session().alpn_protocol(), Some(&b"h2"[..]), "HTTP/2 is agreed on");
        let mut client = Http2Client::on(Stream::Tls(Box::new(tls)), "https");
        client.begin(&[]);
        client
    }

    /// Takes over a stream that is ready.
    pub(crate) fn on(stream: Stream, scheme: &'static str) -> Http2Client {
        Http2Client {
            wire: Wire::of_client(stream),
            hpack: Hpack::default(),
            scheme,
            next: 1,
            streams: BTreeMap::new(),
            block: None,
            frames: Vec::new(),
            goaways: Vec::new(),
            pongs: Vec::new(),
            settings: None,
            acknowledged: 0,
            answers: true,
            gives_back: true,
            stream_window: WINDOW,
            window: WINDOW,
            send_window: WINDOW,
            sent: HashMap::new(),
        }
    }

    /// Sends the preface and these settings.
    pub(crate) fn begin(&mut self, settings: &[(u16, u32)]) {
        self.send([PREFACE, &frame::settings(settings)[..]].concat());
        self.take_over(settings);
    }

    /// Sends settings.
    pub(crate) fn send_settings(&mut self, settings: &[(u16, u32)]) {
        self.send(frame::settings(settings));
        self.take_over(settings);
    }

    fn take_over(&mut self, settings: &[(u16, u32)]) {
        for (_, size) in settings.iter().filter(|(number, _)| *number == frame::INITIAL_WINDOW_SIZE) {
            let by = i64::from(*size) - self.stream_window;
            self.stream_window += by;
            self.streams.values_mut().for_each(|stream| stream.window += by);
        }
    }

    /// Sends bytes as they are; panics when Weir is gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(end) = self.wire.send(bytes.as_ref()) {
            panic!("cannot send, {end}; {}", self.summary());
        }
    }

    /// Sends bytes as far as Weir takes them.
    pub(crate) fn send_what_is_taken(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), End> {
        self.wire.send(bytes.as_ref())
    }

    /// Sends bytes in a thread of its own, as far as Weir takes them, so that this one can read; without TLS only.
    pub(crate) fn flood(&self, bytes: Vec<u8>) -> JoinHandle<Result<(), End>> {
        let stream = self.wire.stream().duplicate().expect("the process may open one more file");
        thread::spawn(move || Wire::of_client(stream).send(&bytes))
    }

    /// Ends the direction towards Weir.
    pub(crate) fn finish(&self) {
        self.wire.stream().shut(Shutdown::Write);
    }

    /// Aborts the connection with RST.
    pub(crate) fn abort(self) {
        self.wire.stream().reset_on_close();
    }

    /// The fields of a request of `method` for `target`.
    pub(crate) fn request<'a>(&self, method: &'a str, target: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![(":method", method), (":scheme", self.scheme), (":authority", "a.test"), (":path", target)]
    }

    /// The number that the next stream gets.
    pub(crate) fn next_stream(&mut self) -> u32 {
        let stream = self.next;
        self.next += 2;
        let window = self.stream_window;
        self.streams.insert(stream, Received::with_window(window));
        stream
    }

    /// A header block of these fields, for frames made by hand. It has to be sent, in order: it is in the table.
    pub(crate) fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, fields: &[(N, V)]) -> Vec<u8> {
        self.hpack.write(fields)
    }

    /// The frame that opens the next stream with these fields, not yet sent, and the stream.
    pub(crate) fn opening<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        fields: &[(N, V)],
        ends_stream: bool,
    ) -> (u32, Vec<u8>) {
        let stream = self.next_stream();
        let is_head = |(name, value): &(N, V)| name.as_ref() == b":method" && value.as_ref() == b"HEAD";
        if fields.iter().any(is_head) {
            self.wire.note_head(stream);
        }
        let block = self.block(fields);
        let flags = frame::END_HEADERS | if ends_stream { frame::END_STREAM } else { 0 };
        (stream, frame::frame(frame::HEADERS, flags, stream, &block))
    }

    /// Opens a stream with these fields.
    pub(crate) fn open<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        fields: &[(N, V)],
        ends_stream: bool,
    ) -> u32 {
        let (stream, opening) = self.opening(fields, ends_stream);
        self.send(opening);
        stream
    }

    /// Opens a stream with a GET.
    pub(crate) fn get(&mut self, target: &str) -> u32 {
        self.open(&self.request("GET", target), true)
    }

    /// Opens a stream with a GET that has more fields.
    pub(crate) fn get_with(&mut self, target: &str, fields: &[(&str, &str)]) -> u32 {
        self.open(&[&self.request("GET", target), fields].concat(), true)
    }

    /// Opens a stream with a POST, whose body follows.
    pub(crate) fn post(&mut self, target: &str, fields: &[(&str, &str)]) -> u32 {
        self.open(&[&self.request("POST", target), fields].concat(), false)
    }

    /// Sends one DATA frame, whatever the windows are.
    pub(crate) fn data(&mut self, stream: u32, data: impl AsRef<[u8]>, ends_stream: bool) {
        let data = data.as_ref();
        self.count_sent(stream, data.len());
        self.send(frame::frame(frame::DATA, u8::from(ends_stream), stream, data));
    }

    /// Counts bytes of a DATA frame that is sent by hand.
    pub(crate) fn count_sent(&mut self, stream: u32, len: usize) {
        *self.sent.entry(stream).or_default() += len as i64;
        self.send_window -= len as i64;
    }

    /// What may be sent on all streams together.
    pub(crate) fn connection_room(&self) -> i64 {
        self.send_window
    }

    /// Sends all of `data` in frames as the windows allow, and reads meanwhile; stops when Weir ends the stream. Returns what was sent.
    pub(crate) fn upload(&mut self, stream: u32, data: &[u8], ends_stream: bool) -> usize {
        let mut sent = 0;
        loop {
            let left = data.len() - sent;
            let room = usize::try_from(self.send_room(stream)).unwrap_or(0);
            let len = left.min(room).min(frame::PAYLOAD_MAX);
            if len > 0 || left == 0 {
                let is_last = len == left;
                self.data(stream, &data[sent..sent + len], is_last && ends_stream);
                sent += len;
                if is_last {
                    return sent;
                }
            } else {
                self.read_frame();
            }
            if self.streams[&stream].is_over() {
                return sent;
            }
        }
    }

    /// What may be sent on a stream now.
    pub(crate) fn send_room(&mut self, stream: u32) -> i64 {
        while self.settings.is_none() {
            self.read_frame();
        }
        let settings = self.settings.as_ref().expect("they came just now");
        let initial = settings.get(&frame::INITIAL_WINDOW_SIZE).map_or(WINDOW, |size| i64::from(*size));
        self.send_window.min(initial - self.sent.get(&stream).copied().unwrap_or(0))
    }

    /// Sends trailers, which end the stream.
    pub(crate) fn trailers(&mut self, stream: u32, fields: &[(&str, &str)]) {
        let block = self.block(fields);
        self.send(frame::frame(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, stream, &block));
    }

    /// Resets a stream.
    pub(crate) fn reset(&mut self, stream: u32, code: u32) {
        self.send(frame::reset(stream, code));
    }

    /// Opens a window: stream 0 is that of the connection.
    pub(crate) fn open_window(&mut self, stream: u32, by: u32) {
        self.send(frame::window_update(stream, by));
        match stream {
            0 => self.window += i64::from(by),
            _ => self.streams.get_mut(&stream).expect("the stream was opened").window += i64::from(by),
        }
    }

    /// What came on a stream so far.
    pub(crate) fn received(&self, stream: u32) -> &Received {
        &self.streams[&stream]
    }

    /// Waits for the whole response of a stream, which must not be reset.
    pub(crate) fn response(&mut self, stream: u32) -> Received {
        let received = self.outcome(stream);
        assert!(received.has_ended, "stream {stream} was reset: {received:?}");
        received
    }

    /// Waits until a stream is over, and returns what came on it.
    pub(crate) fn outcome(&mut self, stream: u32) -> Received {
        self.wait(&format!("stream {stream} is over"), |client| client.received(stream).is_over());
        self.received(stream).clone()
    }

    /// Waits until Weir resets a stream; returns the code.
    pub(crate) fn wait_for_reset(&mut self, stream: u32) -> u32 {
        self.wait(&format!("stream {stream} is reset"), |client| client.received(stream).reset.is_some());
        self.received(stream).reset.expect("it was reset just now")
    }

    /// Waits for the final head of a stream.
    pub(crate) fn head(&mut self, stream: u32) -> Received {
        self.wait(&format!("stream {stream} has a head"), |client| client.received(stream).status > 0);
        self.received(stream).clone()
    }

    /// Waits until this much of a body is here, and returns all of it.
    pub(crate) fn body(&mut self, stream: u32, len: usize) -> Vec<u8> {
        self.wait(&format!("stream {stream} has {len} bytes"), |client| {
            client.received(stream).body.len() >= len
        });
        self.received(stream).body.clone()
    }

    /// GET of `target`, and its whole response.
    pub(crate) fn fetch(&mut self, target: &str) -> Received {
        let stream = self.get(target);
        self.response(stream)
    }

    /// POST of `body` to `target`, and its whole response.
    pub(crate) fn fetch_by_post(&mut self, target: &str, body: &[u8]) -> Received {
        let stream = self.post(target, &[]);
        self.upload(stream, body, true);
        self.response(stream)
    }

    /// Waits until Weir has dealt with everything that was sent so far.
    pub(crate) fn settle(&mut self) {
        if let Err(end) = self.try_settle() {
            panic!("a ping is not answered, {end}; {}", self.summary());
        }
    }

    /// The same where Weir may end the connection.
    pub(crate) fn try_settle(&mut self) -> Result<(), End> {
        let payload = (self.pongs.len() as u64 + 1).to_be_bytes();
        // What Weir has sent before it went is still read.
        let _ = self.wire.send(&frame::frame(frame::PING, 0, 0, &payload));
        while !self.pongs.contains(&payload) {
            self.try_read_frame()?;
        }
        Ok(())
    }

    /// Waits for `count` GOAWAY frames; returns the last: last stream and code.
    pub(crate) fn goaway(&mut self, count: usize) -> (u32, u32) {
        self.wait(&format!("{count} GOAWAY frames"), |client| client.goaways.len() >= count);
        self.goaways[count - 1]
    }

    /// The code of the GOAWAY with which Weir ends the connection, which must come before the end.
    pub(crate) fn end_code(&mut self) -> u32 {
        self.end();
        let last = self.goaways.last();
        last.unwrap_or_else(|| panic!("no GOAWAY before the end; {}", self.summary())).1
    }

    /// Waits until Weir ends the connection; returns how.
    pub(crate) fn end(&mut self) -> End {
        loop {
            if let Err(end) = self.try_read_frame() {
                assert_ne!(end, End::Silence, "Weir does not end the connection; {}", self.summary());
                return end;
            }
        }
    }

    /// Weir's settings.
    pub(crate) fn settings(&mut self) -> &HashMap<u16, u32> {
        self.wait("Weir's settings are here", |client| client.settings.is_some());
        self.settings.as_ref().expect("they came just now")
    }

    /// Headers of the frames that came so far.
    pub(crate) fn frames(&self) -> &[FrameHeader] {
        &self.frames
    }

    /// Reads until `condition` holds.
    pub(crate) fn wait(&mut self, what: &str, condition: impl Fn(&Http2Client) -> bool) {
        while !condition(self) {
            if let Err(end) = self.try_read_frame() {
                panic!("gave up waiting until {what}: {end}; {}", self.summary());
            }
        }
    }

    /// What came so far, for messages.
    pub(super) fn summary(&self) -> String {
        let streams: Vec<String> = self
            .streams
            .iter()
            .rev()
            .take(5)
            .map(|(id, stream)| {
                let body = latin1(&stream.body[..stream.body.len().min(200)]);
                let Received { status, has_ended, reset, .. } = stream;
                format!("{id}: {status} {body:?} ended {has_ended} reset {reset:?}")
            })
            .collect();
        let last = &self.frames[self.frames.len().saturating_sub(5)..];
        format!("GOAWAY {:?}; last streams {streams:#?}; last frames {last:?}", self.goaways)
    }
}

impl Drop for Http2Client {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.wire.judge();
        }
    }
}
