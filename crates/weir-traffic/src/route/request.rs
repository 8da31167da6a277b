//! The parts of a request that routing needs, and reading its query.
//!
//! Nothing is decoded or normalised here: the path comes in its normal form, so that no other spelling gets round a
//! rule, and everything else as it will be forwarded.

use std::net::IpAddr;

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
    /// The address of the client.
    fn source(&self) -> IpAddr;
}

/// The value of the first parameter called `name` in a query, as sent: not decoded. A parameter without `=`
/// is empty.
pub fn query_value<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if query.is_empty() {
        return None;
    }
    query.split(|&byte| byte == b'&').find_map(|parameter| {
        let rest = parameter.strip_prefix(name)?;
        match rest.first() {
            None => Some(rest),
            Some(b'=') => Some(&rest[1..]),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
