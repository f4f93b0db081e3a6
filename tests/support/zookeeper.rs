//! A ZooKeeper server in a process of its own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::java::client::JavaClient;
use crate::kafka::cluster::Folder;
use crate::kafka::node::tail;
use crate::process::{Finished, Signal};
use crate::{Version, keeper, ports, setup};

/// One standalone ZooKeeper server with an empty tree.
pub struct ZooKeeper {
    port: u16,
    process: Child,
    folder: Folder,
}

impl ZooKeeper {
    /// Starts a server on a free port and returns when it serves.
    ///
    /// # Panics
    /// When that fails, with the end of its log.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more lines in its configuration: names and values.
    ///
    /// # Panics
    /// When that fails, with the end of its log.
    #[track_caller]
    #[must_use]
    pub fn start_with(config: &[(&str, &str)]) -> Self {
        Self::try_start(config).unwrap_or_else(|e| panic!("{e}"))
    }

    fn try_start(more: &[(&str, &str)]) -> Result<Self> {
        let folder = Folder::new()?;
        let port = ports::free_port();
        let config = folder.path.join("zoo.cfg");
        let mut text = format!(
            "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
             4lw.commands.whitelist=ruok\n",
            folder.path.join("data").display()
        );
        more.iter().for_each(|(name, value)| text.push_str(&format!("{name}={value}\n")));
        fs::write(&config, text).map_err(|e| Error::doing(config.display(), e))?;
        let process = Self::spawn(&folder.path)?;
        let mut server = Self { port, process, folder };
        server.await_service()?;
        Ok(server)
    }

    fn spawn(folder: &Path) -> Result<Child> {
        let log = folder.join("zookeeper.log");
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|e| Error::doing(log.display(), e))?;
        let mut java =
            setup::java(Version::V4_3, "-Xmx128m", folder, "org.apache.zookeeper.server.ZooKeeperServerMain")?;
        java.arg(folder.join("zoo.cfg")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0);
        let process = java.spawn().map_err(|e| Error::doing("java", e))?;
        keeper::watch_process(process.id());
        Ok(process)
    }

    fn await_service(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.serves() {
            if Instant::now() > deadline || !matches!(self.process.try_wait(), Ok(None)) {
                let log = self.folder.path.join("zookeeper.log");
                return Err(Error::new(format!("ZooKeeper does not serve:\n{}", tail(&log, 40))));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills it. [`ZooKeeper::start_again`] brings it back with the same tree, at the same port.
    #[track_caller]
    pub fn kill(&mut self) {
        self.end().unwrap_or_else(|e| panic!("ZooKeeper: {e}"));
    }

    /// Starts it again after [`ZooKeeper::kill`], and returns when it serves.
    #[track_caller]
    pub fn start_again(&mut self) {
        let mut again = || {
            self.process = Self::spawn(&self.folder.path)?;
            self.await_service()
        };
        again().unwrap_or_else(|e: Error| panic!("{e}"));
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        keeper::forget_process(self.process.id());
        Ok(())
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops it in its tracks: sessions expire while connections stay open.
    #[track_caller]
    pub fn pause(&self) {
        Signal::Stop.send(self.process.id()).unwrap_or_else(|e| panic!("ZooKeeper: {e}"));
    }

    /// Goes on after [`ZooKeeper::pause`].
    #[track_caller]
    pub fn resume(&self) {
        Signal::Continue.send(self.process.id()).unwrap_or_else(|e| panic!("ZooKeeper: {e}"));
    }

    /// ZooKeeper's own shell with one command, such as `&["get", "/path"]`, in a JVM of its own.
    #[track_caller]
    #[must_use]
    pub fn shell(&self, command: &[&str]) -> Finished {
        let address = self.connect_string();
        let mut args = vec!["-server", address.as_str()];
        args.extend(command);
        JavaClient::tool_in_own_jvm("org.apache.zookeeper.ZooKeeperMain", &args, b"")
    }

    fn serves(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"ruok")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer == "imok")
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
