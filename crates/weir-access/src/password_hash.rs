//! Hashes of passwords, as `htpasswd` and others write them: what they are, whether they are weak, and whether a password is right.
//!
//! A hash that takes seconds or much memory to compute is refused when it is read, since every wrong password costs as much.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::{BASE64, BASE64_NOPAD, BitOrder, Encoding, Specification};

use crate::constant_time::is_same;
use crate::crypt;

/// The highest cost of bcrypt; each one more doubles the time, and 16 takes about 4 s.
const BCRYPT_COST_MAX: u32 = 16;
const BCRYPT_COST_MIN: u32 = 4;
/// Bytes of a password that bcrypt looks at, with a NUL behind it.
const BCRYPT_PASSWORD_MAX: usize = 72;

/// The most memory of Argon2, in KiB, and the most passes over it together.
const ARGON2_KIB_MAX: u32 = 256 * 1024;
const ARGON2_WORK_MAX: u64 = 4 * ARGON2_KIB_MAX as u64;
const ARGON2_LANES_MAX: u32 = 64;
const ARGON2_OUTPUT_MAX: usize = 64;

const SHA1_LEN: usize = 20;
/// The most bytes of a salt of SHA-1.
const SHA1_SALT_MAX: usize = 64;

/// The most rounds of the SHA hashes.
const SHA_ROUNDS_MAX: u32 = 1_000_000;
const SHA_ROUNDS_MIN: u32 = 1_000;

/// The hash of one password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    scheme: Scheme,
    text: Box<str>,
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Scheme {
    Bcrypt {
        cost: u32,
        salt: [u8; 16],
        hash: [u8; 23],
    },
    Argon2 {
        algorithm: u8,
        version: u32,
        kib: u32,
        passes: u32,
        lanes: u32,
        salt: Box<[u8]>,
        hash: Box<[u8]>,
    },
    /// Salted (`{SSHA}`, RFC 2307) or not.
    Sha1 {
        hash: [u8; SHA1_LEN],
        salt: Box<[u8]>,
    },
    Md5 {
        magic: &'static str,
        salt: Box<str>,
        hash: Box<str>,
    },
    Sha256 {
        rounds: u32,
        salt: Box<str>,
        hash: Box<str>,
    },
    Sha512 {
        rounds: u32,
        salt: Box<str>,
        hash: Box<str>,
    },
}

/// How well a hash protects a password once the file is stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// As well as is usual today.
    Good,
    /// Hardly: billions of passwords are tried in a second.
    Weak,
}

