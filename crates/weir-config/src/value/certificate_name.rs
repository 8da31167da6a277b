//! A name in a certificate, by which a server proves who it is.

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::ServerName;

use super::ValueError;
use super::ascii_host::ascii_help;

/// A subject alternative name (RFC 5280 section 4.2.1.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateName {
    /// A host name or an IP address.
    Host(ServerName<'static>),
    /// A URI, such as a SPIFFE ID.
    Uri(Box<str>),
}

impl FromStr for CertificateName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some((scheme, rest)) = text.split_once("://") {
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            let is_uri = is_scheme && !rest.is_empty() && rest.chars().all(|c| c.is_ascii_graphic());
            return match is_uri {
                true => Ok(Self::Uri(text.into())),
                false => Err(ValueError::new(format!("`{text}` is not a URI"))
                    .help("write it as it is in the certificate, such as `spiffe://example.test/app`")),
            };
        }
        match ServerName::try_from(text.to_owned()) {
            Ok(name) => Ok(Self::Host(name)),
            Err(_) => Err(ValueError::new(format!("`{text}` is no host name, IP address or URI"))
                .help("write the name alone, such as `app.internal`: no port, no wildcard")
                .help_if(ascii_help(text))),
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(&name.to_str()),
            Self::Uri(uri) => f.write_str(uri),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_scheme_is_a_uri() {
        for (text, is_uri) in [
            ("a.test", false),
            ("10.0.0.1", false),
            ("::1", false),
            ("spiffe://a.test/app", true),
            ("x+y://a", true),
        ] {
            let name: CertificateName = text.parse().expect(text);
            assert_eq!(
                (matches!(name, CertificateName::Uri(_)), name.to_string()),
                (is_uri, text.to_owned())
            );
        }
        for text in ["", "a b", "*.a.test", "a.test:443", "://a", "1a://b", "spiffe://", "spiffe://a b"] {
            assert!(text.parse::<CertificateName>().is_err(), "{text}");
        }
    }
}
