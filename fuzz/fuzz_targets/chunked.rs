//! The program of [`weir_fuzz::targets::chunked`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(chunked);
