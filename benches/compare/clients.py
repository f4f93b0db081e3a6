"""The clients: how each is called, how each is built, and which version it is."""

import os
import re
import shutil
import subprocess

from places import HERE, LOG4J, OUT, ROOT, TARGET, call
from topics import FILTER, TOPICS, VISIT

LIBRDKAFKA = "2.16.1"  # as the wheel that has it in it


def ottla(*more):
    def command(jars, address, topic, work):
        where = VISIT if work == "visit" else FILTER
        read = ["read", "-b", address, "--subscribe", topic, "--format", "none", "--json", *more, "--where", where]
        return [TARGET / "release/ottla", *read]

    return command


def yardstick(mode, connections=1):
    def command(jars, address, topic, work):
        if (mode == "visit") != (work == "visit"):
            return None
        return [OUT / "cargo/release/compare-yardstick", address, topic, mode, str(connections)]

    return command


def program(path):
    return lambda jars, address, topic, work: [OUT / path, address, topic, work, str(TOPICS[topic].partitions)]


def java(jars, address, topic, work):
    options = ["-XX:+UseG1GC", "-Xms512m", "-Xmx512m", LOG4J, "-cp", f"{OUT}/classes:{jars}/*"]
    return ["java", *options, "Consume", address, topic, work]


# name: (what it is, what is built for it, whether it is kept on one core, its command; None where it has no such work)
CLIENTS = {
    "ottla-1": ("ottla, one thread", "ottla", False, ottla("--parallelism", "1")),
    "ottla": ("ottla, up to a thread a core", "ottla", False, ottla()),
    "yardstick-scan": ("hand-written, one search a batch", "yardstick", False, yardstick("scan")),
    "yardstick-filter": ("hand-written, one search a value", "yardstick", False, yardstick("filter")),
    "yardstick-filter-2": ("the same, two connections and threads", "yardstick", False, yardstick("filter", 2)),
    "yardstick-visit": ("hand-written, all of every record", "yardstick", False, yardstick("visit")),
    "yardstick-visit-2": ("the same, two connections and threads", "yardstick", False, yardstick("visit", 2)),
    "librdkafka-pinned": ("librdkafka, batch call, on one core", "librdkafka", True, program("librdkafka")),
    "librdkafka": ("librdkafka, batch call", "librdkafka", False, program("librdkafka")),
    "franz-go": ("franz-go", "franz-go", False, program("franz-go")),
    "java": ("Kafka's Java client", "java", False, java),
    "krafka": ("krafka", "krafka", False, program("cargo/release/compare-krafka")),
    "rskafka": ("rskafka", "rskafka", False, program("cargo/release/compare-rskafka")),
}


def build(clients, jars):
    """Builds what the clients take, and what fills topics and measures."""
    wanted = {CLIENTS[client][1] for client in clients}
    OUT.mkdir(parents=True, exist_ok=True)
    call("cc", "-O2", "-o", OUT / "measure", HERE / "c/measure.c")
    sources = (HERE / "java").glob("*.java")
    call("javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", OUT / "classes", *sources)
    if "ottla" in wanted:
        call("cargo", "build", "-q", "--release", "-p", "ottla", cwd=ROOT)
    for name in sorted({"yardstick", "krafka", "rskafka"} & wanted):
        cargo = ("cargo", "build", "-q", "--release", "--locked", "--target-dir", OUT / "cargo")
        call(*cargo, cwd=HERE / "rust" / name)
    if "franz-go" in wanted:
        call("go", "build", "-o", OUT / "franz-go", ".", cwd=HERE / "go")
    if "librdkafka" in wanted:
        build_librdkafka()


def build_librdkafka():
    """The library comes in the wheel of its Python client, as its own people built it."""
    folder = OUT / f"librdkafka-{LIBRDKAFKA}"
    if not folder.is_dir():
        partial = folder.with_name("librdkafka.partial")
        shutil.rmtree(partial, ignore_errors=True)
        wheel = f"confluent-kafka=={LIBRDKAFKA}"
        call("pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", partial, wheel)
        shutil.unpack_archive(next(partial.glob("*.whl")), partial, "zip")
        partial.rename(folder)
    library = next(folder.glob("confluent_kafka.libs/librdkafka*.so*"))
    # What it is linked with lies beside it, and is found when it is loaded.
    link = (library, f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined")
    call("cc", "-O2", "-o", OUT / "librdkafka", HERE / "c/librdkafka.c", *link)


def versions(jars):
    def locked(crate):
        lock = (HERE / "rust" / crate / "Cargo.lock").read_text()
        return re.search(rf'name = "{crate}"\nversion = "(.+)"', lock)[1]

    describe = ["git", "describe", "--always", "--dirty"]
    return {
        "ottla": subprocess.run(describe, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "librdkafka": LIBRDKAFKA,
        "franz-go": re.search(r"franz-go v(\S+)", (HERE / "go/go.mod").read_text())[1],
        "java": next(jars.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-"),
        "krafka": locked("krafka"),
        "rskafka": locked("rskafka"),
    }


def cores(client):
    """The cores that a client may use: all that there are, or the last of them."""
    there = os.sched_getaffinity(0)
    return {max(there)} if CLIENTS[client][2] else there
