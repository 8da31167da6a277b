//! Status codes of gRPC: their numbers and names, and which of them a status of HTTP becomes.
//!
//! Two mappings, for two situations: a response of an HTTP server that knows nothing of gRPC, and an answer of the proxy's own.

use super::number::number;

/// Declares [`GrpcStatus`] with the stable name of each code. The first has number 0, and so on.
macro_rules! statuses {
    ($($variant:ident $name:literal $sentence:literal,)+) => {
        /// A status code that gRPC defines (`statuscodes.md`); the number of a variant is its code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum GrpcStatus {
            $(#[doc = $sentence] $variant,)+
        }

        impl GrpcStatus {
            /// Every code, in ascending order; `status as usize` is its index.
            pub const ALL: &[GrpcStatus] = &[$(GrpcStatus::$variant,)+];

            /// The name in kebab case: word in the log, label in metrics.
            pub const fn name(self) -> &'static str {
                match self { $(GrpcStatus::$variant => $name,)+ }
            }
        }
    };
}

statuses! {
    Ok "ok" "The call succeeded.",
    Cancelled "cancelled" "The call was cancelled, as a rule by its client.",
    Unknown "unknown" "An error of which no more is known.",
    InvalidArgument "invalid-argument" "An argument is wrong in any state of the server.",
    DeadlineExceeded "deadline-exceeded" "The deadline passed before the call ended.",
    NotFound "not-found" "What the call asks for does not exist.",
    AlreadyExists "already-exists" "What the call would create exists already.",
    PermissionDenied "permission-denied" "The client, whose identity is known, may not make the call.",
    ResourceExhausted "resource-exhausted" "A quota or a limit was reached.",
    FailedPrecondition "failed-precondition" "The server is not in the state that the call needs.",
    Aborted "aborted" "The call conflicted with another one.",
    OutOfRange "out-of-range" "The call goes past the valid range.",
    Unimplemented "unimplemented" "The server does not have the method.",
    Internal "internal" "An invariant of a system underneath was broken.",
    Unavailable "unavailable" "The service cannot be used at present; another attempt may succeed.",
    DataLoss "data-loss" "Data was lost or corrupted.",
    Unauthenticated "unauthenticated" "The call has no valid credentials.",
}

