//! The hashes of `crypt(3)` that are older than bcrypt: MD5 in the variants of BSD and of Apache, SHA-256 and SHA-512.

use md5::{Digest as _, Md5};
use sha_crypt::Params;

/// The digits of base64 of `crypt(3)`.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Characters of a salt that count.
pub(crate) const MD5_SALT_MAX: usize = 8;
pub(crate) const SHA_SALT_MAX: usize = 16;

/// Length of a hash in characters.
pub(crate) const MD5_LEN: usize = 22;
pub(crate) const SHA256_LEN: usize = 43;
pub(crate) const SHA512_LEN: usize = 86;

/// Whether a text has no other characters than hashes have.
pub(crate) fn has_only_digits(text: &str) -> bool {
    text.bytes().all(|byte| DIGITS.contains(&byte))
}

/// Hashes with MD5; `magic` is `$1$`, or `$apr1$` for that of Apache.
pub(crate) fn md5(magic: &[u8], salt: &[u8], password: &[u8]) -> String {
    let alternate = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for at in (0..password.len()).step_by(alternate.len()) {
        first.update(&alternate[..alternate.len().min(password.len() - at)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        // The first character of the password, since the original has read its buffer so.
        first.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest = first.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        next.update(if round % 2 == 1 { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if round % 2 == 1 { &digest[..] } else { password });
        digest = next.finalize();
    }
    let mut text = String::with_capacity(MD5_LEN);
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        encode(&mut text, [digest[a], digest[b], digest[c]], 4);
    }
    encode(&mut text, [0, 0, digest[11]], 2);
    text
}

/// Hashes with SHA-256.
pub(crate) fn sha256(salt: &[u8], rounds: Params, password: &[u8]) -> String {
    let digest = sha_crypt::sha256_crypt(password, salt, rounds);
    let mut text = String::with_capacity(SHA256_LEN);
    // The three thirds of the digest take turns at being first.
    for at in 0..10 {
        let third = [at, at + 10, at + 20];
        encode(&mut text, turned(third, at).map(|index| digest[index]), 4);
    }
    encode(&mut text, [0, digest[31], digest[30]], 3);
    text
}

/// Hashes with SHA-512.
pub(crate) fn sha512(salt: &[u8], rounds: Params, password: &[u8]) -> String {
    let digest = sha_crypt::sha512_crypt(password, salt, rounds);
    let mut text = String::with_capacity(SHA512_LEN);
    for at in 0..21 {
        let third = [at, at + 21, at + 42];
        encode(&mut text, turned(third, 2 * at).map(|index| digest[index]), 4);
    }
    encode(&mut text, [0, 0, digest[63]], 2);
    text
}

/// The same, begun `turns` places before its first element.
fn turned(mut of: [usize; 3], turns: usize) -> [usize; 3] {
    of.rotate_right(turns % 3);
    of
}

/// Appends digits for three bytes, the lowest six bits first.
fn encode(text: &mut String, bytes: [u8; 3], digits: usize) {
    let mut bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    for _ in 0..digits {
        text.push(char::from(DIGITS[(bits & 63) as usize]));
        bits >>= 6;
    }
}
