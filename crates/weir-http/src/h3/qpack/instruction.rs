//! The instructions of an encoder (RFC 9204 section 4.3), which arrive in pieces of any size.

use super::error::QpackError;
use crate::multiplexed::compression::coding_error::CodingError;
use crate::multiplexed::compression::integer;
use crate::multiplexed::compression::string::CodedString;

/// One instruction.
#[derive(Clone, Copy)]
pub(super) enum EncoderInstruction<'a> {
    SetCapacity(usize),
    Insert {
        name: InsertedName<'a>,
        value: CodedString<'a>,
    },
    /// Of the entry that came in as the last but so many.
    Duplicate(usize),
}

/// Where the name of an entry is.
#[derive(Clone, Copy)]
pub(super) enum InsertedName<'a> {
    Static(usize),
    /// In the entry that came in as the last but so many.
    Dynamic(usize),
    Literal(CodedString<'a>),
}

impl<'a> EncoderInstruction<'a> {
    /// Takes an instruction off the front of `rest`; `None`, and nothing is taken, while it is not whole.
    pub(super) fn read(rest: &mut &'a [u8]) -> Result<Option<EncoderInstruction<'a>>, QpackError> {
        let mut input = *rest;
        match read_whole(&mut input) {
            Ok(instruction) => {
                *rest = input;
                Ok(Some(instruction))
            }
            Err(CodingError::Truncated) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn read_whole<'a>(rest: &mut &'a [u8]) -> Result<EncoderInstruction<'a>, CodingError> {
    let Some((&first, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
    *rest = tail;
    let name = match first {
        0x80.. => {
            let index = integer::read(first, 6, rest)?;
            if first & 0x40 != 0 { InsertedName::Static(index) } else { InsertedName::Dynamic(index) }
        }
        0x40..0x80 => InsertedName::Literal(CodedString::take(first, 5, rest)?),
        0x20..0x40 => return Ok(EncoderInstruction::SetCapacity(integer::read(first, 5, rest)?)),
        _ => return Ok(EncoderInstruction::Duplicate(integer::read(first, 5, rest)?)),
    };
    let Some((&first, tail)) = rest.split_first() else { return Err(CodingError::Truncated) };
    *rest = tail;
    Ok(EncoderInstruction::Insert { name, value: CodedString::take(first, 7, rest)? })
}
