//! Users and the hashes of their passwords, as in a file of `htpasswd`.

use std::collections::HashMap;

use crate::password_hash::{HashError, PasswordHash, Strength};

/// Users of one file. Two with the same users are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users {
    hashes: HashMap<Box<[u8]>, PasswordHash>,
    /// What the password of an unknown user is compared with, so that it takes as long as that of most known ones.
    decoy: Option<PasswordHash>,
}

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    /// The hash that a password is to be compared with; `None` when there are no users at all.
    pub hash: Option<&'a PasswordHash>,
    /// Whether there is such a user: if not, no password is right.
    pub is_known: bool,
}

/// Something wrong with a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserProblem {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub kind: UserProblemKind,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserProblemKind {
    /// There is no colon, or no name before it.
    NoUser,
    /// What stands behind the name is no hash.
    Hash(HashError),
    /// The name is that of an earlier line.
    Again(Box<str>),
}

impl std::fmt::Display for UserProblem {
    /// `line 3: ...`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            UserProblemKind::NoUser => {
                f.write_str("this is not a user and the hash of a password, `USER:HASH`")
            }
            UserProblemKind::Hash(error) => error.fmt(f),
            UserProblemKind::Again(name) => write!(f, "the user `{name}` is in the file twice"),
        }
    }
}

impl Users {
    /// Reads a file of `htpasswd`: lines `USER:HASH`, what follows another colon is a comment; empty lines and those with `#` count for
    /// nothing.
    ///
    /// # Errors
    /// Every line that cannot be used.
    pub fn parse(text: &str) -> Result<Self, Vec<UserProblem>> {
        let (mut hashes, mut problems) = (HashMap::new(), Vec::new());
        for (line, entry) in (1..).zip(text.lines()) {
            let entry = entry.trim();
            if entry.is_empty() || entry.starts_with('#') {
                continue;
            }
            let mut problem = |kind| problems.push(UserProblem { line, kind });
            let Some((name, rest)) = entry.split_once(':').filter(|(name, _)| !name.is_empty()) else {
                problem(UserProblemKind::NoUser);
                continue;
            };
            match PasswordHash::parse(rest.split(':').next().unwrap_or_default()) {
                Ok(hash) => {
                    if hashes.insert(Box::from(name.as_bytes()), hash).is_some() {
                        problem(UserProblemKind::Again(name.into()));
                    }
                }
                Err(error) => problem(UserProblemKind::Hash(error)),
            }
        }
        if problems.is_empty() { Ok(Self::new(hashes)) } else { Err(problems) }
    }

    /// These users.
    pub fn from_into_iterator(users: impl IntoIterator<Item = (Box<[u8]>, PasswordHash)>) -> Self {
        Self::new(users.into_iter().collect())
    }

    fn new(hashes: HashMap<Box<[u8]>, PasswordHash>) -> Self {
        let mut frequency: HashMap<(u8, u64), usize> = HashMap::new();
        for hash in hashes.values() {
            *frequency.entry(hash.cost()).or_default() += 1;
        }
        // The text only makes the choice the same each time.
        let rank = |hash: &&PasswordHash| (frequency[&hash.cost()], hash.cost(), hash.text().to_owned());
        let decoy = hashes.values().max_by_key(rank).cloned();
        Self { hashes, decoy }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// How many have a weak hash.
    pub fn weak(&self) -> usize {
        self.hashes.values().filter(|hash| hash.strength() == Strength::Weak).count()
    }

    /// What is known of a user.
    pub fn find(&self, name: &[u8]) -> User<'_> {
        match self.hashes.get(name) {
            Some(hash) => User { hash: Some(hash), is_known: true },
            None => User { hash: self.decoy.as_ref(), is_known: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";
    const SHA: &str = "{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=";

    #[test]
    fn a_file() {
        let text = format!("# people\n\nann:{BCRYPT}\r\n  bob:{SHA}:a comment:of two\ncy:{BCRYPT}\n");
        let users = Users::parse(&text).unwrap();
        assert_eq!((users.len(), users.weak(), users.is_empty()), (3, 1, false));
        for (name, hash, is_known) in [
            ("ann", BCRYPT, true),
            ("bob", SHA, true),
            ("dora", BCRYPT, false),
            ("", BCRYPT, false),
            ("ANN", BCRYPT, false),
        ] {
            let user = users.find(name.as_bytes());
            assert_eq!((user.hash.map(PasswordHash::text), user.is_known), (Some(hash), is_known), "{name}");
        }
        assert_eq!(Users::parse("").unwrap().find(b"ann"), User { hash: None, is_known: false });
    }

    #[test]
    fn every_bad_line_is_named() {
        let text = format!("ann\n:{BCRYPT}\nbob:s3cret\nann:{SHA}\nann:{BCRYPT}\ncy:$2y$05$x\n");
        let problems = Users::parse(&text).unwrap_err();
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 1: this is not a user and the hash of a password, `USER:HASH`",
                "line 2: this is not a user and the hash of a password, `USER:HASH`",
                "line 3: this is a plain password, or a hash of DES",
                "line 5: the user `ann` is in the file twice",
                "line 6: this is not a whole hash of bcrypt",
            ]
        );
        assert!(!told.concat().contains("s3cret"));
    }
}
