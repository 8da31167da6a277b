//! Bodies as their senders meant them: without compression, and of gRPC-Web message and trailers apart.

use weir_wire::Fields;

/// The body without the coding that `content-encoding` names.
///
/// # Errors
/// It is not in that coding, or has more behind its end. A body that was cut gives what there is of it.
pub(super) fn decoded(fields: &Fields, body: &[u8], is_complete: bool) -> Result<Vec<u8>, String> {
    match fields.first("content-encoding") {
        None => Ok(body.to_vec()),
        Some("gzip") if body.is_empty() => Ok(Vec::new()),
        Some("gzip") => inflate(body, is_complete),
        Some(other) => Err(format!("content-encoding {other}, which no client accepts")),
    }
}

fn inflate(body: &[u8], is_complete: bool) -> Result<Vec<u8>, String> {
    use zlib_rs::{Inflate, InflateFlush, Status};
    const GZIP: u8 = 16 + 15;
    let mut inflate = Inflate::new(true, GZIP);
    let (mut content, mut at) = (Vec::new(), 0);
    let mut buf = vec![0; 64 * 1024];
    loop {
        let before = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(&body[at..], &mut buf, InflateFlush::SyncFlush);
        let status = status.map_err(|error| format!("no gzip: {error:?}"))?;
        at += usize::try_from(inflate.total_in() - before.0).unwrap_or(0);
        let made = usize::try_from(inflate.total_out() - before.1).unwrap_or(0);
        content.extend_from_slice(&buf[..made]);
        if status == Status::StreamEnd {
            let rest = body.len() - at;
            return if rest == 0 { Ok(content) } else { Err(format!("{rest} bytes behind the end of gzip")) };
        }
        if made == 0 && at == body.len() {
            return if is_complete {
                Err("gzip without an end in a body with one".to_owned())
            } else {
                Ok(content)
            };
        }
    }
}

/// The messages of a body of gRPC-Web, with their prefixes, and the trailers behind them.
///
/// # Errors
/// Frames are cut off, or come behind the trailers.
pub(super) fn grpc_web(body: &[u8]) -> Result<(Vec<u8>, Option<Fields>), String> {
    let (mut messages, mut trailers, mut rest) = (Vec::new(), None, body);
    while let Some((prefix, behind)) = rest.split_first_chunk::<5>() {
        let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let Some(frame) = behind.get(..len) else { break };
        if trailers.is_some() {
            return Err("a frame behind the trailers".to_owned());
        }
        if prefix[0] & 0x80 == 0 {
            messages.extend_from_slice(&rest[..5 + len]);
        } else {
            let text = weir_wire::latin1(frame);
            let pairs = text.split_terminator("\r\n").map(|line| {
                let (name, value) = line.split_once(':').ok_or_else(|| format!("no trailer: {line:?}"))?;
                Ok((name.to_owned(), value.trim().to_owned()))
            });
            trailers = Some(Fields(pairs.collect::<Result<_, String>>()?));
        }
        rest = &behind[len..];
    }
    // The rest of a message that was cut.
    if trailers.is_some() && !rest.is_empty() {
        return Err("bytes behind the trailers".to_owned());
    }
    messages.extend_from_slice(rest);
    Ok((messages, trailers))
}
