//! Authentication schemes that identify a connection instead of a request: NTLM and Negotiate (RFC 4559).
//!
//! Credentials and challenges are only classified here; the consequences are decided elsewhere.

use crate::bytes::is_space;

/// Whether a challenge (`WWW-Authenticate`, `Proxy-Authenticate`) or credentials (`Authorization`, `Proxy-Authorization`) use a scheme
/// with which a server authenticates the connection: the requests that follow on it need no credentials any more.
///
/// A field may list several challenges. Quoted strings are not parsed: a realm that contains `, NTLM` counts, which costs the reuse
/// of a connection and nothing else.
pub fn authenticates_connection(value: &[u8]) -> bool {
    value.split(|&byte| byte == b',').any(|challenge| {
        let start = challenge.iter().position(|&byte| !is_space(byte)).unwrap_or(challenge.len());
        let challenge = &challenge[start..];
        let end = challenge.iter().position(|&byte| is_space(byte)).unwrap_or(challenge.len());
        let scheme = &challenge[..end];
        // `Nego2` is Microsoft's.
        [&b"NTLM"[..], b"Negotiate", b"Nego2"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::authenticates_connection;

    #[test]
    fn only_schemes_that_authenticate_the_connection_are_recognised() {
        let rows: &[(&str, bool)] = &[
            ("NTLM", true),
            ("ntlm TlRMTVNTUAABAAAA", true),
            ("Negotiate", true),
            ("negotiate YIIKcwYGKwYBBQUC", true),
            ("Nego2 abc", true),
            ("NTLM\tTlRM", true),
            ("Basic realm=\"a\", NTLM", true),
            ("Basic realm=\"a\",Negotiate, Digest realm=\"b\"", true),
            (" ,, \tNTLM", true),
            ("Basic TlRMOm50bG0=", false),
            ("Bearer NTLM", false),
            ("Digest username=\"NTLM\", realm=\"Negotiate\"", false),
            ("NTLMv2", false),
            ("Negotiates x", false),
            ("", false),
            (",", false),
        ];
        for (value, expected) in rows {
            assert_eq!(authenticates_connection(value.as_bytes()), *expected, "{value:?}");
        }
    }
}
