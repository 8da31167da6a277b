//! The beginning of a file: what response it holds, and whether it is whole.
//!
//! ```text
//! magic 8 | version 4 | region 4 | used 4 | sum of payload 16 | payload | padding up to region | body
//! ```
//!
//! Numbers have their lowest byte first. The sums are SipHash-1-3 with the secret of the folder: no file that Weir has not written is taken for
//! one of its own.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::head::StoredHead;
use crate::rules::{Lifetime, LifetimeSource, VaryRule, is_token_byte};
use crate::store::{KeySecret, SlotKey};
use crate::time::CacheTime;

const MAGIC: &[u8; 8] = b"WeirResp";
const VERSION: u32 = 1;

/// Bytes before the payload.
pub(super) const PREFIX_BYTES: usize = 36;

/// The region of a header is a multiple of this, with room for a head that grows when it is confirmed.
const REGION_STEP_BYTES: usize = 512;

/// The largest region: twice the largest head that is received.
pub(super) const REGION_BYTES_MAX: usize = 256 * 1024;

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
    /// The header in a region of its own size, or in one of `region` bytes; `None` when it does not fit.
    pub(super) fn encode(&self, secret: &KeySecret, region: Option<usize>) -> Option<Vec<u8>> {
        let mut payload = Vec::with_capacity(512);
        self.encode_payload(&mut payload)?;
        let used = PREFIX_BYTES + payload.len();
        // A quarter more, so that a confirmed response finds room.
        let region = region.unwrap_or_else(|| (used + used / 4).next_multiple_of(REGION_STEP_BYTES));
        if region > REGION_BYTES_MAX || used > region {
            return None;
        }
        let mut sum = FileSum::new(secret);
        sum.add(&payload);
        let mut bytes = Vec::with_capacity(region);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(region).ok()?.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&sum.get().to_le_bytes());
        bytes.extend_from_slice(&payload);
        bytes.resize(region, 0);
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

    /// The header at the beginning of a file, and the length of its region, where the body begins.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn decode(bytes: &[u8], secret: &KeySecret) -> Result<(Self, usize), HeaderFault> {
        let mut rest = Bytes(bytes);
        let incomplete = |_| HeaderFault::Incomplete(PREFIX_BYTES);
        if rest.take(MAGIC.len()).map_err(incomplete)? != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if rest.u32().map_err(incomplete)? != VERSION {
            return Err(HeaderFault::Version);
        }
        let region = rest.u32().map_err(incomplete)? as usize;
        let used = rest.u32().map_err(incomplete)? as usize;
        let sum = rest.u128().map_err(incomplete)?;
        if region > REGION_BYTES_MAX || used + PREFIX_BYTES > region {
            return Err(HeaderFault::Corrupt);
        }
        let payload = rest.take(used).map_err(|_| HeaderFault::Incomplete(region))?;
        let mut actual = FileSum::new(secret);
        actual.add(payload);
        if actual.get() != sum {
            return Err(HeaderFault::Corrupt);
        }
        Ok((decode_payload(payload)?, region))
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
