//! The rules of HTTP that a message can break, one variant each.
//!
//! Parsers of this crate report the violated rule and nothing else: the status for the client and the text in the log
//! are decided above. The names are stable: they are the labels of counters and the words in the log.

/// Declares [`Rule`] together with its stable name and the sentence that explains it.
macro_rules! rules {
    ($($variant:ident $name:literal $source:literal $sentence:literal,)+) => {
        /// A rule of RFC 9110, RFC 9112, RFC 9113 or RFC 9114 (or a limit of Weir) that a message broke.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Rule {
            $(#[doc = concat!($sentence, " (", $source, ")")] $variant,)+
        }

        impl Rule {
            /// Every rule, in the order of declaration; `rule as usize` is its index.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)+];

            /// The stable kebab-case name: label in metrics, word in the log, anchor in the docs.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$variant => $name,)+ }
            }

            /// The error in the message, in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Rule::$variant => $sentence,)+ }
            }

            /// Where the rule comes from: RFC section, or `limit` for a bound that the config sets.
            pub const fn source(self) -> &'static str {
                match self { $(Rule::$variant => $source,)+ }
            }
        }
    };
}

rules! {
    BareLf "bare-lf" "RFC 9112 section 2.2" "A line of the head ends with LF alone instead of CR LF.",
    BareCr "bare-cr" "RFC 9112 section 2.2" "A CR is not followed by LF.",
    NulByte "nul-byte" "RFC 9110 section 5.5" "The head contains a NUL byte.",
    ControlByte "control-byte" "RFC 9110 section 5.5" "A field value contains a control byte.",
    ObsFold "obs-fold" "RFC 9112 section 5.2" "A field value is continued on a second line.",
    SpaceBeforeColon "space-before-colon" "RFC 9112 section 5.1" "There is whitespace between a field name and its colon.",
    LeadingSpace "leading-space" "RFC 9112 section 2.2" "There is whitespace before the first field or the start line.",
    EmptyFieldName "empty-field-name" "RFC 9110 section 5.1" "A field has no name.",
    MissingColon "missing-colon" "RFC 9112 section 5" "A line of the head has no colon.",
    BadFieldName "bad-field-name" "RFC 9110 section 5.1" "A field name contains a byte that is not allowed in a token.",
    BadMethod "bad-method" "RFC 9110 section 9.1" "The method is not a token.",
    BadRequestLine "bad-request-line" "RFC 9112 section 3" "The request line is not method, target and version separated by single spaces.",
    BadTarget "bad-target" "RFC 9112 section 3.2" "The request target contains a byte that is not allowed, or has an invalid form.",
    PathNotNormal "path-not-normal" "RFC 3986 section 6.2.2" "The path is not normalised: it has dot segments, duplicate slashes or needlessly encoded characters.",
    EncodedSlash "encoded-slash" "RFC 3986 section 2.2" "The path contains an encoded slash.",
    BadScheme "bad-scheme" "RFC 9112 section 3.2.2" "The absolute request target has a scheme other than http or https.",
    BadVersion "bad-version" "RFC 9112 section 2.3" "The protocol version is malformed.",
    UnsupportedVersion "unsupported-version" "RFC 9110 section 15.6.6" "The protocol version is not HTTP/1.x.",
    Http2Preface "http2-preface" "RFC 9113 section 3.4" "The client sent the HTTP/2 preface on a port that serves HTTP/1.",
    TlsOnPlainPort "tls-on-plain-port" "RFC 8446 section 5.1" "The client started a TLS handshake on a port without TLS.",
    ProxyHeaderUnexpected "proxy-header-unexpected" "PROXY protocol section 2" "A PROXY protocol header arrived from a peer that is not configured to send one.",
    MissingHost "missing-host" "RFC 9112 section 3.2" "A request of HTTP/1.1 or HTTP/2 has no Host field and no authority.",
    EmptyHost "empty-host" "RFC 9110 section 4.2.1" "The Host field is empty, and the target has no host.",
    DuplicateHost "duplicate-host" "RFC 9112 section 3.2" "The request has more than one Host field.",
    BadHost "bad-host" "RFC 9112 section 3.2" "The Host field or the authority of the target is not a valid host and port.",
    LengthWithTransferEncoding "length-with-transfer-encoding" "RFC 9112 section 6.1" "The message has both Content-Length and Transfer-Encoding.",
    ConflictingLengths "conflicting-lengths" "RFC 9112 section 6.3" "The message has two different lengths.",
    RepeatedLength "repeated-length" "RFC 9112 section 6.3" "The message repeats its Content-Length.",
    BadLength "bad-length" "RFC 9110 section 8.6" "The Content-Length is not a plain decimal number below 2^63.",
    TransferEncodingInHttp10 "transfer-encoding-in-http10" "RFC 9112 section 6.1" "An HTTP/1.0 message has a Transfer-Encoding.",
    UnknownTransferCoding "unknown-transfer-coding" "RFC 9112 section 6.1" "The Transfer-Encoding has a coding other than chunked.",
    BadTransferEncoding "bad-transfer-encoding" "RFC 9112 section 6.1" "The Transfer-Encoding is malformed, does not end in chunked, or repeats chunked.",
    TargetTooLong "target-too-long" "limit" "The request target is longer than the limit.",
    HeadTooLarge "head-too-large" "limit" "The head is larger than the limit.",
    TooManyFields "too-many-fields" "limit" "The head has more fields than the limit.",
    MethodTooLong "method-too-long" "limit" "The method is longer than any known method.",
    BadStatusLine "bad-status-line" "RFC 9112 section 4" "The status line of the response is malformed.",
    BadStatus "bad-status" "RFC 9110 section 15" "The status code is not between 100 and 599.",
    BadChunkSize "bad-chunk-size" "RFC 9112 section 7.1" "A chunk size is not a hexadecimal number, or is too large.",
    BadChunkExtension "bad-chunk-extension" "RFC 9112 section 7.1.1" "A chunk extension is malformed.",
    ChunkExtensionsTooLarge "chunk-extensions-too-large" "limit" "The chunk extensions of one body are larger than the limit.",
    BadChunkEnd "bad-chunk-end" "RFC 9112 section 7.1" "The data of a chunk is not followed by CR LF.",
    BadTrailer "bad-trailer" "RFC 9112 section 7.1.2" "The trailer section is malformed.",
    TrailersTooLarge "trailers-too-large" "limit" "The trailer section is larger than the limit.",
    UpperCaseFieldName "upper-case-field-name" "RFC 9113 section 8.2.1" "A field name contains an upper-case letter.",
    EdgeSpace "edge-space" "RFC 9113 section 8.2.1" "A field value starts or ends with whitespace.",
    ConnectionField "connection-field" "RFC 9113 section 8.2.2" "The message has a field that is about a connection of HTTP/1, such as Connection or Transfer-Encoding.",
    BadTe "bad-te" "RFC 9113 section 8.2.2" "The TE field has a value other than trailers.",
    UnknownPseudoField "unknown-pseudo-field" "RFC 9113 section 8.3" "The message has a pseudo-field that is not defined.",
    UnexpectedPseudoField "unexpected-pseudo-field" "RFC 9113 section 8.3" "The message has a pseudo-field that does not belong in it.",
    LatePseudoField "late-pseudo-field" "RFC 9113 section 8.3" "A pseudo-field comes after a field.",
    DuplicatePseudoField "duplicate-pseudo-field" "RFC 9113 section 8.3" "The message has the same pseudo-field twice.",
    MissingPseudoField "missing-pseudo-field" "RFC 9113 section 8.3.1" "The message lacks a pseudo-field that it must have.",
    BadProtocol "bad-protocol" "RFC 8441 section 4" "The protocol that is asked for is not a token.",
    HostDiffers "host-differs" "RFC 9113 section 8.3.1" "The Host field differs from the authority.",
    LengthDiffers "length-differs" "RFC 9113 section 8.1.1" "The body is longer or shorter than its Content-Length.",
    InterimEndsStream "interim-ends-stream" "RFC 9113 section 8.1" "An interim response ends the stream, without a final one.",
    SwitchingProtocols "switching-protocols" "RFC 9113 section 8.6" "The response has status 101, which is not used in HTTP/2.",
    GrpcWebText "grpc-web-text" "gRPC-Web PROTOCOL-WEB.md" "The body of a gRPC-Web request in text is not base64.",
    GrpcMessageCut "grpc-message-cut" "gRPC-Web PROTOCOL-WEB.md" "The body of a gRPC response ends within a message, or has flags that are none of gRPC.",
    BrokenCoding "broken-coding" "RFC 9110 section 8.4" "The body is not encoded as its Content-Encoding says.",
    FastcgiBadRecord "fastcgi-bad-record" "FastCGI 1.0 section 3.3" "A record has another version, a type that no server sends, or the id of another request.",
    FastcgiBadEnd "fastcgi-bad-end" "FastCGI 1.0 section 5.5" "The record that ends a request is too short, or has a status that is not defined.",
    CgiEmptyHead "cgi-empty-head" "RFC 3875 section 6.2" "The output of a script has no header field.",
    CgiBadStatus "cgi-bad-status" "RFC 3875 section 6.3.3" "The Status field of a script is not a code from 200 and a reason, or there are two.",
    Http2BadPreface "http2-bad-preface" "RFC 9113 section 3.4" "The connection does not begin with the preface of HTTP/2.",
    Http2SettingsMissing "http2-settings-missing" "RFC 9113 section 3.4" "The first frame of the connection is not SETTINGS.",
    Http2FrameTooLarge "http2-frame-too-large" "RFC 9113 section 4.2" "A frame is larger than 16 384 bytes.",
    Http2BadFrameLength "http2-bad-frame-length" "RFC 9113 section 4.2" "A frame has a length that its type does not allow.",
    Http2BadStreamId "http2-bad-stream-id" "RFC 9113 section 5.1.1" "A frame is on a stream that its type does not allow.",
    Http2IdleStream "http2-idle-stream" "RFC 9113 section 5.1" "A frame is on a stream that has not been opened.",
    Http2StreamClosed "http2-stream-closed" "RFC 9113 section 5.1" "A frame is on a stream that has ended.",
    Http2BadPadding "http2-bad-padding" "RFC 9113 section 6.1" "The padding of a frame is longer than the frame.",
    Http2BadSetting "http2-bad-setting" "RFC 9113 section 6.5.2" "A setting has a value that is not allowed.",
    Http2TooManySettings "http2-too-many-settings" "limit" "A SETTINGS frame has more settings than the limit.",
    Http2ZeroIncrement "http2-zero-increment" "RFC 9113 section 6.9" "A WINDOW_UPDATE opens the window by nothing.",
    Http2WindowOverflow "http2-window-overflow" "RFC 9113 section 6.9.1" "A window was opened beyond 2^31-1 bytes.",
    Http2WindowExceeded "http2-window-exceeded" "RFC 9113 section 6.9.1" "More was sent than the window allows.",
    Http2SelfDependency "http2-self-dependency" "RFC 7540 section 5.3.1" "A stream depends on itself.",
    Http2PushRefused "http2-push-refused" "RFC 9113 section 8.4" "A response was pushed, although that was not allowed.",
    Http2BlockInterrupted "http2-block-interrupted" "RFC 9113 section 4.3" "A header block is interrupted by another frame, or continued where none is open.",
    Http2BadHeaderBlock "http2-bad-header-block" "RFC 9113 section 4.3" "A header block cannot be decoded.",
    Http2BlockTooLarge "http2-block-too-large" "limit" "A header block is larger than the limit.",
    Http2TooManyContinuations "http2-too-many-continuations" "limit" "A header block has more CONTINUATION frames than the limit, or an empty one.",
    Http2DataBeforeHead "http2-data-before-head" "RFC 9113 section 8.1" "DATA precedes the head of the response.",
    Http2TrailersWithoutEnd "http2-trailers-without-end" "RFC 9113 section 8.1" "The trailers do not end their stream.",
    Http2TooManyResets "http2-too-many-resets" "limit" "The peer reset streams, or opened some beyond those that it may, more often than the limit.",
    Http2TooManyFaults "http2-too-many-faults" "limit" "The peer made Weir reset streams by faults more often than the limit.",
    Http2PingFlood "http2-ping-flood" "limit" "There were more PING frames than the limit.",
    Http2SettingsFlood "http2-settings-flood" "limit" "There were more SETTINGS frames than the limit.",
    Http2PriorityFlood "http2-priority-flood" "limit" "There were more PRIORITY or PRIORITY_UPDATE frames than the limit.",
    Http2WindowUpdateFlood "http2-window-update-flood" "limit" "There were more WINDOW_UPDATE frames than the limit, and than the peer was sent bytes for.",
    Http2EmptyDataFlood "http2-empty-data-flood" "limit" "There were more DATA frames without data than the limit.",
    Http2ClosedStreamFlood "http2-closed-stream-flood" "limit" "There were more frames on streams that are over than the limit.",
    Http2OtherFrameFlood "http2-other-frame-flood" "limit" "There were more frames of unknown or rare types than the limit.",
    Http3UnexpectedFrame "http3-unexpected-frame" "RFC 9114 section 7" "A frame is on a stream, or at a place of it, where its type is not allowed.",
    Http3BadFrame "http3-bad-frame" "RFC 9114 section 7.1" "A frame is cut by the end of its stream, or its payload does not fit its type.",
    Http3BadId "http3-bad-id" "RFC 9114 section 8.1" "A stream or push ID cannot be, or is larger than the one before.",
    Http3RequestIncomplete "http3-request-incomplete" "RFC 9114 section 4.1" "A stream ends before its request is complete.",
    Http3SettingsMissing "http3-settings-missing" "RFC 9114 section 6.2.1" "The first frame of the control stream is not SETTINGS.",
    Http3BadSetting "http3-bad-setting" "RFC 9114 section 7.2.4" "A setting is not allowed, has a value that is not, or comes twice.",
    Http3TooManySettings "http3-too-many-settings" "limit" "A SETTINGS frame has more settings than the limit.",
    Http3BadStream "http3-bad-stream" "RFC 9114 section 6" "A stream was opened that the peer must not open, or a second one of a kind of which there is one.",
    Http3CriticalStreamClosed "http3-critical-stream-closed" "RFC 9114 section 6.2.1" "A control stream, or a stream of QPACK, was closed.",
    Http3BadFieldSection "http3-bad-field-section" "RFC 9204 section 2.2" "A field section cannot be decoded.",
    Http3BadEncoderStream "http3-bad-encoder-stream" "RFC 9204 section 4.3" "An instruction on the encoder stream cannot be followed.",
    Http3BadDecoderStream "http3-bad-decoder-stream" "RFC 9204 section 4.4" "An instruction on the decoder stream cannot be followed.",
    Http3TooManyBlocked "http3-too-many-blocked" "RFC 9204 section 2.1.2" "More streams wait for entries of the dynamic table than the limit.",
    Http3BlockedTooLarge "http3-blocked-too-large" "limit" "The field sections that wait for entries of the dynamic table are larger than the limit.",
    Http3TooManyResets "http3-too-many-resets" "limit" "The peer reset or stopped streams more often than the limit.",
    Http3TooManyFaults "http3-too-many-faults" "limit" "The peer made Weir reset streams by faults more often than the limit.",
    Http3EmptyDataFlood "http3-empty-data-flood" "limit" "There were more DATA frames without data than the limit.",
    Http3PriorityFlood "http3-priority-flood" "limit" "There were more PRIORITY_UPDATE frames than the limit.",
    Http3ControlFlood "http3-control-flood" "limit" "There were more GOAWAY, CANCEL_PUSH and MAX_PUSH_ID frames, and cancellations of streams for QPACK, than the limit.",
    Http3UnknownFrameFlood "http3-unknown-frame-flood" "limit" "There were more frames of unknown types than the limit.",
    Http3StreamFlood "http3-stream-flood" "limit" "There were more unidirectional streams of unknown types, or that ended before their type, than the limit.",
    Http3EncoderFlood "http3-encoder-flood" "limit" "There were more instructions on the encoder stream than the limit, and than requests came with.",
    Http3AcknowledgementFlood "http3-acknowledgement-flood" "limit" "The peer does not read the decoder stream, and makes Weir write more to it than the limit.",
    QuicViolation "quic-violation" "RFC 9000 section 20.1" "The peer breaks a rule of QUIC: about its frames, the limits that it was given, or connection IDs.",
    QuicFrameFlood "quic-frame-flood" "limit" "There were more frames of QUIC that carry no data (PING, MAX_DATA, connection IDs, path challenges and the like) than the limit, and than the peer was sent bytes for.",
    QuicAckFlood "quic-ack-flood" "limit" "There were more ACK frames than the limit, and than the peer was sent packets for.",
    QuicTooManyPieces "quic-too-many-pieces" "limit" "The data of streams that was not read came in more pieces than the limit.",
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Rule;

    #[test]
    fn names_are_labels_and_sentences_are_sentences() {
        let names: HashSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), Rule::ALL.len(), "names are unique");
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, index, "{rule:?}");
            let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(rule.name().bytes().all(label), "{rule:?}");
            assert!(rule.sentence().ends_with('.') && !rule.source().is_empty(), "{rule:?}");
        }
    }
}
