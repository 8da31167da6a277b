//! The program of [`weir_fuzz::targets::client_hello`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(client_hello);
