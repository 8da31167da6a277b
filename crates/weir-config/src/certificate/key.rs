//! From a private key to the public one, in the form that a certificate contains.

use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use rustls_pki_types::PrivateKeyDer;

use super::FileProblem;

/// Whether a key that [`public_key`] takes is for RSA.
pub(super) fn is_rsa(key: &PrivateKeyDer<'_>) -> bool {
    rsa_pair(key).is_some()
}

fn rsa_pair(key: &PrivateKeyDer<'_>) -> Option<RsaKeyPair> {
    let pair = match key {
        PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(key.secret_der()),
        _ => RsaKeyPair::from_pkcs8(key.secret_der()),
    };
    pair.ok()
}

/// The content of the bit string `subjectPublicKey` (RFC 5280 section 4.1.2.7) that belongs to a private key.
pub(super) fn public_key(key: &PrivateKeyDer<'_>) -> Result<Vec<u8>, FileProblem> {
    let der = key.secret_der();
    if let Some(pair) = rsa_pair(key) {
        return Ok(pair.public_key().as_ref().to_vec());
    }
    for curve in
        [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING]
    {
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve, der) {
            return Ok(pair.public_key().as_ref().to_vec());
        }
    }
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Ok(pair.public_key().as_ref().to_vec());
    }
    let help = "RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519 can be used";
    Err(("the key is damaged or of a kind that is not supported".to_owned(), Some(help)))
}
