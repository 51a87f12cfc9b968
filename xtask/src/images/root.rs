//! The root folder of an image that has no base image: programs with the libraries they load, files, and a busybox if
//! the real image offers a shell.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::docker;
use crate::services::install;

/// Part of every content hash. Increase it when images are made in another way.
const RECIPES: u32 = 1;

/// The content and start of an image. Nothing is copied before a change is detected.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// Programs, each with its path in the image. Their libraries are copied too.
    programs: Vec<(PathBuf, String)>,
    /// Libraries that a program opens only at run time. The libraries they link to are copied too.
    folders: Vec<(PathBuf, String)>,
    files: Vec<(String, Vec<u8>, u32)>,
    links: Vec<(String, String)>,
    has_shell: bool,
    changes: Vec<String>,
}

impl Image {
    /// An image with a user `name` beside root. An image with a shell gets a busybox under all its names.
    pub(super) fn new(user: &str, id: u32, has_shell: bool) -> Self {
        let mut image = Self { has_shell, ..Self::default() };
        let shell = if has_shell { "/bin/sh" } else { "/sbin/nologin" };
        let mut users = format!("root:x:0:0:root:/root:{shell}\n");
        let mut groups = "root:x:0:\n".to_owned();
        if id != 0 {
            users += &format!("{user}:x:{id}:{id}:{user}:/:{shell}\n");
            groups += &format!("{user}:x:{id}:\n");
        }
        image.file("/etc/passwd", users.into_bytes(), 0o644);
        image.file("/etc/group", groups.into_bytes(), 0o644);
        image.file("/etc/nsswitch.conf", b"hosts: files dns\n".to_vec(), 0o644);
        image
    }

    pub(super) fn program(&mut self, from: impl Into<PathBuf>, to: &str) {
        self.programs.push((from.into(), to.to_owned()));
    }

    pub(super) fn folder(&mut self, from: impl Into<PathBuf>, to: &str) {
        self.folders.push((from.into(), to.to_owned()));
    }

    pub(super) fn file(&mut self, path: &str, content: Vec<u8>, mode: u32) {
        self.files.push((path.to_owned(), content, mode));
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.links.push((path.to_owned(), target.to_owned()));
    }

    /// An instruction of a Dockerfile, such as `CMD ["serve"]`.
    pub(super) fn change(&mut self, instruction: impl Into<String>) {
        self.changes.push(instruction.into());
    }

    pub(super) fn label(&mut self, key: &str, value: &str) {
        self.change(format!("LABEL {key}={value}"));
    }

    /// Imports the image if its content differs from the present image. Returns whether it did.
    pub(super) fn import_as(mut self, name: &str, present: Option<String>) -> Result<bool> {
        let content = self.content()?;
        if present.as_ref() == Some(&content) {
            return Ok(false);
        }
        self.label("hopcache.content", &content);
        let folder = scratch()?;
        let made = self.lay_out(&folder).and_then(|()| docker::import(&folder, &self.changes, name));
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        made.map(|()| true)
    }

    /// A hash that shows a change. It is not a secure hash.
    fn content(&self) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        (RECIPES, self.has_shell, &self.changes, &self.files, &self.links).hash(&mut hasher);
        for (from, to) in &self.programs {
            let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
            (to, bytes).hash(&mut hasher);
        }
        for (from, to) in &self.folders {
            to.hash(&mut hasher);
            // Only names, not contents: these are hundreds of megabytes of released files, whose names contain their
            // versions.
            for (path, length) in listing(from)? {
                (path.strip_prefix(from).unwrap_or(&path).display().to_string(), length).hash(&mut hasher);
            }
        }
        Ok(format!("{:016x}", hasher.finish()))
    }

    fn lay_out(&self, folder: &Path) -> Result<()> {
        for name in ["bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr/bin", "usr/local/bin"] {
            make_folder(&folder.join(name))?;
        }
        set_mode(folder, 0o755)?;
        set_mode(&folder.join("tmp"), 0o1777)?;
        if self.has_shell {
            busybox(folder)?;
        }
        for (from, to) in &self.folders {
            for (path, _) in listing(from)? {
                copy(&path, &inside(folder, to).join(path.strip_prefix(from).unwrap_or(&path)))?;
                if is_linked(&path) {
                    libraries(&path, folder)?;
                }
            }
        }
        for (from, to) in &self.programs {
            copy(from, &inside(folder, to))?;
            set_mode(&inside(folder, to), 0o755)?;
            libraries(from, folder)?;
        }
        for (path, content, mode) in &self.files {
            let target = inside(folder, path);
            make_folder(target.parent().context("a file has a folder")?)?;
            std::fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
            set_mode(&target, *mode)?;
        }
        for (path, target) in &self.links {
            let link = inside(folder, path);
            make_folder(link.parent().context("a link has a folder")?)?;
            symlink(target, &link).with_context(|| format!("cannot link {}", link.display()))?;
        }
        Ok(())
    }
}

fn scratch() -> Result<PathBuf> {
    let output = Command::new("mktemp").arg("-d").output().context("could not start mktemp")?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Copies the static busybox under each of its names.
fn busybox(folder: &Path) -> Result<()> {
    let busybox = install::path_of("busybox").context("busybox is not on the path")?;
    copy(&busybox, &folder.join("bin/busybox"))?;
    let names = Command::new(&busybox).arg("--list").output().context("could not start busybox")?;
    for name in String::from_utf8_lossy(&names.stdout).lines().filter(|name| *name != "busybox") {
        symlink("busybox", folder.join("bin").join(name)).with_context(|| format!("cannot link {name}"))?;
    }
    Ok(())
}

/// Copies the libraries that a program links to, to the paths where its loader searches. A static program has none.
fn libraries(program: &Path, folder: &Path) -> Result<()> {
    let output = Command::new("ldd").arg(program).output().context("could not start ldd")?;
    let libraries = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths =
        libraries.split_whitespace().filter(|word| word.starts_with("/lib") || word.starts_with("/usr"));
    // Java's own libraries are in its folder, which is copied as a whole.
    for library in paths.filter(|path| !path.contains("/jvm/")) {
        let target = inside(folder, library);
        if !target.exists() {
            copy(Path::new(library), &target)?;
        }
    }
    Ok(())
}

/// A program or a library, by its path or name.
fn is_linked(path: &Path) -> bool {
    let is_program = path.parent().is_some_and(|folder| folder.ends_with("bin"));
    is_program || path.extension().is_some_and(|extension| extension == "so")
}

/// Every file below a folder with its length, sorted. Leaves out dead links.
fn listing(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let Ok(about) = std::fs::metadata(&path) else { continue };
            if about.is_dir() {
                left.push(path);
            } else {
                found.push((path, about.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn inside(folder: &Path, path: &str) -> PathBuf {
    folder.join(path.trim_start_matches('/'))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_folder(to.parent().context("a file has a folder")?)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_image_has_the_same_content_and_another_file_another() {
        let image = |text: &[u8]| {
            let mut image = Image::new("app", 10_001, false);
            image.file("/etc/app", text.to_vec(), 0o644);
            image.content().unwrap()
        };
        assert_eq!(image(b"one"), image(b"one"));
        assert_ne!(image(b"one"), image(b"two"));
    }
}
