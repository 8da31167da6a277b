//! The program of [`weir_fuzz::targets::request_head`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(request_head);
