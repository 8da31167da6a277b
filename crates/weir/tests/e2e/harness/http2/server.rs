//! The server: one connection of an origin, on which Weir opens streams.

use std::collections::{BTreeMap, HashMap};

use super::frame::{self, FrameHeader, PREFACE, WINDOW, number};
use super::hpack::Hpack;
use super::received::check_fields;
use crate::harness::message::{Fields, latin1};
use crate::harness::{Connection, Origin};

/// A request as it arrived, as far as it did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// The stream.
    pub(crate) stream: u32,
    /// Pseudo-fields and fields.
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<Fields>,
    /// Whether Weir has ended its direction.
    pub(crate) has_ended: bool,
    /// The code with which Weir has reset the stream.
    pub(crate) reset: Option<u32>,
    /// Bytes of DATA that the test has sent.
    sent: i64,
}

impl Asked {
    /// The one value of a field or a pseudo-field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.one(name)
    }

    /// The target.
    pub(crate) fn path(&self) -> &str {
        self.field(":path").unwrap_or_default()
    }

    /// The body as Latin-1 text.
    pub(crate) fn text(&self) -> String {
        latin1(&self.body)
    }
}

/// The server's end of one connection of HTTP/2, in the hands of a script.
pub(crate) struct Http2Server<'a> {
    pub(crate) conn: &'a mut Connection,
    hpack: Hpack,
    /// What came, by stream.
    pub(crate) streams: BTreeMap<u32, Asked>,
    /// The settings of Weir.
    pub(crate) settings: HashMap<u16, u32>,
    block: Option<(u32, bool, Vec<u8>)>,
    /// What we may still send on all streams together, and what changes of a stream's window came.
    send_window: i64,
    opened_by: HashMap<u32, i64>,
    /// Whether pings are answered.
    pub(crate) answers: bool,
    /// Pings that came.
    pub(crate) pings: usize,
    /// The code of Weir's GOAWAY.
    pub(crate) goaway: Option<u32>,
    /// Whether room in windows is given back as soon as data came.
    pub(crate) gives_back: bool,
}

