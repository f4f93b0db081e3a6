//! What has to be on the machine before a broker starts: Java, Kafka's jars (through Maven, once, into a cache outside
//! the source tree), and the helper classes of `tests/kafka`, compiled against them.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The real brokers that tests run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Apache Kafka 4.3.1, with its command-line classes and ZooKeeper 3.9.5.
    V4_3,
    /// Apache Kafka 3.9.1: the older broker.
    V3_9,
}

impl Version {
    fn folder(self) -> &'static str {
        match self {
            Self::V4_3 => "kafka-4.3.1",
            Self::V3_9 => "kafka-3.9.1",
        }
    }

    fn pom(self) -> PathBuf {
        match self {
            Self::V4_3 => sources().join("pom.xml"),
            Self::V3_9 => sources().join("old/pom.xml"),
        }
    }
}

/// Where jars and compiled helpers are kept: `$OTTLA_CACHE`, or `ottla` in the user's cache folder.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    named("OTTLA_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("ottla")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/ottla")))
        .unwrap_or_else(|| std::env::temp_dir().join("ottla-cache"))
}

/// `tests/kafka`.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka")
}

/// The folder with the jars of `version`, fetched first when it isn't there.
///
/// # Errors
/// When Java or Maven are missing, or Maven can't fetch the jars.
pub fn jars(version: Version) -> Result<PathBuf> {
    static JARS: [OnceLock<Result<PathBuf>>; 2] = [const { OnceLock::new() }; 2];
    JARS[version as usize].get_or_init(|| fetch_jars(version, &cache_dir())).clone()
}

/// The folder with the compiled helper classes.
///
/// # Errors
/// As [`jars`], and when the sources don't compile.
pub(crate) fn helper_classes() -> Result<PathBuf> {
    static CLASSES: OnceLock<Result<PathBuf>> = OnceLock::new();
    CLASSES.get_or_init(|| compile(&jars(Version::V4_3)?, &cache_dir())).clone()
}

/// A `java` command for `main` on the jars of `version` and the helper classes, with its temporary files in `temp`:
/// codecs unpack their native libraries there, and a killed JVM leaves them.
pub(crate) fn java(version: Version, heap: &str, temp: &Path, main: &str) -> Result<Command> {
    let class_path = format!("{}:{}/*", helper_classes()?.display(), jars(version)?.display());
    let mut command = Command::new("java");
    command
        // A test JVM lives for seconds: a quick start counts for more than peak speed.
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData", heap])
        .arg(format!("-Djava.io.tmpdir={}", temp.display()))
        .arg(format!("-Dlog4j2.configurationFile={}", sources().join("log4j2.yaml").display()))
        .args(["-cp", &class_path, main]);
    Ok(command)
}

fn fetch_jars(version: Version, cache: &Path) -> Result<PathBuf> {
    require_java()?;
    let lib = cache.join(version.folder()).join("lib");
    let _lock = lock(cache, version.folder())?;
    if lib.is_dir() {
        return Ok(lib);
    }
    let pom = version.pom();
    let partial = cache.join(version.folder()).join("partial");
    let _ = fs::remove_dir_all(&partial);
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom).arg("dependency:copy-dependencies").args(["-DincludeScope=runtime"]);
    maven.arg(format!("-DoutputDirectory={}", partial.display()));
    let output = maven.output().map_err(|_| {
        Error::new(format!(
            "mvn is missing: Kafka's jars are fetched through Maven (Debian: apt-get install maven) into {}",
            lib.display()
        ))
    })?;
    if !output.status.success() {
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        return Err(Error::doing(format!("mvn could not fetch the jars of {}", pom.display()), said));
    }
    fs::rename(&partial, &lib).map_err(|e| Error::doing(format!("moving Kafka's jars to {}", lib.display()), e))?;
    Ok(lib)
}

fn compile(lib: &Path, cache: &Path) -> Result<PathBuf> {
    let folder = sources().join("src/ottla/testing");
    let mut sources: Vec<PathBuf> = fs::read_dir(&folder)
        .map_err(|e| Error::doing(folder.display(), e))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "java"))
        .collect();
    sources.sort();
    let mut hasher = DefaultHasher::new();
    for source in &sources {
        fs::read(source).map_err(|e| Error::doing(source.display(), e))?.hash(&mut hasher);
    }
    let name = format!("helper-{:016x}", hasher.finish());
    let classes = cache.join(&name);
    let _lock = lock(cache, "helper")?;
    if classes.is_dir() {
        return Ok(classes);
    }
    let partial = cache.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&partial);
    let mut javac = Command::new("javac");
    javac
        .args(["--release", "17", "-nowarn", "-cp"])
        .arg(format!("{}/*", lib.display()))
        .arg("-d")
        .arg(&partial)
        .args(&sources);
    let output = javac.output().map_err(|_| {
        Error::new("javac is missing: a JDK 17 or newer is needed (Debian: apt-get install openjdk-17-jdk-headless)")
    })?;
    if !output.status.success() {
        return Err(Error::doing("javac", String::from_utf8_lossy(&output.stderr)));
    }
    fs::rename(&partial, &classes).map_err(|e| Error::doing(classes.display(), e))?;
    Ok(classes)
}

/// Kafka 4 needs Java 17.
fn require_java() -> Result<()> {
    const NEED: &str = "Java 17 or newer is needed (Debian: apt-get install openjdk-17-jdk-headless)";
    let output =
        Command::new("java").arg("-version").output().map_err(|_| Error::new(format!("java is missing: {NEED}")))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let major = said.split('"').nth(1).and_then(|v| v.split(['.', '-']).next()?.parse::<u32>().ok());
    match major {
        Some(17..) => Ok(()),
        _ => Err(Error::new(format!("java -version says `{}`: {NEED}", said.lines().next().unwrap_or_default()))),
    }
}

/// Held while one process fills a part of the cache; the system frees it when that process dies.
fn lock(cache: &Path, name: &str) -> Result<File> {
    fs::create_dir_all(cache).map_err(|e| Error::doing(format!("creating the cache folder {}", cache.display()), e))?;
    let path = cache.join(format!("{name}.lock"));
    let doing = |e| Error::doing(format!("locking {}", path.display()), e);
    let file = File::options().create(true).append(true).open(&path).map_err(doing)?;
    file.lock().map_err(doing)?;
    Ok(file)
}
