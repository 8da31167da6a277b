//! The parts of a request that routing needs, and reading its query.
//!
//! No other spelling gets round a rule: the path comes in its normal form, hosts are compared without regard to case, and names and values of
//! parameters as they are once they are decoded ([`query_values`], [`decoded_parameter`]). What is forwarded stays as it came.

use std::borrow::Cow;
use std::net::IpAddr;

use super::RouteId;

/// A request as routes see it.
pub trait RouteRequest {
    /// The host without port. Case does not matter, one trailing dot is ignored. Empty when unknown.
    fn host(&self) -> &[u8];
    /// The normal form of the path, without the query.
    fn path(&self) -> &[u8];
    /// The query as it will be forwarded, without the question mark. Empty when there is none.
    fn query(&self) -> &[u8];
    /// The method; case matters (RFC 9110 section 9.1).
    fn method(&self) -> &[u8];
    /// The value of the first field called `name`, which is in lower case; without the white space around it.
    fn header(&self, name: &str) -> Option<&[u8]>;
    /// The values of all fields called `name`, as [`RouteRequest::header`] has the first.
    fn header_lines(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.header(name).into_iter()
    }
    /// The address of the client.
    fn source(&self) -> IpAddr;
    /// Whether the condition of this route holds, which has one. Where there are no conditions, none holds.
    fn condition_holds(&self, _route: RouteId) -> bool {
        false
    }
    /// Whether `passes` says so of one of the texts that a comparison of the condition of this route looks at, by its number
    /// ([`NeededText::term`](super::NeededText)): an empty text if there is none. `None`: it cannot say which they are.
    fn any_condition_text(
        &self,
        _route: RouteId,
        _term: usize,
        _passes: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        None
    }
}

/// The value of the first parameter called `name` in a query, as sent: not decoded.
pub fn query_value<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query_values(query, name).next()
}

/// The values of all parameters called `name` in a query, as sent: not decoded. Names are compared decoded, as servers do: `%61` is `a`. A parameter
/// without `=` is empty.
pub fn query_values<'q, 'n>(
    query: &'q [u8],
    name: &'n [u8],
) -> impl Iterator<Item = &'q [u8]> + Clone + use<'q, 'n> {
    let parameters = query.split(|&byte| byte == b'&').filter(|_| !query.is_empty());
    parameters.filter_map(move |parameter| {
        let len = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
        let value = parameter.get(len + 1..).unwrap_or_default();
        is_same_text(&parameter[..len], name).then_some(value)
    })
}

/// A name or a value of a query as servers get it: percent-encoded bytes and `+` decoded.
pub fn decoded_parameter(text: &[u8]) -> Cow<'_, [u8]> {
    match is_encoded(text) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(decode(text).collect()),
    }
}

/// Whether two texts of a query are the same once they are decoded.
fn is_same_text(one: &[u8], other: &[u8]) -> bool {
    one == other || (is_encoded(one) || is_encoded(other)) && decode(one).eq(decode(other))
}

fn is_encoded(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'%' | b'+'))
}

/// The bytes of a text that is decoded once. A percent sign without two digits behind it means itself.
fn decode(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let mut rest = text;
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        rest = after;
        Some(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match digit(high).zip(digit(low)) {
                Some((high, low)) => {
                    rest = after;
                    (high * 16 + low) as u8
                }
                None => b'%',
            },
            (byte, _) => *byte,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_compared_decoded() {
        for (query, name, values) in [
            ("%64ebug=%31&debug=0", "debug", &["1", "0"][..]),
            ("DEBUG=1", "debug", &[]),
            ("%2564ebug=1", "debug", &[]),
            ("a+b=1&a%20b=2&a%2Bb=3", "a%20b", &["1", "2"]),
            ("a%3Db=1", "a%3db", &["1"]),
            ("a=%2&a=%zz&a=%", "a", &["%2", "%zz", "%"]),
            ("a=%C3%A9+%2b", "a", &["\u{e9} +"]),
            ("a=b%3Dc&a%26a=x", "a", &["b=c"]),
        ] {
            let found = query_values(query.as_bytes(), name.as_bytes()).map(decoded_parameter);
            let found: Vec<_> = found.map(|value| String::from_utf8_lossy(&value).into_owned()).collect();
            assert_eq!(found, values, "{query} {name}");
        }
    }

    #[test]
    fn the_first_parameter_of_the_name_counts() {
        for (query, name, value) in [
            ("", "", None),
            ("", "a", None),
            ("a=1", "a", Some("1")),
            ("b=2&a=1&a=3", "a", Some("1")),
            ("a", "a", Some("")),
            ("a=", "a", Some("")),
            ("ab=1", "a", None),
            ("a=b=c", "a", Some("b=c")),
            ("a=%20+", "a", Some("%20+")),
            ("&&a=1", "a", Some("1")),
        ] {
            assert_eq!(
                query_value(query.as_bytes(), name.as_bytes()),
                value.map(str::as_bytes),
                "{query} {name}"
            );
        }
    }
}
