//! Tables and properties of FastCGI: whatever the cuts, the same response; whatever the bytes, no panic and no growth.

use proptest::prelude::*;

use super::*;
use crate::{FieldWriter, Framing, HeadLimits, Method, ResponseHead, Rule};

/// A record of a server.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let mut out = vec![1, kind];
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&u16::try_from(content.len()).expect("it fits").to_be_bytes());
    out.extend_from_slice(&[padding, 0]);
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(0xAA, usize::from(padding)));
    out
}

fn end(app_status: u32, protocol_status: u8) -> Vec<u8> {
    let mut content = app_status.to_be_bytes().to_vec();
    content.extend_from_slice(&[protocol_status, 0, 0, 0]);
    record(3, 1, &content, 0)
}

/// What the records come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decoded {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<(u32, ProtocolStatus)>,
}

/// Decodes bytes that arrive in pieces of these lengths, the last one repeated.
fn decode(bytes: &[u8], pieces: &[usize]) -> Result<(Decoded, bool), Rule> {
    let (mut decoder, mut decoded) = (RecordDecoder::new(), Decoded::default());
    let (mut received, mut rest) = (Vec::new(), bytes);
    let mut lens = pieces.iter().chain(std::iter::repeat(pieces.last().expect("there is one")));
    loop {
        let (framing, step) = decoder.step(&received)?;
        received.drain(..framing);
        match step {
            RecordStep::Stdout(range) => {
                // Half is taken, the rest comes again.
                let taken = range.len().div_ceil(2);
                decoded.stdout.extend(received.drain(..taken));
                decoder.give_back(range.len() - taken);
            }
            RecordStep::Stderr(range) => decoded.stderr.extend(received.drain(range)),
            RecordStep::End { app_status, protocol_status } => {
                decoded.end = Some((app_status, protocol_status));
                return Ok((decoded, decoder.is_between_records(&received) && rest.is_empty()));
            }
            RecordStep::More if rest.is_empty() => return Ok((decoded, false)),
            RecordStep::More => {
                let len = (*lens.next().expect("it is endless")).clamp(1, rest.len());
                received.extend_from_slice(&rest[..len]);
                rest = &rest[len..];
            }
        }
    }
}

fn sample() -> Vec<u8> {
    [
        record(10, 0, b"management", 3),
        record(7, 1, b"PHP message: ", 1),
        record(6, 1, b"Content-Type: text/html\r\n\r\nhel", 7),
        record(6, 1, b"", 255),
        record(6, 1, b"lo", 0),
        record(7, 1, b"late", 0),
        record(7, 1, b"", 0),
        end(255, 0),
    ]
    .concat()
}

#[test]
fn records_are_decoded_whatever_the_cuts() {
    let bytes = sample();
    let expected = Decoded {
        stdout: b"Content-Type: text/html\r\n\r\nhello".to_vec(),
        stderr: b"PHP message: late".to_vec(),
        end: Some((255, ProtocolStatus::Complete)),
    };
    for pieces in [&[1_usize][..], &[7], &[8], &[9, 1], &[bytes.len()]] {
        assert_eq!(decode(&bytes, pieces), Ok((Decoded { ..clone(&expected) }, true)), "{pieces:?}");
    }
    let followed = [bytes, vec![0]].concat();
    assert!(!decode(&followed, &[1000]).expect("it is sound").1, "a byte behind it");
}

fn clone(decoded: &Decoded) -> Decoded {
    Decoded { stdout: decoded.stdout.clone(), stderr: decoded.stderr.clone(), end: decoded.end }
}

#[test]
fn ends_say_what_became_of_the_request() {
    for (byte, status) in [
        (0, Ok(ProtocolStatus::Complete)),
        (1, Ok(ProtocolStatus::CannotMultiplex)),
        (2, Ok(ProtocolStatus::Overloaded)),
        (3, Ok(ProtocolStatus::UnknownRole)),
        (4, Err(Rule::FastcgiBadEnd)),
    ] {
        let decoded = decode(&end(0, byte), &[1]).map(|(decoded, _)| decoded.end);
        assert_eq!(decoded, status.map(|status| Some((0, status))), "{byte}");
    }
    assert_eq!(decode(&record(3, 1, b"1234567", 0), &[100]), Err(Rule::FastcgiBadEnd));
    let long = decode(&record(3, 1, b"\0\0\0\x01\0\0\0\0more", 5), &[100]).expect("it is sound");
    assert_eq!((long.0.end, long.1), (Some((1, ProtocolStatus::Complete)), true));
    assert!(ends_with_end_request(&sample()) && !ends_with_end_request(&sample()[1..20]));
}

