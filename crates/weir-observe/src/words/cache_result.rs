//! What a cache of responses did for a request, in the words of the log, the metrics and `weir why`.

/// What a cache did for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CacheResult {
    /// The response was stored, and fresh.
    Hit,
    /// The response was stored and stale, and used all the same.
    Stale,
    /// The response was stored and stale, and the server has confirmed it.
    Revalidated,
    /// The response is one that another request fetched meanwhile.
    Collapsed,
    /// The server was asked.
    Miss,
    /// The cache had nothing to do with it.
    Bypass,
}

impl CacheResult {
    /// Every result; `result as usize` is its index.
    pub const ALL: [Self; 6] =
        [Self::Hit, Self::Stale, Self::Revalidated, Self::Collapsed, Self::Miss, Self::Bypass];

    /// Its name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Collapsed => "collapsed",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }
}
