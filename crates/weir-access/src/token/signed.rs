//! A token in its compact form (JWS, RFC 7515 section 3.1): three parts with dots between them.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::{Algorithms, Claims, KeySet, SignatureAlgorithm};

/// A token whose signature was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedToken {
    /// What it says.
    pub claims: Claims,
}

/// Why a token proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// It is no token.
    Malformed,
    /// Its algorithm is none that counts here.
    Algorithm,
    /// No key can have signed it.
    Key,
    /// No key has signed it so.
    Signature,
}

impl SignedToken {
    /// Verifies the signature of a token, made by one of these algorithms. The times and all other claims are still to be checked.
    ///
    /// # Errors
    /// Why it proves nothing.
    pub fn verify(text: &[u8], keys: &KeySet, allowed: Algorithms) -> Result<Self, TokenError> {
        let mut parts = text.rsplitn(2, |byte| *byte == b'.');
        let (signature, signed) =
            (parts.next().unwrap_or_default(), parts.next().ok_or(TokenError::Malformed)?);
        let dot = signed.iter().position(|byte| *byte == b'.').ok_or(TokenError::Malformed)?;
        let (header, payload) = (&signed[..dot], &signed[dot + 1..]);
        if payload.contains(&b'.') {
            return Err(TokenError::Malformed);
        }
        let header = object(header)?;
        // An extension that has to be understood (RFC 7515 section 4.1.11), and none is known here.
        if header.contains_key("crit") {
            return Err(TokenError::Malformed);
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or(TokenError::Malformed)?;
        let algorithm = SignatureAlgorithm::named(name).filter(|algorithm| allowed.contains(*algorithm));
        let algorithm = algorithm.ok_or(TokenError::Algorithm)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(id) => Some(id.as_str().ok_or(TokenError::Malformed)?),
        };
        let signature = BASE64URL_NOPAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        match keys.verify(algorithm, key_id, signed, &signature) {
            Some(true) => {}
            Some(false) => return Err(TokenError::Signature),
            None => return Err(TokenError::Key),
        }
        let claims = Claims::new(object(payload)?).ok_or(TokenError::Malformed)?;
        Ok(Self { claims })
    }
}

