//! Where a body ends: `Content-Length` and `Transfer-Encoding`, read with no tolerance at all.
//!
//! Two parsers that disagree here make request smuggling, so every form that another parser could read differently
//! is refused: lists, signs, leading zeros, any coding but one plain `chunked`, both fields together.

use crate::bytes::{elements, is_token, trim};
use crate::message::field_values::content_length;
use crate::message::rule::Rule;

/// Notes the value of one Content-Length field, in a head that is chunked or not so far.
#[inline]
pub(crate) fn add_length(length: &mut Option<u64>, is_chunked: bool, value: &[u8]) -> Result<(), Rule> {
    if is_chunked {
        return Err(Rule::LengthWithTransferEncoding);
    }
    content_length::add(length, value)
}

/// Notes the value of one Transfer-Encoding field, in a head that has this Content-Length so far. Only plain `chunked`
/// passes.
pub(crate) fn add_transfer_encoding(
    is_chunked: &mut bool,
    length: Option<u64>,
    value: &[u8],
) -> Result<(), Rule> {
    if length.is_some() {
        return Err(Rule::LengthWithTransferEncoding);
    }
    if *is_chunked {
        return Err(Rule::BadTransferEncoding);
    }
    if !value.eq_ignore_ascii_case(b"chunked") {
        return Err(blame_transfer_encoding(value));
    }
    *is_chunked = true;
    Ok(())
}

/// The rule that a Transfer-Encoding other than plain `chunked` breaks.
///
/// Well-formed codings before a final `chunked` are merely unknown (501). Without a final `chunked` the end of the body
/// is undefined, and RFC 9112 section 6.3 demands 400.
#[cold]
fn blame_transfer_encoding(value: &[u8]) -> Rule {
    let mut codings = elements(value).map(|coding| {
        // A parameter follows its coding after `;`; no coding but `chunked` matters here, and that takes none.
        let name = coding.split(|&byte| byte == b';').next().unwrap_or_default();
        (trim(name), name.len() == coding.len())
    });
    let Some((last, plain)) = codings.next_back() else { return Rule::BadTransferEncoding };
    if !plain || !last.eq_ignore_ascii_case(b"chunked") {
        return Rule::BadTransferEncoding;
    }
    let known_or_broken = |name: &[u8]| !is_token(name) || name.eq_ignore_ascii_case(b"chunked");
    if codings.any(|(name, _)| known_or_broken(name)) {
        return Rule::BadTransferEncoding;
    }
    Rule::UnknownTransferCoding
}
