//! Responses of a name server to dynamic updates: nothing is read beyond the message, names have one form, and a message that is cut off is none.

// The parser is pure and has no other file: weir-control does not show it to other crates.
#[path = "../../../crates/weir-control/src/tls/acme/dns_update/message.rs"]
#[expect(dead_code, reason = "updates are written there, too")]
mod message;

use message::{DnsResponse, HEADER_LEN, WireName, read_name};

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let id = input.get(..2).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
    let Ok(response) = DnsResponse::read(input, id) else { return };
    assert!(input.len() >= HEADER_LEN && response.code < 16);
    assert!(DnsResponse::read(input, id.wrapping_add(1)).is_err(), "it is the response to another message");
    assert_eq!(DnsResponse::read(input, id).as_ref(), Ok(&response));
    if let Some((begin, data)) = &response.signature {
        assert!(
            *begin >= HEADER_LEN && begin < &data.start && data.start <= data.end && data.end <= input.len()
        );
        assert!(DnsResponse::read(&input[..*begin], id).is_err(), "the last record is missing");
    }
    if let Some(zone) = &response.zone {
        let bytes = zone.bytes();
        assert!(bytes.len() <= 255 && zone.is_in(zone));
        assert_eq!(read_name(bytes, 0), Some((zone.clone(), bytes.len())), "it has one form");
        let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
        let shown = zone.to_string();
        if shown.bytes().all(|byte| is_text(&byte) || byte == b'.')
            && !shown.is_empty()
            && labels_have_no_dot(bytes)
        {
            assert_eq!(WireName::new(&shown).as_ref(), Some(zone));
        }
    }
}

/// Whether no label of a name contains a dot, which the text of the name cannot show.
fn labels_have_no_dot(mut rest: &[u8]) -> bool {
    while let Some((len, behind)) = rest.split_first().filter(|(len, _)| **len > 0) {
        let (label, next) = behind.split_at(usize::from(*len));
        if label.contains(&b'.') {
            return false;
        }
        rest = next;
    }
    true
}
