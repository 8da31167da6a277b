//! Messages of HTTP/1 as they come. Lenient: what both programs may send is to be compared, not judged.

use std::io::Read;

/// A message, as far as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireMessage {
    /// The request line or the status line.
    pub(crate) start: String,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether its end came.
    pub(crate) is_whole: bool,
}

impl WireMessage {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The status of a response; 0 where there is none.
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }
}

/// What comes on a connection.
pub(crate) struct WireReader<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: Read> WireReader<S> {
    pub(crate) fn new(stream: S) -> Self {
        WireReader { stream, buffer: Vec::new() }
    }

    /// The next request.
    pub(crate) fn request(&mut self) -> Option<WireMessage> {
        self.message(|_| true)
    }

    /// The final response to a request.
    pub(crate) fn response(&mut self, method: &str) -> Option<WireMessage> {
        loop {
            let message = self
                .message(|message| method != "HEAD" && !matches!(message.status(), 100..200 | 204 | 304))?;
            if !(100..200).contains(&message.status()) || message.status() == 101 {
                return Some(message);
            }
        }
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 16384];
        match self.stream.read(&mut piece) {
            Ok(0) | Err(_) => false,
            Ok(len) => {
                self.buffer.extend_from_slice(&piece[..len]);
                true
            }
        }
    }

    fn message(&mut self, may_have_body: impl Fn(&WireMessage) -> bool) -> Option<WireMessage> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if !self.more() {
                return None;
            }
        };
        let rest = self.buffer.split_off(end + 4);
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer = rest;
        let mut lines = head.split("\r\n");
        let mut message = WireMessage { start: lines.next()?.to_owned(), ..WireMessage::default() };
        message.fields = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let is_response = message.start.starts_with("HTTP/");
        let length = message.field("content-length").and_then(|length| length.parse::<usize>().ok());
        let is_chunked = message.field("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
        message.is_whole = match (is_chunked, length) {
            _ if !may_have_body(&message) => true,
            (true, _) => self.chunks(&mut message.body),
            (false, Some(length)) => self.exactly(length, &mut message.body),
            (false, None) if is_response => {
                while self.more() {}
                message.body = std::mem::take(&mut self.buffer);
                true
            }
            (false, None) => true,
        };
        Some(message)
    }

    fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> bool {
        while self.buffer.len() < length {
            if !self.more() {
                body.append(&mut self.buffer);
                return false;
            }
        }
        let rest = self.buffer.split_off(length);
        body.append(&mut self.buffer);
        self.buffer = rest;
        true
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let rest = self.buffer.split_off(at + 2);
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer = rest;
                return Some(line);
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let Some(line) = self.line() else { return false };
            let size = line.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else { return false };
            if size == 0 {
                // Trailers, and the empty line behind them.
                while self.line().is_some_and(|line| !line.is_empty()) {}
                return true;
            }
            if !self.exactly(size, body) || self.line().is_none() {
                return false;
            }
        }
    }
}
