//! The parameters of a query.

use weir_traffic::route::query_value;

/// The text of a parameter (RFC 3986 section 2.1). A percent sign without two digits is kept as it is.
pub(super) fn decoded(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The texts of all parameters of this name.
pub(super) fn all_values(query: &[u8], name: &str) -> Vec<String> {
    let parameters = query.split(|&byte| byte == b'&');
    parameters.filter_map(|parameter| query_value(parameter, name.as_bytes())).map(decoded).collect()
}

/// Whether a query has these parameters only.
///
/// # Errors
/// A sentence about one that is not known.
pub(super) fn only_known(query: &[u8], known: &[&str]) -> Result<(), String> {
    for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
        let name = String::from_utf8_lossy(parameter.split(|&byte| byte == b'=').next().unwrap_or_default());
        if !known.contains(&&*name) {
            return Err(format!("`{name}` is not known here; there are {}", known.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_decoded_where_they_mean_something() {
        for (text, expected) in [("a%2Fb", "a/b"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%41%", "A%")] {
            assert_eq!(decoded(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_parameter_may_be_there_more_than_once() {
        assert_eq!(all_values(b"a=1&b=2&a=%33&ab=4&a", "a"), ["1", "3", ""]);
        assert_eq!(all_values(b"", "a"), Vec::<String>::new());
    }
}
