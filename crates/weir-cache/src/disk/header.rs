//! The beginning of a file: what response it holds, and whether it is whole.
//!
//! ```text
//! place 0 | place 1 | body
//! place: magic 8 | version 4 | length of the place 4 | used 4 | generation 8 | sum of generation and payload 16 | payload | padding
//! ```
//!
//! A header that changes is written to the other place, with the next generation: the body stays where it is, and the header of before holds until
//! the new one is whole. Numbers have their lowest byte first. The sums are SipHash-1-3 with the secret of the folder: no file that Weir has not written is taken for
//! one of its own.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::head::StoredHead;
use crate::rules::{Lifetime, LifetimeSource, VaryRule, is_token_byte};
use crate::store::{KeySecret, SlotKey};
use crate::time::CacheTime;

const MAGIC: &[u8; 8] = b"WeirResp";
/// Of version 2 and before, keys had no partitions.
const VERSION: u32 = 3;

/// Bytes before the payload.
pub(super) const PREFIX_BYTES: usize = 44;

/// The place of a header is a multiple of this, with room for a head that grows when it is confirmed.
const PLACE_STEP_BYTES: usize = 512;

/// The largest place: twice the largest head that is received.
const PLACE_BYTES_MAX: usize = 256 * 1024;

/// Which of the two headers of a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderPlace {
    /// Length of each of the two places.
    len: usize,
    /// How many headers the file had before this one.
    generation: u64,
}

impl HeaderPlace {
    /// Where the body begins.
    pub(super) fn body_offset(self) -> u64 {
        2 * self.len as u64
    }

    /// Where this header is.
    pub(super) fn offset(self) -> u64 {
        (self.generation % 2) * self.len as u64
    }

    /// Where the header belongs that comes behind this one.
    pub(super) fn next(self) -> Self {
        Self { generation: self.generation.wrapping_add(1), ..self }
    }
}

/// What is known of a response in a file.
#[derive(Debug, Clone)]
pub struct FileHeader {
    pub(crate) slot: SlotKey,
    pub(crate) primary: SlotKey,
    /// Its status.
    pub status: u16,
    /// Its times.
    pub lifetime: Lifetime,
    /// When it was written.
    pub stored: CacheTime,
    /// The text of its key.
    pub key: Box<[u8]>,
    /// For which requests.
    pub vary: VaryRule,
    /// Its fields.
    pub head: StoredHead,
    /// Length of its body.
    pub body_len: u64,
    pub(crate) body_sum: u128,
}

/// What is wrong with the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// More bytes are needed: so many in all.
    Incomplete(usize),
    /// It is not one of Weir's.
    Magic,
    /// It is one of another version.
    Version,
    /// A number in it is impossible, or its sum is another.
    Corrupt,
}

/// A sum over bytes, with the secret of the folder.
#[derive(Debug, Clone)]
pub(super) struct FileSum(SipHasher13);

impl FileSum {
    pub(super) fn new(secret: &KeySecret) -> Self {
        Self(SipHasher13::new_with_key(&secret.0))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn get(&self) -> u128 {
        self.0.finish128().as_u128()
    }
}

impl FileHeader {
    /// Where the first header of a file belongs; `None` when it is too large.
    pub(super) fn first_place(&self) -> Option<HeaderPlace> {
        let mut payload = Vec::with_capacity(512);
        self.encode_payload(&mut payload)?;
        let used = PREFIX_BYTES + payload.len();
        // A quarter more, so that a confirmed response finds room.
        let len = (used + used / 4).next_multiple_of(PLACE_STEP_BYTES);
        (len <= PLACE_BYTES_MAX).then_some(HeaderPlace { len, generation: 0 })
    }

    /// The bytes of the header for its place; `None` when it does not fit.
    pub(super) fn encode(&self, secret: &KeySecret, place: HeaderPlace) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(512);
        self.encode_payload(&mut payload)?;
        if PREFIX_BYTES + payload.len() > place.len {
            return None;
        }
        let mut bytes = Vec::with_capacity(place.len);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(place.len).ok()?.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&place.generation.to_le_bytes());
        bytes.extend_from_slice(&header_sum(secret, place.generation, &payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes.resize(place.len, 0);
        Some(bytes)
    }

    /// Appends what [`decode_payload`] reads; `None` when it is too long.
    pub fn encode_payload(&self, to: &mut Vec<u8>) -> Option<()> {
        let Lifetime { received, initial_age_ms, fresh_ms, .. } = self.lifetime;
        to.extend_from_slice(&self.slot.0.to_le_bytes());
        to.extend_from_slice(&self.primary.0.to_le_bytes());
        to.extend_from_slice(&self.status.to_le_bytes());
        to.extend_from_slice(&self.body_len.to_le_bytes());
        to.extend_from_slice(&self.body_sum.to_le_bytes());
        let stale = [self.lifetime.stale_while_revalidate_ms, self.lifetime.stale_if_error_ms];
        for number in [self.stored.millis(), received.millis(), initial_age_ms, fresh_ms, stale[0], stale[1]]
        {
            to.extend_from_slice(&number.to_le_bytes());
        }
        let flags = u8::from(self.lifetime.must_revalidate) | u8::from(self.lifetime.no_cache) << 1;
        to.extend_from_slice(&[flags, self.lifetime.source as u8]);
        write_text(to, &self.key)?;
        to.push(u8::try_from(self.vary.names().count()).ok()?);
        self.vary.names().try_for_each(|name| write_text(to, name.as_bytes()))?;
        let fields = self.head.view();
        to.extend_from_slice(&u16::try_from(fields.fields.len()).ok()?.to_le_bytes());
        fields.fields.iter().try_for_each(|field| {
            write_text(to, field.name.of(fields.text))?;
            write_text(to, field.value.of(fields.text))
        })
    }

    /// The header at the beginning of a file that holds, and which of the two it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn decode(bytes: &[u8], secret: &KeySecret) -> Result<(Self, HeaderPlace), HeaderFault> {
        let HeaderPrefix { len, .. } = HeaderPrefix::decode(bytes)?;
        if !(PREFIX_BYTES..=PLACE_BYTES_MAX).contains(&len) {
            return Err(HeaderFault::Corrupt);
        }
        let places = bytes.get(..2 * len).ok_or(HeaderFault::Incomplete(2 * len))?;
        let sound = places.chunks_exact(len).enumerate().filter_map(|(index, place)| {
            let prefix = HeaderPrefix::decode(place).ok()?;
            let payload = place[PREFIX_BYTES..].get(..prefix.used)?;
            let is_sound = prefix.len == len
                && prefix.generation % 2 == index as u64
                && prefix.sum == header_sum(secret, prefix.generation, payload);
            is_sound.then_some((prefix.generation, payload))
        });
        // One that was torn by a crash has another sum: the one before it holds.
        let (generation, payload) =
            sound.max_by_key(|(generation, _)| *generation).ok_or(HeaderFault::Corrupt)?;
        Ok((decode_payload(payload)?, HeaderPlace { len, generation }))
    }
}

