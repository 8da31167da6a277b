//! Numbers and addresses as text, appended to a buffer without allocation of their own.

use std::net::IpAddr;

/// Appends `number` in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, mut number: u64) {
    if number < 10_000 {
        let (high, low) = (PAIRS[number as usize / 100], PAIRS[number as usize % 100]);
        let zeros = usize::from(number < 1_000) + usize::from(number < 100) + usize::from(number < 10);
        // Four bytes, of which those behind the number go again: a copy of a length that is not known is a call.
        let digits = u32::from_le_bytes([high[0], high[1], low[0], low[1]]) >> (8 * zeros);
        out.extend_from_slice(&digits.to_le_bytes());
        return out.truncate(out.len() - zeros);
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [tens, ones] = PAIRS[number as usize];
    at -= 1;
    digits[at] = ones;
    if tens != b'0' {
        at -= 1;
        digits[at] = tens;
    }
    out.extend_from_slice(&digits[at..]);
}

/// `00` to `99`: two digits for one division.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Digits of percent-encoded bytes: upper case, as RFC 3986 section 2.1 asks for.
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `byte` percent-encoded.
#[inline]
pub fn percent_encoded(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[b'%', HEX_UPPER[usize::from(byte >> 4)], HEX_UPPER[usize::from(byte & 0xf)]]);
}

/// Appends `number` in hexadecimal, lower case, without leading zeros.
#[inline]
pub fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    let digits = ((u64::BITS - (number | 1).leading_zeros()) as usize).div_ceil(4);
    out.extend_from_slice(&hexadecimal_16(number)[16 - digits..]);
}

/// The 16 digits of a number, computed rather than looked up: eight at once, each in a byte of a word.
#[inline]
pub fn hexadecimal_16(number: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let halves = [(number >> 32) as u32, number as u32];
    for (eight, half) in digits.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
        *eight = eight_digits(half);
    }
    digits
}

#[inline]
fn eight_digits(half: u32) -> [u8; 8] {
    let mut word = u64::from(half);
    word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    word = (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    as_digits(word).to_be_bytes()
}

/// The digits of eight numbers below 16, each in a byte of `word`.
#[inline]
fn as_digits(word: u64) -> u64 {
    // One in each byte that is ten or more.
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    word + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)
}

/// Sixteen digits of random bits. Each digit is four of them, in an order that takes half the instructions of that of a number.
#[inline]
pub fn hexadecimal_random(bits: u64) -> [u8; 16] {
    const LOW_HALVES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let mut digits = [0; 16];
    let halves = [bits & LOW_HALVES, bits >> 4 & LOW_HALVES];
    for (eight, half) in digits.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
        *eight = as_digits(half).to_ne_bytes();
    }
    digits
}

/// Appends `address` as text, an IPv4-mapped IPv6 address as its IPv4 address, without brackets.
#[inline]
pub fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => ipv4_address(out, address.octets()),
        IpAddr::V6(address) => ipv6_address(out, address.segments()),
    }
}

/// Appends an IPv4 address of these octets with a single copy: every forwarded request contains one.
#[inline]
fn ipv4_address(out: &mut Vec<u8>, octets: [u8; 4]) {
    let mut text = [b'.'; 16];
    let mut len = 0;
    for octet in octets {
        let [tens, ones] = PAIRS[usize::from(octet % 100)];
        if octet >= 100 {
            text[len] = b'0' + octet / 100;
            len += 1;
        }
        if octet >= 10 {
            text[len] = tens;
            len += 1;
        }
        text[len] = ones;
        // Behind the digits stands the dot, which the last one does not need.
        text[len + 1] = b'.';
        len += 2;
    }
    out.extend_from_slice(&text[..len - 1]);
}

/// Appends an IPv6 address of these groups in its canonical form (RFC 5952 section 4).
fn ipv6_address(out: &mut Vec<u8>, groups: [u16; 8]) {
    let run = |start: usize| groups[start..].iter().take_while(|&&group| group == 0).count();
    // The longest run of zeros; the first of several.
    let start = (0..groups.len()).rev().max_by_key(|&start| run(start)).unwrap_or_default();
    let skipped = if run(start) > 1 { start..start + run(start) } else { 0..0 };
    for (index, &group) in groups.iter().enumerate() {
        if skipped.contains(&index) {
            if index == skipped.start {
                out.extend_from_slice(b"::");
            }
            continue;
        }
        if index > 0 && index != skipped.end {
            out.push(b':');
        }
        hexadecimal(out, u64::from(group));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("what is written is ASCII")
    }

    #[test]
    fn addresses() {
        let rows = [
            ("0.0.0.0", "0.0.0.0"),
            ("192.168.100.255", "192.168.100.255"),
            ("2001:db8::1", "2001:db8::1"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ];
        for (given, expected) in rows {
            assert_eq!(written(|out| address(out, given.parse().expect("an address"))), expected);
        }
    }

    #[test]
    fn small_numbers() {
        for number in 0..10_100 {
            assert_eq!(written(|out| decimal(out, number)), number.to_string());
        }
    }

    #[test]
    fn every_digit_in_every_place() {
        for number in (0..64).step_by(4).flat_map(|shift| (0..16).map(move |digit: u64| digit << shift)) {
            assert_eq!(&hexadecimal_16(number)[..], format!("{number:016x}").as_bytes());
        }
    }

    #[test]
    fn random_digits_have_all_bits() {
        for number in (0..64).step_by(4).flat_map(|shift| (0..16).map(move |digit: u64| digit << shift)) {
            let sorted = |digits: &[u8]| {
                let mut digits = digits.to_vec();
                digits.sort_unstable();
                digits
            };
            assert_eq!(sorted(&hexadecimal_random(number)), sorted(&hexadecimal_16(number)));
        }
        let mut of_each_bit: Vec<_> = (0..64).map(|bit| hexadecimal_random(1 << bit)).collect();
        of_each_bit.sort_unstable();
        of_each_bit.dedup();
        assert_eq!(of_each_bit.len(), 64);
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(number in any::<u64>(), shift in 0..64) {
            let number = number >> shift;
            prop_assert_eq!(written(|out| decimal(out, number)), number.to_string());
            prop_assert_eq!(written(|out| hexadecimal(out, number)), format!("{number:x}"));
            prop_assert_eq!(&hexadecimal_16(number)[..], &format!("{number:016x}").into_bytes()[..]);
        }

        #[test]
        fn addresses_are_those_of_the_standard_library(bits in any::<u128>(), zeros in any::<u8>()) {
            let mut groups = Ipv6Addr::from(bits).segments();
            for (index, group) in groups.iter_mut().enumerate() {
                if zeros >> index & 1 == 1 {
                    *group = 0;
                }
            }
            let v6 = IpAddr::from(groups);
            prop_assert_eq!(written(|out| address(out, v6)), v6.to_canonical().to_string());
            let v4 = IpAddr::from((bits as u32).to_be_bytes());
            prop_assert_eq!(written(|out| address(out, v4)), v4.to_string());
        }
    }
}
