//! Content types of gRPC and gRPC-Web: told apart from all others, and written for the other side of a translation.
//!
//! `PROTOCOL-HTTP2.md` (Requests) and `PROTOCOL-WEB.md` (Protocol differences). Parameters are not kept: none is defined.

use crate::bytes::{elements, is_token, trim};

/// What the content types of all protocols begin with.
const START: &[u8] = b"application/grpc";

/// How the messages of a call lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcProtocol {
    /// gRPC: length-prefixed messages, the status in the trailers.
    Grpc,
    /// gRPC-Web: the same, with the trailers in a frame at the end of the body.
    Web,
    /// gRPC-Web as text: the same in base64.
    WebText,
}

impl GrpcProtocol {
    /// What follows [`START`].
    const fn suffix(self) -> &'static [u8] {
        match self {
            GrpcProtocol::Grpc => b"",
            GrpcProtocol::Web => b"-web",
            GrpcProtocol::WebText => b"-web-text",
        }
    }

    /// Recognises what follows [`START`], in any mixture of upper and lower case.
    fn of_suffix(suffix: &[u8]) -> Option<GrpcProtocol> {
        // The text encoding may be spelled out: `PROTOCOL-WEB.md`, Text-encoded (response) streams.
        if suffix.eq_ignore_ascii_case(b"-web-text-base64") {
            return Some(GrpcProtocol::WebText);
        }
        let all = [GrpcProtocol::Grpc, GrpcProtocol::Web, GrpcProtocol::WebText];
        all.into_iter().find(|protocol| suffix.eq_ignore_ascii_case(protocol.suffix()))
    }
}

/// The content type of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcContentType<'a> {
    /// How messages lie in the body.
    pub protocol: GrpcProtocol,
    /// The encoding of each message: what follows `+`, such as `proto`. Empty when the content type does not say.
    pub message_format: &'a [u8],
}

