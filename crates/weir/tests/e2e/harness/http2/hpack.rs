//! Header blocks, by a library that shares nothing with Weir.

use httlib_hpack::{Decoder, Encoder};

use crate::harness::latin1;
use crate::harness::message::Fields;

/// Both tables of a connection, at this end.
#[derive(Debug, Default)]
pub(super) struct Hpack {
    encoder: Encoder<'static>,
    decoder: Decoder<'static>,
}

impl Hpack {
    /// A block of these fields, as browsers write it: in the table, with Huffman's code.
    pub(super) fn write<N: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, fields: &[(N, V)]) -> Vec<u8> {
        const FORMAT: u8 =
            Encoder::BEST_FORMAT | Encoder::WITH_INDEXING | Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE;
        let mut block = Vec::new();
        for (name, value) in fields {
            let field = (name.as_ref().to_vec(), value.as_ref().to_vec(), FORMAT);
            self.encoder.encode(field, &mut block).expect("a literal can always be written");
        }
        block
    }

    /// The fields of a block of Weir.
    pub(super) fn read(&mut self, block: &[u8]) -> Fields {
        let mut lines = Vec::new();
        let read = self.decoder.decode(&mut block.to_vec(), &mut lines);
        read.unwrap_or_else(|error| panic!("Weir has sent a block that is not HPACK: {error:?}: {block:?}"));
        Fields(lines.into_iter().map(|(name, value, _)| (latin1(&name), latin1(&value))).collect())
    }
}
