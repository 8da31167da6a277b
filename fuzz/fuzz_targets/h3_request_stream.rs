//! The program of [`weir_fuzz::targets::h3_request_stream`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(h3_request_stream);
