//! Weights of what a client accepts (RFC 9110 section 12.4.2).

/// The weight of a parameter `q=...`, in thousandths: `None` when it is no weight, `Some(None)` when it is a malformed one.
pub fn weight_of(parameter: &[u8]) -> Option<Option<u16>> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    Some(parse_weight(value))
}

/// `0`, `0.5`, `1.000`: at most three decimals, in thousandths.
fn parse_weight(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut weight = u16::from(whole - b'0') * 1000;
    for (digit, unit) in decimals.iter().zip([100, 10, 1]) {
        weight += u16::from(digit - b'0') * unit;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_to_the_thousandth() {
        for (parameter, weight) in [
            ("q=1", Some(Some(1000))),
            ("Q=0.5", Some(Some(500))),
            ("q=0.", Some(Some(0))),
            ("q=0.001", Some(Some(1))),
            ("q=1.000", Some(Some(1000))),
            ("q=1.001", Some(None)),
            ("q=0.1234", Some(None)),
            ("q=2", Some(None)),
            ("q=", Some(None)),
            ("q", None),
            ("level=1", None),
        ] {
            assert_eq!(weight_of(parameter.as_bytes()), weight, "{parameter}");
        }
    }
}
