//! The program of [`weir_fuzz::targets::import`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(import);
