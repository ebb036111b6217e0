#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seam_fuzz::api::run(data));
