//! The decoder: the examples of RFC 7541 appendix C, and blocks that are broken as such.

use super::*;

/// The bytes of hexadecimal digits, white space left out.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The lines of a block without their line ends.
fn lines(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let mut lines = Vec::new();
    let mut text = Vec::new();
    decoder.decode(block, &mut text, |text, line| {
        let line = &text[line.start..text.len() - 2];
        lines.push(String::from_utf8_lossy(line).into_owned());
        Ok::<(), HpackError>(())
    })?;
    assert_eq!(text.len(), lines.iter().map(|line| line.len() + 2).sum::<usize>());
    Ok(lines)
}

/// The entries of the dynamic table, newest first, and its size.
fn table(decoder: &HpackDecoder) -> (Vec<String>, usize) {
    let line = |age| {
        let stored = decoder.table.get(age)?;
        assert_eq!(stored.detail, LineClass::new(stored.line, stored.name_len));
        Some(String::from_utf8_lossy(&stored.line[..stored.line.len() - 2]).into_owned())
    };
    let lines: Vec<String> = (0..).map_while(line).collect();
    let size = lines.iter().map(|line| line.len() + 30).sum();
    (lines, size)
}

/// Decodes the blocks one after another: each with its lines, the table behind it, and the size of that.
fn check(size_max: usize, blocks: &[(&str, &[&str], &[&str], usize)]) {
    let mut decoder = HpackDecoder::new();
    decoder.table.set_size_max(size_max);
    for (block, expected, entries, size) in blocks {
        assert_eq!(lines(&mut decoder, &bytes(block)).expect("the block is valid"), *expected);
        assert_eq!(table(&decoder), (entries.iter().map(|entry| (*entry).to_owned()).collect(), *size));
    }
}

#[test]
fn single_fields_of_appendix_c2() {
    let field = "custom-key: custom-header";
    check(
        4096,
        &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &[field], &[field], 55)],
    );
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], &[], 0)]);
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], &[], 0)]);
    check(4096, &[("82", &[":method: GET"], &[], 0)]);
}

const REQUESTS: [&[&str]; 3] = [
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

const REQUEST_ENTRIES: [&[&str]; 3] = [
    &[":authority: www.example.com"],
    &["cache-control: no-cache", ":authority: www.example.com"],
    &["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"],
];

#[test]
fn requests_of_appendix_c3() {
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0], REQUEST_ENTRIES[0], 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], REQUEST_ENTRIES[1], 110),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
                REQUEST_ENTRIES[2],
                164,
            ),
        ],
    );
}

#[test]
fn requests_of_appendix_c4() {
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0], REQUEST_ENTRIES[0], 57),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], REQUEST_ENTRIES[1], 110),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                REQUESTS[2],
                REQUEST_ENTRIES[2],
                164,
            ),
        ],
    );
}

const DATE: &str = "date: Mon, 21 Oct 2013 20:13:21 GMT";
const LATER_DATE: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

const RESPONSES: [&[&str]; 3] = [
    &[":status: 302", "cache-control: private", DATE, "location: https://www.example.com"],
    &[":status: 307", "cache-control: private", DATE, "location: https://www.example.com"],
    &[
        ":status: 200",
        "cache-control: private",
        LATER_DATE,
        "location: https://www.example.com",
        "content-encoding: gzip",
        COOKIE,
    ],
];

const RESPONSE_ENTRIES: [&[&str]; 3] = [
    &["location: https://www.example.com", DATE, "cache-control: private", ":status: 302"],
    &[":status: 307", "location: https://www.example.com", DATE, "cache-control: private"],
    &[COOKIE, "content-encoding: gzip", LATER_DATE],
];

#[test]
fn responses_of_appendix_c5() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
                RESPONSE_ENTRIES[0],
                222,
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1], RESPONSE_ENTRIES[1], 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
                RESPONSE_ENTRIES[2],
                215,
            ),
        ],
    );
}

#[test]
fn responses_of_appendix_c6() {
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
                RESPONSE_ENTRIES[0],
                222,
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1], RESPONSE_ENTRIES[1], 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
                RESPONSE_ENTRIES[2],
                215,
            ),
        ],
    );
}