impl<'a> GrpcContentType<'a> {
    /// Reads the value of a `Content-Type`; `None` when it is none of gRPC.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let media_type = trim(value.split(|byte| *byte == b';').next().unwrap_or_default());
        let (start, rest) = media_type.split_at_checked(START.len())?;
        if !start.eq_ignore_ascii_case(START) {
            return None;
        }
        let plus = rest.iter().position(|byte| *byte == b'+');
        let (suffix, message_format) = match plus.and_then(|plus| rest.split_at_checked(plus)) {
            Some((suffix, [_plus, format @ ..])) => (suffix, format),
            _ => (rest, &rest[..0]),
        };
        let protocol = GrpcProtocol::of_suffix(suffix)?;
        // It is written into another head.
        (message_format.is_empty() || is_token(message_format)).then_some(Self { protocol, message_format })
    }

    /// The first content type of gRPC in the value of an `Accept`. Weights are not looked at.
    ///
    /// By it, a client of gRPC-Web asks for text or for bytes (`PROTOCOL-WEB.md`, Text-encoded (response) streams); one that names no
    /// content type of gRPC gets that of its request.
    pub fn parse_accept(value: &'a [u8]) -> Option<Self> {
        elements(value).find_map(Self::parse)
    }

    /// Appends it as the value of a `Content-Type`.
    ///
    /// ```
    /// use weir_http::grpc::{GrpcContentType, GrpcProtocol};
    ///
    /// let of_client = GrpcContentType::parse(b"application/grpc-web-text+proto").expect("it is of gRPC-Web");
    /// let mut value = Vec::new();
    /// GrpcContentType { protocol: GrpcProtocol::Grpc, ..of_client }.write(&mut value);
    /// assert_eq!(value, b"application/grpc+proto");
    /// ```
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(START);
        out.extend_from_slice(self.protocol.suffix());
        if !self.message_format.is_empty() {
            out.push(b'+');
            out.extend_from_slice(self.message_format);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    const PROTOCOLS: [GrpcProtocol; 3] = [GrpcProtocol::Grpc, GrpcProtocol::Web, GrpcProtocol::WebText];

    fn parsed(value: &str) -> Option<(GrpcProtocol, &str)> {
        let content_type = GrpcContentType::parse(value.as_bytes())?;
        Some((content_type.protocol, std::str::from_utf8(content_type.message_format).unwrap()))
    }

    #[test]
    fn content_types_of_grpc() {
        for (value, protocol, format) in [
            ("application/grpc", GrpcProtocol::Grpc, ""),
            ("application/grpc+proto", GrpcProtocol::Grpc, "proto"),
            ("application/grpc+json", GrpcProtocol::Grpc, "json"),
            ("application/grpc+vnd.custom-1", GrpcProtocol::Grpc, "vnd.custom-1"),
            ("application/grpc+a+b", GrpcProtocol::Grpc, "a+b"),
            ("application/grpc+", GrpcProtocol::Grpc, ""),
            ("application/grpc;", GrpcProtocol::Grpc, ""),
            ("application/grpc; charset=utf-8", GrpcProtocol::Grpc, ""),
            ("application/grpc+proto ;\ta=\"b;c\"", GrpcProtocol::Grpc, "proto"),
            ("Application/GRPC+Proto", GrpcProtocol::Grpc, "Proto"),
            ("application/grpc-web", GrpcProtocol::Web, ""),
            ("application/grpc-web+proto", GrpcProtocol::Web, "proto"),
            ("application/grpc-web+json;x=y", GrpcProtocol::Web, "json"),
            ("APPLICATION/GRPC-WEB", GrpcProtocol::Web, ""),
            ("application/grpc-web-text", GrpcProtocol::WebText, ""),
            ("application/grpc-web-text+proto", GrpcProtocol::WebText, "proto"),
            ("application/grpc-Web-Text+thrift", GrpcProtocol::WebText, "thrift"),
            ("application/grpc-web-text-base64", GrpcProtocol::WebText, ""),
            ("application/grpc-web-text-base64+proto", GrpcProtocol::WebText, "proto"),
        ] {
            assert_eq!(parsed(value), Some((protocol, format)), "{value}");
        }
    }

    #[test]
    fn other_content_types() {
        for value in [
            "",
            ";",
            "application",
            "application/json",
            "application/grp",
            "application/grpcx",
            "application/grpc2+proto",
            "application/grpc/proto",
            "application/grpc +proto",
            "application/grpc proto",
            "application/grpc-webs",
            "application/grpc-web-",
            "application/grpc-web-text-",
            "application/grpc-web-texts+proto",
            "application/grpc-web-text-base32",
            "application/grpc-proto",
            "application/grpc, application/grpc",
            "application/grpc+proto, text/html",
            "application/grpc+a b",
            "application/grpc+a/b",
            "application/grpc+caf\u{e9}",
            "text/grpc",
            "xapplication/grpc",
        ] {
            assert_eq!(parsed(value), None, "{value}");
        }
        for byte in 0..=255_u8 {
            let value = [b"application/grpc", &[byte][..], b"x"].concat();
            assert_eq!(GrpcContentType::parse(&value).is_some(), matches!(byte, b'+' | b';'), "{byte}");
        }
    }

    #[test]
    fn what_a_client_accepts() {
        for (value, protocol) in [
            ("", None),
            ("*/*", None),
            ("application/json, text/html;q=0.5", None),
            ("application/grpc-web-text", Some(GrpcProtocol::WebText)),
            (
                "text/html, application/grpc-web+proto;q=0.9, application/grpc-web-text",
                Some(GrpcProtocol::Web),
            ),
            (",, application/grpc-web-text+proto ,", Some(GrpcProtocol::WebText)),
        ] {
            let accepted = GrpcContentType::parse_accept(value.as_bytes());
            assert_eq!(accepted.map(|accepted| accepted.protocol), protocol, "{value}");
        }
    }

    #[test]
    fn the_other_side_keeps_the_format() {
        for (format, written) in [
            ("", ["application/grpc", "application/grpc-web", "application/grpc-web-text"]),
            (
                "proto",
                ["application/grpc+proto", "application/grpc-web+proto", "application/grpc-web-text+proto"],
            ),
        ] {
            for (protocol, value) in PROTOCOLS.into_iter().zip(written) {
                let mut out = Vec::new();
                GrpcContentType { protocol, message_format: format.as_bytes() }.write(&mut out);
                assert_eq!(out, value.as_bytes());
                assert_eq!(parsed(value), Some((protocol, format)));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_read_can_be_written_and_read_again(
            suffix in "(-web|-WEB-text|-web-text-base64|[ -~]{0,3})(\\+[ -~]{0,6})?(;.{0,5})?"
        ) {
            let value = format!("application/grpc{suffix}");
            if let Some(content_type) = GrpcContentType::parse(value.as_bytes()) {
                let mut out = Vec::new();
                content_type.write(&mut out);
                prop_assert!(out.iter().all(|byte| matches!(byte, 0x21..=0x7e)));
                prop_assert_eq!(GrpcContentType::parse(&out), Some(content_type));
            }
        }

        #[test]
        fn no_bytes_panic(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _any = (GrpcContentType::parse(&value), GrpcContentType::parse_accept(&value));
        }
    }
}
