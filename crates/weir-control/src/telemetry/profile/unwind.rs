//! From a sample to the addresses on its stack, by the tables that every program has for that (`.eh_frame`).

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use weir_observe::flame::DEPTH_MAX;

use super::images::{ElfImage, Image};
use crate::system::sys::sampling::{Registers, Sample};

/// The stack of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Stack {
    /// The place of its thread among those that are sampled.
    pub(super) thread: usize,
    /// Addresses within the instructions at which it was, the innermost first.
    pub(super) addresses: Box<[u64]>,
    /// Whether the outermost function was reached.
    pub(super) is_whole: bool,
}

/// Knows the tables of all images.
pub(super) struct Unwinder {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    pub(super) fn new(images: &[Image]) -> Self {
        let mut unwinder = UnwinderNative::new();
        for image in images {
            if let Some(tables) = image.with_file(tables_of) {
                unwinder.add_module(Module::new(image.name.clone(), image.range.clone(), image.bias, tables));
            }
        }
        Self { unwinder, cache: CacheNative::new() }
    }

    pub(super) fn stack(&mut self, sample: &Sample) -> Stack {
        let Registers { instruction, stack: from, frame, link } = sample.registers;
        let bytes = sample.stack();
        let mut read = |address: u64| {
            let at = address.checked_sub(from).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
            Ok(u64::from_ne_bytes(*word))
        };
        let registers = registers(instruction, from, frame, link);
        let mut frames = self.unwinder.iter_frames(instruction, registers, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        let is_whole = loop {
            match frames.next() {
                Ok(Some(_)) if addresses.len() == DEPTH_MAX => break false,
                Ok(Some(frame)) => addresses.push(FrameAddress::address_for_lookup(frame)),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Stack { thread: sample.thread, addresses: addresses.into(), is_whole }
    }
}

fn tables_of(file: &dyn ElfImage) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let (eh_frame_svma, eh_frame) = file.section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = file.section(".eh_frame_hdr").unzip();
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: file.section_range(".text"),
        got_svma: file.section_range(".got"),
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..Default::default()
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(instruction: u64, stack: u64, frame: u64, _link: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(instruction, stack, frame)
}

#[cfg(target_arch = "aarch64")]
fn registers(_instruction: u64, stack: u64, frame: u64, link: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(link, stack, frame)
}
