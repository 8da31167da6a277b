//! Chunked bodies, broken and whole: framing by the grammar, payload in one piece, trailers sifted.
//!
//! The numbers group rows by attack and are the same in the end-to-end tests.

use weir_http::http1::ChunkedDecoder;
use weir_http::{ChunkedLimits, LenientChunks, Rule};

/// Payload, number of bytes taken, and whether the body ended.
type Outcome = Result<(Vec<u8>, usize, bool), Rule>;

/// Decodes `bytes` in pieces of `step` bytes.
fn decode_pieces(decoder: &mut ChunkedDecoder, bytes: &[u8], step: usize) -> Outcome {
    let (mut payload, mut taken) = (Vec::new(), 0);
    for piece in bytes.chunks(step) {
        let mut buf = piece.to_vec();
        let decoded = decoder.decode(&mut buf)?;
        payload.extend_from_slice(&buf[decoded.data]);
        taken += decoded.consumed;
        if decoded.done {
            return Ok((payload, taken, true));
        }
        assert_eq!(decoded.consumed, buf.len(), "everything is taken until the end of the body");
    }
    Ok((payload, taken, false))
}

/// Decodes `bytes` in pieces of every small size, and gives the outcome all agree on.
fn decode(bytes: &[u8], limits: ChunkedLimits) -> (ChunkedDecoder, Outcome) {
    let mut decoder = ChunkedDecoder::new(limits);
    let whole = decode_pieces(&mut decoder, bytes, bytes.len().max(1));
    for step in 1..8 {
        let mut other = ChunkedDecoder::new(limits);
        assert_eq!(whole, decode_pieces(&mut other, bytes, step), "pieces of {step}: {bytes:?}");
        assert!(other.trailers().eq(decoder.trailers()));
    }
    if let Err(rule) = whole {
        assert_eq!(decoder.decode(&mut b"0\r\n\r\n".to_vec()), Err(rule), "never in step again");
    }
    (decoder, whole)
}

fn outcome(bytes: &[u8]) -> Outcome {
    decode(bytes, ChunkedLimits::default()).1
}

