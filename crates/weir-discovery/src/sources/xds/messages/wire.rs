//! The fields that are set in a message, also those that Weir does not know: so that what it does not follow can be named.

use std::collections::BTreeSet;

use prost::DecodeError;
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// The numbers of the fields of a message.
pub(crate) fn field_numbers(mut message: &[u8]) -> Result<BTreeSet<u32>, DecodeError> {
    let mut numbers = BTreeSet::new();
    while !message.is_empty() {
        let (number, wire_type) = decode_key(&mut message)?;
        skip_field(wire_type, number, &mut message, DecodeContext::default())?;
        numbers.insert(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_number_and_garbage_is_refused() {
        // Field 1, a text; field 4, a number; field 900, four bytes.
        let message = [0x0a, 1, b'a', 0x20, 0x96, 1, 0xa5, 0x38, 1, 2, 3, 4];
        assert_eq!(field_numbers(&message).unwrap(), BTreeSet::from([1, 4, 900]));
        assert!(field_numbers(&[]).unwrap().is_empty());
        for garbage in [&[0x0a, 9, 1][..], &[0xff; 11], &[0x07, 0]] {
            assert!(field_numbers(garbage).is_err(), "{garbage:?}");
        }
    }
}
