//! `userlist`: users and the hashes of their passwords.

use std::collections::HashMap;

use super::output::{Keys, literal};
use crate::report::Ledger;
use crate::source::Statement;

/// The users of a list.
pub(super) struct UserList<'s> {
    users: Vec<(&'s str, String, &'s Statement)>,
}

impl<'s> UserList<'s> {
    pub(super) fn write(&self, keys: &mut Keys<'s>) {
        for (name, hash, statement) in &self.users {
            keys.set_path(&["basic", "users", name], hash.clone(), *statement);
        }
    }
}

/// Reads `userlist` sections.
pub(super) fn user_lists<'s>(
    ledger: &'s Ledger,
    sections: &[&'s Statement],
) -> HashMap<&'s str, UserList<'s>> {
    let mut lists = HashMap::new();
    for section in sections {
        let mut words = ledger.words(section);
        let name = words.text().unwrap_or_default();
        ledger.exact(section);
        let mut users = Vec::new();
        for line in section.children() {
            let mut words = ledger.words(line);
            let user = words.text().unwrap_or_default();
            match line.name() {
                "user" => {
                    let groups = words.value_of("groups");
                    if groups.is_some() {
                        ledger.approximated(line, "users have no groups: each list of users is one");
                    }
                    match (words.text(), words.text()) {
                        (Some("password"), Some(hash)) if is_hash(hash) => {
                            ledger.exact(line);
                            users.push((user, literal(hash), line));
                        }
                        (Some("password"), Some(_)) => ledger.unsupported(line, "hash the password by `htpasswd -nB USER`, and put what it prints in `basic.users`"),
                        _ => ledger.unsupported(line, "passwords are kept as hashes: `htpasswd -nB USER` prints one for `basic.users`"),
                    }
                }
                "group" => {
                    words.rest();
                    ledger.approximated(line, "users have no groups: each list of users is one");
                }
                _ => ledger.unsupported(line, "users have names and passwords"),
            }
        }
        lists.insert(name, UserList { users });
    }
    lists
}

/// Hashes of `crypt` that Weir verifies.
fn is_hash(text: &str) -> bool {
    ["$2a$", "$2b$", "$2y$", "$5$", "$6$"].iter().any(|kind| text.starts_with(kind))
}
