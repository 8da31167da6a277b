//! ClientHellos: the same however they arrive and however they are cut into records, names that are host names.

use crate::pieces::growths;
use weir_http::{ClientHello, HelloError, HelloProgress};

const LIMITS: [usize; 2] = [64, weir_http::CLIENT_HELLO_BYTES_MAX];

/// Everything that is said about a hello.
type ReadHello = (Result<HelloProgress, HelloError>, Option<String>, Vec<Vec<u8>>);

fn said(hello: &ClientHello, outcome: Result<HelloProgress, HelloError>) -> ReadHello {
    (outcome, hello.server_name().map(str::to_owned), hello.protocols().map(<[u8]>::to_vec).collect())
}

fn parse(input: &[u8], growth: &[usize], bytes_max: usize) -> ReadHello {
    let mut hello = ClientHello::new();
    let mut outcome = Ok(HelloProgress::Incomplete { bytes_min: 0 });
    for &len in growth {
        outcome = hello.parse(&input[..len], bytes_max);
        match outcome {
            Ok(HelloProgress::Incomplete { bytes_min }) => assert!(bytes_min > len && bytes_min <= bytes_max),
            _ => break,
        }
    }
    said(&hello, outcome)
}

/// The message in `input` in records of `len` bytes, if its records hold nothing else.
fn cut_anew(input: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (head, behind) = rest.split_at_checked(5)?;
        let (body, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes([head[3], head[4]])))?;
        message.extend_from_slice(body);
        rest = behind;
    }
    let record = |body: &[u8]| [&[22, 3, 3], &(body.len() as u16).to_be_bytes()[..], body].concat();
    Some(message.chunks(len).flat_map(record).collect())
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    for bytes_max in LIMITS {
        let whole = parse(input, &[input.len()], bytes_max);
        for growth in growths(input) {
            assert_eq!(parse(input, &growth, bytes_max), whole);
        }
    }
    let whole = parse(input, &[input.len()], usize::MAX);
    let (outcome, name, protocols) = &whole;
    if let Some(name) = name {
        assert!((1..=253).contains(&name.len()) && name.bytes().all(|byte| !byte.is_ascii_uppercase()));
        assert!(name.split('.').all(|label| (1..=63).contains(&label.len())));
    }
    assert!(protocols.iter().all(|protocol| (1..=255).contains(&protocol.len())));
    if *outcome == Ok(HelloProgress::Complete) {
        for len in [1, 7] {
            if let Some(cut) = cut_anew(input, len) {
                assert_eq!(parse(&cut, &[cut.len()], usize::MAX), whole);
            }
        }
    }
}
