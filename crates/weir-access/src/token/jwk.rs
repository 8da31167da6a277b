//! Keys that signatures are verified with (JWK Set, RFC 7517).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use aws_lc_rs::{hmac, signature};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::SignatureAlgorithm;

/// Keys of one set at most.
const KEYS_MAX: usize = 64;

/// Keys that one token is tried with at most, when it does not say which one has signed it: each takes some time.
const TRIES_MAX: usize = 4;

/// Bits of an RSA key: a larger one takes too long to verify.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 4096;

/// Bytes of a secret for HMAC (RFC 7518 section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// A set of keys. Two from the same text are equal.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    keys: Vec<VerifyingKey>,
    id: [u8; 32],
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq)]
struct VerifyingKey {
    id: Option<Box<str>>,
    /// The only algorithm that it is for, if it says so.
    algorithm: Option<SignatureAlgorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Box<[u8]>, exponent: Box<[u8]> },
    P256(Box<[u8]>),
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
    Secret(Box<[u8]>),
}

/// Something wrong with a set of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyProblem {
    /// It is not JSON with a list `keys`.
    NotASet(String),
    /// There are too many.
    TooMany,
    /// There is none that can be used.
    None,
    /// The key of this number, from 1, is not whole, or not sound.
    Key(usize, &'static str),
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyProblem::NotASet(why) => write!(f, "this is not a set of keys (JWK Set, RFC 7517): {why}"),
            KeyProblem::TooMany => write!(f, "there are more than {KEYS_MAX} keys"),
            KeyProblem::None => {
                f.write_str("there is no key for signatures of RSA, P-256, P-384 or Ed25519, and no secret")
            }
            KeyProblem::Key(number, why) => write!(f, "key {number}: {why}"),
        }
    }
}

impl KeySet {
    /// Reads a set of keys: `{"keys": [...]}`. Keys for encryption, and of kinds that are not known, are passed over (RFC 7517 section 5).
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<KeyProblem>> {
        let not_a_set = |why: &dyn fmt::Display| vec![KeyProblem::NotASet(why.to_string())];
        let value: Value = serde_json::from_str(text).map_err(|error| not_a_set(&error))?;
        let list =
            value.get("keys").and_then(Value::as_array).ok_or_else(|| not_a_set(&"it has no list `keys`"))?;
        if list.len() > KEYS_MAX {
            return Err(vec![KeyProblem::TooMany]);
        }
        let (mut keys, mut problems) = (Vec::new(), Vec::new());
        for (number, key) in (1..).zip(list) {
            let Some(key) = key.as_object() else {
                problems.push(KeyProblem::Key(number, "it is no object"));
                continue;
            };
            match VerifyingKey::read(key) {
                Ok(key) => keys.extend(key),
                Err(why) => problems.push(KeyProblem::Key(number, why)),
            }
        }
        if keys.is_empty() && problems.is_empty() {
            problems.push(KeyProblem::None);
        }
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        if problems.is_empty() { Ok(Self { keys, id }) } else { Err(problems) }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What tells it from other sets.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Whether some key is a secret.
    pub fn has_secret(&self) -> bool {
        self.keys.iter().any(|key| matches!(key.material, Material::Secret(_)))
    }

    /// Whether one of the keys has signed `message`; `None` when none of them can have.
    pub(super) fn verify(
        &self,
        algorithm: SignatureAlgorithm,
        key_id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let fits = |key: &&VerifyingKey| {
            let is_named = key_id.is_none() || key.id.is_none() || key.id.as_deref() == key_id;
            is_named && key.fits(algorithm)
        };
        let mut found = None;
        for key in self.keys.iter().filter(fits).take(TRIES_MAX) {
            let is_right = key.material.verify(algorithm, message, signature);
            found = Some(is_right);
            if is_right {
                break;
            }
        }
        found
    }
}

impl VerifyingKey {
    /// Reads a key; `None` when it is not for signatures, or of a kind that is not known.
    fn read(key: &Map<String, Value>) -> Result<Option<Self>, &'static str> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return Ok(None);
        }
        if let Some(operations) = key.get("key_ops").and_then(Value::as_array)
            && !operations.iter().any(|operation| operation == "verify")
        {
            return Ok(None);
        }
        let algorithm = match text("alg") {
            None => None,
            Some(name) => match SignatureAlgorithm::named(name) {
                Some(algorithm) => Some(algorithm),
                None => return Ok(None),
            },
        };
        let Some(material) = Material::read(&text)? else { return Ok(None) };
        let key = Self { id: text("kid").map(Box::from), algorithm: None, material };
        if algorithm.is_some_and(|algorithm| !key.fits(algorithm)) {
            return Err("its `alg` is of another kind of key");
        }
        Ok(Some(Self { algorithm, ..key }))
    }

    /// Whether a signature by this algorithm can be of this key.
    fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        use SignatureAlgorithm::{
            EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512,
        };
        let is_of_kind = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
            Material::Secret(_) => matches!(algorithm, Hs256 | Hs384 | Hs512),
        };
        is_of_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

