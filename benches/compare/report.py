"""Runs as a table a topic."""

import os
import platform
import statistics


def machine():
    with open("/proc/cpuinfo") as cpuinfo:
        models = [line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")]
    cpu = models[0] if models else platform.machine()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def median(runs, figure):
    return statistics.median(run[figure] for run in runs)


def row(client, runs, counts, ours):
    bad = [run["error"] for run in runs if not run["ok"]]
    if bad:
        return f"| {client} | BAD: {bad[0]} |"
    cpu, wall = [run["cpu"] for run in runs], min(run["wall"] for run in runs)
    cells = [
        client,
        f"{median(runs, 'cpu'):.3f}",
        f"{min(cpu):.3f} to {max(cpu):.3f}",
        f"{median(runs, 'cpu') / ours:.2f}" if ours else "",
        f"{median(runs, 'wall'):.3f}",
        f"{wall:.3f}",
        f"{counts[0] / wall / 1e6:.2f}",
        f"{counts[1] / wall / 1e6:.0f}",
        f"{max(run['peakMb'] for run in runs):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


HEADINGS = [
    "client",
    "CPU s",
    "from, to",
    "CPU / ottla-1",
    "wall s",
    "best wall s",
    "M records/s",
    "MB/s",
    "peak MB",
]


def tables(runs, manifest):
    """A table a topic, by CPU seconds. Seconds are medians; records and bytes a second are the best run's; MB are 10^6 bytes."""
    lines = []
    for topic, counts in manifest.items():
        by_client = {}
        for run in runs:
            if run["topic"] == topic:
                by_client.setdefault(run["client"], []).append(run)
        is_good = {client: all(run["ok"] for run in of) for client, of in by_client.items()}
        ours = median(by_client["ottla-1"], "cpu") if is_good.get("ottla-1") else None
        order = sorted(
            by_client, key=lambda client: median(by_client[client], "cpu") if is_good[client] else float("inf")
        )
        lines += ["", f"{topic}: {counts[0]} records, {counts[1]} bytes of values, {counts[2]} hits", ""]
        lines += [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
        lines += [row(client, by_client[client], counts, ours) for client in order]
    return "\n".join(lines)
