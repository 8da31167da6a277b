//! The program of [`weir_fuzz::targets::qpack_decoder`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(qpack_decoder);
