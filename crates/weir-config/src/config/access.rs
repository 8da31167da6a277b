//! Who may send requests to a route: what has to be proved, and how.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_access::Users;

/// What a request has to prove before a route takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// A user and a password.
    pub basic: Option<BasicAuth>,
}

/// `basic`: HTTP Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq)]
pub struct BasicAuth {
    /// What browsers show.
    pub realm: Box<str>,
    /// The users; none when the config was read without its files.
    pub users: Arc<Users>,
    /// The file that they are from.
    pub file: Option<Arc<Path>>,
    /// How often the file is checked for changes.
    pub reload: Option<Duration>,
    /// For how long a right password is remembered.
    pub remember: Duration,
    /// Whether servers get the credentials.
    pub forward_credentials: bool,
}

impl Access {
    /// Whether servers get the `Authorization` of the client.
    pub fn forwards_credentials(&self) -> bool {
        self.basic.as_ref().is_none_or(|basic| basic.forward_credentials)
    }
}
