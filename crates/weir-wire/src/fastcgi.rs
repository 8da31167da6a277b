//! What a web server sends on a connection of FastCGI 1.0: requests to a responder, one behind the other.

use crate::WireFault;
use crate::fields::latin1;

const BEGIN: u8 = 1;
const ABORT: u8 = 2;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;

/// A request, as far as it came.
#[derive(Debug, Clone, Default)]
pub struct CgiRequest {
    /// Its parameters, in their order.
    pub params: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether all of it came.
    pub is_complete: bool,
    /// Whether it was given up.
    pub is_aborted: bool,
}

impl CgiRequest {
    /// The value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the bytes of the direction to the server are.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The requests, the last of which may be incomplete.
    pub requests: Vec<CgiRequest>,
    /// The first rule that is broken.
    pub fault: Option<WireFault>,
}

/// Where the parts of a request are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Begin,
    Params,
    Stdin,
}

/// Reads requests to a responder.
pub fn requests(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let (mut at, mut expected, mut params) = (0, Expected::Begin, Vec::new());
    while let Some(header) = bytes[at..].first_chunk::<8>() {
        if header[0] != 1 || header[2..4] != [0, 1] {
            let what = format!("a record of another version or request: {header:?}");
            reading.fault = Some(WireFault::new(at, what));
            return reading;
        }
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let begin = at + 8;
        let Some(content) = bytes.get(begin..begin + len + usize::from(header[6])) else { break };
        let taken =
            record_came(header[1], &content[..len], &mut expected, &mut params, &mut reading.requests);
        if let Err(what) = taken {
            reading.fault = Some(WireFault::new(at, what));
            return reading;
        }
        at = begin + content.len();
    }
    reading
}

fn record_came(
    kind: u8,
    content: &[u8],
    expected: &mut Expected,
    params: &mut Vec<u8>,
    requests: &mut Vec<CgiRequest>,
) -> Result<(), String> {
    match (kind, *expected, requests.last_mut()) {
        (BEGIN, Expected::Begin, _) => {
            let is_responder = content.len() == 8 && content[..2] == [0, 1];
            *expected = Expected::Params;
            params.clear();
            requests.push(CgiRequest::default());
            is_responder.then_some(()).ok_or_else(|| format!("no responder is asked: {content:?}"))
        }
        (ABORT, Expected::Params | Expected::Stdin, Some(request)) => {
            request.is_aborted = true;
            *expected = Expected::Begin;
            Ok(())
        }
        (PARAMS, Expected::Params, Some(request)) => {
            params.extend_from_slice(content);
            if content.is_empty() {
                request.params = pairs(params)?;
                *expected = Expected::Stdin;
            }
            Ok(())
        }
        (STDIN, Expected::Stdin, Some(request)) => {
            request.body.extend_from_slice(content);
            if content.is_empty() {
                request.is_complete = true;
                *expected = Expected::Begin;
            }
            check_length(request)
        }
        _ => Err(format!("a record of type {kind} where none may be")),
    }
}

/// `CONTENT_LENGTH` is what the body has; without it there is none.
fn check_length(request: &CgiRequest) -> Result<(), String> {
    let declared = request.param("CONTENT_LENGTH").filter(|length| !length.is_empty()).unwrap_or("0");
    let len = request.body.len();
    match declared.parse::<usize>() {
        Ok(declared) if len > declared || (request.is_complete && len != declared) => {
            Err(format!("{len} bytes of a body, CONTENT_LENGTH {declared}"))
        }
        Ok(_) => Ok(()),
        Err(_) => Err(format!("CONTENT_LENGTH is no number: {declared:?}")),
    }
}

fn pairs(mut bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    while !bytes.is_empty() {
        let name = length(&mut bytes)?;
        let value = length(&mut bytes)?;
        let text = bytes.get(..name + value).ok_or("parameters that are cut off")?;
        let (name, value) = (latin1(&text[..name]), latin1(&text[name..]));
        bytes = &bytes[text.len()..];
        if name.is_empty() || pairs.iter().any(|(known, _)| *known == name) {
            return Err(format!("the parameter {name:?} is there twice, or has no name"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn length(bytes: &mut &[u8]) -> Result<usize, String> {
    let cut = || "parameters that are cut off".to_owned();
    let first = *bytes.first().ok_or_else(cut)?;
    let (length, width) = match first {
        short @ ..0x80 => (usize::from(short), 1),
        _ => {
            let long = bytes.first_chunk::<4>().ok_or_else(cut)?;
            ((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize, 4)
        }
    };
    *bytes = &bytes[width..];
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let len = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, 1, len[0], len[1], 1, 0], content, b"\0"].concat()
    }

    fn request(params: &[u8], body: &[u8]) -> Vec<u8> {
        let mut records = vec![
            record(BEGIN, &[0, 1, 0, 0, 0, 0, 0, 0]),
            record(PARAMS, params),
            record(PARAMS, b""),
            record(STDIN, body),
        ];
        if !body.is_empty() {
            records.push(record(STDIN, b""));
        }
        records.concat()
    }

    #[test]
    fn requests_are_read() {
        let one = request(b"\x0e\x01CONTENT_LENGTH3", b"abc");
        let reading = requests(&[&one[..], &request(b"\x01\x01XY", b"")].concat());
        assert_eq!(reading.fault, None);
        assert_eq!((&reading.requests[0].body[..], reading.requests[1].param("X")), (&b"abc"[..], Some("Y")));
        assert!(reading.requests.iter().all(|request| request.is_complete));
        for len in 0..one.len() {
            assert_eq!(requests(&one[..len]).fault, None, "{len}");
        }
    }

    #[test]
    fn what_is_no_request_is_a_fault() {
        let cases = [
            request(b"\x0e\x01CONTENT_LENGTH2", b"abc"),
            request(b"\x0e\x01CONTENT_LENGTH4", b"abc"),
            request(b"\x01\x01XY", b"abc"),
            request(b"\x01\x01XY\x01\x01XY", b""),
            request(b"\x01\x05XY", b""),
            record(STDIN, b"GET / HTTP/1.1\r\n\r\n"),
            [request(b"\x01\x01XY", b""), record(STDIN, b"x")].concat(),
            b"GET / HTTP/1.1\r\n".to_vec(),
        ];
        for case in &cases {
            assert!(requests(case).fault.is_some(), "{case:?}");
        }
    }
}
