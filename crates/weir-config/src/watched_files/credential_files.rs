//! Files of users with their passwords, and of the keys of tokens: read when a config names them, and again when they have changed.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use weir_access::{KeySet, Users};

/// Bytes of a file: more than 100 000 users have.
const BYTES_MAX: u64 = 16 << 20;

/// Reads a file of users.
///
/// # Errors
/// Everything that is wrong with it, each in one sentence.
pub fn load_users(file: &Path) -> Result<Arc<Users>, Vec<String>> {
    let text = read(file).map_err(|error| vec![error])?;
    let users = Users::parse(&text);
    users.map(Arc::new).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// Reads a file of keys.
///
/// # Errors
/// Everything that is wrong with it, each in one sentence.
pub fn load_keys(file: &Path) -> Result<Arc<KeySet>, Vec<String>> {
    let text = read(file).map_err(|error| vec![error])?;
    let keys = KeySet::parse(&text);
    keys.map(Arc::new).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// What is allowed in these users, but probably not intended.
pub fn doubt_about_users(users: &Users) -> Option<String> {
    if users.is_empty() {
        return Some("there is no user: every request is answered 401".to_owned());
    }
    let weak = users.weak();
    (weak > 0).then(|| {
        let (count, of) =
            (users.len(), if weak == 1 { "user has a weak hash" } else { "users have weak hashes" });
        format!("{weak} of {count} {of} (SHA-1 or MD5)")
    })
}

fn read(file: &Path) -> Result<String, String> {
    let mut text = Vec::new();
    let read = File::open(file).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
    read.map_err(|error| format!("the file cannot be read: {error}"))?;
    if text.len() as u64 > BYTES_MAX {
        return Err("the file is larger than 16 MiB".to_owned());
    }
    String::from_utf8(text).map_err(|_| "the file is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_whole_or_not() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("users");
        assert!(load_users(&file).is_err_and(|errors| errors[0].starts_with("the file cannot be read")));
        std::fs::write(&file, b"ann:{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=\n").expect("written");
        let users = load_users(&file).expect("it is well-formed");
        assert_eq!(doubt_about_users(&users).as_deref(), Some("1 of 1 user has a weak hash (SHA-1 or MD5)"));
        std::fs::write(&file, b"ann:x\n\xff\n").expect("written");
        assert_eq!(load_users(&file), Err(vec!["the file is not UTF-8".to_owned()]));
        std::fs::write(&file, b"ann:x\nbob\n").expect("written");
        assert_eq!(load_users(&file).map_err(|errors| errors.len()), Err(2));
        assert!(doubt_about_users(&Users::default()).is_some());
    }
}
