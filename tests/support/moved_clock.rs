//! A clock that a test moves for one process: a library (`moved_clock.c`, built here with `cc`) between the process and
//! libc's wall clock.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct MovedClock {
    file: PathBuf,
    dir: tempfile::TempDir,
}

impl MovedClock {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/moved_clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(dir.path().join("moved_clock.so"));
        let built = compiler.arg(source).arg("-ldl").status().expect("cc, which rustc links with as well");
        assert!(built.success());
        let clock = Self { file: dir.path().join("ms"), dir };
        clock.move_by(0);
        clock
    }

    /// Milliseconds off the machine's clock from now on. In place: it is mapped by the process.
    pub fn move_by(&self, ms: i64) {
        use std::io::Write;
        let options = std::fs::File::options().write(true).create(true).truncate(false).open(&self.file);
        options.unwrap().write_all(&ms.to_ne_bytes()).unwrap();
    }

    /// The library to be loaded first, and the variable that it reads.
    pub fn preload(&self) -> (PathBuf, (String, PathBuf)) {
        let library = self.dir.path().join("moved_clock.so");
        (library, ("MOVED_CLOCK_FILE".to_owned(), self.file.clone()))
    }
}