impl Material {
    fn read<'a>(text: &impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, &'static str> {
        let bytes = |name: &str| text(name).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
        Ok(Some(match (text("kty"), text("crv")) {
            (Some("RSA"), _) => {
                let (Some(modulus), Some(exponent)) = (bytes("n"), bytes("e")) else {
                    return Err("`n` or `e` is missing, or is not base64url");
                };
                let significant = modulus.iter().position(|byte| *byte != 0).unwrap_or(modulus.len());
                let modulus = &modulus[significant..];
                let bits =
                    modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize);
                if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
                    return Err("a key of RSA has 2048 to 4096 bits");
                }
                Material::Rsa { modulus: modulus.into(), exponent: exponent.into() }
            }
            (Some("EC"), Some(curve @ ("P-256" | "P-384"))) => {
                let (Some(x), Some(y)) = (bytes("x"), bytes("y")) else {
                    return Err("`x` or `y` is missing, or is not base64url");
                };
                let len = if curve == "P-256" { 32 } else { 48 };
                if x.len() != len || y.len() != len {
                    return Err("`x` or `y` has not the length of its curve");
                }
                let point: Box<[u8]> = [&[4][..], &x, &y].concat().into();
                let parsed = match len {
                    32 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &*point),
                    _ => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, &*point),
                };
                if parsed.is_err() {
                    return Err("it is no point of its curve");
                }
                if len == 32 { Material::P256(point) } else { Material::P384(point) }
            }
            (Some("OKP"), Some("Ed25519")) => match bytes("x") {
                Some(key) if key.len() == 32 => Material::Ed25519(key.into()),
                _ => return Err("`x` is missing, or is not 32 bytes in base64url"),
            },
            (Some("oct"), _) => match bytes("k") {
                Some(secret) if secret.len() >= SECRET_BYTES_MIN => Material::Secret(secret.into()),
                Some(_) => return Err("a secret has at least 32 bytes"),
                None => return Err("`k` is missing, or is not base64url"),
            },
            (None, _) => return Err("`kty` is missing"),
            _ => return Ok(None),
        }))
    }

    fn verify(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Material::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: &**modulus, e: &**exponent };
                rsa(algorithm).is_some_and(|parameters| key.verify(parameters, message, signature).is_ok())
            }
            Material::P256(point) => of_public(&ECDSA_P256_SHA256_FIXED, point, message, signature),
            Material::P384(point) => of_public(&ECDSA_P384_SHA384_FIXED, point, message, signature),
            Material::Ed25519(key) => of_public(&ED25519, key, message, signature),
            Material::Secret(secret) => {
                let hash = match algorithm {
                    SignatureAlgorithm::Hs256 => hmac::HMAC_SHA256,
                    SignatureAlgorithm::Hs384 => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                hmac::verify(&hmac::Key::new(hash, secret), message, signature).is_ok()
            }
        }
    }
}

fn of_public(
    algorithm: &'static dyn signature::VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
}

fn rsa(algorithm: SignatureAlgorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        SignatureAlgorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        SignatureAlgorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        SignatureAlgorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        SignatureAlgorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        SignatureAlgorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        SignatureAlgorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(keys: &str) -> Vec<String> {
        let parsed = KeySet::parse(&format!("{{\"keys\": [{keys}]}}"));
        parsed.unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (key, expected) in [
            ("1", "key 1: it is no object"),
            ("{}", "key 1: `kty` is missing"),
            (r#"{"kty": "RSA", "n": "AQAB"}"#, "key 1: `n` or `e` is missing, or is not base64url"),
            (r#"{"kty": "RSA", "n": "AQAB", "e": "AQAB"}"#, "key 1: a key of RSA has 2048 to 4096 bits"),
            (
                r#"{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}"#,
                "key 1: `x` or `y` has not the length of its curve",
            ),
            (
                r#"{"kty": "EC", "crv": "P-256", "x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "y": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
                "key 1: it is no point of its curve",
            ),
            (
                r#"{"kty": "OKP", "crv": "Ed25519", "x": "AA"}"#,
                "key 1: `x` is missing, or is not 32 bytes in base64url",
            ),
            (r#"{"kty": "oct", "k": "c2VjcmV0"}"#, "key 1: a secret has at least 32 bytes"),
            (
                r#"{"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "alg": "RS256"}"#,
                "key 1: its `alg` is of another kind of key",
            ),
            (
                r#"{"kty": "OKP", "crv": "X25519", "x": "AA"}, {"kty": "RSA", "use": "enc"}, {"kty": "EC", "crv": "secp256k1"}"#,
                "there is no key for signatures of RSA, P-256, P-384 or Ed25519, and no secret",
            ),
            ("", "there is no key for signatures of RSA, P-256, P-384 or Ed25519, and no secret"),
        ] {
            assert_eq!(problems(key), [expected], "{key}");
        }
        assert_eq!(problems(&vec!["{}"; 65].join(",")), ["there are more than 64 keys"]);
        for text in ["", "[]", "{\"keys\": 1}", "{\"keys\": [}"] {
            assert!(matches!(KeySet::parse(text).unwrap_err()[..], [KeyProblem::NotASet(_)]), "{text}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let text = r#"{"keys": [{"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
        let set = KeySet::parse(text).unwrap();
        assert_eq!(format!("{set:?}"), "KeySet { keys: 1, .. }");
        assert!(set.has_secret() && !set.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "\\PC*") {
            let _any = KeySet::parse(&text);
        }
    }
}
