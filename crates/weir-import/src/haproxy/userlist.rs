//! `userlist`: users, their groups, and the hashes of their passwords.

use std::collections::HashMap;

use super::output::{Keys, literal};
use crate::report::Ledger;
use crate::source::{SourceFiles, Statement};

/// Passwords in plain text that are hashed, in all lists: each takes some milliseconds.
const HASHED_MAX: usize = 64;

/// The longest of them.
const PASSWORD_MAX: usize = 128;

/// The users of a list.
pub(super) struct UserList<'s> {
    users: Vec<ListedUser<'s>>,
}

struct ListedUser<'s> {
    name: &'s str,
    hash: String,
    groups: Vec<&'s str>,
    statement: &'s Statement,
}

impl<'s> UserList<'s> {
    /// Writes the users of these groups; of no group, all of them.
    pub(super) fn write(&self, keys: &mut Keys<'s>, groups: &[String]) {
        let is_in = |user: &&ListedUser<'s>| {
            groups.is_empty() || user.groups.iter().any(|own| groups.iter().any(|group| group == own))
        };
        for user in self.users.iter().filter(is_in) {
            keys.set_path(&["basic", "users", user.name], user.hash.clone(), user.statement);
        }
    }

    /// Whether anyone is in one of these groups.
    pub(super) fn has(&self, groups: &[String]) -> bool {
        let is_in = |user: &ListedUser<'s>| {
            groups.is_empty() || user.groups.iter().any(|own| groups.iter().any(|group| group == own))
        };
        self.users.iter().any(is_in)
    }
}

/// Reads `userlist` sections.
pub(super) fn user_lists<'s>(
    ledger: &'s Ledger,
    sections: &[&'s Statement],
    files: &dyn SourceFiles,
) -> HashMap<&'s str, UserList<'s>> {
    let mut lists = HashMap::new();
    let mut hashes = PasswordHashes { files, left: HASHED_MAX };
    for section in sections {
        let mut words = ledger.words(section);
        let name = words.text().unwrap_or_default();
        ledger.exact(section);
        let mut users = Vec::new();
        for line in section.children().iter().filter(|line| line.name() != "group") {
            match line.name() {
                "user" => users.extend(user(ledger, line, name, &mut hashes)),
                _ => ledger.unsupported(line, "users have names and passwords"),
            }
        }
        for line in section.children().iter().filter(|line| line.name() == "group") {
            group(ledger, line, &mut users);
        }
        lists.insert(name, UserList { users });
    }
    lists
}

/// What hashes passwords, and how often.
struct PasswordHashes<'f> {
    files: &'f dyn SourceFiles,
    left: usize,
}

impl PasswordHashes<'_> {
    fn of(&mut self, password: &str, salt: &str) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        (password.len() <= PASSWORD_MAX).then(|| self.files.password_hash(password, salt))?
    }
}

/// `user NAME password HASH groups A,B`.
fn user<'s>(
    ledger: &'s Ledger,
    line: &'s Statement,
    list: &str,
    hashes: &mut PasswordHashes<'_>,
) -> Option<ListedUser<'s>> {
    let mut words = ledger.words(line);
    let name = words.text().unwrap_or_default();
    let groups = words.value_of("groups").map_or_else(Vec::new, |groups| groups.split(',').collect());
    let advice = "`htpasswd -nB USER` prints a hash for `basic.users`";
    let hash = match (words.text(), words.text()) {
        (Some("password"), Some(hash)) if is_hash(hash) => Some(hash.to_owned()),
        (Some("insecure-password"), Some(password)) => hashes.of(password, &salt(list, name)),
        _ => None,
    };
    let Some(hash) = hash else {
        ledger.unsupported(line, advice);
        return None;
    };
    ledger.exact(line);
    Some(ListedUser { name, hash: literal(&hash), groups, statement: line })
}

/// `group NAME users A,B`.
fn group<'s>(ledger: &'s Ledger, line: &'s Statement, users: &mut [ListedUser<'s>]) {
    let mut words = ledger.words(line);
    let name = words.text().unwrap_or_default();
    let members = words.value_of("users").unwrap_or_default();
    for user in users.iter_mut().filter(|user| members.split(',').any(|member| member == user.name)) {
        user.groups.push(name);
    }
    ledger.exact(line);
}

/// A salt that is another one for each user, and the same each time that the file is read: a reload changes nothing.
fn salt(list: &str, user: &str) -> String {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // FNV-1a.
    let mut state = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in list.bytes().chain([0]).chain(user.bytes()) {
        state = (state ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    (0..16).map(|place| char::from(DIGITS[(state >> (6 * place) & 63) as usize])).collect()
}

/// Hashes of `crypt` that Weir verifies.
fn is_hash(text: &str) -> bool {
    ["$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$"].iter().any(|kind| text.starts_with(kind))
}
