//! Addresses for names: each name has one of 10.0.0.0/8, the same in every run, and a server of DNS says so.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The names that were asked for, by address.
#[derive(Clone, Default)]
pub(crate) struct KnownNames(Arc<Mutex<BTreeMap<Ipv4Addr, String>>>);

impl KnownNames {
    /// The address of a name.
    pub(crate) fn address_of(&self, name: &str) -> Ipv4Addr {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let [_, a, b, c] = hash.to_be_bytes();
        let address = Ipv4Addr::new(10, a | 0x80, b, c);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(address, name);
        address
    }

    /// The name of an address, else the address itself.
    pub(crate) fn name_of(&self, address: IpAddr) -> String {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match address {
            IpAddr::V4(v4) => names.get(&v4).cloned().unwrap_or_else(|| v4.to_string()),
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string()),
        }
    }

    /// Answers questions that come to port 53 of this address.
    pub(crate) fn serve(&self, address: IpAddr) {
        let Ok(socket) = UdpSocket::bind((address, 53)) else { return };
        let names = self.clone();
        thread::spawn(move || {
            let mut packet = [0; 1500];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                if let Some(answer) = names.answer(&packet[..len]) {
                    // A client that is gone asks again or does not.
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
    }

    /// The answer to one question: an address for `A`, nothing for other types.
    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut at = 12;
        let mut labels = Vec::new();
        loop {
            let len = usize::from(*question.get(at)?);
            at += 1;
            if len == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(question.get(at..at + len)?).into_owned());
            at += len;
        }
        let kind = question.get(at..at + 2)?;
        let end = at + 4;
        let has_address = kind == [0, 1];
        let mut answer = question.get(..2)?.to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
        answer.extend(question.get(12..end)?);
        if has_address {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
            answer.extend(self.address_of(&labels.join(".")).octets());
        }
        Some(answer)
    }
}
