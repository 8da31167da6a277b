//! The name in a certificate as one line of ASCII (RFC 4514), safe in headers and logs.
//!
//! Identical to the line of nginx and of `openssl x509 -nameopt RFC2253`, so that comparisons of names keep working. Bytes other than
//! printable ASCII are escaped one by one, which the RFC allows for every byte.

use std::fmt::Write as _;

use x509_parser::der_parser::asn1_rs::{Any, Tag};
use x509_parser::prelude::{AttributeTypeAndValue, X509Name};

/// The name, its last part first.
pub(super) fn print_name(name: &X509Name<'_>) -> String {
    let mut line = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (index, part) in parts.into_iter().rev().enumerate() {
        if index > 0 {
            line.push(',');
        }
        for (index, attribute) in part.iter().enumerate() {
            if index > 0 {
                line.push('+');
            }
            write_attribute(&mut line, attribute);
        }
    }
    line
}

/// The first common name as text; `None` without one.
pub(super) fn common_name(name: &X509Name<'_>) -> Option<String> {
    let value = name.iter_common_name().next()?.attr_value();
    String::from_utf8(text(value)?).ok()
}

fn write_attribute(line: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let id = attribute.attr_type().to_id_string();
    let short = SHORT.iter().find(|(known, _)| *known == id).map(|(_, short)| *short);
    line.push_str(short.unwrap_or(&id));
    line.push('=');
    let value = attribute.attr_value();
    match text(value).filter(|_| short.is_some()) {
        Some(text) => escape(line, &text),
        // Section 2.4: a value without text, or an attribute without a name, is the hexadecimal of its encoding.
        None => write_encoded(line, value),
    }
}

/// The names of the types of attributes: RFC 4514 section 3, RFC 4519, and `emailAddress` of RFC 2985.
const SHORT: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// The text of a value, converted to UTF-8 where its type has another encoding; `None` when it is not a string.
fn text(value: &Any<'_>) -> Option<Vec<u8>> {
    let data = value.data;
    let of_words = |words: &mut dyn Iterator<Item = u32>| {
        let text: Option<String> = words.map(char::from_u32).collect();
        text.map(String::into_bytes)
    };
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
            Some(data.to_vec())
        }
        // Programs that write such strings mean ISO 8859-1 by them.
        Tag::T61String => of_words(&mut data.iter().map(|byte| u32::from(*byte))),
        Tag::BmpString => {
            let (words, []) = data.as_chunks() else { return None };
            String::from_utf16(&words.iter().map(|word| u16::from_be_bytes(*word)).collect::<Vec<_>>())
                .ok()
                .map(String::into_bytes)
        }
        Tag::UniversalString => {
            let (words, []) = data.as_chunks() else { return None };
            of_words(&mut words.iter().map(|word| u32::from_be_bytes(*word)))
        }
        _ => None,
    }
}

/// RFC 4514 section 2.4.
fn escape(line: &mut String, text: &[u8]) {
    let last = text.len().wrapping_sub(1);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => push_escaped(line, *byte),
            b'#' if index == 0 => push_escaped(line, *byte),
            b' ' if index == 0 || index == last => push_escaped(line, *byte),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => write!(line, "\\{byte:02X}").expect("a string takes everything"),
        }
    }
}

fn push_escaped(line: &mut String, byte: u8) {
    line.push('\\');
    line.push(char::from(byte));
}

fn write_encoded(line: &mut String, value: &Any<'_>) {
    use x509_parser::der_parser::asn1_rs::ToDer as _;
    line.push('#');
    // A parsed name can be written.
    for byte in value.to_der_vec().unwrap_or_default() {
        write!(line, "{byte:02X}").expect("a string takes everything");
    }
}