/// Why a text is no hash that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashError {
    /// It begins like no hash that is known.
    Unknown,
    /// It is a password in plain text, or one of `crypt(3)` with DES.
    PlainOrDes,
    /// It begins like a hash of this scheme and is none.
    Malformed(&'static str),
    /// Computing it would take too long or too much memory.
    TooExpensive(&'static str),
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashError::Unknown => f.write_str("this is not the hash of a password"),
            HashError::PlainOrDes => f.write_str("this is a plain password, or a hash of DES"),
            HashError::Malformed(scheme) => write!(f, "this is not a whole hash of {scheme}"),
            HashError::TooExpensive(limit) => write!(f, "this hash is too expensive to compute: {limit}"),
        }
    }
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// What is wrong with it; never with the text itself.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let scheme = if let Some(rest) = ["$2a$", "$2b$", "$2y$"].iter().find_map(|id| text.strip_prefix(id))
        {
            bcrypt_of(rest)?
        } else if text.starts_with("$argon2") {
            argon2_of(text)?
        } else if let Some(rest) = text.strip_prefix("{SHA}") {
            let hash = BASE64.decode(rest.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
            Scheme::Sha1 { hash: hash.ok_or(HashError::Malformed("SHA-1"))?, salt: Box::default() }
        } else if let Some(rest) = text.strip_prefix("{SSHA}") {
            salted_sha1_of(rest).ok_or(HashError::Malformed("SHA-1"))?
        } else if let Some((magic, rest)) =
            ["$apr1$", "$1$"].into_iter().find_map(|magic| Some((magic, text.strip_prefix(magic)?)))
        {
            let malformed = HashError::Malformed("MD5");
            let (salt, hash) = salt_and_hash(rest, crypt::MD5_SALT_MAX, crypt::MD5_LEN).ok_or(malformed)?;
            Scheme::Md5 { magic, salt, hash }
        } else if let Some(rest) = text.strip_prefix("$5$") {
            let (rounds, salt, hash) = sha_of(rest, crypt::SHA256_LEN, "SHA-256")?;
            Scheme::Sha256 { rounds, salt, hash }
        } else if let Some(rest) = text.strip_prefix("$6$") {
            let (rounds, salt, hash) = sha_of(rest, crypt::SHA512_LEN, "SHA-512")?;
            Scheme::Sha512 { rounds, salt, hash }
        } else if text.starts_with(['$', '{']) || text.is_empty() {
            return Err(HashError::Unknown);
        } else {
            return Err(HashError::PlainOrDes);
        };
        Ok(Self { scheme, text: text.into() })
    }

    /// Hashes a password with SHA-512 of `crypt(3)`. The salt has up to 16 characters of `./0-9A-Za-z`, others for each password.
    pub fn of_password(password: &[u8], salt: &str) -> Self {
        let rounds = sha_crypt::Params::RECOMMENDED;
        let hash = crypt::sha512(salt.as_bytes(), rounds, password).into_boxed_str();
        let text = format!("$6${salt}${hash}").into();
        Self { scheme: Scheme::Sha512 { rounds: 5000, salt: salt.into(), hash }, text }
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How well it protects the password.
    pub fn strength(&self) -> Strength {
        match self.scheme {
            Scheme::Sha1 { .. } | Scheme::Md5 { .. } => Strength::Weak,
            _ => Strength::Good,
        }
    }

    /// What decides how long it takes to compute; the same for hashes that take as long.
    pub(crate) fn cost(&self) -> (u8, u64) {
        match &self.scheme {
            Scheme::Sha1 { .. } => (0, 0),
            Scheme::Md5 { .. } => (1, 0),
            Scheme::Sha256 { rounds, .. } => (2, u64::from(*rounds)),
            Scheme::Sha512 { rounds, .. } => (3, u64::from(*rounds)),
            Scheme::Bcrypt { cost, .. } => (4, u64::from(*cost)),
            Scheme::Argon2 { kib, passes, .. } => (5, u64::from(*kib) * u64::from(*passes)),
        }
    }

    /// Whether this is the password. May take long, by the choice of who made the hash.
    pub fn verify(&self, password: &[u8]) -> bool {
        match &self.scheme {
            Scheme::Bcrypt { cost, salt, hash } => {
                let mut with_end = [password, b"\0"].concat();
                with_end.truncate(BCRYPT_PASSWORD_MAX);
                is_same(&bcrypt::bcrypt(*cost, *salt, &with_end)[..hash.len()], hash)
            }
            Scheme::Argon2 { algorithm, version, kib, passes, lanes, salt, hash } => {
                let argon2 = argon2(*algorithm, *version, (*kib, *passes, *lanes), hash.len());
                let mut computed = vec![0; hash.len()];
                argon2.is_some_and(|argon2| argon2.hash_password_into(password, salt, &mut computed).is_ok())
                    && is_same(&computed, hash)
            }
            Scheme::Sha1 { hash, salt } => {
                is_same(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[password, salt].concat()).as_ref(), hash)
            }
            Scheme::Md5 { magic, salt, hash } => {
                is_same(crypt::md5(magic.as_bytes(), salt.as_bytes(), password).as_bytes(), hash.as_bytes())
            }
            Scheme::Sha256 { rounds, salt, hash } => sha_crypt::Params::new(*rounds).is_ok_and(|rounds| {
                is_same(crypt::sha256(salt.as_bytes(), rounds, password).as_bytes(), hash.as_bytes())
            }),
            Scheme::Sha512 { rounds, salt, hash } => sha_crypt::Params::new(*rounds).is_ok_and(|rounds| {
                is_same(crypt::sha512(salt.as_bytes(), rounds, password).as_bytes(), hash.as_bytes())
            }),
        }
    }
}

/// Base64 of the hash and the salt behind it.
fn salted_sha1_of(rest: &str) -> Option<Scheme> {
    let decoded = BASE64.decode(rest.as_bytes()).ok()?;
    let (hash, salt) = decoded.split_first_chunk::<SHA1_LEN>()?;
    (salt.len() <= SHA1_SALT_MAX).then(|| Scheme::Sha1 { hash: *hash, salt: salt.into() })
}

/// The base64 of bcrypt.
fn bcrypt_base64() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    specification.bit_order = BitOrder::MostSignificantFirst;
    // Some programs leave what they like in the last bits of a salt.
    specification.check_trailing_bits = false;
    specification.encoding().expect("64 different symbols are an encoding")
}

fn bcrypt_of(rest: &str) -> Result<Scheme, HashError> {
    const MALFORMED: HashError = HashError::Malformed("bcrypt");
    const SALT_LEN: usize = 22;
    let (cost, rest) = rest.split_once('$').ok_or(MALFORMED)?;
    let cost = decimal(cost).filter(|_| cost.len() == 2).ok_or(MALFORMED)?;
    let (salt, hash) = rest.split_at_checked(SALT_LEN).ok_or(MALFORMED)?;
    let base64 = bcrypt_base64();
    let decode = |text: &str| base64.decode(text.as_bytes()).map_err(|_| MALFORMED);
    let salt = decode(salt)?.try_into().map_err(|_| MALFORMED)?;
    let hash = decode(hash)?.try_into().map_err(|_| MALFORMED)?;
    match cost {
        ..BCRYPT_COST_MIN => Err(MALFORMED),
        BCRYPT_COST_MIN..=BCRYPT_COST_MAX => Ok(Scheme::Bcrypt { cost, salt, hash }),
        _ => Err(HashError::TooExpensive("the cost of bcrypt is at most 16")),
    }
}

