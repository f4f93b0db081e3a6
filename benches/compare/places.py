"""Where everything is, and how a step of the preparation is run."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
OUT = TARGET / "compare"
LOG4J = f"-Dlog4j2.configurationFile={ROOT}/tests/kafka/log4j2.yaml"


def fail(sentence):
    sys.exit(f"compare/run: {sentence}")


def call(*command, cwd=None):
    """Runs a command; what it prints goes to standard error."""
    command = [str(word) for word in command]
    if not shutil.which(command[0]):
        fail(f"{command[0]} is missing")
    if subprocess.run(command, stdout=sys.stderr, cwd=cwd).returncode != 0:
        fail(f"this failed: {' '.join(command)}")
