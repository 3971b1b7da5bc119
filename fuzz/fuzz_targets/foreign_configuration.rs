//! Looks for bytes that break the [property](property).

#![no_main]

#[path = "../properties/foreign_configuration.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::check(input));
