//! The program of [`weir_fuzz::targets::proxy_protocol`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(proxy_protocol);
