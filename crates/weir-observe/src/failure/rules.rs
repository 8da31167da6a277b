//! Failures by a message that breaks a rule of HTTP: status, phase, and advice.
//!
//! A request that breaks a rule is answered and never forwarded; a response that breaks one becomes 502. The sentences
//! about the rules themselves are in weir-http.

use weir_http::Rule;

use crate::words::phase::Phase;

/// The status for a request that breaks the rule (RFC 9110 section 15, RFC 6585); none for a rule about the connection, on which
/// nothing can be answered any more.
pub(super) const fn request_status(rule: Rule) -> Option<u16> {
    Some(match rule {
        Rule::TargetTooLong => 414,
        Rule::HeadTooLarge | Rule::TooManyFields | Rule::TrailersTooLarge => 431,
        Rule::MethodTooLong | Rule::UnknownTransferCoding => 501,
        Rule::UnsupportedVersion | Rule::Http2Preface => 505,
        _ if is_frame_rule(rule) || is_http3_rule(rule) => return None,
        _ => 400,
    })
}

/// Where a request can break the rule: in its head, or while its body is sent on. Nowhere, when it is a rule for responses.
pub(super) const fn request_phases(rule: Rule) -> &'static [Phase] {
    match rule {
        Rule::BadStatusLine
        | Rule::BadStatus
        | Rule::SwitchingProtocols
        | Rule::InterimEndsStream
        | Rule::GrpcMessageCut
        | Rule::BrokenCoding
        | Rule::FastcgiBadRecord
        | Rule::FastcgiBadEnd
        | Rule::CgiEmptyHead
        | Rule::CgiBadStatus
        | Rule::Http2DataBeforeHead => &[],
        Rule::LengthDiffers => &[Phase::Request, Phase::Send, Phase::Response, Phase::Relay],
        Rule::GrpcWebText => &[Phase::Send, Phase::Response, Phase::Relay],
        _ if is_body_rule(rule) => &[Phase::Send, Phase::Response, Phase::Relay],
        _ => &[Phase::Request],
    }
}

/// Where a response can break the rule: in its head, or while its body is relayed. Nowhere, when it is a rule for requests.
pub(super) const fn response_phases(rule: Rule) -> &'static [Phase] {
    match rule {
        Rule::BadMethod
        | Rule::BadRequestLine
        | Rule::BadTarget
        | Rule::PathNotNormal
        | Rule::EncodedSlash
        | Rule::BadScheme
        | Rule::Http2Preface
        | Rule::TlsOnPlainPort
        | Rule::ProxyHeaderUnexpected
        | Rule::MissingHost
        | Rule::DuplicateHost
        | Rule::BadHost
        | Rule::TargetTooLong
        | Rule::MethodTooLong
        | Rule::BadProtocol
        | Rule::HostDiffers
        | Rule::GrpcWebText => &[],
        Rule::Http2BadPreface | Rule::Http2TooManyResets | Rule::Http2TooManyFaults => &[],
        // Servers are not spoken to in HTTP/3.
        _ if is_http3_rule(rule) => &[],
        Rule::Http2SettingsMissing => &[Phase::Connect],
        _ if is_frame_rule(rule) => &[Phase::Response, Phase::Relay],
        Rule::LengthDiffers | Rule::FastcgiBadRecord | Rule::FastcgiBadEnd => {
            &[Phase::Response, Phase::Relay]
        }
        Rule::GrpcMessageCut => &[Phase::Response, Phase::Relay],
        Rule::BrokenCoding => &[Phase::Relay],
        _ if is_body_rule(rule) => &[Phase::Relay],
        _ => &[Phase::Response],
    }
}

