//! The program of [`weir_fuzz::targets::response_head`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(response_head);
