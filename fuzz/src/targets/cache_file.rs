//! Files of the cache: what can be read cannot end a line, and written anew it reads the same.

use weir_cache::disk::decode_payload;

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let Ok(header) = decode_payload(input) else { return };
    let lines = header.head.text();
    let count = lines.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(count, header.head.view().fields.len());
    let mut written = Vec::new();
    header.encode_payload(&mut written).expect("it was short enough to be read");
    let again = decode_payload(&written).expect("Weir reads what it writes");
    assert_eq!((again.key, again.vary, again.lifetime), (header.key, header.vary, header.lifetime));
    assert_eq!((again.head.text(), again.body_len, again.status), (lines, header.body_len, header.status));
}