/// Whether it is a rule about the frames of a connection or a stream.
const fn is_frame_rule(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Http2BadPreface
            | Rule::Http2SettingsMissing
            | Rule::Http2FrameTooLarge
            | Rule::Http2BadFrameLength
            | Rule::Http2BadStreamId
            | Rule::Http2IdleStream
            | Rule::Http2StreamClosed
            | Rule::Http2BadPadding
            | Rule::Http2BadSetting
            | Rule::Http2TooManySettings
            | Rule::Http2ZeroIncrement
            | Rule::Http2WindowOverflow
            | Rule::Http2WindowExceeded
            | Rule::Http2SelfDependency
            | Rule::Http2PushRefused
            | Rule::Http2BlockInterrupted
            | Rule::Http2BadHeaderBlock
            | Rule::Http2BlockTooLarge
            | Rule::Http2TooManyContinuations
            | Rule::Http2DataBeforeHead
            | Rule::Http2TrailersWithoutEnd
            | Rule::Http2TooManyResets
            | Rule::Http2TooManyFaults
            | Rule::Http2PingFlood
            | Rule::Http2SettingsFlood
            | Rule::Http2PriorityFlood
            | Rule::Http2WindowUpdateFlood
            | Rule::Http2EmptyDataFlood
            | Rule::Http2ClosedStreamFlood
            | Rule::Http2OtherFrameFlood
    )
}

/// Whether it is a rule about the frames of HTTP/3 or of QUIC below it, or about QPACK.
const fn is_http3_rule(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::Http3UnexpectedFrame
            | Rule::Http3BadFrame
            | Rule::Http3BadId
            | Rule::Http3RequestIncomplete
            | Rule::Http3SettingsMissing
            | Rule::Http3BadSetting
            | Rule::Http3TooManySettings
            | Rule::Http3BadStream
            | Rule::Http3CriticalStreamClosed
            | Rule::Http3BadFieldSection
            | Rule::Http3BadEncoderStream
            | Rule::Http3BadDecoderStream
            | Rule::Http3TooManyBlocked
            | Rule::Http3BlockedTooLarge
            | Rule::Http3TooManyResets
            | Rule::Http3TooManyFaults
            | Rule::Http3EmptyDataFlood
            | Rule::Http3PriorityFlood
            | Rule::Http3ControlFlood
            | Rule::Http3UnknownFrameFlood
            | Rule::Http3StreamFlood
            | Rule::Http3EncoderFlood
            | Rule::Http3AcknowledgementFlood
            | Rule::QuicViolation
            | Rule::QuicFrameFlood
            | Rule::QuicAckFlood
            | Rule::QuicTooManyPieces
    )
}

const fn is_body_rule(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::BadChunkSize
            | Rule::BadChunkExtension
            | Rule::ChunkExtensionsTooLarge
            | Rule::BadChunkEnd
            | Rule::BadTrailer
            | Rule::TrailersTooLarge
    )
}

/// The advice about a request that breaks the rule.
pub(super) const fn request_change(rule: Rule) -> &'static str {
    match rule {
        Rule::BareLf => "Correct the client, or set `listener.NAME.lenient.bare_lf`.",
        Rule::ObsFold => "Correct the client, or set `listener.NAME.lenient.obs_fold`.",
        Rule::BadTarget => {
            "Percent-encode the target in the client, or set `listener.NAME.lenient.unsafe_target`."
        }
        Rule::PathNotNormal => {
            "Correct the client, or set `listener.NAME.paths.forward` to `\"normalised\"` or `\"as-received\"`."
        }
        Rule::EncodedSlash => {
            "Correct the client, or set `listener.NAME.paths.encoded_slash` to `\"keep\"` or `\"decode\"`."
        }
        Rule::BadRequestLine => {
            "Correct the client. If it sends spaces in targets, set `listener.NAME.lenient.unsafe_target`."
        }
        Rule::BadChunkSize => {
            "Correct the client. If it sends whitespace after chunk sizes or many leading zeros, set `listener.NAME.lenient.padded_chunk_size`."
        }
        Rule::BadChunkExtension => {
            "Correct the client. If it sends empty extensions, set `listener.NAME.lenient.empty_chunk_extension`."
        }
        Rule::RepeatedLength => "Correct the client, or set `listener.NAME.lenient.repeated_length`.",
        Rule::BadLength => {
            "Correct the client. If it pads lengths with zeros, set `listener.NAME.lenient.padded_length`."
        }
        Rule::TargetTooLong => "Raise `listener.NAME.limits.target_size` if such targets are legitimate.",
        Rule::HeadTooLarge => {
            "Raise `listener.NAME.limits.head_size` if such heads (often cookies) are legitimate."
        }
        Rule::TooManyFields => "Raise `listener.NAME.limits.headers` if such heads are legitimate.",
        Rule::TrailersTooLarge => {
            "Raise `listener.NAME.limits.trailer_size` if such trailers are legitimate."
        }
        Rule::ChunkExtensionsTooLarge => {
            "Raise `listener.NAME.limits.chunk_extension_size` if they are legitimate."
        }
        Rule::TlsOnPlainPort => "Correct the URL that the client uses: this port serves http, not https.",
        Rule::Http2Preface => {
            "Configure the client to use HTTP/1.1 on this port, or set `listener.NAME.http2.prior_knowledge` to `\"allowed\"`."
        }
        Rule::ProxyHeaderUnexpected => {
            "Disable the PROXY protocol on the load balancer in front, or add its address to `listener.NAME.proxy_protocol.from`."
        }
        Rule::ConflictingLengths
        | Rule::LengthWithTransferEncoding
        | Rule::TransferEncodingInHttp10
        | Rule::BadTransferEncoding
        | Rule::ConnectionField
        | Rule::HostDiffers
        | Rule::LengthDiffers => {
            "Correct the client. If the client is unknown, this was an attempt of request smuggling."
        }
        _ if is_http3_rule(rule) => http3_request_change(rule),
        _ => http2_request_change(rule),
    }
}

