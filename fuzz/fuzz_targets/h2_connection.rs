//! The program of [`weir_fuzz::targets::h2_connection`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(h2_connection);