impl GrpcStatus {
    /// The number that `grpc-status` carries.
    #[inline]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The status of this number; `None` when gRPC defines none. To be treated as [`GrpcStatus::Unknown`] where one is needed.
    #[inline]
    pub fn from_code(code: u32) -> Option<GrpcStatus> {
        GrpcStatus::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Reads the value of a `grpc-status`: a decimal number without leading zeros (`PROTOCOL-HTTP2.md`, Responses). It may be one that
    /// gRPC does not define. `None` when the value is anything else, or above 2^32-1.
    pub fn parse_code(value: &[u8]) -> Option<u32> {
        number(value)
    }

    /// The status of a call whose response has this HTTP status and no `grpc-status` (`http-grpc-status-mapping.md`).
    ///
    /// 200 is an error as well: a response that succeeded says so in `grpc-status`.
    pub const fn from_http(status: u16) -> GrpcStatus {
        match status {
            400 | 431 => GrpcStatus::Internal,
            401 => GrpcStatus::Unauthenticated,
            403 => GrpcStatus::PermissionDenied,
            404 => GrpcStatus::Unimplemented,
            429 | 502 | 503 | 504 => GrpcStatus::Unavailable,
            _ => GrpcStatus::Unknown,
        }
    }

    /// The status of an answer that a proxy gives by itself, where it would answer with this HTTP status without gRPC.
    ///
    /// That of [`GrpcStatus::from_http`], except where the proxy knows more than a client could guess. The codes are then those that
    /// libraries of gRPC use for the same event (`statuscodes.md`): limits on sizes are `RESOURCE_EXHAUSTED`, time limits are
    /// `DEADLINE_EXCEEDED`, features that are missing are `UNIMPLEMENTED`. 499, 500 and 508 have the code of the same
    /// meaning in `google/rpc/code.proto`.
    pub const fn from_failure(status: u16) -> GrpcStatus {
        match status {
            408 | 504 => GrpcStatus::DeadlineExceeded,
            413 | 414 | 431 => GrpcStatus::ResourceExhausted,
            405 | 501 | 505 => GrpcStatus::Unimplemented,
            499 => GrpcStatus::Cancelled,
            500 | 508 => GrpcStatus::Internal,
            _ => GrpcStatus::from_http(status),
        }
    }

    /// The HTTP status that says most nearly the same of a server (`google/rpc/code.proto`): what a rule for statuses of HTTP goes by.
    pub const fn as_http(self) -> u16 {
        match self {
            GrpcStatus::Ok => 200,
            GrpcStatus::InvalidArgument | GrpcStatus::FailedPrecondition | GrpcStatus::OutOfRange => 400,
            GrpcStatus::Unauthenticated => 401,
            GrpcStatus::PermissionDenied => 403,
            GrpcStatus::NotFound => 404,
            GrpcStatus::AlreadyExists | GrpcStatus::Aborted => 409,
            GrpcStatus::ResourceExhausted => 429,
            GrpcStatus::Cancelled => 499,
            GrpcStatus::Unknown | GrpcStatus::Internal | GrpcStatus::DataLoss => 500,
            GrpcStatus::Unimplemented => 501,
            GrpcStatus::Unavailable => 503,
            GrpcStatus::DeadlineExceeded => 504,
        }
    }

    /// Reads the value of a `grpc-status`; anything that gRPC does not define is [`GrpcStatus::Unknown`].
    pub fn parse(value: &[u8]) -> GrpcStatus {
        GrpcStatus::parse_code(value).and_then(GrpcStatus::from_code).unwrap_or(GrpcStatus::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::GrpcStatus;

    /// Names as `statuscodes.md` spells them, by number.
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];

    #[test]
    fn codes_have_the_numbers_and_names_of_grpc() {
        assert_eq!(GrpcStatus::ALL.len(), NAMES.len());
        for (status, (code, name)) in GrpcStatus::ALL.iter().zip((0..).zip(NAMES)) {
            assert_eq!(status.code(), code);
            assert_eq!(status.name(), name.to_lowercase().replace('_', "-"));
            assert_eq!(format!("{status:?}").to_lowercase(), name.to_lowercase().replace('_', ""));
            assert_eq!(GrpcStatus::from_code(code), Some(*status));
            assert_eq!(GrpcStatus::parse_code(code.to_string().as_bytes()), Some(code));
        }
        for code in [17, 99, u32::MAX] {
            assert_eq!(GrpcStatus::from_code(code), None);
        }
    }

    #[test]
    fn values_of_grpc_status() {
        for (value, code, status) in [
            ("0", Some(0), Some(GrpcStatus::Ok)),
            ("14", Some(14), Some(GrpcStatus::Unavailable)),
            ("16", Some(16), Some(GrpcStatus::Unauthenticated)),
            ("17", Some(17), None),
            ("4294967295", Some(u32::MAX), None),
            ("", None, None),
            ("00", None, None),
            ("OK", None, None),
            ("0, 0", None, None),
        ] {
            let read = GrpcStatus::parse_code(value.as_bytes());
            assert_eq!((read, read.and_then(GrpcStatus::from_code)), (code, status), "{value}");
        }
    }

    #[test]
    fn every_http_status_has_its_code() {
        let mapped = |status: u16| match status {
            400 | 431 => "internal",
            401 => "unauthenticated",
            403 => "permission-denied",
            404 => "unimplemented",
            429 | 502..=504 => "unavailable",
            _ => "unknown",
        };
        let own = [
            (405, "unimplemented"),
            (408, "deadline-exceeded"),
            (413, "resource-exhausted"),
            (414, "resource-exhausted"),
            (431, "resource-exhausted"),
            (499, "cancelled"),
            (500, "internal"),
            (501, "unimplemented"),
            (504, "deadline-exceeded"),
            (505, "unimplemented"),
            (508, "internal"),
        ];
        for status in 0..=999 {
            assert_eq!(GrpcStatus::from_http(status).name(), mapped(status), "{status}");
            let known = own.iter().find(|(known, _)| *known == status);
            let name = known.map_or(mapped(status), |(_, name)| name);
            assert_eq!(GrpcStatus::from_failure(status).name(), name, "{status}");
        }
    }

    #[test]
    fn failures_have_a_failure_of_http() {
        for status in GrpcStatus::ALL {
            let is_failure = (400..600).contains(&status.as_http());
            assert_eq!(is_failure, *status != GrpcStatus::Ok, "{}", status.name());
        }
        for (value, status) in [
            ("0", GrpcStatus::Ok),
            ("14", GrpcStatus::Unavailable),
            ("99", GrpcStatus::Unknown),
            ("", GrpcStatus::Unknown),
        ] {
            assert_eq!(GrpcStatus::parse(value.as_bytes()), status, "{value}");
        }
    }
}
