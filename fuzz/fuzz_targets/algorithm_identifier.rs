//! `AlgorithmIdentifier`s of signatures: those that name a scheme are written so that they name it again.
#![no_main]

use adit_pki::signature::Scheme;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(scheme) = Scheme::from_algorithm_identifier(data) {
        assert_eq!(Scheme::from_algorithm_identifier(&scheme.algorithm_identifier()), Ok(scheme));
    }
});
