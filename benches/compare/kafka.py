"""The broker: Kafka's jars, one node, and topics with records in them."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import uuid

from places import LOG4J, OUT, ROOT, call, fail
from topics import TOPICS, records

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.retention.hours=-1
socket.send.buffer.bytes=4194304
socket.receive.buffer.bytes=4194304
"""


def find_jars():
    """KAFKA_LIB, or the jars that the tests take: the same cache, lock and pom as in tests/support/setup.rs."""
    if os.environ.get("KAFKA_LIB"):
        return pathlib.Path(os.environ["KAFKA_LIB"])
    users = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cache = pathlib.Path(os.environ.get("OTTLA_CACHE") or users / "ottla")
    jars = cache / "kafka-4.3.1" / "lib"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "kafka-4.3.1.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            partial = jars.with_name("partial")
            shutil.rmtree(partial, ignore_errors=True)
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}")
            call("mvn", "-q", "-B", "-f", ROOT / "tests/kafka/pom.xml", *goal)
            partial.rename(jars)
    return jars


class Broker:
    """One node of Kafka with its data in a folder."""

    def __init__(self, jars, data):
        self.jars, self.data, self.address = jars, data, None

    def _java(self, *words):
        return ["java", LOG4J, "-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-cp", f"{OUT}/classes:{self.jars}/*", *words]

    @contextlib.contextmanager
    def running(self):
        """Starts it on free ports, and stops it in the end."""
        if not (self.data / "manifest.json").exists():
            self.remove()  # what a run left that was killed
        self.data.mkdir(parents=True, exist_ok=True)
        port, controller = free_port(), free_port()
        properties = self.data / "server.properties"
        properties.write_text(PROPERTIES.format(port=port, controller=controller, data=self.data))
        if not (self.data / "logs/meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            call(*self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties))
        with open(self.data / "broker.log", "w") as log:
            # In a session of its own: Ctrl-C is for this program, which stops the broker then.
            process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._await(process, port)
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _await(self, process, port):
        deadline = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                fail(f"the broker does not start:\n{(self.data / 'broker.log').read_text()[-2000:]}")
            time.sleep(0.1)
        self.address = f"127.0.0.1:{port}"

    def _manifest(self):
        manifest = self.data / "manifest.json"
        return json.loads(manifest.read_text()) if manifest.exists() else {}

    def check(self, topics, asked):
        """Ends if the folder has topics with other numbers of records, which somebody kept."""
        there = self._manifest()
        for topic in topics:
            if topic in there and there[topic][0] != records(topic, asked):
                fail(f"{topic} in {self.data} has {there[topic][0]} records: delete it, or name another --data folder")

    def fill(self, topics, asked):
        """Fills the topics that are not there yet. What is in each: records, bytes of values, hits."""
        there = self._manifest()
        for topic in topics:
            if topic in there:
                continue
            of, count = TOPICS[topic], records(topic, asked)
            print(f"filling {topic}: {count} records", file=sys.stderr)
            words = (of.codec, count, of.value_bytes, "full" if of.full else "plain", of.partitions)
            fill = self._java("Fill", self.address, topic, *map(str, words))
            filled = subprocess.run(fill, stdout=subprocess.PIPE, text=True)
            if filled.returncode != 0:
                fail(f"{topic} could not be filled")
            there[topic] = [int(word) for word in filled.stdout.split()]
            (self.data / "manifest.json").write_text(json.dumps(there))
        return {topic: there[topic] for topic in topics}

    def remove(self):
        """Deletes what this made in the folder, and the folder if nothing else is in it."""
        shutil.rmtree(self.data / "logs", ignore_errors=True)
        for name in ("server.properties", "broker.log", "manifest.json"):
            (self.data / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.data.rmdir()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
