//! The address of the client by a field of a trusted peer: a list of hops, or one address.
//!
//! What cannot be read is an error and never another address: that of the peer may be one that is allowed more than the client.

use std::net::IpAddr;

use super::forwarded::{ForwardedNode, client_address, forwarded, x_forwarded_for};
use crate::message::fields::Fields;
use crate::message::name::FieldName;

/// The field that names the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddressField<'a> {
    /// `X-Forwarded-For`: each proxy adds the address that it was asked by.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the same, in its `for` parameters.
    Forwarded,
    /// A field with one address, by its name in lower case.
    Single(&'a str),
}

/// The field does not name one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadClientAddress;

/// The address of the client by `field`, whose lines are in `fields` and `text`; `peer` has sent them, and is trusted. Without the field, the peer is the
/// client.
///
/// # Errors
/// A field with one address has several lines, or something else in it; a line of `Forwarded` is malformed, so that what stands behind that is lost.
pub fn claimed_client_address(
    field: ClientAddressField<'_>,
    (fields, text): (&Fields, &[u8]),
    peer: IpAddr,
    is_trusted: impl FnMut(IpAddr) -> bool,
) -> Result<IpAddr, BadClientAddress> {
    match field {
        ClientAddressField::XForwardedFor => {
            let lines = fields.all(FieldName::XForwardedFor);
            let nodes = lines.flat_map(|field| x_forwarded_for(field.value.of(text)));
            Ok(client_address(peer, nodes, is_trusted))
        }
        ClientAddressField::Forwarded => {
            let lines = || fields.all(FieldName::Forwarded).flat_map(|field| forwarded(field.value.of(text)));
            if lines().any(|element| element.is_none()) {
                return Err(BadClientAddress);
            }
            let nodes = lines().map(|element| element?.client?.node());
            Ok(client_address(peer, nodes, is_trusted))
        }
        ClientAddressField::Single(name) => {
            let mut lines = fields.all_by_name(text, name);
            let Some(line) = lines.next() else { return Ok(peer) };
            match (ForwardedNode::parse(line.value.of(text)), lines.next()) {
                (Some(ForwardedNode::Address(address, _)), None) => Ok(address.to_canonical()),
                _ => Err(BadClientAddress),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{HeadProgress, RequestParser};
    use crate::{HeadLimits, RequestHead};

    fn found(field: ClientAddressField<'_>, lines: &str) -> Result<String, BadClientAddress> {
        let received = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
        let parsed = parser.parse(&mut head, received.as_bytes(), &HeadLimits::default());
        assert!(matches!(parsed, Ok(HeadProgress::Complete { .. })), "{lines:?}");
        let text = parser.text(received.as_bytes());
        let trusted = |ip: IpAddr| ip.to_string().starts_with("10.");
        claimed_client_address(field, (head.fields(), text), "10.0.0.1".parse().unwrap(), trusted)
            .map(|address| address.to_string())
    }

    #[test]
    fn a_field_with_one_address_names_the_client_or_none() {
        let single = ClientAddressField::Single("cf-connecting-ip");
        for (lines, expected) in [
            ("", Some("10.0.0.1")),
            ("CF-Connecting-IP: 192.0.2.9\r\n", Some("192.0.2.9")),
            ("cf-connecting-ip: 192.0.2.9:4711\r\n", Some("192.0.2.9")),
            ("CF-Connecting-IP: 2001:db8::1\r\n", Some("2001:db8::1")),
            ("CF-Connecting-IP: [2001:db8::1]:4711\r\n", Some("2001:db8::1")),
            ("CF-Connecting-IP: ::ffff:192.0.2.9\r\n", Some("192.0.2.9")),
            // One that is trusted is the client all the same: the field has no hops.
            ("CF-Connecting-IP: 10.9.9.9\r\n", Some("10.9.9.9")),
            ("CF-Connecting-IP: 192.0.2.9\r\nCF-Connecting-IP: 192.0.2.9\r\n", None),
            ("CF-Connecting-IP: 192.0.2.9, 192.0.2.8\r\n", None),
            ("CF-Connecting-IP: 192.0.2.999\r\n", None),
            ("CF-Connecting-IP: unknown\r\n", None),
            ("CF-Connecting-IP:\r\n", None),
            ("CF-Connecting-IP: 192.0.2.9 x\r\n", None),
            ("X-Real-IP: 192.0.2.9\r\n", Some("10.0.0.1")),
        ] {
            let expected = expected.map(str::to_owned).ok_or(BadClientAddress);
            assert_eq!(found(single, lines), expected, "{lines:?}");
        }
        let known = ClientAddressField::Single("x-real-ip");
        assert_eq!(found(known, "X-Real-IP: 192.0.2.9\r\n"), Ok("192.0.2.9".to_owned()));
        assert_eq!(found(known, "X-Real-IP: 1.1.1.1\r\nx-real-ip: 1.1.1.2\r\n"), Err(BadClientAddress));
    }

    #[test]
    fn lists_are_read_up_to_the_end_of_the_trusted_hops() {
        for (lines, expected) in [
            ("", Some("10.0.0.1")),
            ("Forwarded: for=192.0.2.9\r\n", Some("192.0.2.9")),
            ("Forwarded: for=1.1.1.1, for=192.0.2.9, for=10.0.0.7\r\n", Some("192.0.2.9")),
            (
                "Forwarded: for=1.1.1.1\r\nForwarded: for=\"[2001:db8::1]:80\";proto=https\r\n",
                Some("2001:db8::1"),
            ),
            ("Forwarded: for=192.0.2.9, for=unknown\r\n", Some("10.0.0.1")),
            ("Forwarded: for=192.0.2.9, proto=https\r\n", Some("10.0.0.1")),
            // What a client has left open would swallow what the proxy has added.
            ("Forwarded: for=\"x, for=192.0.2.9\r\n", None),
            ("Forwarded: for=1.1.1.1;for=192.0.2.9\r\n", None),
        ] {
            let expected = expected.map(str::to_owned).ok_or(BadClientAddress);
            assert_eq!(found(ClientAddressField::Forwarded, lines), expected, "{lines:?}");
        }
        let listed =
            found(ClientAddressField::XForwardedFor, "X-Forwarded-For: 1.1.1.1, 192.0.2.9, 10.0.0.7\r\n");
        assert_eq!(listed, Ok("192.0.2.9".to_owned()));
    }
}
