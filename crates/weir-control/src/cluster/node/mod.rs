//! This node among others: what keepalived and BIRD are told about it, and the planned hand-over of its traffic.

pub(crate) mod announcements;
pub(crate) mod hand_over;
pub(crate) mod watcher;
