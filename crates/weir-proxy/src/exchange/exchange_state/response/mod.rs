//! What is known of the response while it is sent: its outline, what becomes of its body, and fields that are made anew.

pub(in crate::exchange) mod rewritten_fields;
pub(in crate::exchange) mod body_coding;
pub(in crate::exchange) mod response_outline;
pub(in crate::exchange) mod kept_fields;
