//! A ClientHello that waits for the certificate of its host before TLS takes it, where Weir obtains certificates by itself.
//!
//! What of it has come is kept here meanwhile, and acknowledged by QUIC. Must not order a certificate: its client may not be at its address.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_http::{ClientHello, HelloProgress};

use crate::net::tls::certificates::Certificates;

/// The longest one that waits, which is that of one record of TLS over TCP (RFC 8446 section 5.1): with post-quantum keys, they have less than 2 KiB.
const BYTES_MAX: usize = 1 << 14;

/// The head of such a record, but for its length.
const RECORD_HEAD: [u8; 3] = [22, 3, 1];

/// One that waits.
#[derive(Debug)]
pub(crate) struct HeldHello {
    /// The host that it asks for, in lower case.
    pub(crate) name: Box<str>,
    is_released: AtomicBool,
}

impl HeldHello {
    /// Lets it go on with the next packet of its client.
    pub(crate) fn release(&self) {
        self.is_released.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }
}

/// The beginning of a handshake, until it is known whether it waits.
pub(super) struct GatheredHello {
    certificates: Arc<Certificates>,
    bytes: Vec<u8>,
    pub(super) held: Option<Arc<HeldHello>>,
}

impl GatheredHello {
    /// `None` where no handshake waits.
    pub(super) fn new(certificates: &Arc<Certificates>) -> Option<Self> {
        let may_wait = certificates.issued().is_some_and(|issued| issued.may_wait());
        may_wait.then(|| Self { certificates: Arc::clone(certificates), bytes: Vec::new(), held: None })
    }

    /// Takes what has come; whether TLS gets all of it now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        if self.held.is_some() && self.bytes.len() <= BYTES_MAX {
            return self.is_released();
        }
        let Some(name) = self.name() else { return false };
        let waits = |name: &&str| {
            let issued = self.certificates.issued();
            !self.certificates.is_configured_for(name) && issued.is_some_and(|issued| issued.may_come(name))
        };
        let Some(name) = name.as_deref().filter(waits) else { return true };
        self.held = Some(Arc::new(HeldHello { name: name.into(), is_released: AtomicBool::new(false) }));
        false
    }

    /// The host, in lower case, once the hello is whole: without one where it is none, or too long.
    fn name(&self) -> Option<Option<String>> {
        let len = match u16::try_from(self.bytes.len()) {
            Ok(len) if self.bytes.len() <= BYTES_MAX => len.to_be_bytes(),
            _ => return Some(None),
        };
        let record = [&RECORD_HEAD[..], &len, &self.bytes].concat();
        let mut hello = ClientHello::new();
        match hello.parse(&record, record.len()) {
            Ok(HelloProgress::Incomplete { .. }) => None,
            Ok(HelloProgress::Complete) => Some(hello.server_name().map(str::to_ascii_lowercase)),
            Ok(HelloProgress::NotTls) | Err(_) => Some(None),
        }
    }

    fn is_released(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_released())
    }

    /// All of it, once it goes on.
    pub(super) fn released(&mut self) -> Option<Vec<u8>> {
        self.is_released().then(|| std::mem::take(&mut self.bytes))
    }

    /// All of it.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
