//! The program of [`weir_fuzz::targets::grpc`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(grpc);