/// `$argon2id$v=19$m=65536,t=3,p=4$SALT$HASH` (the PHC string format).
fn argon2_of(text: &str) -> Result<Scheme, HashError> {
    const MALFORMED: HashError = HashError::Malformed("Argon2");
    let mut parts = text.split('$').skip(1);
    let mut next = || parts.next().ok_or(MALFORMED);
    let algorithm = match next()? {
        "argon2d" => 0,
        "argon2i" => 1,
        "argon2id" => 2,
        _ => return Err(MALFORMED),
    };
    let mut settings = next()?;
    let mut version = 16;
    if let Some(number) = settings.strip_prefix("v=") {
        version = decimal(number).ok_or(MALFORMED)?;
        settings = next()?;
    }
    let (salt, hash) = (next()?, next()?);
    if parts.next().is_some() {
        return Err(MALFORMED);
    }
    let mut settings = settings.split(',');
    let mut setting = |name: &str| {
        let number = settings.next().and_then(|setting| setting.strip_prefix(name));
        number.and_then(decimal).ok_or(MALFORMED)
    };
    let (kib, passes, lanes) = (setting("m=")?, setting("t=")?, setting("p=")?);
    if settings.next().is_some() {
        return Err(MALFORMED);
    }
    if kib > ARGON2_KIB_MAX {
        return Err(HashError::TooExpensive("Argon2 may use 256 MiB of memory"));
    }
    if u64::from(kib) * u64::from(passes) > ARGON2_WORK_MAX || lanes > ARGON2_LANES_MAX {
        return Err(HashError::TooExpensive("Argon2 may go through 1 GiB of memory in all its passes"));
    }
    let decode = |text: &str| BASE64_NOPAD.decode(text.as_bytes()).map_err(|_| MALFORMED);
    let (salt, hash) = (decode(salt)?, decode(hash)?);
    let is_sound = (argon2::MIN_SALT_LEN..=ARGON2_OUTPUT_MAX).contains(&salt.len())
        && hash.len() <= ARGON2_OUTPUT_MAX
        && self::argon2(algorithm, version, (kib, passes, lanes), hash.len()).is_some();
    if !is_sound {
        return Err(MALFORMED);
    }
    Ok(Scheme::Argon2 { algorithm, version, kib, passes, lanes, salt: salt.into(), hash: hash.into() })
}

fn argon2(
    algorithm: u8,
    version: u32,
    (kib, passes, lanes): (u32, u32, u32),
    output: usize,
) -> Option<Argon2<'static>> {
    let algorithm = [Algorithm::Argon2d, Algorithm::Argon2i, Algorithm::Argon2id][usize::from(algorithm)];
    let version = match version {
        16 => Version::V0x10,
        19 => Version::V0x13,
        _ => return None,
    };
    Params::new(kib, passes, lanes, Some(output)).ok().map(|params| Argon2::new(algorithm, version, params))
}

fn sha_of(rest: &str, len: usize, scheme: &'static str) -> Result<(u32, Box<str>, Box<str>), HashError> {
    let malformed = HashError::Malformed(scheme);
    let (rounds, rest) = match rest.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) {
        Some((rounds, rest)) => (decimal(rounds).ok_or(malformed)?.max(SHA_ROUNDS_MIN), rest),
        None => (sha_crypt::Params::RECOMMENDED_ROUNDS, rest),
    };
    if rounds > SHA_ROUNDS_MAX {
        return Err(HashError::TooExpensive("at most 1000000 rounds"));
    }
    let (salt, hash) = salt_and_hash(rest, crypt::SHA_SALT_MAX, len).ok_or(malformed)?;
    Ok((rounds, salt, hash))
}

/// `SALT$HASH`.
fn salt_and_hash(rest: &str, salt_max: usize, len: usize) -> Option<(Box<str>, Box<str>)> {
    let (salt, hash) = rest.split_once('$')?;
    let is_sound = salt.len() <= salt_max && hash.len() == len && crypt::has_only_digits(hash);
    is_sound.then(|| (salt.into(), hash.into()))
}

