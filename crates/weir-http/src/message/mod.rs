//! Messages without a protocol: heads, their methods, targets and fields with their meaning, and the rules that a message can break.
//!
//! Takes slices, gives spans and values. Where a head begins and ends is decided by the protocol above.

pub(crate) mod composed;
pub(crate) mod retarget;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod framing;
pub(crate) mod field_values;
pub(crate) mod field_writer;
pub(crate) mod field_set;
pub(crate) mod fields;
pub(crate) mod name;
pub(crate) mod target;
pub(crate) mod authority;
pub(crate) mod limits;
pub(crate) mod path;
pub(crate) mod percent;
pub(crate) mod method;
pub(crate) mod version;
pub(crate) mod rule;
pub(crate) mod span;
