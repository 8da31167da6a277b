//! The handshakes that are under way on one socket, and those of each client among them.

use std::collections::HashMap;

use weir_traffic::limit::ClientKey;

/// Handshakes from which on clients first prove that they can be reached at their address (Retry, RFC 9000 section 8.1.2), and that many times as
/// many from which on none more begins: their clients try again.
const UNPROVEN_MAX: usize = 128;
const ALL_MAX: usize = 4 * UNPROVEN_MAX;

/// Those of one client from then on: no single one may keep the others out by handshakes that it does not end. Only addresses that are proven
/// count, since anyone can begin one in the name of another.
const OF_CLIENT_MAX: u32 = 32;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct OpenHandshakes {
    count: usize,
    proven: HashMap<ClientKey, u32>,
}

/// Whether one more may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeAdmission {
    Begins,
    /// If its client can be reached at its address.
    BeginsProven,
    /// Not now.
    Waits,
}

impl OpenHandshakes {
    /// Whether one more of a client may begin; `proven` is the client if its address is proven.
    pub(super) fn admit(&self, proven: Option<ClientKey>) -> HandshakeAdmission {
        let of_client = proven.and_then(|client| self.proven.get(&client)).copied().unwrap_or(0);
        match proven {
            _ if self.count >= ALL_MAX => HandshakeAdmission::Waits,
            _ if self.count < UNPROVEN_MAX => HandshakeAdmission::Begins,
            Some(_) if of_client >= OF_CLIENT_MAX => HandshakeAdmission::Waits,
            Some(_) => HandshakeAdmission::Begins,
            None => HandshakeAdmission::BeginsProven,
        }
    }

    pub(super) fn begin(&mut self, proven: Option<ClientKey>) {
        self.count += 1;
        if let Some(client) = proven {
            *self.proven.entry(client).or_default() += 1;
        }
    }

    pub(super) fn end(&mut self, proven: Option<ClientKey>) {
        self.count -= 1;
        let Some(client) = proven else { return };
        if let Some(open) = self.proven.get_mut(&client) {
            *open -= 1;
            if *open == 0 {
                self.proven.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn no_client_keeps_others_out() {
        let client = |last: u8| Some(ClientKey::from(IpAddr::from([192, 0, 2, last])));
        let mut open = OpenHandshakes::default();
        for _ in 0..UNPROVEN_MAX {
            assert_eq!(open.admit(None), HandshakeAdmission::Begins);
            open.begin(None);
        }
        assert_eq!(open.admit(None), HandshakeAdmission::BeginsProven);
        for _ in 0..OF_CLIENT_MAX {
            assert_eq!(open.admit(client(1)), HandshakeAdmission::Begins);
            open.begin(client(1));
        }
        assert_eq!(open.admit(client(1)), HandshakeAdmission::Waits);
        assert_eq!(open.admit(client(2)), HandshakeAdmission::Begins);
        open.end(client(1));
        assert_eq!(open.admit(client(1)), HandshakeAdmission::Begins);
        while open.count < ALL_MAX {
            open.begin(client(3));
        }
        assert_eq!(open.admit(client(2)), HandshakeAdmission::Waits);
        while open.proven.contains_key(&client(3).expect("it is one")) {
            open.end(client(3));
        }
        assert_eq!(open.admit(client(3)), HandshakeAdmission::Begins, "those that are over do not count");
    }
}
