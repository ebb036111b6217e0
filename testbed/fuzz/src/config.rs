//! The agent's configuration.

use seam::config::Config;

/// What is accepted is written as a file that reads back as the same.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::from_toml(text, "fuzz") {
        Ok(config) => {
            let written = config.to_toml();
            let again = Config::from_toml(&written, "fuzz").expect("the effective configuration is valid");
            assert_eq!(again.hash(), config.hash());
        }
        Err(error) => assert!(!error.problems.is_empty(), "an error without a problem"),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../../configs/seam.toml"),
        include_str!("../../../configs/prefill.toml"),
        include_str!("../../../configs/decode.toml"),
        include_str!("../../../configs/engine-mover.toml"),
        "[node]\nname = \"n\"\nroles = [\"router\"]\n[tls]\ndev = true\n",
    ];
    files.map(|file| file.as_bytes().to_vec()).to_vec()
}