fn header_sum(secret: &KeySecret, generation: u64, payload: &[u8]) -> u128 {
    let mut sum = FileSum::new(secret);
    sum.add(&generation.to_le_bytes());
    sum.add(payload);
    sum.get()
}

/// What stands before the payload.
struct HeaderPrefix {
    len: usize,
    used: usize,
    generation: u64,
    sum: u128,
}

impl HeaderPrefix {
    fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let mut rest = Bytes(bytes);
        let incomplete = |_| HeaderFault::Incomplete(PREFIX_BYTES);
        if rest.take(MAGIC.len()).map_err(incomplete)? != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if rest.u32().map_err(incomplete)? != VERSION {
            return Err(HeaderFault::Version);
        }
        Ok(Self {
            len: rest.u32().map_err(incomplete)? as usize,
            used: rest.u32().map_err(incomplete)? as usize,
            generation: rest.u64().map_err(incomplete)?,
            sum: rest.u128().map_err(incomplete)?,
        })
    }
}

/// What a header says, without its sum. Everything in it is checked: no name or value may end a line, whatever has written it.
///
/// # Errors
/// [`HeaderFault::Corrupt`].
pub fn decode_payload(payload: &[u8]) -> Result<FileHeader, HeaderFault> {
    let mut rest = Bytes(payload);
    let (slot, primary) = (SlotKey(rest.u128()?), SlotKey(rest.u128()?));
    let (status, body_len, body_sum) = (rest.u16()?, rest.u64()?, rest.u128()?);
    let stored = CacheTime::from_millis(rest.u64()?);
    let mut lifetime = Lifetime {
        received: CacheTime::from_millis(rest.u64()?),
        initial_age_ms: rest.u64()?,
        fresh_ms: rest.u64()?,
        stale_while_revalidate_ms: rest.u64()?,
        stale_if_error_ms: rest.u64()?,
        ..Lifetime::default()
    };
    let (flags, source) = (rest.u8()?, rest.u8()?);
    lifetime.must_revalidate = flags & 1 != 0;
    lifetime.no_cache = flags & 2 != 0;
    lifetime.source = LifetimeSource::from_index(source).ok_or(HeaderFault::Corrupt)?;
    let key = rest.text()?.into();
    let names = (0..rest.u8()?).map(|_| rest.text()).collect::<Result<Vec<_>, _>>()?;
    let vary = VaryRule::from_names(names.into_iter()).ok_or(HeaderFault::Corrupt)?;
    let mut head = StoredHead::default();
    for _ in 0..rest.u16()? {
        let (name, value) = (rest.text()?, rest.text()?);
        let is_value = |byte: &u8| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f);
        if name.is_empty() || !name.iter().copied().all(is_token_byte) || !value.iter().all(is_value) {
            return Err(HeaderFault::Corrupt);
        }
        head.append(name, value);
    }
    head.shrink();
    if flags > 3 || !(200..1_000).contains(&status) || !rest.0.is_empty() {
        return Err(HeaderFault::Corrupt);
    }
    Ok(FileHeader { slot, primary, status, lifetime, stored, key, vary, head, body_len, body_sum })
}

fn write_text(to: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    to.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
    to.extend_from_slice(text);
    Some(())
}

/// Takes numbers and texts from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], HeaderFault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(HeaderFault::Corrupt)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderFault> {
        self.take(N)?.try_into().map_err(|_| HeaderFault::Corrupt)
    }

    fn u8(&mut self) -> Result<u8, HeaderFault> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, HeaderFault> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, HeaderFault> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, HeaderFault> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Result<u128, HeaderFault> {
        self.array().map(u128::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a [u8], HeaderFault> {
        let len = self.u32()? as usize;
        self.take(len)
    }
}
