//! The program of [`weir_fuzz::targets::qpack_pair`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(qpack_pair);
