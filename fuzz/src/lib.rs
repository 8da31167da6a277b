//! The fuzz targets as functions, and what they share.
//!
//! `fuzz_targets/` makes programs of libFuzzer out of them, when these are compiled with `--cfg fuzzing`; without, the committed corpora run as tests.

pub mod replay;
pub mod targets;
mod session;
mod heads;
mod written;
mod pieces;

/// The program of a target: one of libFuzzer with `--cfg fuzzing`, else one that takes the files that it is given as inputs.
#[macro_export]
macro_rules! program {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::targets::$target::check(input));

        #[cfg(not(fuzzing))]
        fn main() {
            let files = std::env::args_os().skip(1).map(std::path::PathBuf::from);
            $crate::replay::replay($crate::targets::$target::check, files);
        }
    };
}
