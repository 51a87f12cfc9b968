//! Reading a text file of bounded size: the configuration itself, and files with secrets.

use std::io::Read as _;
use std::path::Path;

use super::text::format_size;

/// Reads a text file of at most `bytes_max` bytes.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("larger than {}", format_size(bytes_max)));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}
