//! What follows a head: a length, chunks with trailers, or everything (RFC 9112 sections 6 and 7).

use super::{Ending, Framing, Message};
use crate::WireFault;
use crate::fields::latin1;

/// The longest line of a chunk that is looked for; the longest that Weir passes is far below.
const CHUNK_LINE_MAX: usize = 64 * 1024;

/// Takes the body of `message`, whose head ends where its bytes end so far.
pub(super) fn read(bytes: &[u8], mut message: Message, ending: Ending) -> Result<Message, WireFault> {
    let begin = message.bytes.end;
    let rest = &bytes[begin..];
    match message.framing {
        Framing::Empty => message.is_complete = true,
        Framing::Length(length) => {
            let len = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            message.body = rest[..len].to_vec();
            message.bytes.end += len;
            message.is_complete = len as u64 == length;
        }
        Framing::UntilClose => {
            message.body = rest.to_vec();
            message.bytes.end = bytes.len();
            message.is_complete = ending == Ending::Closed;
        }
        Framing::Chunked => {
            let taken = chunks(rest, &mut message).map_err(|(at, what)| WireFault::new(begin + at, what))?;
            message.bytes.end += taken;
        }
    }
    Ok(message)
}

/// Takes chunks, the last of them and the trailers; gives how many bytes they have.
fn chunks(rest: &[u8], message: &mut Message) -> Result<usize, (usize, String)> {
    let mut at = 0;
    loop {
        let Some(line) = line(&rest[at..]).map_err(|what| (at, what))? else { return Ok(rest.len()) };
        let size = chunk_size(line).map_err(|what| (at, what))?;
        at += line.len() + 2;
        if size == 0 {
            return trailers(rest, at, message);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        let data = &rest[at..rest.len().min(at + size)];
        message.body.extend_from_slice(data);
        at += data.len();
        let behind = &rest[at..rest.len().min(at + 2)];
        if data.len() == size && behind != &b"\r\n"[..behind.len()] {
            return Err((at, format!("a chunk is not followed by CR LF but {:?}", latin1(behind))));
        }
        at += behind.len();
        if data.len() < size || behind.len() < 2 {
            return Ok(rest.len());
        }
    }
}

fn trailers(rest: &[u8], begin: usize, message: &mut Message) -> Result<usize, (usize, String)> {
    let mut at = begin;
    loop {
        let Some(one) = line(&rest[at..]).map_err(|what| (at, what))? else { return Ok(rest.len()) };
        at += one.len() + 2;
        if one.is_empty() {
            message.trailers =
                super::head::read_trailers(&rest[begin..at - 2]).map_err(|what| (begin, what))?;
            message.is_complete = true;
            return Ok(at);
        }
    }
}

/// The line at the front, without its CR LF; `None` while it is incomplete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, String> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(0) => Err("a line that is a bare LF".to_owned()),
        Some(end) if bytes[end - 1] == b'\r' && !bytes[..end - 1].contains(&b'\r') => {
            Ok(Some(&bytes[..end - 1]))
        }
        Some(end) => Err(format!("a line with a bare CR or LF: {:?}", latin1(&bytes[..end.min(100)]))),
        None if bytes.len() > CHUNK_LINE_MAX => Err("a line without an end".to_owned()),
        None => Ok(None),
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, String> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_sound = (1..=16).contains(&digits) && line.get(digits).is_none_or(|byte| *byte == b';');
    let text = latin1(&line[..digits]);
    let size = u64::from_str_radix(&text, 16).ok().filter(|_| is_sound);
    size.ok_or_else(|| format!("a malformed size of a chunk: {:?}", latin1(&line[..line.len().min(100)])))
}
