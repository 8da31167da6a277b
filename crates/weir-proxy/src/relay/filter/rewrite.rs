//! Bodies that are rewritten on their way.
//!
//! What is searched for and what replaces it is the matter of `weir-rewrite`. Here is how much is taken and made at a time.

use std::task::{Context, Poll};

use weir_rewrite::BodyRewriter;

use crate::relay::ends::{RelayError, Source};

/// Output that is made at a time; one replacement more at most.
const MADE_MAX: usize = 8 * 1024;

/// Input that is taken at a time.
const INPUT_MAX: usize = 16 * 1024;

/// Bytes of input that take the time of one of framing.
const INPUT_PER_FRAMING_BYTE: usize = 16;

/// What a turn is charged that ends before its work is done, as bytes of framing: all of it.
const WHOLE_TURN: usize = 1 << 20;

/// Rules at work on one body.
#[derive(Debug)]
pub(crate) struct RewriteFilter(Box<BodyRewriter>);

impl RewriteFilter {
    pub(crate) fn new(rewriter: BodyRewriter) -> Self {
        Self(Box::new(rewriter))
    }

    /// Fills `made` with what becomes of the next bytes of `source`. Gives the cost, as bytes of framing, and whether the body has ended.
    pub(super) fn fill(
        &mut self,
        source: &mut impl Source,
        made: &mut Vec<u8>,
        consumed: &mut u64,
    ) -> Result<(usize, bool), RelayError> {
        let (mut framing, mut input_left) = (0, INPUT_MAX);
        while made.len() < MADE_MAX && input_left > 0 {
            framing += source.decode()?;
            let data = source.data();
            let data = &data[..data.len().min(input_left)];
            if data.is_empty() && source.is_finished() {
                let has_ended = self.0.finish(made, MADE_MAX);
                let is_cut_off = !has_ended && made.len() < MADE_MAX;
                return Ok((if is_cut_off { WHOLE_TURN } else { framing }, has_ended));
            }
            if data.is_empty() && !self.0.is_busy() {
                break;
            }
            let taken = self.0.pass(data, made, MADE_MAX);
            source.take(taken);
            *consumed += taken as u64;
            input_left -= taken;
            if self.0.is_busy() && made.len() < MADE_MAX {
                return Ok((WHOLE_TURN, false));
            }
        }
        // What is made counts where it is taken on; what disappears counts here.
        Ok((framing + (INPUT_MAX - input_left) / INPUT_PER_FRAMING_BYTE, false))
    }

    /// Waits for more of `source`, unless there is something to do without.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut impl Source,
    ) -> Poll<Result<(), RelayError>> {
        if self.0.is_busy() || !source.data().is_empty() || source.is_finished() {
            return Poll::Ready(Ok(()));
        }
        source.poll_read(cx)
    }
}