/// A number in decimal digits.
fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `s3cret` unless another password is named; made with `htpasswd`, `openssl passwd` and the reference of Argon2.
    const KNOWN: [(&str, &str, Strength); 11] = [
        ("s3cret", "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm", Strength::Good),
        ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe", Strength::Good),
        ("s3cret", "{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=", Strength::Weak),
        ("password", "{SSHA}yI6cZwQadOA1e+/f+T+H3eCQQhRzYWx0", Strength::Weak),
        ("s3cret", "$apr1$i/Nwo5cp$X9vbpH4taQ4tEcVud0Gi8.", Strength::Weak),
        ("password", "$apr1$xxxxxxxx$dxHfLAsjHkDRmG83UXe8K0", Strength::Weak),
        ("s3cret", "$1$abcd1234$8EVyWRmvNZkXOCje9FWfA0", Strength::Weak),
        ("secret", "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.", Strength::Good),
        (
            "secret",
            "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTITsuk0Ry5qulYz.",
            Strength::Good,
        ),
        (
            "password",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            Strength::Good,
        ),
        (
            "password",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
            Strength::Good,
        ),
    ];

    #[test]
    fn a_password_is_hashed() {
        let hash = PasswordHash::of_password(b"secret", "saltstring");
        assert_eq!(
            Some(hash.text()),
            KNOWN.iter().map(|(_, text, _)| *text).find(|text| text.starts_with("$6$"))
        );
        assert_eq!(PasswordHash::parse(hash.text()).as_ref(), Ok(&hash));
    }

    #[test]
    fn known_passwords() {
        for (password, text, strength) in KNOWN {
            let hash = PasswordHash::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(hash.verify(password.as_bytes()), "{text}");
            assert_eq!((hash.text(), hash.strength()), (text, strength));
            for wrong in ["", "S3cret", "s3cret ", "passwor", "b"] {
                assert!(!hash.verify(wrong.as_bytes()), "{text} {wrong}");
            }
        }
    }

    #[test]
    fn long_passwords() {
        // 72 bytes count for bcrypt, all for the others.
        let hash = PasswordHash::parse(KNOWN[0].1).unwrap();
        assert!(!hash.verify(&[b'a'; 1024]));
        for (_, text, _) in KNOWN {
            assert!(!PasswordHash::parse(text).unwrap().verify(&[b'x'; 300]), "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        use HashError::{Malformed, PlainOrDes, TooExpensive, Unknown};
        for (text, expected) in [
            ("", Unknown),
            ("$", Unknown),
            ("$2x$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm", Unknown),
            ("{PLAIN}s3cret", Unknown),
            ("s3cret", PlainOrDes),
            ("gi4/dOjZibAJg", PlainOrDes),
            ("$2y$05$", Malformed("bcrypt")),
            ("$2y$5$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm", Malformed("bcrypt")),
            ("$2y$03$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm", Malformed("bcrypt")),
            ("$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZf", Malformed("bcrypt")),
            (
                "$2y$17$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm",
                TooExpensive("the cost of bcrypt is at most 16"),
            ),
            (
                "$2y$05$\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                Malformed("bcrypt"),
            ),
            ("{SHA}AAAA", Malformed("SHA-1")),
            ("{SSHA}Zm9vCg==", Malformed("SHA-1")),
            ("{SSHA}_____wQadOA1e+/f+T+H3eCQQhRzYWx0", Malformed("SHA-1")),
            ("$apr1$toolongsalt$X9vbpH4taQ4tEcVud0Gi8.", Malformed("MD5")),
            ("$apr1$i/Nwo5cp$X9vbpH4taQ4tEcVud0Gi8", Malformed("MD5")),
            (
                "$5$rounds=5000000$salt$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.",
                TooExpensive("at most 1000000 rounds"),
            ),
            ("$5$rounds=x$salt$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.", Malformed("SHA-256")),
            ("$6$salt$short", Malformed("SHA-512")),
            ("$argon2x$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR", Malformed("Argon2")),
            ("$argon2id$v=20$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR", Malformed("Argon2")),
            ("$argon2id$v=19$m=256,t=2$c29tZXNhbHQ$nf65EOgLrQMR", Malformed("Argon2")),
            ("$argon2id$v=19$m=256,t=2,p=1$c2E$nf65EOgLrQMR", Malformed("Argon2")),
            ("$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$nf65EOgLrQMR", Malformed("Argon2")),
            (
                "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR",
                TooExpensive("Argon2 may use 256 MiB of memory"),
            ),
            (
                "$argon2id$v=19$m=65536,t=1000,p=1$c29tZXNhbHQ$nf65EOgLrQMR",
                TooExpensive("Argon2 may go through 1 GiB of memory in all its passes"),
            ),
        ] {
            assert_eq!(PasswordHash::parse(text).err(), Some(expected), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(start in 0..KNOWN.len(), cut in 0_usize..100, rest in "\\PC*") {
            let (_, text, _) = KNOWN[start];
            let _any = PasswordHash::parse(&format!("{}{rest}", &text[..cut.min(text.len())]));
        }
    }
}
