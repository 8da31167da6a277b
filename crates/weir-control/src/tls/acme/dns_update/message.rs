//! Messages of DNS, as far as updates need them: a query for the zone of a name, an update of one TXT record, and responses (RFC 1035,
//! RFC 2136). Pure: no sockets, no keys.

/// The header of a message.
pub(super) const HEADER_LEN: usize = 12;

/// The longest name in its form on the wire (RFC 1035 section 2.3.4).
const NAME_LEN_MAX: usize = 255;

const LABEL_LEN_MAX: usize = 63;

/// Pointers that are followed in one name; each leads backwards.
const POINTERS_MAX: usize = 64;

const OPCODE_UPDATE: u8 = 5 << 3;
const IS_RESPONSE: u8 = 0x80;
const IS_TRUNCATED: u8 = 0x02;

const TYPE_SOA: u16 = 6;
const TYPE_TXT: u16 = 16;
pub(super) const TYPE_TSIG: u16 = 250;

const CLASS_IN: u16 = 1;
const CLASS_NONE: u16 = 254;
pub(super) const CLASS_ANY: u16 = 255;

/// A name in its form on the wire, in lower case and without compression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireName(Vec<u8>);

impl WireName {
    /// `None` for what is no name. One dot at the end changes nothing.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in text.strip_suffix('.').unwrap_or(text).split('.') {
            let len = u8::try_from(label.len())
                .ok()
                .filter(|len| (1..=LABEL_LEN_MAX).contains(&usize::from(*len)))?;
            wire.push(len);
            wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        wire.push(0);
        (wire.len() <= NAME_LEN_MAX).then_some(Self(wire))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name without its first label; `None` for the root.
    pub(super) fn parent(&self) -> Option<Self> {
        let len = usize::from(self.0[0]);
        (len > 0).then(|| Self(self.0[1 + len..].to_vec()))
    }

    /// Whether it is `zone` or below it.
    pub(super) fn is_in(&self, zone: &WireName) -> bool {
        let mut rest = &self.0[..];
        while rest.len() > zone.0.len() {
            rest = &rest[1 + usize::from(rest[0])..];
        }
        rest == zone.0
    }
}

impl std::fmt::Display for WireName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = &self.0[..];
        while rest[0] != 0 {
            let (label, behind) = rest[1..].split_at(usize::from(rest[0]));
            write!(f, "{}.", String::from_utf8_lossy(label))?;
            rest = behind;
        }
        Ok(())
    }
}

/// What happens to the TXT record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordChange {
    /// It is added, and may be kept for so many seconds.
    Add { ttl: u32 },
    /// It is removed; others of the same name stay.
    Remove,
}

/// Asks for the zone that a name belongs to.
pub(super) fn zone_query(id: u16, name: &WireName) -> Vec<u8> {
    let mut message = header(id, 0, [1, 0, 0, 0]);
    push_question(&mut message, name);
    message
}

/// Changes one TXT record of a zone (RFC 2136 section 2.5).
pub(super) fn update(
    id: u16,
    zone: &WireName,
    name: &WireName,
    value: &str,
    change: RecordChange,
) -> Vec<u8> {
    let mut message = header(id, OPCODE_UPDATE, [1, 0, 1, 0]);
    push_question(&mut message, zone);
    let (class, ttl) = match change {
        RecordChange::Add { ttl } => (CLASS_IN, ttl),
        RecordChange::Remove => (CLASS_NONE, 0),
    };
    let mut data = Vec::new();
    for part in value.as_bytes().chunks(255) {
        data.push(part.len() as u8);
        data.extend_from_slice(part);
    }
    push_record(&mut message, name, TYPE_TXT, class, ttl, &data);
    message
}

/// The header, with the opcode and no flags.
fn header(id: u16, opcode: u8, counts: [u16; 4]) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([opcode, 0]);
    message.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    message
}

/// The zone of an update has the form of a question.
fn push_question(message: &mut Vec<u8>, name: &WireName) {
    message.extend_from_slice(name.bytes());
    message.extend(TYPE_SOA.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
}

pub(super) fn push_record(
    message: &mut Vec<u8>,
    name: &WireName,
    kind: u16,
    class: u16,
    ttl: u32,
    data: &[u8],
) {
    message.extend_from_slice(name.bytes());
    message.extend(kind.to_be_bytes());
    message.extend(class.to_be_bytes());
    message.extend(ttl.to_be_bytes());
    message.extend((data.len() as u16).to_be_bytes());
    message.extend_from_slice(data);
}

/// What a server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DnsResponse {
    pub(super) code: u8,
    /// The owner of the SOA record in it: the zone that was asked for.
    pub(super) zone: Option<WireName>,
    /// Where its last record begins and where the data of that is, if it is a signature.
    pub(super) signature: Option<(usize, std::ops::Range<usize>)>,
}

