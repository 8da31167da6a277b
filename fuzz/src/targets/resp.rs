//! RESP: a reply is the same however its bytes arrive, and reading never goes beyond it; commands are read back as arrays.

use weir_http::resp::{RespReply, write_command};

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let words: Vec<&[u8]> = input.split(|byte| *byte == b' ').take(64).collect();
    if words.iter().all(|word| word.len() <= weir_http::resp::STRING_BYTES_MAX) {
        let mut command = Vec::new();
        write_command(&mut command, words.iter().copied());
        let strings = words.iter().map(|word| RespReply::String(Some(word.to_vec()))).collect();
        assert_eq!(RespReply::parse(&command), Ok(Some((RespReply::Array(Some(strings)), command.len()))));
    }
    let whole = RespReply::parse(input);
    match &whole {
        Ok(Some((reply, len))) => {
            assert_eq!(RespReply::parse(&input[..*len]), Ok(Some((reply.clone(), *len))));
            for end in 0..*len {
                assert_eq!(RespReply::parse(&input[..end]), Ok(None));
            }
        }
        Ok(None) => {
            for end in 0..input.len() {
                assert_eq!(RespReply::parse(&input[..end]), Ok(None));
            }
        }
        Err(_) => {}
    }
}
