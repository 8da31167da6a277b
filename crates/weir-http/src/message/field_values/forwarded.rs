//! The client and the proxies of a request: `X-Forwarded-For` and `Forwarded` (RFC 7239), read and written.
//!
//! The values of these fields are claims of their sender. [`client_address`] accepts them only up to the end of the chain of
//! trusted proxies; the caller decides which addresses are trusted.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{elements, is_token, is_token_byte, is_value_byte, token_run};
use crate::digits;
use crate::message::authority::parse_port;

/// One end of a hop (RFC 7239 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedNode<'a> {
    /// An address, with its port if given.
    Address(IpAddr, Option<u16>),
    /// `unknown`: the proxy did not know.
    Unknown,
    /// An identifier that starts with `_` and means something only to the proxy that wrote it.
    Obfuscated(&'a [u8]),
}

impl<'a> ForwardedNode<'a> {
    /// Reads one node without quotes around it. IPv6 addresses may lack their brackets, as in `X-Forwarded-For`.
    pub fn parse(text: &'a [u8]) -> Option<ForwardedNode<'a>> {
        if text.eq_ignore_ascii_case(b"unknown") {
            return Some(ForwardedNode::Unknown);
        }
        if let [b'_', rest @ ..] = text {
            let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
            return (!rest.is_empty() && rest.iter().all(valid)).then_some(ForwardedNode::Obfuscated(text));
        }
        let text = std::str::from_utf8(text).ok()?;
        if let Some(bracketed) = text.strip_prefix('[') {
            let (address, port) = bracketed.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            let port =
                if port.is_empty() { None } else { Some(parse_port(port.strip_prefix(':')?.as_bytes())?) };
            return Some(ForwardedNode::Address(address.into(), port));
        }
        if let Ok(address) = text.parse() {
            return Some(ForwardedNode::Address(address, None));
        }
        let (address, port) = text.split_once(':')?;
        let address: Ipv4Addr = address.parse().ok()?;
        Some(ForwardedNode::Address(address.into(), Some(parse_port(port.as_bytes())?)))
    }
}

/// The nodes of one `X-Forwarded-For` value, the client's claimed address first; `None` for an element that is not a node.
pub fn x_forwarded_for(value: &[u8]) -> impl DoubleEndedIterator<Item = Option<ForwardedNode<'_>>> {
    elements(value).filter(|element| !element.is_empty()).map(ForwardedNode::parse)
}

/// The address of the client behind the connection from `peer`.
///
/// `nodes` are the forwarding nodes in the order received. Going back from `peer`, each trusted address vouches for the
/// one before it; the result is the first address that is not trusted, or the last one that a trusted address vouched for.
pub fn client_address<'a>(
    peer: IpAddr,
    nodes: impl IntoIterator<Item = Option<ForwardedNode<'a>>>,
    mut is_trusted: impl FnMut(IpAddr) -> bool,
) -> IpAddr {
    if !is_trusted(peer) {
        return peer;
    }
    // Read in order, the answer is the first address behind the last thing that breaks the chain: a node without
    // address starts it anew, an address that is not trusted is itself the new start.
    let mut client = None;
    for node in nodes {
        match node {
            Some(ForwardedNode::Address(address, _)) => {
                let address = address.to_canonical();
                if client.is_none() || !is_trusted(address) {
                    client = Some(address);
                }
            }
            _ => client = None,
        }
    }
    client.unwrap_or(peer)
}

/// One element of a `Forwarded` value: the claims of one proxy about one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardedElement<'a> {
    /// `for`: the node that sent the request to that proxy.
    pub client: Option<ForwardedValue<'a>>,
    /// `by`: where that proxy received it.
    pub receiver: Option<ForwardedValue<'a>>,
    /// `host`: the Host it received.
    pub host: Option<ForwardedValue<'a>>,
    /// `proto`: the scheme it received it by.
    pub scheme: Option<ForwardedValue<'a>>,
}

/// The value of one parameter of `Forwarded`: the bytes between its quotes, if it is quoted, with backslashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardedValue<'a> {
    raw: &'a [u8],
}

