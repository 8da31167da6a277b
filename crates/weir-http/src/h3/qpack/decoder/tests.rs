//! The decoder: the examples of RFC 9204, what waits and for how long, and what it does not put up with.

use super::*;
use crate::h3::qpack::QpackError;

const PLENTY: Bucket = Bucket::new(u16::MAX, 0);

fn decoder(blocked_max: u64) -> QpackDecoder {
    QpackDecoder::new(4_096, blocked_max)
}

/// Gives input of the encoder stream, and what is to be sent for it.
fn insert(decoder: &mut QpackDecoder, input: &[u8]) -> Result<Vec<u8>, QpackError> {
    decoder.receive(input, &mut { PLENTY }, 0)?;
    Ok(std::mem::take(decoder.unsent()))
}

/// The lines of a section; `None` when it has to wait.
fn read(decoder: &mut QpackDecoder, stream: u64, bytes: &[u8]) -> Result<Option<String>, QpackError> {
    let Some(section) = decoder.open(FieldSection { stream, bytes })? else { return Ok(None) };
    let (required, mut text) = (section.required(), Vec::new());
    (&section).decode::<QpackError>(&mut text, |_, _| Ok(()))?;
    decoder.acknowledge(stream, required);
    Ok(Some(String::from_utf8(text).unwrap().replace("\r\n", "|")))
}

/// The lines in the table, oldest first.
fn table(decoder: &QpackDecoder) -> Vec<String> {
    let lines = (0..).map_while(|age| decoder.table.get(age));
    let mut lines: Vec<_> = lines.map(|line| String::from_utf8(line.line.to_vec()).unwrap()).collect();
    lines.reverse();
    lines
}

/// RFC 9204 appendix B.
#[test]
fn the_examples_of_the_rfc() {
    let mut decoder = QpackDecoder::new(220, 10);
    let first = read(&mut decoder, 0, b"\x00\x00\x51\x0b/index.html");
    assert_eq!(first, Ok(Some(":path: /index.html|".into())));
    assert!(decoder.unsent().is_empty(), "a section without dynamic entries is not acknowledged");

    // B.2: the section comes first.
    let section = b"\x03\x81\x10\x11";
    assert_eq!(read(&mut decoder, 4, section), Ok(None));
    assert_eq!((decoder.next_unblocked(), decoder.streams_blocked()), (None, 1));
    let input = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    assert_eq!(insert(&mut decoder, input), Ok(vec![2]));
    assert_eq!((decoder.next_unblocked(), decoder.next_unblocked()), (Some(4), None));
    let lines = read(&mut decoder, 4, section);
    assert_eq!(lines, Ok(Some(":authority: www.example.com|:path: /sample/path|".into())));
    assert_eq!(std::mem::take(decoder.unsent()), b"\x84");

    // B.3
    assert_eq!(insert(&mut decoder, b"\x4acustom-key\x0ccustom-value"), Ok(vec![1]));
    // B.4
    assert_eq!(read(&mut decoder, 8, b"\x05\x00\x80\xc1\x81"), Ok(None));
    assert_eq!(insert(&mut decoder, b"\x02"), Ok(vec![1]));
    assert_eq!(decoder.next_unblocked(), Some(8));
    let lines = read(&mut decoder, 8, b"\x05\x00\x80\xc1\x81");
    let expected = ":authority: www.example.com|:path: /|custom-key: custom-value|";
    assert_eq!(lines, Ok(Some(expected.into())));
    decoder.unsent().clear();
    decoder.cancel(8);
    assert_eq!(std::mem::take(decoder.unsent()), b"\x48");
    // B.5: the oldest entry goes.
    assert_eq!(insert(&mut decoder, b"\x81\x0dcustom-value2"), Ok(vec![1]));
    assert_eq!(
        table(&decoder),
        [
            ":path: /sample/path\r\n",
            "custom-key: custom-value\r\n",
            ":authority: www.example.com\r\n",
            "custom-key: custom-value2\r\n"
        ]
    );
}
