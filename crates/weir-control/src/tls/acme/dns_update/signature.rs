//! Signatures of messages of DNS with a shared key (TSIG, RFC 8945): requests are signed, responses verified. Pure: the time is given.

use aws_lc_rs::hmac;
use weir_config::{TsigAlgorithm, TsigKey};

use super::message::{CLASS_ANY, TYPE_TSIG, WireName, push_record, read_name};

/// How many seconds the clocks of both may differ (RFC 8945 section 10).
const FUDGE_S: u16 = 300;

/// Places in the header of a message.
const ADDITIONAL_COUNT: usize = 10;

/// A key that signs.
pub(super) struct Signer {
    name: WireName,
    algorithm: WireName,
    key: hmac::Key,
}

/// What a signature says of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignatureVerdict {
    /// It is of the server that has the key.
    Verified,
    /// The server did not accept the signature of the request, with this code.
    Rejected(u16),
    /// It is not to be trusted.
    Bad(&'static str),
}

/// The data of a signature.
struct TsigData<'a> {
    algorithm: WireName,
    time: u64,
    fudge: u16,
    mac: &'a [u8],
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

impl Signer {
    pub(super) fn new(key: &TsigKey) -> Option<Self> {
        let algorithm = match key.algorithm {
            TsigAlgorithm::HmacSha256 => hmac::HMAC_SHA256,
            TsigAlgorithm::HmacSha384 => hmac::HMAC_SHA384,
            TsigAlgorithm::HmacSha512 => hmac::HMAC_SHA512,
        };
        Some(Self {
            name: WireName::new(&key.name)?,
            algorithm: WireName::new(key.algorithm.name())?,
            key: hmac::Key::new(algorithm, &key.secret.0),
        })
    }

    /// Signs a message without additional records; returns its MAC, which the response depends on.
    pub(super) fn sign(&self, message: &mut Vec<u8>, now: u64) -> Vec<u8> {
        let variables = self.variables(now, FUDGE_S, 0, &[]);
        let mac = hmac::sign(&self.key, &[&message[..], &variables].concat()).as_ref().to_vec();
        let mut data = self.algorithm.bytes().to_vec();
        push_time(&mut data, now, FUDGE_S);
        data.extend((mac.len() as u16).to_be_bytes());
        data.extend_from_slice(&mac);
        data.extend_from_slice(&message[..2]);
        data.extend([0; 4]);
        push_record(message, &self.name, TYPE_TSIG, CLASS_ANY, 0, &data);
        message[ADDITIONAL_COUNT + 1] = 1;
        mac
    }

    /// Verifies a response whose signature begins at `begin`, with its data at `data`.
    pub(super) fn verify(
        &self,
        response: &[u8],
        (begin, data): (usize, std::ops::Range<usize>),
        request_mac: &[u8],
        now: u64,
    ) -> SignatureVerdict {
        let Some(signature) = TsigData::read(response, data) else {
            return SignatureVerdict::Bad("its signature is broken");
        };
        if signature.error != 0 && signature.mac.is_empty() {
            return SignatureVerdict::Rejected(signature.error);
        }
        let is_ours = read_name(response, begin).is_some_and(|(name, _)| name == self.name);
        if !is_ours || signature.algorithm != self.algorithm {
            return SignatureVerdict::Bad("it is signed with another key");
        }
        let mut signed = (request_mac.len() as u16).to_be_bytes().to_vec();
        signed.extend_from_slice(request_mac);
        let message_at = signed.len();
        signed.extend_from_slice(&response[..begin]);
        signed[message_at..message_at + 2].copy_from_slice(&signature.original_id.to_be_bytes());
        let count = &mut signed[message_at + ADDITIONAL_COUNT..message_at + ADDITIONAL_COUNT + 2];
        let without = u16::from_be_bytes([count[0], count[1]]).saturating_sub(1);
        count.copy_from_slice(&without.to_be_bytes());
        signed.extend(self.variables(signature.time, signature.fudge, signature.error, signature.other));
        // Never a shortened one: it could be guessed.
        if hmac::verify(&self.key, &signed, signature.mac).is_err() {
            return SignatureVerdict::Bad("its signature is not by this key");
        }
        if signature.error != 0 {
            return SignatureVerdict::Rejected(signature.error);
        }
        match signature.time.abs_diff(now) > u64::from(signature.fudge) {
            true => SignatureVerdict::Bad("the clocks of the server and of Weir differ"),
            false => SignatureVerdict::Verified,
        }
    }