#[test]
fn blocks_that_are_broken() {
    let rows: &[(&str, HpackError)] = &[
        // Indices: 0, the first one behind the static table, one far away, and the same for names.
        ("80", HpackError::BadIndex),
        ("be", HpackError::BadIndex),
        ("ff80 8001", HpackError::BadIndex),
        ("7f00 0161", HpackError::BadIndex),
        ("0f70 0161", HpackError::BadIndex),
        ("ff80 8080 8000", HpackError::IntegerTooLong),
        ("ffff ffff ffff", HpackError::IntegerTooLong),
        // The block ends within an index, a length, a name, a value.
        ("ff", HpackError::Truncated),
        ("40", HpackError::Truncated),
        ("4001", HpackError::Truncated),
        ("4001 61", HpackError::Truncated),
        ("4001 6105 61", HpackError::Truncated),
        ("4001 617f", HpackError::Truncated),
        ("4001 617f ffff ff7f 61", HpackError::Truncated),
        // Huffman: padding of eight bits, with a bit that is not set, and the end of a string.
        ("4001 6182 1fff", HpackError::BadPadding),
        ("4001 6181 1e", HpackError::BadPadding),
        ("4001 6184 ffff ffff", HpackError::EndOfString),
        ("4081 1e00", HpackError::BadPadding),
        // The size of the table: behind a field, three times, too large.
        ("8220", HpackError::LateSizeUpdate),
        ("2082 20", HpackError::LateSizeUpdate),
        ("2020 20", HpackError::TooManySizeUpdates),
        ("3fe2 1f", HpackError::SizeUpdateTooLarge),
        ("3f80 8080 8000", HpackError::IntegerTooLong),
        ("3f", HpackError::Truncated),
    ];
    for (block, error) in rows {
        assert_eq!(lines(&mut HpackDecoder::new(), &bytes(block)), Err(*error), "{block}");
    }
    assert_eq!(lines(&mut HpackDecoder::new(), b""), Ok(vec![]));
    // Twice is right, and so is the largest size, and a block of nothing else.
    assert_eq!(lines(&mut HpackDecoder::new(), &bytes("203f e11f 82")), Ok(vec![":method: GET".to_owned()]));
    assert_eq!(lines(&mut HpackDecoder::new(), &bytes("20")), Ok(vec![]));
}

#[test]
fn a_lower_setting_must_be_followed_by_a_lower_size() {
    let field = bytes("4001 6101 62");
    let mut decoder = HpackDecoder::new();
    lines(&mut decoder, &field).expect("the table has room");
    decoder.set_table_bytes_max(100);
    assert_eq!(lines(&mut decoder.clone(), b"\xbe"), Err(HpackError::MissingSizeUpdate));
    // 101 is too much, 100 is right, and so is less than what the setting says.
    assert_eq!(lines(&mut decoder.clone(), &bytes("3f46 be")), Err(HpackError::SizeUpdateTooLarge));
    assert_eq!(lines(&mut decoder.clone(), &bytes("3f45 be")), Ok(vec!["a: b".to_owned()]));
    assert_eq!(lines(&mut decoder.clone(), &bytes("3e be")), Err(HpackError::BadIndex));
    decoder.set_table_bytes_max(0);
    assert_eq!(lines(&mut decoder, b"\x20\x82"), Ok(vec![":method: GET".to_owned()]));
    // Nothing is kept any more.
    assert_eq!(lines(&mut decoder, &field), Ok(vec!["a: b".to_owned()]));
    assert_eq!(table(&decoder), (vec![], 0));
    // A larger setting is an offer.
    decoder.set_table_bytes_max(1 << 20);
    assert_eq!(lines(&mut decoder, &bytes("3fe1 1f")), Ok(vec![]));
    lines(&mut decoder, &field).expect("the table has room");
    assert_eq!(table(&decoder), (vec!["a: b".to_owned()], 34));
}

#[test]
fn a_name_is_taken_from_the_entry_that_goes_for_it() {
    let mut decoder = HpackDecoder::new();
    decoder.table.set_size_max(40);
    // `abcd: 1`, then `abcd: 2` by the name of the only entry.
    let block = bytes("4004 6162 6364 0131 7e01 32");
    assert_eq!(lines(&mut decoder, &block), Ok(vec!["abcd: 1".to_owned(), "abcd: 2".to_owned()]));
    assert_eq!(table(&decoder), (vec!["abcd: 2".to_owned()], 37));
}

#[test]
fn nothing_is_allocated_before_the_first_entry() {
    let mut decoder = HpackDecoder::new();
    let block = bytes("8286 84 0401 2f");
    assert_eq!(lines(&mut decoder, &block).map(|lines| lines.len()), Ok(4));
    assert_eq!(table(&decoder), (vec![], 0));
}
