//! Request methods (RFC 9110 section 9, RFC 5789 for PATCH), and the guarantees of their semantics.
//!
//! Methods are case-sensitive: `get` is another method, about which nothing is known.

/// Longest method in bytes; the longest registered one has 17 (`UPDATEREDIRECTREF`).
pub(crate) const METHOD_BYTES_MAX: usize = 32;

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Method {
    /// `GET`
    #[default]
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `CONNECT`
    Connect,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `PATCH`
    Patch,
    /// Any other method; its name is the `method_span` of the request.
    Other,
}

impl Method {
    /// The method called `name`.
    #[inline]
    pub fn recognise(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }

    /// The name of the method; empty for [`Method::Other`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other => "",
        }
    }

    /// Whether the method asks for no change on the server (RFC 9110 section 9.2.1).
    #[inline]
    pub const fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// Whether several identical requests have the same effect as one (RFC 9110 section 9.2.2); not for unknown methods.
    #[inline]
    pub const fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn methods_are_case_sensitive_and_keep_their_promises() {
        let rows = [
            (Method::Get, true, true),
            (Method::Head, true, true),
            (Method::Options, true, true),
            (Method::Trace, true, true),
            (Method::Put, false, true),
            (Method::Delete, false, true),
            (Method::Post, false, false),
            (Method::Patch, false, false),
            (Method::Connect, false, false),
        ];
        for (method, safe, idempotent) in rows {
            assert_eq!(Method::recognise(method.as_str().as_bytes()), method);
            assert_eq!(Method::recognise(method.as_str().to_lowercase().as_bytes()), Method::Other);
            assert_eq!((method.is_safe(), method.is_idempotent()), (safe, idempotent), "{method:?}");
        }
        assert_eq!(Method::recognise(b""), Method::Other);
        assert!(!Method::Other.is_safe() && !Method::Other.is_idempotent());
    }
}
