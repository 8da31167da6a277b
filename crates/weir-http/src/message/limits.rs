//! The limits on a head of a listener or an upstream: its bounds, and the few rules that may be relaxed.
//!
//! Every relaxation normalises: the output of the parser obeys the rule although the input did not. The one exception
//! is a status code of 600 and above, which has no other form.

use super::path::PathRules;
use super::rule::Rule;

/// Bounds of one head, and the rules that may be relaxed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Largest head in bytes, start line and the final empty line included. Default 32 KiB.
    pub head_bytes_max: usize,
    /// Largest request target in bytes. Default 8 KiB: RFC 9112 section 3 recommends at least 8 000 bytes.
    pub target_bytes_max: usize,
    /// Largest number of field lines. Default 100.
    pub fields_max: usize,
    /// Refuse a path that holds `%00`. Default off: the byte is forwarded as it came, encoded.
    pub refuse_encoded_nul: bool,
    /// The form of paths. Default: anything.
    pub paths: PathRules,
    /// The rules that are relaxed. Default none.
    pub lenient: Lenient,
}

impl HeadLimits {
    /// `head_bytes_max`, or 1 GiB if that is less, so that every position fits a span, three times encoded even.
    #[inline]
    pub(crate) const fn window(&self) -> usize {
        const CEILING: usize = 1 << 30;
        if self.head_bytes_max < CEILING { self.head_bytes_max } else { CEILING }
    }
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        HeadLimits {
            head_bytes_max: 32 * 1024,
            target_bytes_max: 8 * 1024,
            fields_max: 100,
            refuse_encoded_nul: false,
            paths: PathRules::default(),
            lenient: Lenient::default(),
        }
    }
}

/// Rules that may be relaxed for peers that do not keep them, each by its own name; all are in force by default.
///
/// A head that breaks a relaxed rule is normalised: spans refer to the copy that `RequestParser::text` and
/// `ResponseParser::text` give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lenient {
    /// A line may end with LF alone; it becomes CR LF.
    pub bare_lf: bool,
    /// A field may be folded over lines; the fold becomes one SP. Never in Host, Content-Length or Transfer-Encoding.
    pub obs_fold: bool,
    /// Path and query of a target may hold ``" < > \ ^ ` { | }`` and bytes above 0x7f; they get percent-encoded, for
    /// routing and forwarding alike.
    pub unencoded_target: bool,
    /// The same, and SP, `#`, DEL and `%` without digits.
    pub unsafe_target: bool,
    /// A target may have a fragment: `#` and what follows; it is cut off.
    pub target_fragment: bool,
    /// The same Content-Length may be repeated (`5, 5` or two fields); it becomes one.
    pub repeated_equal_length: bool,
    /// A Content-Length may have leading zeros; they are dropped.
    pub padded_length: bool,
    /// `Transfer-Encoding: chunked` may be repeated; it becomes one.
    pub repeated_chunked: bool,
    /// Field values and reason phrases may contain control bytes except NUL, CR and LF; they are dropped. Never in a field
    /// that frames or routes.
    pub control_bytes: bool,
    /// A few empty lines may come before a status line; they are dropped.
    pub empty_lines: bool,
    /// Status codes of 600 to 999 are taken for final responses.
    pub high_status: bool,
}

impl Lenient {
    /// Whether a head that breaks `rule` may obey all of them once it is normalised.
    #[cold]
    pub(crate) const fn may_mend(&self, rule: Rule) -> bool {
        match rule {
            Rule::BareLf => self.bare_lf,
            Rule::ObsFold => self.obs_fold,
            Rule::BadTarget => self.unencoded_target || self.unsafe_target || self.target_fragment,
            Rule::BadRequestLine => self.unsafe_target,
            Rule::RepeatedLength => self.repeated_equal_length,
            Rule::BadLength => self.padded_length,
            Rule::BadTransferEncoding => self.repeated_chunked,
            Rule::ControlByte => self.control_bytes,
            Rule::BadStatusLine => self.empty_lines,
            _ => false,
        }
    }
}

/// Bounds of the overhead of a chunked body besides its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkedLimits {
    /// Chunk extensions in all, in bytes. Default 16 KiB.
    pub extension_bytes_max: usize,
    /// The trailer section in bytes, its final empty line included. Default 8 KiB.
    pub trailer_bytes_max: usize,
    /// Number of trailer fields. Default 32.
    pub trailer_fields_max: usize,
    /// The rules that are relaxed. Default none.
    pub lenient: LenientChunks,
}

impl Default for ChunkedLimits {
    fn default() -> ChunkedLimits {
        ChunkedLimits {
            extension_bytes_max: 16 * 1024,
            trailer_bytes_max: 8 * 1024,
            trailer_fields_max: 32,
            lenient: LenientChunks::default(),
        }
    }
}

/// Rules on chunks that may be relaxed, each by its own name; all are in force by default. Framing is never forwarded, so
/// there is nothing to normalise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LenientChunks {
    /// White space may stand behind a size, and any number of zeros before it; they count as extensions.
    pub padded_size: bool,
    /// An extension may be empty: `5;` and then the end of the line.
    pub empty_extension: bool,
}
