//! The program of [`weir_fuzz::targets::hpack`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(hpack);