impl DnsResponse {
    /// Reads a response to the message with this id.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn read(message: &[u8], id: u16) -> Result<Self, &'static str> {
        const CUT: &str = "it is cut off";
        let header = message.get(..HEADER_LEN).ok_or(CUT)?;
        if header[..2] != id.to_be_bytes() || header[2] & IS_RESPONSE == 0 {
            return Err("it is not the response to this request");
        }
        if header[2] & IS_TRUNCATED != 0 {
            return Err("it is truncated");
        }
        let count = |place: usize| u16::from_be_bytes([header[place], header[place + 1]]);
        let mut at = HEADER_LEN;
        for _ in 0..count(4) {
            at = read_name(message, at).ok_or(CUT)?.1 + 4;
        }
        let mut response = Self { code: header[3] & 0x0f, zone: None, signature: None };
        let records = usize::from(count(6)) + usize::from(count(8)) + usize::from(count(10));
        for index in 0..records {
            let begin = at;
            let (name, behind) = read_name(message, at).ok_or(CUT)?;
            let fixed = message.get(behind..behind + 10).ok_or(CUT)?;
            let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
            let len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
            let data = behind + 10..behind + 10 + len;
            at = data.end;
            if at > message.len() {
                return Err(CUT);
            }
            if kind == TYPE_SOA && response.zone.is_none() {
                response.zone = Some(name);
            } else if kind == TYPE_TSIG {
                if index + 1 != records {
                    return Err("its signature is not the last record");
                }
                response.signature = Some((begin, data));
            }
        }
        Ok(response)
    }
}

/// The name at a place, and what comes behind it (RFC 1035 section 4.1.4).
pub(super) fn read_name(message: &[u8], mut at: usize) -> Option<(WireName, usize)> {
    let mut wire = Vec::new();
    let (mut behind, mut pointers) = (None, 0);
    loop {
        let len = *message.get(at)?;
        match len {
            0 => {
                wire.push(0);
                return (wire.len() <= NAME_LEN_MAX).then(|| (WireName(wire), behind.unwrap_or(at + 1)));
            }
            1..=63 => {
                let label = message.get(at + 1..at + 1 + usize::from(len))?;
                wire.push(len);
                wire.extend(label.iter().map(u8::to_ascii_lowercase));
                at += 1 + usize::from(len);
            }
            192.. => {
                let target = usize::from(len & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                behind = behind.or(Some(at + 2));
                pointers += 1;
                if target >= at || pointers > POINTERS_MAX {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
        if wire.len() > NAME_LEN_MAX {
            return None;
        }
    }
}

/// The name of a code (RFC 1035 section 4.1.1, RFC 2136 section 2.2, RFC 8945 section 3).
pub(super) fn code_name(code: u16) -> String {
    let name = match code {
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        16 => "BADSIG",
        17 => "BADKEY",
        18 => "BADTIME",
        22 => "BADTRUNC",
        _ => return format!("code {code}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> WireName {
        WireName::new(text).unwrap()
    }

    #[test]
    fn names_have_one_form() {
        assert_eq!(name("Ab.c.").bytes(), b"\x02ab\x01c\x00");
        assert_eq!(name("ab.c").to_string(), "ab.c.");
        for bad in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(WireName::new(bad), None, "{bad}");
        }
        let parent = name("a.b").parent();
        assert_eq!(parent, Some(name("b")));
        assert_eq!(parent.and_then(|it| it.parent()).map(|root| root.parent()), Some(None));
        for (one, zone, expected) in [
            ("_acme-challenge.example.com", "example.com", true),
            ("example.com", "example.com", true),
            ("notexample.com", "example.com", false),
            ("com", "example.com", false),
        ] {
            assert_eq!(name(one).is_in(&name(zone)), expected, "{one} in {zone}");
        }
    }

    #[test]
    fn an_update_has_the_form_of_the_standard() {
        let message = update(0x1234, &name("e.x"), &name("a.e.x"), "v", RecordChange::Add { ttl: 60 });
        let expected = b"\x12\x34\x28\0\0\x01\0\0\0\x01\0\0\x01e\x01x\0\0\x06\0\x01\x01a\x01e\x01x\0\0\x10\0\x01\0\0\0\x3c\0\x02\x01v";
        assert_eq!(message, expected);
        let message = update(1, &name("e.x"), &name("a.e.x"), "v", RecordChange::Remove);
        assert!(message.ends_with(b"\0\x10\0\xfe\0\0\0\0\0\x02\x01v"), "{message:?}");
        assert_eq!(&zone_query(7, &name("a"))[..12], b"\0\x07\0\0\0\x01\0\0\0\0\0\0");
    }

    #[test]
    fn responses_are_read_with_their_pointers() {
        let mut message = header(9, 0, [1, 0, 1, 0]);
        message[2] |= IS_RESPONSE;
        message[3] = 3;
        push_question(&mut message, &name("a.example.com"));
        // `example.com` by a pointer into the question.
        message.extend(b"\xc0\x0e\0\x06\0\x01\0\0\0\0\0\x01x");
        let response = DnsResponse::read(&message, 9).unwrap();
        assert_eq!((response.code, response.zone), (3, Some(name("example.com"))));
        assert!(DnsResponse::read(&message, 8).unwrap_err().contains("not the response"));
        // No length makes it read too far, or for ever.
        for len in 0..message.len() {
            assert!(DnsResponse::read(&message[..len], 9).is_err(), "{len}");
        }
        let at = message.len() - 13;
        for pointer in [at as u8, 0xff] {
            let mut bad = message.clone();
            bad[at + 1] = pointer;
            assert!(DnsResponse::read(&bad, 9).is_err(), "{pointer}");
        }
    }
}
