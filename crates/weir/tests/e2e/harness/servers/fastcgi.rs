//! FastCGI from the side of a server, for scripts of an origin: a request is read, records are made.

use crate::harness::origin::Connection;

/// Types of records.
pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct FastcgiRequest {
    /// Whether the connection is to stay open behind the response.
    pub(crate) keeps_connection: bool,
    /// The parameters, in their order.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl FastcgiRequest {
    /// Reads one whole request; `None` when Weir ended the connection first.
    pub(crate) fn read(conn: &mut Connection) -> Option<FastcgiRequest> {
        let mut request = FastcgiRequest::read_params(conn)?;
        loop {
            let (kind, content) = read_record(conn)?;
            assert_eq!(kind, 5, "the body follows the parameters");
            if content.is_empty() {
                return Some(request);
            }
            request.body.extend_from_slice(&content);
        }
    }

    /// Reads the parameters, and leaves the body on the wire.
    pub(crate) fn read_params(conn: &mut Connection) -> Option<FastcgiRequest> {
        let (kind, begin) = read_record(conn)?;
        assert_eq!((kind, &begin[..2], begin.len()), (1, &[0, 1][..], 8), "a request to a responder begins");
        let mut params = Vec::new();
        loop {
            let (kind, content) = read_record(conn)?;
            assert_eq!(kind, 4, "the parameters come first");
            if content.is_empty() {
                break;
            }
            params.extend_from_slice(&content);
        }
        Some(FastcgiRequest { keeps_connection: begin[2] == 1, params: pairs(&params), body: Vec::new() })
    }

    /// The value of a parameter, which occurs at most once.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.params.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| &**value);
        assert!(found.next().is_none(), "{name} twice in {:?}", self.params);
        value
    }

    /// Script, path info and query, as one text.
    pub(crate) fn script(&self) -> String {
        let param = |name| self.param(name).unwrap_or("-");
        format!("{} {} {}", param("SCRIPT_NAME"), param("PATH_INFO"), param("QUERY_STRING"))
    }
}

fn read_record(conn: &mut Connection) -> Option<(u8, Vec<u8>)> {
    let header = conn.take(8)?;
    assert_eq!((header[0], &header[2..4]), (1, &[0, 1][..]), "the version, and the id of the only request");
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut content = conn.take(len + usize::from(header[6]))?;
    content.truncate(len);
    Some((header[1], content))
}

fn pairs(mut bytes: &[u8]) -> Vec<(String, String)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (len, width) = match bytes[0] {
            short @ ..0x80 => (u32::from(short), 1),
            _ => (u32::from_be_bytes([bytes[0] & 0x7F, bytes[1], bytes[2], bytes[3]]), 4),
        };
        *bytes = &bytes[width..];
        len as usize
    }
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        pairs.push((text(&bytes[..name]), text(&bytes[name..name + value])));
        bytes = &bytes[name + value..];
    }
    pairs
}

/// A record of a server, with `padding` bytes behind it.
pub(crate) fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("it fits a record").to_be_bytes();
    let header = [1, kind, 0, 1, len[0], len[1], padding, 0];
    [&header[..], content, &vec![0xAA; usize::from(padding)]].concat()
}

/// The record that ends a request.
pub(crate) fn end(app_status: u32, protocol_status: u8) -> Vec<u8> {
    record(3, &[&app_status.to_be_bytes()[..], &[protocol_status, 0, 0, 0]].concat(), 0)
}

/// A whole response: what the script writes, in one record.
pub(crate) fn response(output: &str) -> Vec<u8> {
    [record(STDOUT, output.as_bytes(), 3), record(STDOUT, b"", 0), end(0, 0)].concat()
}
