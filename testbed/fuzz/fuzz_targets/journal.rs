#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seam_fuzz::journal::run(data));