impl<'a> ForwardedValue<'a> {
    /// The value without quotes and backslashes; allocates only when there are backslashes.
    pub fn unquoted(self) -> Cow<'a, [u8]> {
        if memchr::memchr(b'\\', self.raw).is_none() {
            return Cow::Borrowed(self.raw);
        }
        let mut bytes = self.raw.iter();
        let mut plain = Vec::with_capacity(self.raw.len());
        while let Some(&byte) = bytes.next() {
            plain.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
        }
        Cow::Owned(plain)
    }

    /// The value as a node, for `for` and `by`. No node needs a backslash, so one with any is none.
    pub fn node(self) -> Option<ForwardedNode<'a>> {
        ForwardedNode::parse(self.raw)
    }
}

/// The elements of one `Forwarded` value, the first proxy's first. A malformed element is `None` and ends the
/// iteration: the start of the next one is then ambiguous.
pub fn forwarded(value: &[u8]) -> ForwardedElements<'_> {
    ForwardedElements { rest: value }
}

/// See [`forwarded`].
#[derive(Debug, Clone)]
pub struct ForwardedElements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ForwardedElements<'a> {
    type Item = Option<ForwardedElement<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [b',' | b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let element = read_element(&mut self.rest);
        if element.is_none() {
            self.rest = &[];
        }
        Some(element)
    }
}

/// Takes one element with the comma behind it off the front of `rest`.
fn read_element<'a>(rest: &mut &'a [u8]) -> Option<ForwardedElement<'a>> {
    let mut element = ForwardedElement::default();
    loop {
        if !matches!(rest.first(), None | Some(b';' | b',')) {
            let (name, value) = read_parameter(rest)?;
            let slot = match name {
                _ if name.eq_ignore_ascii_case(b"for") => Some(&mut element.client),
                _ if name.eq_ignore_ascii_case(b"by") => Some(&mut element.receiver),
                _ if name.eq_ignore_ascii_case(b"host") => Some(&mut element.host),
                _ if name.eq_ignore_ascii_case(b"proto") => Some(&mut element.scheme),
                _ => None,
            };
            // RFC 7239 section 4: a parameter occurs once per element.
            if let Some(slot) = slot
                && slot.replace(value).is_some()
            {
                return None;
            }
        }
        skip_spaces(rest);
        match rest.split_first() {
            Some((b';', tail)) => {
                *rest = tail;
                skip_spaces(rest);
            }
            Some((b',', tail)) => {
                *rest = tail;
                return Some(element);
            }
            None => return Some(element),
            Some(_) => return None,
        }
    }
}

/// Takes `name=value` off the front of `rest`.
fn read_parameter<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], ForwardedValue<'a>)> {
    let (name, tail) = rest.split_at(token_run(rest));
    let tail = tail.strip_prefix(b"=").filter(|_| !name.is_empty())?;
    let (raw, tail) = match tail.strip_prefix(b"\"") {
        Some(quoted) => {
            let len = quoted_run(quoted)?;
            (&quoted[..len], &quoted[len + 1..])
        }
        // Strictly a token; addresses with a port or in brackets occur without their quotes all the same.
        None => tail.split_at(tail.iter().position(|&byte| !is_bare_value_byte(byte)).unwrap_or(tail.len())),
    };
    *rest = tail;
    (!raw.is_empty()).then_some((name, ForwardedValue { raw }))
}

