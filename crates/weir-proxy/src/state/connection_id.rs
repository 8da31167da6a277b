//! The id of a client connection, as in queries and commands.

use std::fmt;
use std::str::FromStr;

/// Bits of the number in a pointer: no worker gets to 2^40 connections.
const NUMBER_BITS: u32 = 40;

/// A connection by its worker, and its number there. It is never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// The place of the worker.
    pub worker: usize,
    /// The number among the connections of the worker, from 1.
    pub number: u64,
}

impl ConnectionId {
    /// The same as a number that looks like the pointers by which HAProxy calls its own.
    pub const fn pointer(self) -> u64 {
        (self.worker as u64 + 1) << NUMBER_BITS | self.number
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}-{}", self.worker, self.number)
    }
}

/// It is neither `s0-17` nor `0x10000000011`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidConnectionId;

impl FromStr for ConnectionId {
    type Err = InvalidConnectionId;

    fn from_str(text: &str) -> Result<Self, InvalidConnectionId> {
        if let Some(name) = text.strip_prefix('s') {
            let (worker, number) = name.split_once('-').ok_or(InvalidConnectionId)?;
            let read = worker.parse().ok().zip(number.parse().ok());
            return read.map(|(worker, number)| Self { worker, number }).ok_or(InvalidConnectionId);
        }
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let pointer = u64::from_str_radix(digits, 16).map_err(|_| InvalidConnectionId)?;
        let worker = (pointer >> NUMBER_BITS).checked_sub(1).ok_or(InvalidConnectionId)?;
        let worker = usize::try_from(worker).map_err(|_| InvalidConnectionId)?;
        Ok(Self { worker, number: pointer & ((1 << NUMBER_BITS) - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_lead_to_the_connection() {
        for (worker, number, name, pointer) in
            [(0, 17, "s0-17", "0x10000000011"), (63, 1, "s63-1", "0x400000000001")]
        {
            let id = ConnectionId { worker, number };
            assert_eq!((id.to_string().as_str(), format!("{:#x}", id.pointer()).as_str()), (name, pointer));
            for text in [name, pointer, &pointer[2..]] {
                assert_eq!(text.parse(), Ok(id), "{text}");
            }
        }
        for text in
            ["", "s", "s1", "s1-", "s-1", "0x", "0x11", "all", "17", "-1", "s0--1", "ffffffffffffffffff"]
        {
            assert_eq!(text.parse::<ConnectionId>(), Err(InvalidConnectionId), "{text}");
        }
    }
}