/// The same about a request or a connection that breaks a rule of HTTP/2.
const fn http2_request_change(rule: Rule) -> &'static str {
    match rule {
        Rule::Http2BlockTooLarge => {
            "Raise `listener.NAME.limits.head_size` if such heads are legitimate. Far larger ones are an attack (HPACK bomb)."
        }
        Rule::Http2TooManyContinuations => {
            "None if the client is unknown: this was an attack (CONTINUATION flood, CERT VU#421644)."
        }
        Rule::Http2TooManyResets => {
            "None if the client is unknown: this was an attack (rapid reset, CVE-2023-44487). Otherwise have the client cancel fewer requests, and open no more at once than `listener.NAME.http2.streams_max`."
        }
        Rule::Http2TooManyFaults => {
            "None if the client is unknown: this was an attack (MadeYouReset, CVE-2025-8671). Otherwise correct the client."
        }
        Rule::Http2PingFlood => {
            "None if the client is unknown: this was an attack (PING flood, CVE-2019-9512). Otherwise have the client send fewer pings."
        }
        Rule::Http2SettingsFlood | Rule::Http2TooManySettings => {
            "None if the client is unknown: this was an attack (SETTINGS flood, CVE-2019-9515). Otherwise correct the client."
        }
        Rule::Http2PriorityFlood => {
            "None if the client is unknown: this was an attack (priority flood, CVE-2019-9513). Otherwise correct the client."
        }
        Rule::Http2WindowUpdateFlood => {
            "None if the client is unknown: this was an attack (WINDOW_UPDATE flood). Otherwise have the client open its windows in larger steps."
        }
        Rule::Http2EmptyDataFlood => {
            "None if the client is unknown: this was an attack (empty frames, CVE-2019-9518). Otherwise correct the client."
        }
        Rule::Http2ClosedStreamFlood | Rule::Http2OtherFrameFlood => {
            "None if the client is unknown: this was an attack. Otherwise correct the client."
        }
        _ => "Correct the client.",
    }
}

/// The same about a request or a connection that breaks a rule of HTTP/3.
const fn http3_request_change(rule: Rule) -> &'static str {
    match rule {
        Rule::Http3TooManyResets => {
            "None if the client is unknown: this was an attack (rapid reset, CVE-2023-44487). Otherwise have the client cancel fewer requests."
        }
        Rule::Http3TooManyFaults => {
            "None if the client is unknown: this was an attack (MadeYouReset, CVE-2025-8671). Otherwise correct the client."
        }
        Rule::Http3TooManySettings
        | Rule::Http3BlockedTooLarge
        | Rule::Http3EmptyDataFlood
        | Rule::Http3PriorityFlood
        | Rule::Http3ControlFlood
        | Rule::Http3UnknownFrameFlood
        | Rule::Http3StreamFlood
        | Rule::Http3EncoderFlood
        | Rule::Http3AcknowledgementFlood
        | Rule::QuicFrameFlood
        | Rule::QuicAckFlood
        | Rule::QuicTooManyPieces => {
            "None if the client is unknown: this was an attack. Otherwise correct the client."
        }
        _ => "Correct the client.",
    }
}

