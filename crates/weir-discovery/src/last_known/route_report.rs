//! What a store whose keys hold routes reports: all its keys, within bounds, or why there is no answer.

use std::fmt::Display;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use weir_config::OfferedFragments;

/// The keys of one source at most: a store that has more is not believed.
const FRAGMENTS_MAX: usize = 1000;

/// One text at most, as large as a value of Consul.
const FRAGMENT_BYTES_MAX: usize = 512 << 10;

/// All texts of a source at most.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// The text of a value, or why it cannot be one.
pub(crate) fn read_fragment(value: &[u8]) -> Result<Arc<str>, Box<str>> {
    if value.len() > FRAGMENT_BYTES_MAX {
        return Err(format!("the value is larger than {} KiB", FRAGMENT_BYTES_MAX >> 10).into());
    }
    let text = std::str::from_utf8(value).map_err(|error| format!("the value is not UTF-8: {error}"))?;
    Ok(text.into())
}

/// The way of one store.
#[derive(Debug, Clone)]
pub(crate) struct RouteReporter(UnboundedSender<Result<OfferedFragments, Box<str>>>);

impl RouteReporter {
    pub(crate) fn new(reports: UnboundedSender<Result<OfferedFragments, Box<str>>>) -> Self {
        Self(reports)
    }

    /// These are all keys now.
    pub(crate) fn said(&self, fragments: OfferedFragments) {
        let bytes: usize = fragments.values().flatten().map(|text| text.len()).sum();
        let what = if fragments.len() > FRAGMENTS_MAX {
            format!("it has {} keys; the most is {FRAGMENTS_MAX}", fragments.len())
        } else if bytes > SOURCE_BYTES_MAX {
            format!("its values are larger than {} MiB together", SOURCE_BYTES_MAX >> 20)
        } else {
            let _ended = self.0.send(Ok(fragments));
            return;
        };
        self.failed(&what);
    }

    /// There is no answer that can be used.
    pub(crate) fn failed(&self, why: &(impl Display + ?Sized)) {
        let _ended = self.0.send(Err(why.to_string().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_too_large_or_no_text_says_so() {
        assert_eq!(read_fragment(b"a = 1").as_deref(), Ok("a = 1"));
        assert!(read_fragment(b"\xff").unwrap_err().contains("UTF-8"));
        let large = vec![b'#'; FRAGMENT_BYTES_MAX + 1];
        assert!(read_fragment(&large).unwrap_err().contains("512 KiB"));
    }
}