/// A part that is an object of JSON.
fn object(part: &[u8]) -> Result<Map<String, Value>, TokenError> {
    let text = BASE64URL_NOPAD.decode(part).map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&text).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
        KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA384, RsaEncoding, RsaKeyPair,
    };

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const CLAIMS: &str = r#"{"sub": "ann"}"#;

    struct Signers {
        rsa: RsaKeyPair,
        p256: EcdsaKeyPair,
        p384: EcdsaKeyPair,
        ed25519: Ed25519KeyPair,
    }

    fn encode(bytes: &[u8]) -> String {
        BASE64URL_NOPAD.encode(bytes)
    }

    impl Signers {
        fn new() -> Self {
            Self {
                rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
                p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
                p384: EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(),
                ed25519: Ed25519KeyPair::generate().unwrap(),
            }
        }

        fn rsa_modulus(&self) -> String {
            // RSAPublicKey in DER: the modulus of 2048 bits is behind 9 bytes of headers and a zero.
            encode(&self.rsa.public_key().as_ref()[9..][..256])
        }

        fn keys(&self) -> KeySet {
            let point = |pair: &EcdsaKeyPair| {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                format!("\"x\": \"{}\", \"y\": \"{}\"", encode(x), encode(y))
            };
            let text = format!(
                "{{\"keys\": [
                    {{\"kty\": \"RSA\", \"kid\": \"r\", \"n\": \"{}\", \"e\": \"AQAB\"}},
                    {{\"kty\": \"EC\", \"kid\": \"e\", \"crv\": \"P-256\", \"alg\": \"ES256\", {}}},
                    {{\"kty\": \"EC\", \"crv\": \"P-384\", {}}},
                    {{\"kty\": \"OKP\", \"kid\": \"d\", \"crv\": \"Ed25519\", \"x\": \"{}\"}},
                    {{\"kty\": \"oct\", \"kid\": \"h\", \"k\": \"{}\"}}]}}",
                self.rsa_modulus(),
                point(&self.p256),
                point(&self.p384),
                encode(self.ed25519.public_key().as_ref()),
                encode(SECRET)
            );
            KeySet::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}"))
        }

        fn rsa(&self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        }

        fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
            let hmac = |hash| hmac::sign(&hmac::Key::new(hash, SECRET), message).as_ref().to_vec();
            match algorithm {
                "RS256" => self.rsa(&RSA_PKCS1_SHA256, message),
                "PS384" => self.rsa(&RSA_PSS_SHA384, message),
                "ES256" => self.p256.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
                "ES384" => self.p384.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
                "EdDSA" => self.ed25519.sign(message).as_ref().to_vec(),
                "HS256" => hmac(hmac::HMAC_SHA256),
                "HS512" => hmac(hmac::HMAC_SHA512),
                other => panic!("{other} is not signed here"),
            }
        }

        /// A token with this header, signed as `algorithm` says.
        fn token(&self, header: &str, algorithm: &str) -> String {
            let signed = format!("{}.{}", encode(header.as_bytes()), encode(CLAIMS.as_bytes()));
            format!("{signed}.{}", encode(&self.sign(algorithm, signed.as_bytes())))
        }
    }

    fn all() -> Algorithms {
        SignatureAlgorithm::ALL.iter().copied().collect()
    }

    fn header(algorithm: &str) -> String {
        format!("{{\"alg\": \"{algorithm}\"}}")
    }

    #[test]
    fn signatures_of_every_kind() {
        let signers = Signers::new();
        let keys = signers.keys();
        for algorithm in ["RS256", "PS384", "ES256", "ES384", "EdDSA", "HS256", "HS512"] {
            let token = signers.token(&header(algorithm), algorithm);
            let verified = SignedToken::verify(token.as_bytes(), &keys, all()).unwrap();
            assert_eq!(verified.claims.text("sub"), Some("ann"), "{algorithm}");
            // Not one that is not allowed, nor one whose claims or signature are others.
            let others =
                SignatureAlgorithm::ALL.iter().copied().filter(|other| other.name() != algorithm).collect();
            assert_eq!(SignedToken::verify(token.as_bytes(), &keys, others), Err(TokenError::Algorithm));
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let forged = format!(
                "{}.{signature}",
                signed.replace(&encode(CLAIMS.as_bytes()), &encode(b"{\"sub\":\"root\"}"))
            );
            assert_eq!(SignedToken::verify(forged.as_bytes(), &keys, all()), Err(TokenError::Signature));
            let mut bytes = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
            bytes[3] ^= 1;
            let damaged = format!("{signed}.{}", encode(&bytes));
            assert_eq!(SignedToken::verify(damaged.as_bytes(), &keys, all()), Err(TokenError::Signature));
            for short in [format!("{signed}."), format!("{signed}.AAAA")] {
                assert_eq!(SignedToken::verify(short.as_bytes(), &keys, all()), Err(TokenError::Signature));
            }
        }
    }

    #[test]
    fn a_key_is_never_taken_for_one_of_another_kind() {
        let signers = Signers::new();
        let keys = signers.keys();
        let verify = |token: &str| SignedToken::verify(token.as_bytes(), &keys, all()).err();
        // The public key of RSA as the secret of HMAC.
        let signed = format!("{}.{}", encode(br#"{"alg": "HS256", "kid": "r"}"#), encode(CLAIMS.as_bytes()));
        let secret = hmac::Key::new(hmac::HMAC_SHA256, signers.rsa_modulus().as_bytes());
        let forged = format!("{signed}.{}", encode(hmac::sign(&secret, signed.as_bytes()).as_ref()));
        assert_eq!(verify(&forged), Some(TokenError::Key));
        // One curve for the other, and an algorithm that the key is not for.
        let wrong = signers.token(r#"{"alg": "ES384"}"#, "ES256");
        assert_eq!(verify(&wrong), Some(TokenError::Signature));
        assert_eq!(
            verify(&signers.token(r#"{"alg": "ES384", "kid": "e"}"#, "ES384")),
            None,
            "a key without a name may be meant"
        );
        assert_eq!(verify(&signers.token(r#"{"alg": "RS256", "kid": "e"}"#, "RS256")), Some(TokenError::Key));
        assert_eq!(verify(&signers.token(r#"{"alg": "RS256", "kid": "x"}"#, "RS256")), Some(TokenError::Key));
        assert_eq!(verify(&signers.token(r#"{"alg": "RS256", "kid": "r"}"#, "RS256")), None);
    }

    #[test]
    fn what_is_no_token() {
        let signers = Signers::new();
        let keys = signers.keys();
        let good = signers.token(&header("EdDSA"), "EdDSA");
        let claims = encode(CLAIMS.as_bytes());
        for (text, expected) in [
            (String::new(), TokenError::Malformed),
            ("..".to_owned(), TokenError::Malformed),
            (format!("{good}.x"), TokenError::Malformed),
            (format!("{good}="), TokenError::Malformed),
            (format!(" {good}"), TokenError::Malformed),
            (good.rsplit_once('.').unwrap().0.to_owned(), TokenError::Malformed),
            (format!("{}.{claims}.", encode(br#"{"alg": "none"}"#)), TokenError::Algorithm),
            (format!("{}.{claims}.", encode(br#"{"alg": "NONE"}"#)), TokenError::Algorithm),
            (format!("{}.{claims}.", encode(br#"{"typ": "JWT"}"#)), TokenError::Malformed),
            (format!("{}.{claims}.", encode(br#"{"alg": 1}"#)), TokenError::Malformed),
            (format!("{}.{claims}.", encode(b"[]")), TokenError::Malformed),
            (signers.token(r#"{"alg": "EdDSA", "kid": 7}"#, "EdDSA"), TokenError::Malformed),
            (
                signers.token(r#"{"alg": "EdDSA", "crit": ["b64"], "b64": false}"#, "EdDSA"),
                TokenError::Malformed,
            ),
            (format!("{}.{claims}.", encode("[".repeat(10_000).as_bytes())), TokenError::Malformed),
        ] {
            assert_eq!(SignedToken::verify(text.as_bytes(), &keys, all()), Err(expected), "{text}");
        }
        assert_eq!(SignedToken::verify(good.as_bytes(), &KeySet::default(), all()), Err(TokenError::Key));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(header: Vec<u8>, payload: Vec<u8>, signature: Vec<u8>) {
            let keys = KeySet::default();
            let parts = [encode(&header), encode(&payload), encode(&signature)].join(".");
            let _any = SignedToken::verify(parts.as_bytes(), &keys, all());
            let _raw = SignedToken::verify(&header, &keys, all());
        }
    }
}
