//! The program of [`weir_fuzz::targets::forwarded`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(forwarded);
