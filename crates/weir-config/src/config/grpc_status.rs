//! The status codes of gRPC, by name.

use crate::key::choice;

choice! {
    /// A status code of gRPC, in the order of the codes 0 to 16.
    pub enum GrpcStatusName {
        /// the call succeeded; it is never repeated
        #[default]
        Ok = "ok",
        /// the call was cancelled, typically by the client
        Cancelled = "cancelled",
        /// an error without a status of its own
        Unknown = "unknown",
        /// the client has sent an invalid argument
        InvalidArgument = "invalid-argument",
        /// the deadline has passed before the call was complete
        DeadlineExceeded = "deadline-exceeded",
        /// a requested entity does not exist
        NotFound = "not-found",
        /// the entity to be created exists
        AlreadyExists = "already-exists",
        /// the client may not make this call
        PermissionDenied = "permission-denied",
        /// a quota or a resource is used up
        ResourceExhausted = "resource-exhausted",
        /// the system is not in the state that the call needs
        FailedPrecondition = "failed-precondition",
        /// the call was aborted, typically by a conflict with another
        Aborted = "aborted",
        /// the call reached beyond the valid range
        OutOfRange = "out-of-range",
        /// the server does not have this method
        Unimplemented = "unimplemented",
        /// an invariant of the server is broken
        Internal = "internal",
        /// the service is unavailable at the moment
        Unavailable = "unavailable",
        /// data is lost or corrupted
        DataLoss = "data-loss",
        /// the call has no valid credentials
        Unauthenticated = "unauthenticated",
    }
}

impl GrpcStatusName {
    /// The code, as in `grpc-status`.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_grpc() {
        for (status, code) in [
            (GrpcStatusName::Ok, 0),
            (GrpcStatusName::DeadlineExceeded, 4),
            (GrpcStatusName::ResourceExhausted, 8),
            (GrpcStatusName::Unavailable, 14),
            (GrpcStatusName::Unauthenticated, 16),
        ] {
            assert_eq!(status.code(), code, "{}", status.name());
        }
        assert_eq!(GrpcStatusName::WORDS.len(), 17);
    }
}