    /// What is signed beside the message (RFC 8945 section 4.3.3).
    fn variables(&self, time: u64, fudge: u16, error: u16, other: &[u8]) -> Vec<u8> {
        let mut variables = self.name.bytes().to_vec();
        variables.extend(CLASS_ANY.to_be_bytes());
        variables.extend([0; 4]);
        variables.extend_from_slice(self.algorithm.bytes());
        push_time(&mut variables, time, fudge);
        variables.extend(error.to_be_bytes());
        variables.extend((other.len() as u16).to_be_bytes());
        variables.extend_from_slice(other);
        variables
    }
}

fn push_time(bytes: &mut Vec<u8>, time: u64, fudge: u16) {
    bytes.extend_from_slice(&time.to_be_bytes()[2..]);
    bytes.extend(fudge.to_be_bytes());
}

impl<'a> TsigData<'a> {
    fn read(message: &'a [u8], data: std::ops::Range<usize>) -> Option<Self> {
        let (algorithm, at) = read_name(message, data.start)?;
        let rest = message.get(at..data.end)?;
        let number = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let mut time = [0; 8];
        time[2..].copy_from_slice(rest.get(..6)?);
        let mac_len = usize::from(number(8)?);
        let mac = rest.get(10..10 + mac_len)?;
        let other_len = usize::from(number(14 + mac_len)?);
        let other = rest.get(16 + mac_len..)?;
        (other.len() == other_len).then_some(Self {
            algorithm,
            time: u64::from_be_bytes(time),
            fudge: number(6)?,
            mac,
            original_id: number(10 + mac_len)?,
            error: number(12 + mac_len)?,
            other,
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_config::AccountSecret;

    use super::*;
    use crate::tls::acme::dns_update::message::{DnsResponse, zone_query};

    const NOW: u64 = 1_790_000_000;

    fn signer(secret: &[u8]) -> Signer {
        let secret = AccountSecret(secret.into());
        Signer::new(&TsigKey::new("acme", TsigAlgorithm::HmacSha256, secret)).unwrap()
    }

    /// A response to the request with this MAC, as a server signs it.
    fn response(server: &Signer, request_mac: &[u8], error: u16) -> Vec<u8> {
        let mut message = zone_query(7, &WireName::new("example.com").unwrap());
        message[2] |= 0x80;
        let signed = [&(request_mac.len() as u16).to_be_bytes()[..], request_mac, &message].concat();
        let variables = server.variables(NOW, FUDGE_S, error, &[]);
        let mac = hmac::sign(&server.key, &[signed, variables].concat());
        let mut data = server.algorithm.bytes().to_vec();
        push_time(&mut data, NOW, FUDGE_S);
        data.extend((mac.as_ref().len() as u16).to_be_bytes());
        data.extend_from_slice(mac.as_ref());
        data.extend(7u16.to_be_bytes());
        data.extend(error.to_be_bytes());
        data.extend([0; 2]);
        push_record(&mut message, &server.name, TYPE_TSIG, CLASS_ANY, 0, &data);
        message[ADDITIONAL_COUNT + 1] = 1;
        message
    }

    fn verdict(response: &[u8], request_mac: &[u8], now: u64) -> SignatureVerdict {
        let read = DnsResponse::read(response, 7).unwrap();
        signer(b"secret").verify(response, read.signature.unwrap(), request_mac, now)
    }

    #[test]
    fn only_the_response_of_the_server_with_the_key_is_accepted() {
        let mut request = zone_query(7, &WireName::new("example.com").unwrap());
        let mac = signer(b"secret").sign(&mut request, NOW);
        assert_eq!((mac.len(), request[ADDITIONAL_COUNT + 1]), (32, 1));
        let good = response(&signer(b"secret"), &mac, 0);
        assert_eq!(verdict(&good, &mac, NOW), SignatureVerdict::Verified);
        assert_eq!(verdict(&good, &mac, NOW + 299), SignatureVerdict::Verified);
        assert!(
            matches!(verdict(&good, &mac, NOW + 301), SignatureVerdict::Bad(why) if why.contains("clocks"))
        );
        assert!(matches!(verdict(&good, b"other", NOW), SignatureVerdict::Bad(_)), "of another request");
        assert!(matches!(
            verdict(&response(&signer(b"guess"), &mac, 0), &mac, NOW),
            SignatureVerdict::Bad(_)
        ));
        let mut changed = good;
        changed[3] = 5;
        assert!(matches!(verdict(&changed, &mac, NOW), SignatureVerdict::Bad(_)));
        assert_eq!(
            verdict(&response(&signer(b"secret"), &mac, 18), &mac, NOW),
            SignatureVerdict::Rejected(18)
        );
    }
}
