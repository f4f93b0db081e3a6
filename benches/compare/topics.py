"""What is read: the topics, and the filters."""

from typing import NamedTuple


class Topic(NamedTuple):
    codec: str = "none"
    divisor: int | None = 1  # of the number of records asked for; None is FEW, whatever was asked for
    value_bytes: int = 100
    full: bool = False  # with keys and headers, and for the filter that looks at everything
    partitions: int = 2


FEW = 1000
TOPICS = {f"j100-{codec}": Topic(codec) for codec in ("none", "lz4", "zstd", "snappy", "gzip")} | {
    "j1k-none": Topic(divisor=10, value_bytes=1024),
    "k100-none": Topic(full=True),
    "p200-none": Topic(partitions=200),
    "p1000-none": Topic(partitions=1000),
    "few-none": Topic(divisor=None),
}

FILTER = """value LIKE '%"event":"purchase"%'"""
# Has to look at key, both headers, timestamp and value of every record that is no hit: a condition on a timestamp has no text that could be
# searched for in a whole batch, and an OR with it leaves none for the others. The clients have the same conditions in their own languages.
VISIT = (
    "key = 'user-99999999999' OR headers['source'] = 'fax' OR headers['trace'] = 'ffffffffffffffff'"
    f" OR timestamp < 1764000000010 OR {FILTER}"
)


def records(topic, asked):
    """How many records a topic gets."""
    divisor = TOPICS[topic].divisor
    return asked // divisor if divisor else FEW


def work(topic):
    """What the clients do with it."""
    return "visit" if TOPICS[topic].full else "filter"
