//! The algorithms of signatures (RFC 7518 section 3.1, RFC 8037).

/// Declares the algorithms with their names.
macro_rules! algorithms {
    ($($variant:ident $name:literal $doc:literal,)+) => {
        /// An algorithm of a signature.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SignatureAlgorithm {
            $(#[doc = $doc] $variant,)+
        }

        impl SignatureAlgorithm {
            /// All of them.
            pub const ALL: &[SignatureAlgorithm] = &[$(SignatureAlgorithm::$variant,)+];

            /// The name in a token.
            pub const fn name(self) -> &'static str {
                match self { $(SignatureAlgorithm::$variant => $name,)+ }
            }
        }
    };
}

algorithms! {
    Rs256 "RS256" "RSA with PKCS #1 v1.5 and SHA-256.",
    Rs384 "RS384" "RSA with PKCS #1 v1.5 and SHA-384.",
    Rs512 "RS512" "RSA with PKCS #1 v1.5 and SHA-512.",
    Ps256 "PS256" "RSA with PSS and SHA-256.",
    Ps384 "PS384" "RSA with PSS and SHA-384.",
    Ps512 "PS512" "RSA with PSS and SHA-512.",
    Es256 "ES256" "ECDSA with P-256 and SHA-256.",
    Es384 "ES384" "ECDSA with P-384 and SHA-384.",
    EdDsa "EdDSA" "Ed25519.",
    Hs256 "HS256" "HMAC with SHA-256: each party that can verify a token can make one.",
    Hs384 "HS384" "HMAC with SHA-384: each party that can verify a token can make one.",
    Hs512 "HS512" "HMAC with SHA-512: each party that can verify a token can make one.",
}

impl SignatureAlgorithm {
    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<SignatureAlgorithm> {
        SignatureAlgorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }
}

/// A set of algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Algorithms(u16);

impl Algorithms {
    /// Whether it has this one.
    pub const fn contains(self, algorithm: SignatureAlgorithm) -> bool {
        self.0 & 1 << algorithm as u16 != 0
    }

    /// A number for the set.
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl FromIterator<SignatureAlgorithm> for Algorithms {
    fn from_iter<T: IntoIterator<Item = SignatureAlgorithm>>(all: T) -> Self {
        Self(all.into_iter().fold(0, |bits, algorithm| bits | 1 << algorithm as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets() {
        for algorithm in SignatureAlgorithm::ALL {
            assert_eq!(SignatureAlgorithm::named(algorithm.name()), Some(*algorithm));
            let only: Algorithms = [*algorithm].into_iter().collect();
            assert_eq!(SignatureAlgorithm::ALL.iter().filter(|other| only.contains(**other)).count(), 1);
        }
        for name in ["none", "None", "rs256", "ES256K", "ES512", ""] {
            assert_eq!(SignatureAlgorithm::named(name), None, "{name}");
        }
    }
}