#[test]
fn records_that_no_server_sends_are_refused() {
    for (what, bytes) in [
        ("version", vec![2, 6, 0, 1, 0, 0, 0, 0]),
        ("type", record(5, 1, b"x", 0)),
        ("unknown type", record(12, 1, b"x", 0)),
        ("id", record(6, 2, b"x", 0)),
        ("text", b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    ] {
        assert_eq!(decode(&bytes, &[100]), Err(Rule::FastcgiBadRecord), "{what}");
    }
}

/// The parameters in PARAMS records, as a server reads them.
fn read_params(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut stream = Vec::new();
    loop {
        let [1, 4, 0, 1, high, low, 0, 0, rest @ ..] = bytes else { panic!("no PARAMS record: {bytes:?}") };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        stream.extend_from_slice(&rest[..len]);
        bytes = &rest[len..];
        if len == 0 {
            break;
        }
    }
    assert!(bytes.is_empty(), "the empty record is the last");
    let (mut pairs, mut rest) = (Vec::new(), &stream[..]);
    let length = |rest: &mut &[u8]| match rest[0] {
        short @ ..0x80 => {
            *rest = &rest[1..];
            usize::from(short)
        }
        _ => {
            let len = u32::from_be_bytes(*rest.first_chunk().expect("four bytes")) & 0x7FFF_FFFF;
            *rest = &rest[4..];
            len as usize
        }
    };
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest), length(&mut rest));
        pairs.push((rest[..name].to_vec(), rest[name..name + value].to_vec()));
        rest = &rest[name + value..];
    }
    pairs
}

