//! The corpora of http2jp: header blocks that a dozen encoders wrote, and frames right and wrong.
//!
//! `WEIR_HPACK_CORPUS` and `WEIR_H2_FRAME_CORPUS` name the folders of hpack-test-case and http2-frame-test-case; without them the tests
//! say so and pass.

use std::path::{Path, PathBuf};

use httlib_hpack::Decoder;
use serde_json::Value;
use weir_http::h2::{
    BlockUse, ConnectionCodec, ConnectionLimits, Event, HpackDecoder, HpackEncoder, PREFACE, Role, Settings,
};

use crate::hpack::{Line, decode, decode_there, encode};

/// The folder of a corpus, if it is there.
fn corpus(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable);
    if folder.is_none() {
        println!("{variable} is not set: nothing was tested");
    }
    folder.map(PathBuf::from)
}

/// All files of JSON below a folder, in order.
fn documents(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut documents = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read(&path).expect("the file is readable");
                documents.push((path, serde_json::from_slice(&text).expect("the file is JSON")));
            }
        }
    }
    documents.sort_by(|(one, _), (other, _)| one.cmp(other));
    documents
}

/// The bytes of hexadecimal digits.
fn bytes(digits: &Value) -> Vec<u8> {
    let digits = digits.as_str().expect("hexadecimal digits").as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The fields of a case, in order: one object for each.
fn lines(case: &Value) -> Vec<Line> {
    let fields = case["headers"].as_array().expect("a list of fields").iter();
    let fields = fields.flat_map(|field| field.as_object().expect("an object"));
    fields
        .map(|(name, value)| {
            (name.as_bytes().to_vec(), value.as_str().expect("a string").as_bytes().to_vec())
        })
        .collect()
}

/// The lines that may be written as fields: no pseudo-fields, and nothing about a connection of HTTP/1.
fn sendable(lines: &[Line]) -> Vec<(&[u8], &[u8])> {
    const LEFT_OUT: [&[u8]; 3] = [b"connection", b"keep-alive", b"transfer-encoding"];
    let lines = lines.iter().map(|(name, value)| (&name[..], &value[..]));
    lines.filter(|(name, _)| !name.starts_with(b":") && !LEFT_OUT.contains(name)).collect()
}

#[test]
fn header_blocks_of_other_encoders() {
    let Some(folder) = corpus("WEIR_HPACK_CORPUS") else { return };
    let (mut files, mut blocks) = (0, 0);
    for (path, story) in documents(&folder) {
        let cases = story["cases"].as_array().expect("a list of cases");
        let mut decoder = HpackDecoder::new();
        let (mut encoder, mut there) = (HpackEncoder::default(), Decoder::with_dynamic_size(4_096));
        files += 1;
        for case in cases {
            let expected = lines(case);
            if let Some(size) = case["header_table_size"].as_u64() {
                decoder.set_table_bytes_max(size as usize);
            }
            if !case["wire"].is_null() {
                let outcome = decode(&mut decoder, &bytes(&case["wire"]));
                assert_eq!(outcome.as_ref(), Ok(&expected), "{} {}", path.display(), case["seqno"]);
                blocks += 1;
            }
            let fields = sendable(&expected);
            let block = encode(&mut encoder, fields.iter().map(|(name, value)| (*name, *value)));
            let read = decode_there(&mut there, &block);
            let read: Vec<_> = read.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let trimmed: Vec<_> = fields.iter().map(|(name, value)| (*name, value.trim_ascii())).collect();
            assert_eq!(read, trimmed, "{} {}", path.display(), case["seqno"]);
        }
    }
    println!("{files} files, {blocks} blocks");
    assert!(files > 0, "there is nothing in {}", folder.display());
}

/// A server that has seen the preface, and stream 1 open.
fn server() -> ConnectionCodec {
    let mut out = Vec::new();
    let mut server =
        ConnectionCodec::new(Role::Server, Settings::default(), ConnectionLimits::default(), &mut out);
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let head = [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x82];
    assert_eq!(outcome(&mut server, &[&PREFACE[..], &settings, &head].concat()), None);
    server
}

/// The code of the first fault.
fn outcome(connection: &mut ConnectionCodec, mut input: &[u8]) -> Option<u32> {
    let mut out = Vec::new();
    loop {
        let received = match connection.receive(input, 0, &mut out) {
            Ok(received) => received,
            Err(fault) => return Some(fault.code.0),
        };
        input = &input[received.used..];
        match received.event {
            None => return None,
            Some(Event::Fault { fault, .. } | Event::Block { usage: BlockUse::Fault(fault), .. }) => {
                return Some(fault.code.0);
            }
            Some(_) => {}
        }
    }
}

#[test]
fn frames_right_and_wrong() {
    let Some(folder) = corpus("WEIR_H2_FRAME_CORPUS") else { return };
    let mut files = 0;
    for (path, case) in documents(&folder) {
        let what = format!("{}: {}", path.display(), case["description"]);
        let mut wire = bytes(&case["wire"]);
        let is_wrong = !case["error"].is_null();
        let (number, stream) = (wire[3], &mut wire[5..9]);
        if !is_wrong && stream != [0; 4] {
            // They are meant for a reader of single frames, to which the stream does not matter: a head opens one, others are on an open one.
            stream.copy_from_slice(&[0, 0, 0, if number == 1 { 3 } else { 1 }]);
        }
        let mut server = server();
        if number == 9 && !is_wrong {
            assert_eq!(outcome(&mut server, &[0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82]), None);
            wire[8] = 3;
        }
        let found = outcome(&mut server, &wire);
        files += 1;
        if is_wrong {
            let codes = case["error"].as_array().expect("a list of codes");
            let fits =
                found.is_some_and(|code| codes.iter().any(|known| known.as_u64() == Some(code.into())));
            assert!(fits, "{what}: {found:?}");
        } else if number == 5 {
            assert_eq!(found, Some(1), "{what}: push is not allowed");
        } else if number == 9 && wire.len() == 9 {
            assert_eq!(found, Some(11), "{what}: it costs nothing to send");
        } else {
            assert_eq!(found, None, "{what}");
        }
    }
    println!("{files} files");
    assert!(files > 0, "there is nothing in {}", folder.display());
}
