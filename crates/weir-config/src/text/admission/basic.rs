//! `basic` of a route in the text.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use weir_access::Users;

use crate::config::BasicAuth;
use crate::key::{Map, Spanned, TextFormat, section, text_values};
use crate::value::ValueError;

section! {
    /// HTTP Basic authentication (RFC 7617). Passwords are verified outside the threads that carry requests, and right ones are remembered for
    /// a while. Preflights of CORS pass without, since browsers send no credentials with them. Use it over TLS only.
    #[derive(Debug, Clone)]
    pub(crate) struct BasicText at "listener.NAME.route.basic" {
        /// What browsers show when they ask for the password.
        realm: Realm = "Restricted", like "nginx `auth_basic`, HAProxy `http-request auth realm`, Traefik `basicAuth.realm`";
        /// A file of users with the hashes of their passwords, as `htpasswd` writes it: bcrypt, Argon2, SHA-256 and SHA-512 of `crypt`; also
        /// SHA-1 and MD5, which are weak.
        users_file: Spanned<Box<str>> = optional, like "nginx `auth_basic_user_file`, HAProxy `userlist`, Traefik `basicAuth.usersFile`";
        /// Users with the hashes of their passwords, instead of a file.
        users: Map<Spanned<PasswordHashText>> = {}, like "HAProxy `userlist`, Traefik `basicAuth.users`";
        /// How often the file is checked for changes. A new one is used for the requests that follow; if it cannot be used, the old one stays
        /// in use and the log reports it.
        reload: Option<Duration> = "10s", in 100..=86_400_000;
        /// For how long a password that was right is not verified again. 0: never remembered. A changed hash counts at once.
        remember: Duration = "5m", in 0..=86_400_000;
        /// Whether servers get the `Authorization` of the client.
        forward_credentials: bool = true, like "Traefik `basicAuth.removeHeader` (its opposite)";
    }
}

impl BasicAuth {
    /// These users, who are in no file, with the defaults of the product.
    pub fn new(realm: Realm, users: Arc<Users>) -> Self {
        let BasicText { remember, forward_credentials, .. } = BasicText::default();
        Self { realm: realm.0, users, file: None, reload: None, remember, forward_credentials }
    }
}

/// The name of what a password is for, as it stands between quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realm(pub(crate) Box<str>);

impl FromStr for Realm {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_realm(text)
    }
}

/// The hash of a password; debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordHashText(pub(crate) Box<str>);

impl std::fmt::Debug for PasswordHashText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHashText(..)")
    }
}

text_values! {
    Realm, str::parse, |value: &Realm| value.0.clone(), TextFormat {
        name: "realm",
        article: "a realm",
        examples: &["Restricted", "Staff only"],
        pattern: r#"^[ !#-\[\]-~]+$"#,
        about: "Printable characters of ASCII, but no quotation mark and no backslash.",
    };
    PasswordHashText, |text| Ok(PasswordHashText(text.into())), |value: &PasswordHashText| value.0.clone(), TextFormat {
        name: "hash of a password",
        article: "the hash of a password",
        examples: &["${ADMIN_HASH}"],
        pattern: r"^.+$",
        about: "As `htpasswd -nB USER` prints it behind the colon. A `$` is written `$$`, since `${NAME}` is a variable of the environment.",
    };
}

fn parse_realm(text: &str) -> Result<Realm, ValueError> {
    let is_plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\\');
    match text.char_indices().find(|(_, c)| !is_plain(*c)) {
        Some((at, wrong)) => {
            let error = ValueError::new(format!("{wrong:?} is not allowed in a realm"));
            Err(error.range(at..at + wrong.len_utf8()))
        }
        None if text.is_empty() => Err(ValueError::new("the realm is empty")),
        None => Ok(Realm(text.into())),
    }
}