#[test]
fn fields_are_parameters() {
    let mut params = Params::default();
    params.fix(b"HTTP_X_OWN", |out| out.extend_from_slice(b"config"));
    params.set(b"REQUEST_METHOD", b"GET");
    params.field(b"Host", b"a.test");
    params.field(b"content-type", b"text/plain");
    params.field(b"Proxy", b"http://evil.test");
    params.field(b"X_Under", b"1");
    params.field(b"X.Dot", b"1");
    params.field(b"Cookie", b"a=1");
    params.field(b"Accept", b"x");
    params.field(b"COOKIE", b"b=2");
    params.field(b"accept", b"y");
    params.field(b"X-Own", b"client");
    params.decimal_field(b"Max-Forwards", 4);
    params.field_unless_empty(b"X-Empty", |_| {});
    params.set(b"REQUEST_METHOD", b"POST");
    let expected = [
        ("HTTP_X_OWN", "config"),
        ("REQUEST_METHOD", "GET"),
        ("HTTP_HOST", "a.test"),
        ("CONTENT_TYPE", "text/plain"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("HTTP_ACCEPT", "x, y"),
        ("HTTP_MAX_FORWARDS", "4"),
    ];
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
    let found: Vec<_> = params.iter().map(|(name, value)| (text(name), text(value))).collect();
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(found, expected);
    let mut out = Vec::new();
    params.write(&mut out);
    let read: Vec<_> = read_params(&out).iter().map(|(name, value)| (text(name), text(value))).collect();
    assert_eq!(read, expected);
}

#[test]
fn parameters_may_fill_several_records() {
    for len in [0, 127, 128, RECORD_CONTENT_MAX - 6, RECORD_CONTENT_MAX - 5, RECORD_CONTENT_MAX, 200_000] {
        let mut params = Params::default();
        params.set(b"A", &vec![b'x'; len]);
        params.set(b"B", b"2");
        let mut out = b"before".to_vec();
        params.write(&mut out);
        let read = read_params(&out[b"before".len()..]);
        assert_eq!(read[0].1.len(), len);
        assert_eq!(read[1], (b"B".to_vec(), b"2".to_vec()), "{len}");
    }
    let mut out = Vec::new();
    Params::default().write(&mut out);
    assert!(read_params(&out).is_empty());
}

#[test]
fn names_of_parameters() {
    for (name, expected) in
        [("A_1", true), ("a", true), ("", false), ("1A", false), ("A-B", false), ("A=", false)]
    {
        assert_eq!(is_param_name(name), expected, "{name}");
    }
}

/// The head of what a script writes in pieces of `piece` bytes, and how much belongs to the body.
fn head(written: &[u8], piece: usize) -> Result<(ResponseHead, Vec<u8>, usize), Rule> {
    let (mut parser, mut head) = (CgiHeadParser::default(), ResponseHead::new());
    let limits = HeadLimits { head_bytes_max: 1000, ..HeadLimits::default() };
    for (at, data) in written.chunks(piece).enumerate() {
        match parser.push(&mut head, data, &limits)? {
            CgiProgress::Incomplete => {}
            CgiProgress::Complete { taken } => {
                return Ok((head, parser.text().to_vec(), written.len() - at * piece - taken));
            }
        }
    }
    panic!("the head goes on");
}

#[test]
fn heads_of_scripts() {
    for (written, status, body) in [
        ("Content-type: text/html; charset=UTF-8\r\n\r\nbody", 200, 4),
        ("Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\n", 404, 0),
        ("Content-Type: text/plain\n\n\n", 200, 1),
        ("Content-Type: text/plain\n\r\nx", 200, 1),
        ("Location: /elsewhere\r\n\r\n", 302, 0),
        ("Location: https://a.test/\r\nstatus: 201\r\n\r\n", 201, 0),
        ("Transfer-Encoding: chunked\r\nConnection: close\r\nX: 1\r\n\r\n", 200, 0),
    ] {
        for piece in [1, 2, 3, 1000] {
            let (head, text, left) = head(written.as_bytes(), piece).expect(written);
            assert_eq!((head.status(), left), (status, body), "{written:?} by {piece}");
            assert_eq!(head.body(Method::Get), Framing::Delimited);
            let line = format!("HTTP/1.1 {status} ");
            assert!(text.starts_with(line.as_bytes()) && text.ends_with(b"\r\n\r\n"), "{written:?}");
            for name in ["status", "connection", "transfer-encoding"] {
                assert!(head.fields().get_by_name(&text, name).is_none(), "{name} in {written:?}");
            }
        }
    }
    let (head, text, _) = head(b"Content-Length: 7\r\nX-A: b\r\n\r\n", 5).expect("it is sound");
    assert_eq!(head.body(Method::Get), Framing::Length(7));
    assert_eq!(head.fields().get_by_name(&text, "x-a").map(|field| field.value.of(&text)), Some(&b"b"[..]));
}

#[test]
fn heads_that_are_none() {
    for (written, rule) in [
        ("\r\nbody", Rule::CgiEmptyHead),
        ("\nbody", Rule::CgiEmptyHead),
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", Rule::MissingColon),
        ("<html>\n\n", Rule::MissingColon),
        ("Status: 101 Switching Protocols\r\n\r\n", Rule::CgiBadStatus),
        ("Status: OK\r\n\r\n", Rule::CgiBadStatus),
        ("Status: 200OK\r\n\r\n", Rule::CgiBadStatus),
        ("Status:\r\n\r\n", Rule::CgiBadStatus),
        ("Status: 200\r\nStatus: 200\r\n\r\n", Rule::CgiBadStatus),
        ("Status: 999 x\r\n\r\n", Rule::BadStatus),
        ("A: \0\r\n\r\n", Rule::NulByte),
        ("A: b\rc\r\n\r\n", Rule::BareCr),
        ("A : b\r\n\r\n", Rule::SpaceBeforeColon),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n", Rule::ConflictingLengths),
    ] {
        for piece in [1, 1000] {
            assert_eq!(head(written.as_bytes(), piece).map(|_| ()), Err(rule), "{written:?} by {piece}");
        }
    }
    let long = format!("A: {}\r\n\r\n", "x".repeat(1000));
    assert_eq!(head(long.as_bytes(), 1000).map(|_| ()), Err(Rule::HeadTooLarge));
    assert_eq!(head("x".repeat(2000).as_bytes(), 7).map(|_| ()), Err(Rule::HeadTooLarge));
}

proptest! {
    #[test]
    fn cuts_do_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..80), piece in 1..20_usize) {
        let bytes = [sample(), bytes].concat();
        prop_assert_eq!(decode(&bytes, &[piece]).map(|(decoded, _)| decoded), decode(&bytes, &[bytes.len()]).map(|(decoded, _)| decoded));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..200), piece in 1..20_usize) {
        if let Ok((decoded, _)) = decode(&bytes, &[piece]) {
            prop_assert!(decoded.stdout.len() + decoded.stderr.len() <= bytes.len());
        }
    }
}