impl<'a> Http2Server<'a> {
    /// Takes the preface and the settings of Weir, and sends these.
    pub(crate) fn accept(conn: &'a mut Connection, settings: &[(u16, u32)]) -> Option<Http2Server<'a>> {
        assert_eq!(conn.take(PREFACE.len())?, PREFACE, "a client begins with the preface");
        let server = Http2Server {
            conn,
            hpack: Hpack::default(),
            streams: BTreeMap::new(),
            settings: HashMap::new(),
            block: None,
            send_window: WINDOW,
            opened_by: HashMap::new(),
            answers: true,
            pings: 0,
            goaway: None,
            gives_back: true,
        };
        server.conn.send(frame::settings(settings))?;
        Some(server)
    }

    /// Waits for the next stream, and takes its head.
    pub(crate) fn head(&mut self) -> Option<Asked> {
        let known = self.streams.len();
        while self.streams.len() == known {
            self.read_frame()?;
        }
        self.streams.last_key_value().map(|(_, asked)| asked.clone())
    }

    /// Waits for the next whole request, in the order of the streams; one that was reset is passed over.
    pub(crate) fn request(&mut self) -> Option<Asked> {
        loop {
            let whole = self.streams.iter().find(|(_, asked)| asked.has_ended && asked.reset.is_none());
            if let Some(stream) = whole.map(|(stream, _)| *stream) {
                return self.streams.remove(&stream);
            }
            self.read_frame()?;
        }
    }

    /// Waits until Weir has reset a stream; returns the code.
    pub(crate) fn wait_for_reset(&mut self, stream: u32) -> Option<u32> {
        loop {
            if let Some(code) = self.streams.get(&stream).and_then(|asked| asked.reset) {
                return Some(code);
            }
            self.read_frame()?;
        }
    }

    /// Waits until this much of the body of a stream is here.
    pub(crate) fn body(&mut self, stream: u32, len: usize) -> Option<Vec<u8>> {
        while self.streams[&stream].body.len() < len {
            self.read_frame()?;
        }
        Some(self.streams[&stream].body.clone())
    }

    /// Answers with this status and this body.
    pub(crate) fn respond(&mut self, stream: u32, status: &str, body: &[u8]) -> Option<()> {
        self.send_head(stream, &[(":status", status), ("content-length", &body.len().to_string())], false)?;
        self.send_data(stream, body, true)
    }

    /// Sends the head of a response, or trailers.
    pub(crate) fn send_head(&mut self, stream: u32, fields: &[(&str, &str)], ends: bool) -> Option<()> {
        let block = self.hpack.write(fields);
        let flags = frame::END_HEADERS | if ends { frame::END_STREAM } else { 0 };
        self.conn.send(frame::frame(frame::HEADERS, flags, stream, &block))
    }

    /// Sends DATA as the windows allow, and reads meanwhile.
    pub(crate) fn send_data(&mut self, stream: u32, data: &[u8], ends: bool) -> Option<()> {
        let mut sent = 0;
        loop {
            let left = data.len() - sent;
            let len = left.min(self.send_room(stream)).min(frame::PAYLOAD_MAX);
            if len > 0 || left == 0 {
                let is_last = len == left;
                let flags = u8::from(is_last && ends);
                self.conn.send(frame::frame(frame::DATA, flags, stream, &data[sent..sent + len]))?;
                sent += len;
                self.send_window -= len as i64;
                *self.opened_by.entry(stream).or_default() -= len as i64;
                if is_last {
                    return Some(());
                }
            } else {
                self.read_frame()?;
            }
            if self.streams.get(&stream).is_some_and(|asked| asked.reset.is_some()) {
                return Some(());
            }
        }
    }

    fn send_room(&self, stream: u32) -> usize {
        let initial = self.settings.get(&frame::INITIAL_WINDOW_SIZE).map_or(WINDOW, |size| i64::from(*size));
        let room = initial + self.opened_by.get(&stream).copied().unwrap_or(0);
        usize::try_from(room.min(self.send_window)).unwrap_or(0)
    }

    /// Resets a stream.
    pub(crate) fn reset(&mut self, stream: u32, code: u32) -> Option<()> {
        self.conn.send(frame::reset(stream, code))
    }

    /// Takes no streams beyond `last`.
    pub(crate) fn go_away(&mut self, last: u32, code: u32) -> Option<()> {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.conn.send(frame::frame(frame::GOAWAY, 0, 0, &payload))
    }

    /// Reads until Weir ends the connection.
    pub(crate) fn read_to_end(&mut self) {
        while self.read_frame().is_some() {}
    }

    /// Reads one frame; `None` when the connection has ended.
    pub(crate) fn read_frame(&mut self) -> Option<()> {
        let header = FrameHeader::read(&self.conn.take(FrameHeader::LEN)?).expect("it is as long as that");
        assert!(header.len <= frame::PAYLOAD_MAX, "a frame of {} bytes: {header:?}", header.len);
        let payload = self.conn.take(header.len)?;
        if let Some((stream, ..)) = self.block {
            assert!(header.kind == frame::CONTINUATION && header.stream == stream, "in a block: {header:?}");
        }
        match header.kind {
            frame::DATA => self.data_came(header, &payload)?,
            frame::HEADERS => {
                assert_eq!(header.flags & (frame::PADDED | frame::WITH_PRIORITY), 0, "Weir uses no such");
                self.block = Some((header.stream, header.has(frame::END_STREAM), payload));
                self.block_came(header);
            }
            frame::CONTINUATION => {
                self.block.as_mut().expect("a block was begun").2.extend(payload);
                self.block_came(header);
            }
            frame::RST_STREAM => {
                // A stream whose request was taken by the test may be gone from the list.
                self.streams.entry(header.stream).or_default().reset = Some(number(&payload));
            }
            frame::SETTINGS if header.has(frame::ACK) => {}
            frame::SETTINGS => {
                for setting in payload.chunks(6) {
                    let name = u16::from_be_bytes([setting[0], setting[1]]);
                    self.settings.insert(name, number(&setting[2..]));
                }
                self.conn.send(frame::frame(frame::SETTINGS, frame::ACK, 0, &[]))?;
            }
            frame::PING if header.has(frame::ACK) => {}
            frame::PING => {
                self.pings += 1;
                if self.answers {
                    self.conn.send(frame::frame(frame::PING, frame::ACK, 0, &payload))?;
                }
            }
            frame::GOAWAY => self.goaway = Some(number(&payload[4..])),
            frame::WINDOW_UPDATE => {
                let by = i64::from(number(&payload));
                assert!(by > 0, "a window is opened by nothing");
                match header.stream {
                    0 => self.send_window += by,
                    stream => *self.opened_by.entry(stream).or_default() += by,
                }
            }
            _ => panic!("Weir sends no such frame: {header:?}"),
        }
        Some(())
    }

    fn data_came(&mut self, header: FrameHeader, payload: &[u8]) -> Option<()> {
        let asked = self.streams.get_mut(&header.stream).expect("a stream that was opened");
        assert!(!asked.has_ended && asked.reset.is_none(), "DATA on a stream that is over: {header:?}");
        asked.body.extend_from_slice(payload);
        asked.has_ended = header.has(frame::END_STREAM);
        asked.sent += payload.len() as i64;
        if !self.gives_back {
            assert!(asked.sent <= WINDOW, "beyond the window: {header:?}");
        } else if !payload.is_empty() {
            let by = payload.len() as u32;
            let updates = [frame::window_update(0, by), frame::window_update(header.stream, by)].concat();
            self.conn.send(updates)?;
        }
        Some(())
    }

    fn block_came(&mut self, header: FrameHeader) {
        if !header.has(frame::END_HEADERS) {
            return;
        }
        let (stream, ends, block) = self.block.take().expect("a block was begun");
        let fields = self.hpack.read(&block);
        let last = self.streams.last_key_value().map_or(0, |(last, _)| *last);
        match self.streams.get_mut(&stream) {
            Some(asked) => {
                assert!(ends && !asked.has_ended, "trailers end their stream: {fields:?}");
                (asked.trailers, asked.has_ended) = (Some(fields), true);
            }
            None => {
                assert!(
                    stream % 2 == 1 && stream > last,
                    "streams are opened in order: {stream} after {last}"
                );
                check_request(&fields);
                let asked = Asked { stream, fields, has_ended: ends, ..Asked::default() };
                self.streams.insert(stream, asked);
            }
        }
    }
}

/// RFC 9113 section 8.3.1.
fn check_request(fields: &Fields) {
    check_fields(fields);
    let pseudo = fields.0.iter().take_while(|(name, _)| name.starts_with(':')).count();
    let all = fields.0.iter().filter(|(name, _)| name.starts_with(':')).count();
    assert_eq!(pseudo, all, "pseudo-fields come first: {fields:?}");
    assert_eq!(fields.one("host"), None, "the authority says it: {fields:?}");
    let te = fields.one("te");
    assert!(te.is_none_or(|te| te == "trailers"), "of TE only trailers: {fields:?}");
}

/// An origin of HTTP/2 without TLS, which answers each request as `answer` says: the status and the body.
pub(crate) fn http2_origin(
    answer: impl Fn(&Asked) -> (&'static str, Vec<u8>) + Send + Sync + 'static,
) -> Origin {
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let (status, body) = answer(&asked);
            server.respond(asked.stream, status, &body)?;
        }
    })
}

/// The same with an answer that names the request: its method, its target and its body.
pub(crate) fn http2_echo() -> Origin {
    http2_origin(|asked| {
        let method = asked.field(":method").unwrap_or_default();
        ("200", format!("{method} {} {}", asked.path(), asked.text()).into_bytes())
    })
}