/// The advice about a response that breaks the rule.
pub(super) const fn response_change(rule: Rule) -> &'static str {
    match rule {
        Rule::HeadTooLarge => {
            "Raise `upstream.NAME.limits.head_size`, or reduce the head that the server sends."
        }
        Rule::TooManyFields => {
            "Raise `upstream.NAME.limits.headers`, or reduce the fields that the server sends."
        }
        Rule::TrailersTooLarge => {
            "Raise `upstream.NAME.limits.trailer_size`, or reduce the trailers that the server sends."
        }
        Rule::ChunkExtensionsTooLarge => {
            "Raise `upstream.NAME.limits.chunk_extension_size`, or disable chunk extensions on the server."
        }
        Rule::BareLf => "Correct the server, or set `upstream.NAME.lenient.bare_lf`.",
        Rule::ObsFold => "Correct the server, or set `upstream.NAME.lenient.obs_fold`.",
        Rule::ControlByte => {
            "Correct the server, or set `upstream.NAME.lenient.control_bytes` for fields that do not frame the response."
        }
        Rule::RepeatedLength => "Correct the server, or set `upstream.NAME.lenient.repeated_length`.",
        Rule::BadLength => {
            "Correct the server. If it pads lengths with zeros, set `upstream.NAME.lenient.padded_length`."
        }
        Rule::BadTransferEncoding => {
            "Correct the server. If it sends `chunked` twice and encodes the body once, set `upstream.NAME.lenient.repeated_chunked`."
        }
        Rule::BadStatus => {
            "Correct the server. For status codes of 600 to 999, set `upstream.NAME.lenient.high_status`."
        }
        Rule::BadChunkSize => {
            "Correct the server. If it sends whitespace after chunk sizes or many leading zeros, set `upstream.NAME.lenient.padded_chunk_size`."
        }
        Rule::BadChunkExtension => {
            "Correct the server. If it sends empty extensions, set `upstream.NAME.lenient.empty_chunk_extension`."
        }
        Rule::BadStatusLine => {
            "Check that the server speaks HTTP/1.1 on this port, without TLS. If it sends empty lines before the status line, set `upstream.NAME.lenient.empty_lines`."
        }
        Rule::Http2BlockTooLarge => {
            "Raise `upstream.NAME.limits.head_size`, or reduce the head that the server sends."
        }
        Rule::GrpcMessageCut => {
            "Correct the server: it has to end each message that it begins, before its trailers."
        }
        Rule::BrokenCoding => {
            "Correct the server, or set `decompress = false` in the `compression` of the route: then clients get the body as it is."
        }
        Rule::FastcgiBadRecord | Rule::FastcgiBadEnd => {
            "Check that the server speaks FastCGI on this port or socket: PHP-FPM does, a web server does not."
        }
        Rule::CgiEmptyHead | Rule::CgiBadStatus => {
            "Correct the script: it has to write header fields, an empty line, and then the body."
        }
        Rule::BadVersion | Rule::UnsupportedVersion => {
            "Check that the server speaks HTTP/1.1 on this port, without TLS."
        }
        _ => "Correct the server.",
    }
}

/// Where the rule comes from, for a reader: an RFC, or a limit of the config.
pub(super) const fn origin(rule: Rule) -> &'static str {
    match rule.source().as_bytes() {
        b"limit" => "a limit of the config",
        _ => rule.source(),
    }
}

/// The reason code of a response that breaks the rule: the name of the rule after `response-`.
pub(super) fn response_code(rule: Rule) -> &'static str {
    let (bytes, len) = &RESPONSE_CODES[rule as usize];
    std::str::from_utf8(&bytes[..*len]).expect("names of rules are ASCII")
}

const CODE_MAX: usize = 64;
const PREFIX: &[u8] = b"response-";

static RESPONSE_CODES: [([u8; CODE_MAX], usize); Rule::ALL.len()] = response_codes();

const fn response_codes() -> [([u8; CODE_MAX], usize); Rule::ALL.len()] {
    let mut codes = [([0; CODE_MAX], 0); Rule::ALL.len()];
    let mut index = 0;
    while index < codes.len() {
        let name = Rule::ALL[index].name().as_bytes();
        let mut at = 0;
        while at < PREFIX.len() + name.len() {
            codes[index].0[at] = if at < PREFIX.len() { PREFIX[at] } else { name[at - PREFIX.len()] };
            at += 1;
        }
        codes[index].1 = at;
        index += 1;
    }
    codes
}
