//! The words under which retries are counted: the cause of a retry, and the reason against one.
//!
//! The decision is taken elsewhere; a test there holds the words together.

/// How the attempt before had failed.
pub const RETRY_CAUSES: [&str; 8] = [
    "connect",
    "connection-error",
    "timeout",
    "status",
    "stream-refused",
    "go-away",
    "grpc-status",
    "http1-required",
];

/// Why a failed attempt was not repeated.
pub const RETRY_REFUSALS: [&str; 8] = [
    "response-started",
    "not-idempotent",
    "body-not-replayable",
    "not-configured",
    "attempts-exhausted",
    "time-limit",
    "no-other-server",
    "budget-exhausted",
];
