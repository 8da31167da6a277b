//! The program of [`weir_fuzz::targets::conditions`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(conditions);
