//! What a listener or an upstream allows a head to be: its bounds, and the few rules it may relax.
//!
//! Every relaxation normalises: what leaves the parser obeys the rule although what came in did not.

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
            lenient: Lenient::default(),
        }
    }
}

/// Rules that may be relaxed for legacy peers, each by its own name; all are in force by default.
///
/// With any of them relaxed, spans refer to the normalised copy that `RequestHead::text` and `ResponseHead::text` give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lenient {
    /// A line may end with LF alone; it becomes CR LF.
    pub bare_lf: bool,
    /// A field may be folded over lines; the fold becomes one SP. Never in Host, Content-Length or Transfer-Encoding.
    pub obs_fold: bool,
    /// A target may hold SP, `"`, `#`, `<`, `>`, DEL, bytes above 0x7f and `%` without digits; they get
    /// percent-encoded, for routing and forwarding alike.
    pub unsafe_target: bool,
    /// The same Content-Length may be repeated (`5, 5` or two fields); it becomes one.
    pub repeated_equal_length: bool,
    /// A Content-Length may have leading zeros; they are dropped.
    pub padded_length: bool,
}

impl Lenient {
    /// Whether any rule is relaxed.
    #[inline]
    pub const fn any(&self) -> bool {
        self.bare_lf | self.obs_fold | self.unsafe_target | self.repeated_equal_length | self.padded_length
    }
}
