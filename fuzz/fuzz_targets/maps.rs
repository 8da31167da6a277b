//! The program of [`weir_fuzz::targets::maps`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(maps);
