//! kcat and Apache Kafka's own tools against the embedded broker: what one writes, the others read.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ottla_embedded::EmbeddedBroker;
use ottla_embedded::messages::ApiKey;
use support::{Version, jars, java_or_skip};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
const LINES: usize = 500;
/// A JVM on a loaded machine with two cores takes its time.
const TOOL_TIMEOUT: Duration = Duration::from_secs(120);

/// The tools of this machine.
struct Tools {
    kafka_lib: PathBuf,
}

impl Tools {
    /// `None` when the tests may do without.
    fn find(left_out: &str) -> Option<Self> {
        java_or_skip(left_out)?;
        Some(Self { kafka_lib: jars(Version::V4_3).unwrap_or_else(|e| panic!("{e}")) })
    }

    /// Runs one of Kafka's command-line classes; returns what it printed.
    async fn java(&self, class: &str, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new("java");
        command
            .args(["-XX:TieredStopAtLevel=1", "-cp"])
            .arg(self.kafka_lib.join("*"))
            .arg(format!("org.apache.kafka.tools.{class}"));
        run(command.args(arguments), input).await
    }

    async fn kcat(&self, arguments: &[&str], input: &str) -> String {
        run(Command::new("kcat").args(arguments), input).await
    }
}

async fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e} (Debian: apt-get install openjdk-17-jdk-headless kcat)"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(TOOL_TIMEOUT, child.wait_with_output()).await.expect("in time").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn lines(writer: &str, codec: &str) -> String {
    (0..LINES).map(|index| format!("{writer} {codec} {index}\n")).collect()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kcat_and_java_read_what_the_other_wrote_in_every_codec() {
    let Some(tools) = Tools::find("kcat and Java reading what the other wrote into the embedded broker") else {
        return;
    };
    let broker = EmbeddedBroker::builder().nodes(2).start().await.unwrap();
    let servers = broker.bootstrap_servers();
    for codec in CODECS {
        broker.create_topic(&format!("by-kcat-{codec}"), 2, &[]).unwrap();
        broker.create_topic(&format!("by-java-{codec}"), 2, &[]).unwrap();
        tools
            .kcat(
                &["-b", &servers, "-P", "-t", &format!("by-kcat-{codec}"), "-p", "1", "-z", codec],
                &lines("kcat", codec),
            )
            .await;
    }

    // One JVM reads all of kcat's topics as the member of a group.
    let mut all = String::new();
    for codec in CODECS {
        all.push_str(&lines("kcat", codec));
    }
    let read = tools
        .java(
            "consumer.ConsoleConsumer",
            &[
                "--bootstrap-server",
                &servers,
                "--include",
                "by-kcat-.*",
                "--from-beginning",
                "--group",
                "java",
                "--max-messages",
                &(CODECS.len() * LINES).to_string(),
            ],
            "",
        )
        .await;
    assert_eq!(sorted(&read), sorted(&all));
    for codec in CODECS {
        let committed = broker.committed("java", &format!("by-kcat-{codec}"), 1).expect("a commit at the end");
        assert_eq!(committed.offset, i64::try_from(LINES).unwrap(), "{codec}");
    }

    for codec in CODECS {
        let topic = format!("by-java-{codec}");
        let input = lines("java", codec);
        let arguments = ["--bootstrap-server", &servers, "--topic", &topic, "--compression-codec", codec];
        tools.java("ConsoleProducer", &arguments, &input).await;
        let read = tools.kcat(&["-b", &servers, "-C", "-t", &topic, "-o", "beginning", "-e", "-q"], "").await;
        assert_eq!(sorted(&read), sorted(&input), "{codec}");
    }

    let group =
        tools.java("consumer.group.ConsumerGroupCommand", &["--bootstrap-server", &servers, "--list"], "").await;
    assert_eq!(sorted(&group), ["java"]);
    let described = tools
        .java(
            "consumer.group.ConsumerGroupCommand",
            &["--bootstrap-server", &servers, "--describe", "--group", "java"],
            "",
        )
        .await;
    // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
    let rows: Vec<Vec<&str>> = described
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|row: &Vec<&str>| row.first() == Some(&"java"))
        .collect();
    for codec in CODECS {
        let topic = format!("by-kcat-{codec}");
        assert!(rows.iter().any(|row| row[1..=3] == [topic.as_str(), "1", "500"]), "{topic}-1:\n{described}");
    }
    // The empty partition 0 of a topic is there only if the consumer had its position before the last record came: it commits no others.
    assert!(rows.iter().all(|row| row[5] == "0"), "every partition without lag:\n{described}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kcat_copes_with_an_older_broker() {
    let Some(tools) = Tools::find("kcat against an embedded broker of old versions") else { return };
    // As Kafka 1.0 had them.
    let broker = EmbeddedBroker::builder()
        .api_versions(ApiKey::ApiVersions, 0..=1)
        .api_versions(ApiKey::Metadata, 0..=5)
        .api_versions(ApiKey::Produce, 0..=5)
        .api_versions(ApiKey::Fetch, 0..=6)
        .api_versions(ApiKey::ListOffsets, 0..=2)
        .api_versions(ApiKey::FindCoordinator, 0..=1)
        .api_versions(ApiKey::JoinGroup, 0..=2)
        .api_versions(ApiKey::SyncGroup, 0..=1)
        .api_versions(ApiKey::Heartbeat, 0..=1)
        .api_versions(ApiKey::LeaveGroup, 0..=1)
        .api_versions(ApiKey::OffsetCommit, 0..=3)
        .api_versions(ApiKey::OffsetFetch, 0..=3)
        .start()
        .await
        .unwrap();
    let servers = broker.bootstrap_servers();
    broker.create_topic("logs", 1, &[]).unwrap();
    let input = lines("kcat", "lz4");
    tools.kcat(&["-b", &servers, "-P", "-t", "logs", "-z", "lz4"], &input).await;
    let arguments = ["-b", &servers, "-G", "old", "-e", "-q", "-X", "auto.offset.reset=earliest", "logs"];
    assert_eq!(tools.kcat(&arguments, "").await, input);
    let committed = broker.committed("old", "logs", 0).expect("a commit at the end");
    assert_eq!(committed.offset, i64::try_from(LINES).unwrap());
    assert_eq!(broker.last_request(ApiKey::Fetch).map(|request| request.api_version), Some(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_administers_topics() {
    let Some(tools) = Tools::find("Kafka's topic tool against the embedded broker") else { return };
    let broker = EmbeddedBroker::builder().nodes(3).start().await.unwrap();
    let servers = broker.bootstrap_servers();
    let server = ["--bootstrap-server", servers.as_str()];
    let make = [
        "--create",
        "--topic",
        "made",
        "--partitions",
        "3",
        "--replication-factor",
        "2",
        "--config",
        "retention.ms=-1",
    ];
    tools.java("TopicCommand", &[&server[..], &make].concat(), "").await;
    let described = tools.java("TopicCommand", &[&server[..], &["--describe", "--topic", "made"]].concat(), "").await;
    assert!(described.contains("PartitionCount: 3") && described.contains("retention.ms=-1"), "{described}");
    assert!(described.contains("Partition: 2\tLeader: 3\tReplicas: 3,1"), "{described}");

    let offsets = tools.kcat(&["-b", &servers, "-P", "-t", "made", "-p", "0"], &lines("kcat", "none")).await;
    assert_eq!(offsets, "");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"partitions":[{"topic":"made","partition":0,"offset":40}],"version":1}"#).unwrap();
    let file = file.path().to_str().unwrap();
    tools.java("DeleteRecordsCommand", &[&server[..], &["--offset-json-file", file]].concat(), "").await;
    assert_eq!(broker.log_start_offset("made", 0), Ok(40));

    tools.java("TopicCommand", &[&server[..], &["--delete", "--topic", "made"]].concat(), "").await;
    assert_eq!(broker.topic_id("made"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_copies_in_transactions_some_of_them_aborted() {
    let Some(tools) = Tools::find("Java's transactions against the embedded broker") else { return };
    let broker = EmbeddedBroker::builder().nodes(2).start().await.unwrap();
    let servers = broker.bootstrap_servers();
    broker.create_topic("in", 1, &[]).unwrap();
    broker.create_topic("out", 1, &[]).unwrap();
    let input = lines("kcat", "none");
    tools.kcat(&["-b", &servers, "-P", "-t", "in"], &input).await;
    let count = LINES.to_string();
    let arguments = [
        "--transactional-id",
        "copier",
        "--input-topic",
        "in",
        "--output-topic",
        "out",
        "--broker-list",
        &servers,
        "--max-messages",
        &count,
        "--transaction-size",
        "20",
        "--input-partition",
        "0",
        "--consumer-group",
        "copiers",
        "--enable-random-aborts",
    ];
    tools.java("TransactionalMessageCopier", &arguments, "").await;

    let committed = broker.committed("copiers", "in", 0).expect("offsets committed in the transactions");
    assert_eq!(committed.offset, i64::try_from(LINES).unwrap());
    assert_eq!(broker.last_stable_offset("out", 0), broker.end_offset("out", 0));
    let read = |isolation: &'static str| {
        let setting = format!("isolation.level={isolation}");
        let arguments =
            ["-b", &servers, "-C", "-t", "out", "-o", "beginning", "-e", "-q", "-X", &setting].map(str::to_owned);
        let tools = &tools;
        async move { tools.kcat(&arguments.each_ref().map(String::as_str), "").await }
    };
    assert_eq!(read("read_committed").await, input, "each line once and in order");
    let uncommitted = read("read_uncommitted").await;
    assert!(uncommitted.lines().count() > LINES, "the aborted lines are in the log too");
}
