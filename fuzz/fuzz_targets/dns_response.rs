//! The program of [`weir_fuzz::targets::dns_response`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(dns_response);
