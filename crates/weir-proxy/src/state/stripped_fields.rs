//! Fields that only Weir may send to servers: removed from the headers and trailers of clients.
//!
//! They describe the certificate of the client. A client that could send them could pose as any other.

/// Names that clients may not use.
#[derive(Debug)]
pub(crate) struct StrippedFields(Box<[Box<str>]>);

impl StrippedFields {
    /// `None` when there are none.
    pub(crate) fn new(mut names: Vec<Box<str>>) -> Option<Self> {
        names.sort();
        names.dedup();
        (!names.is_empty()).then(|| Self(names.into()))
    }

    /// Whether a server may take `name` for one of these: servers with a CGI-style environment know letters and digits only.
    pub(crate) fn covers(&self, name: &[u8]) -> bool {
        let alike = |(one, other): (&u8, &u8)| {
            one.eq_ignore_ascii_case(other) || !one.is_ascii_alphanumeric() && !other.is_ascii_alphanumeric()
        };
        let is_taken_for =
            |known: &str| known.len() == name.len() && known.as_bytes().iter().zip(name).all(alike);
        self.0.iter().any(|known| is_taken_for(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_gets_past() {
        let stripped = StrippedFields::new(vec!["x-ssl-client-verify".into(), "client-cert".into()]).unwrap();
        for (name, expected) in [
            ("x-ssl-client-verify", true),
            ("X-SSL-Client-Verify", true),
            ("X_SSL_CLIENT_VERIFY", true),
            ("x.ssl-client~verify", true),
            ("Client_Cert", true),
            ("x-ssl-client-verif", false),
            ("x-ssl-client-verify2", false),
            ("xxssl-client-verify", false),
            ("client-certs", false),
            ("", false),
        ] {
            assert_eq!(stripped.covers(name.as_bytes()), expected, "{name}");
        }
        assert!(StrippedFields::new(Vec::new()).is_none());
    }
}
