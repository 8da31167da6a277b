//! Properties that hold for all bytes: how they are cut into pieces changes nothing, written messages are read back, and
//! nothing panics.

use proptest::collection::vec;
use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use proptest::sample::Index;
use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedRequest, ParsedResponse, write};
use weir_http::{
    Authority, ChunkedLimits, Fields, HeadLimits, Lenient, LenientChunks, Method, PathRules, Rule, TextSpan,
};

use crate::generate;

/// The result that every test case of a split compares: the outcome, and all fields of a head.
#[derive(Debug, PartialEq)]
struct Account {
    progress: Result<HeadProgress, Rule>,
    text: Vec<u8>,
    fields: Vec<(TextSpan, TextSpan)>,
    facts: String,
}

fn fields_of(fields: &Fields) -> Vec<(TextSpan, TextSpan)> {
    fields.iter().map(|field| (field.name, field.value)).collect()
}

/// Lengths at which `bytes` are shown to a parser, ascending, the last being all.
fn lengths(bytes: &[u8], cuts: &[Index]) -> Vec<usize> {
    let mut lengths: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    lengths.sort_unstable();
    lengths.push(bytes.len());
    lengths
}

fn account_of_request(bytes: &[u8], lengths: &[usize], limits: &HeadLimits) -> Account {
    let mut head = ParsedRequest::new();
    let mut progress = Ok(HeadProgress::Incomplete);
    for &len in lengths {
        progress = head.parse(&bytes[..len], limits);
        if progress != Ok(HeadProgress::Incomplete) {
            break;
        }
    }
    if !matches!(progress, Ok(HeadProgress::Complete { .. })) {
        return Account { progress, text: Vec::new(), fields: Vec::new(), facts: String::new() };
    }
    let facts = format!(
        "{:?}",
        (
            (head.method(), head.method_span(), head.target(), head.target_form(), head.path(), head.query()),
            (head.authority(), head.host(), head.port(), head.version(), head.body(), head.connection()),
            (head.keep_alive(), head.expectation(), head.upgrade(), head.len()),
            head.normal_path(head.text(bytes)),
        )
    );
    let text = head.text(&bytes[..head.len()]).to_vec();
    Account { progress, text, fields: fields_of(head.fields()), facts }
}

fn account_of_response(bytes: &[u8], lengths: &[usize], limits: &HeadLimits) -> Account {
    let mut head = ParsedResponse::new();
    let mut progress = Ok(HeadProgress::Incomplete);
    for &len in lengths {
        progress = head.parse(&bytes[..len], limits);
        if progress != Ok(HeadProgress::Incomplete) {
            break;
        }
    }
    if !matches!(progress, Ok(HeadProgress::Complete { .. })) {
        return Account { progress, text: Vec::new(), fields: Vec::new(), facts: String::new() };
    }
    let bodies = [Method::Get, Method::Head, Method::Connect].map(|method| head.framing(method));
    let facts = format!(
        "{:?}",
        (
            head.version(),
            head.status(),
            head.reason(),
            head.connection(),
            head.keep_alive(),
            bodies,
            head.len()
        )
    );
    let text = head.text(&bytes[..head.len()]).to_vec();
    Account { progress, text, fields: fields_of(head.fields()), facts }
}

/// Small limits, so that they are met often.
fn limits(lenient: u16) -> HeadLimits {
    let bit = |bit: u16| lenient >> bit & 1 == 1;
    HeadLimits {
        head_bytes_max: 150,
        target_bytes_max: 12,
        fields_max: 5,
        refuse_encoded_nul: false,
        paths: PathRules::default(),
        lenient: Lenient {
            bare_lf: bit(0),
            obs_fold: bit(1),
            unsafe_target: bit(2),
            target_fragment: bit(10),
            repeated_equal_length: bit(3),
            padded_length: bit(4),
            unencoded_target: bit(5),
            repeated_chunked: bit(6),
            control_bytes: bit(7),
            empty_lines: bit(8),
            high_status: bit(9),
        },
    }
}

