//! The gRPC health protocol: the message of a call of `grpc.health.v1.Health/Check`, and what its answer says.

use weir_config::{GrpcProbe, ServerAddress};
use weir_observe::{Cause, Failure, Phase};

use super::http2::{Http2Request, Http2Response, fields};
use super::request::authority;

/// Bytes of an answer that are looked at: it has seven.
pub(super) const ANSWER_BYTES_MAX: usize = 256;

/// `HealthCheckResponse.ServingStatus.SERVING`.
const SERVING: u64 = 1;

/// The call.
pub(super) fn request(probe: &GrpcProbe, address: &ServerAddress) -> Http2Request {
    let mut all = fields(&probe.headers);
    all.push(("content-type".into(), b"application/grpc"[..].into()));
    all.push(("te".into(), b"trailers"[..].into()));
    Http2Request {
        method: "POST".into(),
        path: "/grpc.health.v1.Health/Check".into(),
        authority: authority(probe.host.as_deref(), address).into(),
        fields: all,
        body: message(&probe.service).into(),
    }
}

/// `HealthCheckRequest` with its prefix: field 1, a string.
fn message(service: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if !service.is_empty() {
        content.push(1 << 3 | 2);
        put_varint(service.len() as u64, &mut content);
        content.extend_from_slice(service.as_bytes());
    }
    let mut message = vec![0];
    message.extend_from_slice(&(content.len() as u32).to_be_bytes());
    message.extend_from_slice(&content);
    message
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// # Errors
/// When the answer is not `SERVING`.
pub(super) fn check(response: &Http2Response) -> Result<(), Failure> {
    let is_ok = response.status == 200 && response.grpc_status.as_deref() == Some(b"0");
    match is_ok && serving_status(&response.body) == Some(SERVING) {
        true => Ok(()),
        false => Err(Failure::server(Phase::Response, Cause::NotServing)),
    }
}

/// Field 1 of a `HealthCheckResponse` that is not compressed; 0, which is the default, when it is left out.
fn serving_status(body: &[u8]) -> Option<u64> {
    let (prefix, content) = body.split_at_checked(5)?;
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let mut content = content.get(..len).filter(|_| prefix[0] == 0)?;
    let mut status = 0;
    while !content.is_empty() {
        let key = take_varint(&mut content)?;
        match (key >> 3, key & 7) {
            (1, 0) => status = take_varint(&mut content)?,
            (_, 0) => drop(take_varint(&mut content)?),
            (_, 2) => {
                let len = usize::try_from(take_varint(&mut content)?).ok()?;
                content = content.get(len..)?;
            }
            (_, 1) => content = content.get(8..)?,
            (_, 5) => content = content.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn take_varint(content: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = content.split_first()?;
        *content = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_the_service() {
        assert_eq!(message(""), [0, 0, 0, 0, 0]);
        assert_eq!(message("a.B"), *b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(message(&"x".repeat(200))[5..8], [0x0a, 200, 1]);
    }

    #[test]
    fn only_serving_is_well() {
        let answer = |body: &[u8], status: &[u8]| {
            let grpc_status = Some(status.to_vec());
            check(&Http2Response { status: 200, body: body.to_vec(), grpc_status }).is_ok()
        };
        assert!(answer(b"\0\0\0\0\x02\x08\x01", b"0"));
        // Unknown fields before and behind it.
        assert!(answer(b"\0\0\0\0\x0a\x12\x01x\x08\x01\x1d\0\0\0\0", b"0"));
        for (body, status) in [
            (&b"\0\0\0\0\x02\x08\x01"[..], &b"12"[..]),
            (b"\0\0\0\0\x02\x08\x02", b"0"),
            (b"\0\0\0\0\0", b"0"),
            (b"\x01\0\0\0\x02\x08\x01", b"0"),
            (b"\0\0\0\0\x03\x08\x01", b"0"),
            (b"\0\0\0\0\x01\x08", b"0"),
            (b"\0\0\0\0\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"0"),
            (b"", b"0"),
        ] {
            assert!(!answer(body, status), "{body:?} {status:?}");
        }
        assert!(check(&Http2Response::default()).is_err());
    }
}
