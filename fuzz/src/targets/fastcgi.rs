//! Records of a FastCGI server: the same response however they arrive, and a head that `httparse` reads the same way.

use crate::pieces::growths;
use weir_http::fastcgi::{CgiHeadParser, CgiProgress, ProtocolStatus, RecordDecoder, RecordStep};
use weir_http::{HeadLimits, ResponseHead, Rule};

/// What was read of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct DecodedOutput {
    status: u16,
    head: Vec<u8>,
    body: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<(u32, ProtocolStatus)>,
}

fn decode(input: &[u8], growth: &[usize], limits: &HeadLimits) -> Result<DecodedOutput, Rule> {
    let (mut decoder, mut parser) = (RecordDecoder::new(), CgiHeadParser::default());
    let (mut head, mut decoded, mut taken) = (ResponseHead::new(), DecodedOutput::default(), 0);
    for &len in growth {
        loop {
            let (framing, step) = decoder.step(&input[taken..len])?;
            taken += framing;
            let received = &input[taken..len];
            match step {
                RecordStep::More => break,
                RecordStep::Stdout(range) if decoded.status == 0 => {
                    let data = &received[range];
                    match parser.push(&mut head, data, limits)? {
                        CgiProgress::Incomplete => taken += data.len(),
                        CgiProgress::Complete { taken: of_head } => {
                            assert!((200..600).contains(&head.status()));
                            decoded.status = head.status();
                            decoded.head = parser.text().to_vec();
                            taken += of_head;
                            decoder.give_back(data.len() - of_head);
                        }
                    }
                }
                RecordStep::Stdout(range) => {
                    taken += range.len();
                    decoded.body.extend_from_slice(&received[range]);
                }
                RecordStep::Stderr(range) => {
                    taken += range.len();
                    decoded.stderr.extend_from_slice(&received[range]);
                }
                RecordStep::End { app_status, protocol_status } => {
                    decoded.end = Some((app_status, protocol_status));
                    return Ok(decoded);
                }
            }
        }
    }
    Ok(decoded)
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let small = HeadLimits { head_bytes_max: 48, fields_max: 2, ..HeadLimits::default() };
    for limits in [HeadLimits::default(), small] {
        let whole = decode(input, &[input.len()], &limits);
        for growth in growths(input) {
            assert_eq!(decode(input, &growth, &limits), whole);
        }
        if let Ok(decoded) = whole
            && decoded.status != 0
        {
            let mut headers = [httparse::EMPTY_HEADER; 200];
            let mut response = httparse::Response::new(&mut headers);
            assert!(matches!(response.parse(&decoded.head), Ok(httparse::Status::Complete(_))));
            assert_eq!(response.code, Some(decoded.status));
        }
    }
}