/// Payload, trailers and end of a body decoded in pieces.
type Decoded = Result<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>, usize, bool), Rule>;

fn decode(bytes: &[u8], lengths: &[usize], limits: ChunkedLimits) -> Decoded {
    let mut decoder = ChunkedDecoder::new(limits);
    let (mut payload, mut taken) = (Vec::new(), 0);
    for &len in lengths {
        let mut buf = bytes[taken..len].to_vec();
        let decoded = decoder.decode(&mut buf)?;
        payload.extend_from_slice(&buf[decoded.data]);
        taken += decoded.consumed;
        if decoded.done {
            break;
        }
        assert_eq!(taken, len);
    }
    let trailers = decoder.trailers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    Ok((payload, trailers, taken, decoder.is_done()))
}

fn encode(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for chunk in chunks {
        let mut line = [0; write::CHUNK_SIZE_BYTES_MAX];
        let len = write::chunk_size(chunk.len() as u64, &mut line);
        body.extend_from_slice(&line[..len]);
        body.extend_from_slice(chunk);
        body.extend_from_slice(write::CHUNK_END);
    }
    body
}

proptest! {
    #[test]
    fn a_request_does_not_depend_on_its_pieces(
        bytes in generate::request(), cuts in generate::cuts(), lenient in prop::sample::select(vec![0, 1, 2, 4, 8, 31, 32, 64, 255]),
    ) {
        for limits in [HeadLimits { lenient: limits(lenient).lenient, ..HeadLimits::default() }, limits(lenient)] {
            let whole = account_of_request(&bytes, &[bytes.len()], &limits);
            prop_assert_eq!(&whole, &account_of_request(&bytes, &lengths(&bytes, &cuts), &limits));
            let each: Vec<usize> = (0..=bytes.len()).collect();
            prop_assert_eq!(&whole, &account_of_request(&bytes, &each, &limits));
        }
    }

    #[test]
    fn a_response_does_not_depend_on_its_pieces(
        bytes in generate::response(), cuts in generate::cuts(), lenient in prop::sample::select(vec![0, 1, 2, 8, 31, 64, 128, 256, 1023]),
    ) {
        for limits in [HeadLimits { lenient: limits(lenient).lenient, ..HeadLimits::default() }, limits(lenient)] {
            let whole = account_of_response(&bytes, &[bytes.len()], &limits);
            prop_assert_eq!(&whole, &account_of_response(&bytes, &lengths(&bytes, &cuts), &limits));
            let each: Vec<usize> = (0..=bytes.len()).collect();
            prop_assert_eq!(&whole, &account_of_response(&bytes, &each, &limits));
        }
    }

    #[test]
    fn relaxed_input_has_strict_output(bytes in generate::request(), lenient in 1_u16..256) {
        let limits = HeadLimits { lenient: limits(lenient).lenient, ..HeadLimits::default() };
        let account = account_of_request(&bytes, &[bytes.len()], &limits);
        if let Ok(HeadProgress::Complete { len }) = account.progress {
            let strict = account_of_request(&account.text, &[account.text.len()], &HeadLimits::default());
            prop_assert_eq!(strict.progress, Ok(HeadProgress::Complete { len: account.text.len() }));
            prop_assert_eq!(strict.fields, account.fields);
            let clean = account_of_request(&bytes, &[bytes.len()], &HeadLimits::default());
            if clean.progress.is_ok() {
                prop_assert_eq!(clean.progress, Ok(HeadProgress::Complete { len }));
            }
        }
    }

    #[test]
    fn a_chunked_body_does_not_depend_on_its_pieces(bytes in generate::chunked_body(), cuts in generate::cuts()) {
        let lenient = LenientChunks { padded_size: true, empty_extension: true };
        let relaxed = ChunkedLimits { lenient, ..ChunkedLimits::default() };
        let small = ChunkedLimits { extension_bytes_max: 4, trailer_bytes_max: 24, trailer_fields_max: 1, lenient };
        for limits in [ChunkedLimits::default(), relaxed, small] {
            let whole = decode(&bytes, &[bytes.len()], limits);
            prop_assert_eq!(&whole, &decode(&bytes, &lengths(&bytes, &cuts), limits));
            let each: Vec<usize> = (0..=bytes.len()).collect();
            prop_assert_eq!(&whole, &decode(&bytes, &each, limits));
        }
    }

    #[test]
    fn encoded_text_is_decoded(
        chunks in vec(vec(any::<u8>(), 1..300), 0..6), trailer in "[a-z]{1,5}", value in "[!-~]{0,20}", cuts in generate::cuts(),
    ) {
        let mut body = encode(&chunks);
        let name = format!("X-{trailer}");
        write::last_chunk(&mut body, [(name.as_bytes(), value.as_bytes())]);
        let trailers = vec![(name.into_bytes(), value.into_bytes())];
        let expected = Ok((chunks.concat(), trailers, body.len(), true));
        prop_assert_eq!(decode(&body, &lengths(&body, &cuts), ChunkedLimits::default()), expected);
        let mut body = encode(&chunks);
        body.extend_from_slice(write::LAST_CHUNK);
        let expected = Ok((chunks.concat(), Vec::new(), body.len(), true));
        prop_assert_eq!(decode(&body, &lengths(&body, &cuts), ChunkedLimits::default()), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..400), lenient in 0_u16..1024) {
        let limits = limits(lenient);
        _ = ParsedRequest::new().parse(&bytes, &limits);
        _ = ParsedResponse::new().parse(&bytes, &limits);
        _ = ChunkedDecoder::default().decode(&mut bytes.clone());
        _ = Authority::parse(&bytes);
        _ = weir_http::x_forwarded_for(&bytes).count();
        for element in weir_http::forwarded(&bytes).flatten() {
            _ = (element.client.map(|value| value.unquoted().len()), element.host.and_then(|value| value.node()));
        }
        _ = weir_http::via_repeats(&bytes, b"weir", |_| true);
    }

    #[test]
    fn written_messages_are_read_back(
        names in vec("[A-Za-z-]{1,20}", 0..8), value in "[!-~]([ -~]{0,20}[!-~])?", status in 200_u16..600, number in any::<u64>(),
    ) {
        let mut text = Vec::new();
        write::status_line(&mut text, weir_http::Version::Http11, status, b"Some Reason");
        for name in &names {
            write::field(&mut text, format!("X-{name}").as_bytes(), value.as_bytes());
        }
        write::decimal_field(&mut text, b"X-Number", number);
        text.extend_from_slice(b"\r\n");
        let mut head = ParsedResponse::new();
        prop_assert_eq!(head.parse(&text, &HeadLimits::default()), Ok(HeadProgress::Complete { len: text.len() }));
        prop_assert_eq!((head.status(), head.reason().of(&text)), (status, b"Some Reason".as_slice()));
        prop_assert_eq!(head.fields().len(), names.len() + 1);
        for (field, name) in head.fields().iter().zip(&names) {
            prop_assert_eq!(field.name.of(&text).to_vec(), format!("X-{name}").into_bytes());
            prop_assert_eq!(field.value.of(&text), value.as_bytes());
        }
        let last = head.fields().get_by_name(&text, "x-number").map(|field| field.value.of(&text).to_vec());
        prop_assert_eq!(last, Some(number.to_string().into_bytes()));
    }
}

/// The tests above would say nothing if the generator missed one side.
#[test]
fn the_generator_meets_both_outcomes() {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut complete, mut rules) = (0, std::collections::HashSet::new());
    for _ in 0..2_000 {
        let bytes = generate::request().new_tree(&mut runner).unwrap().current();
        match account_of_request(&bytes, &[bytes.len()], &HeadLimits::default()).progress {
            Ok(HeadProgress::Complete { .. }) => complete += 1,
            Ok(HeadProgress::Incomplete) => {}
            Err(rule) => _ = rules.insert(rule),
        }
    }
    assert!(complete > 200, "{complete} of 2000 are valid");
    assert!(rules.len() > 20, "{} rules are broken", rules.len());
}
