//! The program of [`weir_fuzz::targets::h3_frames`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(h3_frames);
