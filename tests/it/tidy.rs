//! What a reviewer would say each time about the tree: arrows between crates, stray files, banned words and calls. Each
//! complaint names the place and what to do instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates in the order of their arrows: each may use only those before it.
const LAYERS: [&str; 4] = ["protocol", "client", "stream", "cli"];
/// The embedded broker stands aside: it uses none of ours, and only the command line and tests use it.
const SOURCES: [&str; 5] = ["protocol", "client", "stream", "embedded", "cli"];
const LIBRARIES: [&str; 4] = ["protocol", "client", "stream", "embedded"];
const LINES_MAX: usize = 600;
const FILE_BYTES_MAX: u64 = 1 << 20;

const TOP_LEVEL: [&str; 24] = [
    ".ci",
    ".gitattributes",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "cli",
    "client",
    "clippy.toml",
    "deny.toml",
    "docs",
    "embedded",
    "fuzz",
    "protocol",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "stream",
    "tests",
];

#[test]
fn arrows_between_crates_go_one_way() {
    let mut wrong = Vec::new();
    for package in SOURCES {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).expect("a manifest");
        let allowed: Vec<String> = match (LAYERS.iter().position(|l| *l == package), package) {
            (Some(layer), _) => {
                let aside = (package == "cli").then(|| "ottla-embedded".to_owned());
                LAYERS[..layer].iter().map(|l| format!("ottla-{l}")).chain(aside).collect()
            }
            (None, _) => Vec::new(),
        };
        for used in dependencies(&manifest) {
            if used.starts_with("ottla") && !allowed.contains(&used) {
                wrong.push(format!("{package}/Cargo.toml uses {used}: protocol <- client <- stream <- cli, one way"));
            }
            if package == "protocol" && ["tokio", "socket2", "mio"].contains(&used.as_str()) {
                wrong.push(format!("{package}/Cargo.toml uses {used}: no sockets and no async in the wire layer"));
            }
        }
    }
    assert_clean(&wrong);
}

/// The names under `[dependencies]`, those of targets included; not dev-dependencies, where an examples' or test's
/// backward arrow harms nobody.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies" || section.ends_with(".dependencies");
            if let Some((_, name)) = section.rsplit_once("dependencies.").filter(|_| !section.contains("dev-")) {
                names.push(name.to_owned());
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name: String = line.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
            names.push(name);
        }
    }
    names
}

#[test]
fn files_lie_where_they_belong_and_are_small() {
    let mut wrong = Vec::new();
    for file in tracked() {
        let first = file.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        if !TOP_LEVEL.contains(&first.as_str()) {
            wrong.push(format!("{}: nothing at the top level is called {first}", file.display()));
        }
        let in_testdata = file.components().any(|c| c.as_os_str() == "testdata");
        let bytes = fs::metadata(root().join(&file)).map_or(0, |m| m.len());
        if bytes > FILE_BYTES_MAX && !in_testdata {
            wrong.push(format!(
                "{}: {bytes} bytes; make large data at run time, or keep it in a testdata folder",
                file.display()
            ));
        }
    }
    assert_clean(&wrong);
}

#[test]
fn sources_are_short_enough_to_read() {
    let mut wrong = Vec::new();
    for file in rust_files(&SOURCES) {
        let lines = read(&file).lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{}: {lines} lines; one type or one API a file reads better", file.display()));
        }
    }
    assert_clean(&wrong);
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    // Spelled in two halves, so that this file may be looked at too.
    let banned = [
        (concat!("todo", "!("), "finish it, or leave it out"),
        (concat!("unimplemented", "!("), "finish it, or return a typed error"),
        (concat!("dbg", "!("), "remove it"),
        (concat!("#[ig", "nore"), "a test that can't run says why at run time, and fails"),
        (concat!("#![al", "low("), "#[expect(lint, reason = \"…\")] at the place"),
        (concat!("#[al", "low("), "#[expect(lint, reason = \"…\")]"),
    ];
    let everything = ["protocol", "client", "stream", "embedded", "cli", "tests", "benches", "fuzz"];
    assert_clean(&find(&rust_files(&everything), &banned, Part::Whole));
}

#[test]
fn libraries_neither_print_nor_block() {
    let prints = [
        (concat!("println", "!("), "libraries don't print: return it, or give it to the caller's hook"),
        (concat!("print", "!("), "libraries don't print: return it, or give it to the caller's hook"),
    ];
    // Examples are programs, and tests may say and do more.
    let library = |folders: &[&str]| -> Vec<PathBuf> {
        let is_program =
            |file: &PathBuf| file.components().any(|c| ["tests", "examples"].iter().any(|p| c.as_os_str() == *p));
        rust_files(folders).into_iter().filter(|file| !is_program(file)).collect()
    };
    let mut wrong = find(&library(&LIBRARIES), &prints, Part::BeforeTests);
    let blocks = [(concat!("thread::", "sleep"), "tokio::time::sleep: a blocked worker stops other connections")];
    wrong.extend(find(&library(&["client", "stream"]), &blocks, Part::BeforeTests));
    assert_clean(&wrong);
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    let home = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];
    let here = root().canonicalize().expect("the root").display().to_string();
    let mut wrong = Vec::new();
    for file in tracked() {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if line.contains(&here) || home.iter().any(|h| line.contains(h)) {
                wrong.push(format!("{}:{}: a path of one machine", file.display(), number + 1));
            }
        }
    }
    assert_clean(&wrong);
}

/// Which lines of a file count.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Whole,
    BeforeTests,
}

fn find(files: &[PathBuf], banned: &[(&str, &str)], part: Part) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let text = read(file);
        for (number, line) in text.lines().enumerate() {
            // Tests stand at the end of a file.
            if part == Part::BeforeTests && line.trim_start().starts_with("#[cfg(test)]") {
                break;
            }
            let code = line.trim_start();
            if part == Part::BeforeTests && code.starts_with("//") {
                continue;
            }
            if let Some((word, instead)) = banned.iter().find(|(word, _)| code.contains(word)) {
                found.push(format!("{}:{}: {word}: {instead}", file.display(), number + 1));
            }
        }
    }
    found
}

#[track_caller]
fn assert_clean(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &Path) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The files that git knows, or would take in: relative, and still there.
fn tracked() -> Vec<PathBuf> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git, which knows the files of the tree");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("file names in UTF-8");
    let files: Vec<PathBuf> = names.split_terminator('\0').map(PathBuf::from).collect();
    assert!(files.len() > 20, "git lists only {files:?}");
    files.into_iter().filter(|f| root().join(f).exists()).collect()
}

fn rust_files(packages: &[&str]) -> Vec<PathBuf> {
    let of = |file: &PathBuf| packages.iter().any(|package| file.starts_with(package));
    tracked().into_iter().filter(|f| of(f) && f.extension().is_some_and(|e| e == "rs")).collect()
}
