//! The inputs that fuzzers found: one archive for each target, `fuzz/corpus/<target>.tar.gz`.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use tar::Archive;

use crate::Target;

/// An input that a fuzzer found.
#[derive(Debug)]
pub struct Input {
    /// What it is, in words.
    pub name: PathBuf,
    /// The input itself.
    pub bytes: Vec<u8>,
}

impl Target {
    /// The inputs of this target that fuzzers found, in the archive's order.
    ///
    /// # Errors
    /// The archive is missing or damaged.
    pub fn found(&self) -> io::Result<Vec<Input>> {
        let name = format!("../../fuzz/corpus/{}.tar.gz", self.name);
        let file = File::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name))?;
        let mut inputs = Vec::new();
        for entry in Archive::new(GzDecoder::new(file)).entries()? {
            let mut entry = entry?;
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            inputs.push(Input { name: entry.path()?.into_owned(), bytes });
        }
        Ok(inputs)
    }
}
