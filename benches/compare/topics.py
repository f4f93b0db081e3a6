"""What is read: the topics, and the filters."""

# name: (codec, what the number of records is divided by, bytes of a value, "full" is with keys and headers)
TOPICS = {f"j100-{codec}": (codec, 1, 100, "plain") for codec in ("none", "lz4", "zstd", "snappy", "gzip")} | {
    "j1k-none": ("none", 10, 1024, "plain"),
    "k100-none": ("none", 1, 100, "full"),
    "few-none": ("none", None, 100, "plain"),
}
FEW = 1000  # records of few-none, whatever was asked for

FILTER = """value LIKE '%"event":"purchase"%'"""
# Has to look at key, both headers, timestamp and value of every record that is no hit: a condition on a timestamp has no text that could be
# searched for in a whole batch, and an OR with it leaves none for the others. The clients have the same conditions in their own languages.
VISIT = (
    "key = 'user-99999999999' OR headers['source'] = 'fax' OR headers['trace'] = 'ffffffffffffffff'"
    f" OR timestamp < 1764000000010 OR {FILTER}"
)


def records(topic, asked):
    """How many records a topic gets."""
    divisor = TOPICS[topic][1]
    return asked // divisor if divisor else FEW


def work(topic):
    """What the clients do with it: filter, or visit."""
    return "visit" if TOPICS[topic][3] == "full" else "filter"