#[test]
fn refused_frames() {
    let rows: &[(u32, &[u8], Rule)] = &[
        (21, b"+5\r\nhello\r\n", Rule::BadChunkSize),
        (21, b"-1\r\n", Rule::BadChunkSize),
        (21, b"0x5\r\nhello\r\n", Rule::BadChunkSize),
        (21, b"5_\r\nhello\r\n", Rule::BadChunkSize),
        (21, b" 5\r\nhello\r\n", Rule::BadChunkSize),
        (21, b"5 \r\nhello\r\n", Rule::BadChunkSize),
        (21, b"5\t\r\nhello\r\n", Rule::BadChunkSize),
        (21, b"\r\n", Rule::BadChunkSize),
        (21, b";a=b\r\n", Rule::BadChunkSize),
        (21, b"g\r\n", Rule::BadChunkSize),
        (21, b"5,5\r\n", Rule::BadChunkSize),
        (21, b"00000000000000005\r\nhello\r\n", Rule::BadChunkSize),
        (21, b"8000000000000000\r\n", Rule::BadChunkSize),
        (21, b"FFFFFFFFFFFFFFFF\r\n", Rule::BadChunkSize),
        (21, b"10000000000000005\r\n", Rule::BadChunkSize),
        (21, b"5\nhello\r\n", Rule::BadChunkSize),
        (21, b"5\r\r\nhello", Rule::BadChunkSize),
        (21, b"5\rhello", Rule::BadChunkSize),
        (21, b"\0", Rule::BadChunkSize),
        (21, b"\xb5\r\n", Rule::BadChunkSize),
        (22, b"5;a=b\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a\r=b\r\nhello\r\n", Rule::BadChunkSize),
        (22, b"5;a=\"\r\n\"\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\"\n\"\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a\0=b\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\"\0\"\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\"\\\0\"\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;=b\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=b=c\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a b\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\"b\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a=\"b\"c\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5;a;;b\r\nhello\r\n", Rule::BadChunkExtension),
        (22, b"5 a\r\nhello\r\n", Rule::BadChunkSize),
        (22, b"0;\x7f\r\n\r\n", Rule::BadChunkExtension),
        (24, b"5\r\nhello!\r\n0\r\n\r\n", Rule::BadChunkEnd),
        (24, b"5\r\nhello0\r\n\r\n", Rule::BadChunkEnd),
        (24, b"5\r\nhello\n0\r\n\r\n", Rule::BadChunkEnd),
        (24, b"5\r\nhello\r0\r\n\r\n", Rule::BadChunkEnd),
        (24, b"5\r\nhello\r\r\n", Rule::BadChunkEnd),
        (25, b"0\r\nX y\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\nX : y\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\n: y\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\nX: y\n\r\n", Rule::BadTrailer),
        (25, b"0\r\nX: y\0\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\nX: y\r\n z\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\n X: y\r\n\r\n", Rule::BadTrailer),
        (25, b"0\r\n\n", Rule::BadTrailer),
        (25, b"0\r\n\rX", Rule::BadTrailer),
        (25, b"0\r\nGET / HTTP/1.1\r\n", Rule::BadTrailer),
    ];
    for (group, bytes, rule) in rows {
        assert_eq!(outcome(bytes), Err(*rule), "group {group}: {:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn accepted_frames() {
    let rows: &[(u32, &str, &str)] = &[
        (0, "0\r\n\r\n", ""),
        (0, "5\r\nhello\r\n0\r\n\r\n", "hello"),
        (0, "2\r\nhe\r\n3\r\nllo\r\n1\r\n!\r\n0\r\n\r\n", "hello!"),
        (0, "0000000000000005\r\nhello\r\n0000\r\n\r\n", "hello"),
        (0, "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        (0, "2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        (23, "5;a=b\r\nhello\r\n0;c\r\n\r\n", "hello"),
        (23, "5;a\r\nhello\r\n0\r\n\r\n", "hello"),
        (23, "5 ; a = b ; c\r\nhello\r\n0\r\n\r\n", "hello"),
        (23, "5;a=\"b;c \\\" \\\\ d\" ;e\r\nhello\r\n0\r\n\r\n", "hello"),
        (23, "5;a=\"\"\r\nhello\r\n0\r\n\r\n", "hello"),
        (23, "5;a=\"\t\u{e9}\"\r\nhello\r\n0\r\n\r\n", "hello"),
        (25, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "hello"),
    ];
    for (group, bytes, payload) in rows {
        let expected = Ok((payload.as_bytes().to_vec(), bytes.len(), true));
        assert_eq!(outcome(bytes.as_bytes()), expected, "group {group}: {bytes:?}");
        let more = format!("{bytes}GET / HTTP/1.1\r\n");
        assert_eq!(outcome(more.as_bytes()), expected, "what follows is left alone: {bytes:?}");
        for len in 0..bytes.len() {
            let (_, taken, done) = outcome(&bytes.as_bytes()[..len]).unwrap();
            assert_eq!((taken, done), (len, false), "the body is not over before its end: {bytes:?}");
        }
    }
}

#[test]
fn relaxed_frames() {
    let none = LenientChunks::default();
    let padded = LenientChunks { padded_size: true, ..none };
    let empty = LenientChunks { empty_extension: true, ..none };
    let zeros = format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(100));
    let long = format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(100_000));
    let rows: &[(LenientChunks, &str, Result<&str, Rule>)] = &[
        (padded, "5 \r\nhello\r\n0 \t\r\n\r\n", Ok("hello")),
        (padded, &zeros, Ok("hello")),
        (padded, "0000000000000000a\r\nhello, you\r\n00000000000000000000\r\n\r\n", Ok("hello, you")),
        (padded, &long, Err(Rule::ChunkExtensionsTooLarge)),
        (padded, "10000000000000005\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkSize)),
        (padded, "00000000000000008000000000000000\r\n", Err(Rule::BadChunkSize)),
        (padded, " 5\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkSize)),
        (padded, "5 5\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkSize)),
        (padded, "5 \nhello\r\n0\r\n\r\n", Err(Rule::BadChunkSize)),
        (padded, "5;\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkExtension)),
        (empty, "5;\r\nhello\r\n0; \r\n\r\n", Ok("hello")),
        (empty, "5;a;\r\nhello\r\n0\r\n\r\n", Ok("hello")),
        (empty, "5;\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkExtension)),
        (empty, "5;;a\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkExtension)),
        (empty, "5;a=\r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkExtension)),
        (empty, "5 \r\nhello\r\n0\r\n\r\n", Err(Rule::BadChunkSize)),
    ];
    for (lenient, bytes, expected) in rows {
        assert!(outcome(bytes.as_bytes()).is_err(), "strictly refused: {bytes:?}");
        let limits = ChunkedLimits { lenient: *lenient, ..ChunkedLimits::default() };
        let expected = expected.map(|payload| (payload.as_bytes().to_vec(), bytes.len(), true));
        let shown = &bytes[..bytes.len().min(200)];
        assert_eq!(decode(bytes.as_bytes(), limits).1, expected, "{lenient:?}: {shown:?}");
    }
}

#[test]
fn payload_is_gathered_in_place() {
    let mut buf = b"3\r\nabc\r\n3;x\r\ndef\r\n0\r\n\r\nrest".to_vec();
    let decoded = ChunkedDecoder::default().decode(&mut buf).unwrap();
    assert_eq!(decoded.data, 3..9, "the first chunk stays where it is");
    assert_eq!(&buf[decoded.data], b"abcdef");
    assert_eq!(&buf[decoded.consumed..], b"rest");
}

#[test]
fn trailers_are_sifted() {
    let body = "0\r\nX-Sum: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\nAuthorization: x\r\n\
        Connection: close\r\nX-Forwarded-For: 1.2.3.4\r\nCookie: a\r\nContent-Type: x\r\nContent_Length: 5\r\n\
        Trailer: x\r\nSet-Cookie: x\r\nx-sum:  2 \r\nETag: \"e\"\r\n\r\n";
    let (decoder, outcome) = decode(body.as_bytes(), ChunkedLimits::default());
    assert_eq!(outcome, Ok((Vec::new(), body.len(), true)));
    let trailers: Vec<_> = decoder.trailers().collect();
    let expected: &[(&[u8], &[u8])] = &[(b"X-Sum", b"1"), (b"x-sum", b"2"), (b"ETag", b"\"e\"")];
    assert_eq!(trailers, expected);
}

#[test]
fn limits_hold() {
    let limits = ChunkedLimits {
        extension_bytes_max: 100,
        trailer_bytes_max: 100,
        trailer_fields_max: 3,
        ..ChunkedLimits::default()
    };
    let rows: &[(u32, String, Option<Rule>)] = &[
        (23, format!("1;{}\r\nx\r\n", "a".repeat(99)), None),
        (23, format!("1;{}\r\nx\r\n", "a".repeat(100)), Some(Rule::ChunkExtensionsTooLarge)),
        (23, "1;abc=defgh\r\nx\r\n".repeat(10), None),
        (23, "1;abc=defgh\r\nx\r\n".repeat(11), Some(Rule::ChunkExtensionsTooLarge)),
        (26, format!("0\r\nX: {}\r\n\r\n", "a".repeat(93)), None),
        (26, format!("0\r\nX: {}\r\n\r\n", "a".repeat(94)), Some(Rule::TrailersTooLarge)),
        (26, format!("0\r\nX: {}", "a".repeat(1_000)), Some(Rule::TrailersTooLarge)),
        (26, format!("0\r\n{}\r\n", "X: y\r\n".repeat(3)), None),
        (26, format!("0\r\n{}\r\n", "X: y\r\n".repeat(4)), Some(Rule::TrailersTooLarge)),
    ];
    for (group, bytes, rule) in rows {
        let found = decode(bytes.as_bytes(), limits).1.err();
        assert_eq!(found, *rule, "group {group}: {bytes:?}");
    }
    let large = format!("1;{}\r\n", "a".repeat(65_536));
    assert_eq!(outcome(large.as_bytes()), Err(Rule::ChunkExtensionsTooLarge));
}

#[test]
fn payload_may_pass_around_the_decoder() {
    let mut decoder = ChunkedDecoder::default();
    assert_eq!(decoder.data_left(), 0);
    decoder.decode(&mut b"10\r\nabc".to_vec()).unwrap();
    assert_eq!(decoder.data_left(), 13);
    decoder.skip_data(12);
    assert_eq!(decoder.data_left(), 1);
    decoder.skip_data(100);
    assert_eq!(decoder.data_left(), 0);
    let decoded = decoder.decode(&mut b"\r\n0\r\n\r\n".to_vec()).unwrap();
    assert!(decoded.done && decoded.data.is_empty());
    decoder.skip_data(1);
    assert!(decoder.is_done());
}

#[test]
fn a_decoder_serves_one_body_after_another() {
    let mut decoder = ChunkedDecoder::default();
    let body = b"1\r\na\r\n0\r\nX: y\r\n\r\n";
    for _ in 0..2 {
        assert!(decode_pieces(&mut decoder, body, 3).unwrap().2);
        assert_eq!(decoder.trailers().count(), 1);
        assert_eq!(decoder.decode(&mut b"1".to_vec()).unwrap().consumed, 0, "the body is over");
        decoder.reset();
        assert_eq!(decoder.trailers().count(), 0);
    }
    assert!(decoder.decode(&mut b"x".to_vec()).is_err());
    decoder.reset();
    assert!(decode_pieces(&mut decoder, body, 100).unwrap().2);
}