/// Length of the text of a quoted string up to its closing quote.
fn quoted_run(quoted: &[u8]) -> Option<usize> {
    let mut escaped = false;
    quoted.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn is_bare_value_byte(byte: u8) -> bool {
    is_token_byte(byte) || matches!(byte, b':' | b'[' | b']')
}

fn skip_spaces(rest: &mut &[u8]) {
    while let [b' ' | b'\t', tail @ ..] = rest {
        *rest = tail;
    }
}

/// Appends one element of `Forwarded`: `for=` `by=` `host=` `proto=`, each only if given, quoted where needed.
pub fn write_forwarded(
    out: &mut Vec<u8>,
    client: ForwardedNode<'_>,
    receiver: Option<ForwardedNode<'_>>,
    host: &[u8],
    scheme: &[u8],
) {
    out.extend_from_slice(b"for=");
    write_node(out, client);
    if let Some(receiver) = receiver {
        out.extend_from_slice(b";by=");
        write_node(out, receiver);
    }
    for (name, value) in [(b";host=".as_slice(), host), (b";proto=", scheme)] {
        if !value.is_empty() {
            out.extend_from_slice(name);
            write_value(out, value);
        }
    }
}

/// Appends a node as the value of a parameter. A node with `:` goes in quotes, IPv6 in brackets as well.
fn write_node(out: &mut Vec<u8>, node: ForwardedNode<'_>) {
    match node {
        ForwardedNode::Unknown => out.extend_from_slice(b"unknown"),
        ForwardedNode::Obfuscated(name) => out.extend_from_slice(name),
        ForwardedNode::Address(address, port) => {
            let address = address.to_canonical();
            let quotes = address.is_ipv6() || port.is_some();
            let (open, close): (&[u8], &[u8]) = match (address.is_ipv6(), quotes) {
                (true, _) => (b"\"[", b"]"),
                (false, true) => (b"\"", b""),
                (false, false) => (b"", b""),
            };
            out.extend_from_slice(open);
            digits::address(out, address);
            out.extend_from_slice(close);
            if let Some(port) = port {
                out.push(b':');
                digits::decimal(out, u64::from(port));
            }
            if quotes {
                out.push(b'"');
            }
        }
    }
}

/// Appends `value` as a token if it is one, else as a quoted string; bytes that neither allows are left out.
fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    if is_token(value) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for &byte in value.iter().filter(|&&byte| is_value_byte(byte)) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn nodes() {
        let rows: &[(&str, Option<ForwardedNode<'_>>)] = &[
            ("1.2.3.4", Some(ForwardedNode::Address(address("1.2.3.4"), None))),
            ("1.2.3.4:80", Some(ForwardedNode::Address(address("1.2.3.4"), Some(80)))),
            ("2001:db8::1", Some(ForwardedNode::Address(address("2001:db8::1"), None))),
            ("[2001:db8::1]", Some(ForwardedNode::Address(address("2001:db8::1"), None))),
            ("[2001:db8::1]:443", Some(ForwardedNode::Address(address("2001:db8::1"), Some(443)))),
            ("unknown", Some(ForwardedNode::Unknown)),
            ("Unknown", Some(ForwardedNode::Unknown)),
            ("_hidden.1", Some(ForwardedNode::Obfuscated(b"_hidden.1"))),
            ("_", None),
            ("_a b", None),
            ("1.2.3.4:0", None),
            ("1.2.3.4:99999", None),
            ("1.2.3.256", None),
            ("01.2.3.4", None),
            ("[1.2.3.4]", None),
            ("[::1", None),
            ("[::1]80", None),
            ("example.com", None),
            ("", None),
            ("\u{e9}", None),
        ];
        for (text, expected) in rows {
            assert_eq!(ForwardedNode::parse(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn the_client_is_the_last_address_that_trust_reaches() {
        let rows: &[(&str, &str, &str)] = &[
            ("9.9.9.9", "1.1.1.1, 2.2.2.2", "9.9.9.9"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "1.1.1.1", "1.1.1.1"),
            ("10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),
            ("10.0.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2", "1.1.1.1"),
            ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("10.0.0.1", "6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "6.6.6.6, garbage", "10.0.0.1"),
            ("10.0.0.1", "1.1.1.1:4711,, ", "1.1.1.1"),
            ("10.0.0.1", "::ffff:10.0.0.7", "10.0.0.7"),
            ("10.0.0.1", "2001:db8::1, ::ffff:10.0.0.7", "2001:db8::1"),
        ];
        let trusted = |peer: IpAddr| peer.to_string().starts_with("10.");
        for (peer, value, expected) in rows {
            let found = client_address(address(peer), x_forwarded_for(value.as_bytes()), trusted);
            assert_eq!(found, address(expected), "{value}");
        }
    }

    /// The elements of `value`, each as `for|by|host|proto`.
    fn shown(value: &str) -> Vec<Option<String>> {
        let text = |value: Option<ForwardedValue<'_>>| {
            value.map_or("-".to_owned(), |value| String::from_utf8_lossy(&value.unquoted()).into_owned())
        };
        let parts = |element: ForwardedElement<'_>| {
            [element.client, element.receiver, element.host, element.scheme].map(text)
        };
        forwarded(value.as_bytes()).map(|element| element.map(|element| parts(element).join("|"))).collect()
    }

    #[test]
    fn elements_of_forwarded() {
        let rows: &[(&str, &[Option<&str>])] = &[
            ("", &[]),
            ("for=1.2.3.4", &[Some("1.2.3.4|-|-|-")]),
            (
                "For=\"[2001:db8::1]:80\";Proto=http;by=203.0.113.43;host=a",
                &[Some("[2001:db8::1]:80|203.0.113.43|a|http")],
            ),
            ("for=_a, for=unknown", &[Some("_a|-|-|-"), Some("unknown|-|-|-")]),
            ("for=a;x=y;z=\"1,2;3\", ,proto=https", &[Some("a|-|-|-"), Some("-|-|-|https")]),
            ("for=\"a\\\"b\\\\\"", &[Some("a\"b\\|-|-|-")]),
            ("for=1.2.3.4:80", &[Some("1.2.3.4:80|-|-|-")]),
            ("for=a ; host=b", &[Some("a|-|b|-")]),
            ("for=a;", &[Some("a|-|-|-")]),
            ("for=a;for=b", &[None]),
            ("for=\"a", &[None]),
            ("for=", &[None]),
            ("for=\"\"", &[None]),
            ("for", &[None]),
            ("=a", &[None]),
            ("for=a b, for=c", &[None]),
            ("for=a, for=\"b, for=c", &[Some("a|-|-|-"), None]),
        ];
        for (value, expected) in rows {
            let expected: Vec<_> = expected.iter().map(|element| element.map(str::to_owned)).collect();
            assert_eq!(shown(value), expected, "{value}");
        }
    }

    #[test]
    fn a_client_claimed_in_forwarded() {
        let value = b"for=6.6.6.6, for=\"[2001:db8::1]:80\", for=10.0.0.2";
        let nodes = forwarded(value).map(|element| element.and_then(|element| element.client?.node()));
        let found = client_address(address("10.0.0.1"), nodes, |peer| peer.to_string().starts_with("10."));
        assert_eq!(found, address("2001:db8::1"));
    }

    #[test]
    fn written_elements_are_read_back() {
        let v4 = ForwardedNode::Address(address("1.2.3.4"), None);
        let v6 = ForwardedNode::Address(address("2001:db8::1"), Some(443));
        let rows: &[(ForwardedNode<'_>, Option<ForwardedNode<'_>>, &str, &str, &str)] = &[
            (v4, None, "", "http", "for=1.2.3.4;proto=http"),
            (v4, Some(v6), "a:80", "https", "for=1.2.3.4;by=\"[2001:db8::1]:443\";host=\"a:80\";proto=https"),
            (
                ForwardedNode::Address(address("1.2.3.4"), Some(80)),
                None,
                "a",
                "",
                "for=\"1.2.3.4:80\";host=a",
            ),
            (ForwardedNode::Address(address("::1"), None), None, "", "", "for=\"[::1]\""),
            (ForwardedNode::Address(address("::ffff:1.2.3.4"), None), None, "", "", "for=1.2.3.4"),
            (
                ForwardedNode::Unknown,
                Some(ForwardedNode::Obfuscated(b"_weir")),
                "",
                "",
                "for=unknown;by=_weir",
            ),
        ];
        for (client, receiver, host, scheme, expected) in rows {
            let mut out = Vec::new();
            write_forwarded(&mut out, *client, *receiver, host.as_bytes(), scheme.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), *expected);
            let element = forwarded(&out).next().flatten().expect("what is written is well-formed");
            assert!(element.client.and_then(ForwardedValue::node).is_some(), "{expected}");
            assert_eq!(element.receiver.and_then(ForwardedValue::node), *receiver, "{expected}");
        }
        let mut out = Vec::new();
        write_forwarded(&mut out, ForwardedNode::Unknown, None, b"a\"\\;\r\nX: y", b"");
        assert_eq!(String::from_utf8_lossy(&out), "for=unknown;host=\"a\\\"\\\\;X: y\"");
    }
}
