//! gRPC: values read back the same when they are written anew; bodies give the same outcome however they arrive, and base64 is what
//! `data-encoding` makes of it.

use crate::pieces::growths;
use data_encoding::BASE64;
use weir_http::grpc::{
    Base64Decoder, Base64Encoder, Base64Error, GrpcContentType, GrpcStatus, MessageObserver, RetryPushback,
    parse_timeout, read_status_message, write_status_message, write_timeout, write_trailers_frame,
};

/// The pieces of `input` in which a body grows.
fn pieces<'a>(input: &'a [u8], growth: &[usize]) -> Vec<&'a [u8]> {
    let mut start = 0;
    growth.iter().map(|&end| &input[std::mem::replace(&mut start, end)..end]).collect()
}

fn check_values(input: &[u8]) {
    if let Ok(timeout) = parse_timeout(input) {
        let mut value = Vec::new();
        write_timeout(&mut value, timeout);
        assert!(value.len() <= 9);
        let again = parse_timeout(&value).expect("it was written");
        assert!(again <= timeout && again.is_zero() == timeout.is_zero());
    }
    if let Some(code) = GrpcStatus::parse_code(input) {
        assert_eq!(code.to_string().as_bytes(), input);
        assert!(GrpcStatus::from_code(code).is_none_or(|status| status.code() == code));
    }
    if let RetryPushback::After(time) = RetryPushback::parse(input) {
        assert_eq!(time.as_millis().to_string().as_bytes(), input);
    }
    for content_type in
        [GrpcContentType::parse(input), GrpcContentType::parse_accept(input)].into_iter().flatten()
    {
        let mut value = Vec::new();
        content_type.write(&mut value);
        assert_eq!(GrpcContentType::parse(&value), Some(content_type));
    }
    let (mut value, mut message) = (Vec::new(), Vec::new());
    write_status_message(&mut value, input);
    assert!(value.iter().all(|byte| matches!(byte, b' '..=b'~')));
    read_status_message(&mut message, &value);
    assert_eq!(message, input);
    message.clear();
    read_status_message(&mut message, input);
    assert!(message.len() <= input.len());
}

/// Messages, whether the body may end, whether it is none of gRPC.
fn observe(pieces: &[&[u8]]) -> (u64, bool, bool) {
    let mut messages = MessageObserver::default();
    pieces.iter().for_each(|piece| messages.observe(piece));
    (messages.count(), messages.is_at_boundary(), messages.is_broken())
}

fn decode(pieces: &[&[u8]]) -> Result<Vec<u8>, Base64Error> {
    let (mut decoder, mut decoded) = (Base64Decoder::default(), Vec::new());
    for piece in pieces {
        let mut buf = piece.to_vec();
        let len = decoder.decode(&mut buf)?;
        decoded.extend_from_slice(&buf[..len]);
    }
    decoder.finish().map(|()| decoded)
}

fn encode(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut encoder, mut text) = (Base64Encoder::default(), Vec::new());
    pieces.iter().for_each(|piece| encoder.encode(piece, &mut text));
    encoder.flush(&mut text);
    text
}

/// Lines of the input, cut at their first colons, as the trailers of a call.
fn check_trailers(input: &[u8]) {
    let fields = input.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], &line[colon + 1..]))
    });
    let mut frame = Vec::new();
    write_trailers_frame(&mut frame, fields);
    assert_eq!(observe(&[&frame]), (0, true, false));
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let lines = [&frame[5..], b"\r\n"].concat();
    match httparse::parse_headers(&lines, &mut headers) {
        Ok(httparse::Status::Complete((len, headers))) => {
            assert_eq!(len, lines.len());
            assert_eq!(headers.len(), lines.windows(2).filter(|pair| pair == b"\r\n").count() - 1);
            assert!(headers.iter().all(|header| !header.name.bytes().any(|byte| byte.is_ascii_uppercase())));
        }
        Err(httparse::Error::TooManyHeaders) => {}
        outcome => panic!("{outcome:?}"),
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    check_values(input);
    check_trailers(input);
    let (observed, decoded, encoded) = (observe(&[input]), decode(&[input]), encode(&[input]));
    assert_eq!(decoded.clone().ok(), BASE64.decode(input).ok());
    assert_eq!(encoded, BASE64.encode(input).as_bytes());
    for growth in growths(input) {
        let pieces = pieces(input, &growth);
        assert_eq!(observe(&pieces), observed);
        assert_eq!(decode(&pieces), decoded);
        assert_eq!(encode(&pieces), encoded);
    }
}
