//! The program of [`weir_fuzz::targets::cache_file`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(cache_file);
