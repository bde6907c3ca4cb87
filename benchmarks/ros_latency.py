"""Measure the latency that ROS 2 adds to a request, with node and client in two processes of this machine.

make ros && .venv/bin/edgegpt export checkpoints/rover --out rover.onnx
ros2_ws/run -- python benchmarks/ros_latency.py rover.onnx

Prints Markdown.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import edgegpt  # noqa: E402
from edgegpt.runtime import percentile  # noqa: E402
from tests.ros.helpers.peer import Peer, until  # noqa: E402
from tests.ros.helpers.process import GeneratorProcess, environment, own_domain  # noqa: E402

PROMPT = "drive forward two metres"
WARM_UP = 20


@contextmanager
def serving(
    model: Path, *, faults: dict[str, object] | None = None, **parameters: object
) -> Iterator[tuple[GeneratorProcess, Peer]]:
    """Start a node and yield it, once it is active, with a client."""
    with own_domain() as domain:
        process = GeneratorProcess(environment(domain), {"model": model, **parameters}, faults=faults)
        with process, Peer(domain) as peer:
            peer.wait_for_node()
            until(lambda: peer.state() == "active", "active node")
            yield process, peer


def row(name: str, values: list[float], limit: str) -> str:
    """Return a table row with p50, p99 and maximum of milliseconds."""
    p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
    return f"| {name} | {p50:.2f} | {p99:.2f} | {max(values):.2f} | {limit} |"


def bare(model: Path, n: int) -> tuple[float, float]:
    """Return the engine's p50 without ROS: milliseconds to the first token, and to the whole text."""
    generator = edgegpt.load(model, threads=1)
    timings = [generator.generate(PROMPT).timing for _ in range(n + WARM_UP)][WARM_UP:]
    return percentile([t.ttft_ms for t in timings], 0.5), percentile([t.total_ms for t in timings], 0.5)


def first_token(peer: Peer, n: int, own: float) -> list[float]:
    """Return the ms from sending a goal to its first feedback, minus the engine's own time."""
    added = []
    for _ in range(n + WARM_UP):
        goal = peer.goal(PROMPT)
        goal.result()
        until(lambda goal=goal: goal.first, "first chunk")
        added.append((goal.first - goal.sent) * 1000 - own)
    return added[WARM_UP:]


def whole_text(peer: Peer, n: int, own: float) -> list[float]:
    """Return the ms from calling `complete` to its response, minus the engine's own time."""
    added = []
    for _ in range(n + WARM_UP):
        began = time.perf_counter()
        peer.complete(PROMPT)
        added.append((time.perf_counter() - began) * 1000 - own)
    return added[WARM_UP:]


def lost_chunks(peer: Peer, bursts: int) -> tuple[int, int]:
    """Return the chunks lost and the chunks sent in bursts of 200 tokens."""
    lost = sent = 0
    for seed in range(bursts):
        goal = peer.goal("stop", max_new_tokens=200, temperature=1.0, seed=seed)
        goal.result(60)
        indices = [chunk.index for chunk in goal.chunks()]
        sent += indices[-1] + 1
        lost += indices[-1] + 1 - len(set(indices))
        peer.tokens.clear()
    return lost, sent


def cancel_to_idle(peer: Peer, n: int) -> list[float]:
    """Return the ms from cancelling a running goal to its result, after which the next request may run."""
    taken = []
    for _ in range(n):
        goal = peer.goal("stop", max_new_tokens=300)
        until(lambda goal=goal: len(goal.feedback) > 1, "feedback")
        began = time.perf_counter()
        goal.cancel()
        result = goal.result()
        if result.finish_reason == "cancelled":
            taken.append((goal.ended - began) * 1000)
    return taken


def idle_cpu(process: GeneratorProcess, seconds: float) -> float:
    """Return the per cent of one core that an idle active node uses."""

    def ticks() -> int:
        fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds * 100


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--bursts", type=int, default=50)
    options = parser.parse_args()
    n = options.requests
    ttft, total = bare(options.model, n)
    lines = [f"| the engine alone, ms to first token and whole text | {ttft:.2f} and {total:.2f} | | | |"]
    for executor in ("single", "multi"):
        faults: dict[str, object] | None = None if executor == "single" else {"executor": "multi"}
        with serving(options.model, faults=faults) as (process, peer):
            kind = "SingleThreadedExecutor" if executor == "single" else "MultiThreadedExecutor, 2 threads"
            first, whole = first_token(peer, n, ttft), whole_text(peer, n, total)
            lines.append(row(f"first token through the action, added ms ({kind})", first, "p50 <= 3"))
            lines.append(row(f"whole text through `complete`, added ms ({kind})", whole, "p50 <= 3"))
            cpu = idle_cpu(process, 10)
            lines.append(f"| CPU of an idle active node, % of a core ({kind}) | {cpu:.1f} | | | <= 3 |")
    with serving(options.model, faults={"endless": 1}, chunk_ms=0) as (_, peer):
        lost, sent = lost_chunks(peer, options.bursts)
        lines.append(f"| chunks lost on `tokens` of {sent} in {options.bursts} bursts | {lost} | | | 0 |")
    with serving(options.model, faults={"endless": 1, "step_ms": 2}, chunk_ms=0) as (_, peer):
        lines.append(row("cancel to idle, ms", cancel_to_idle(peer, max(20, n // 2)), "p99 <= 100"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    python = f"Python {platform.python_version()}"
    packages = f"rclpy {version('ros-jazzy-rclpy')}, onnxruntime {version('onnxruntime')}"
    how = f"one engine thread, {n} requests after {WARM_UP} to warm up"
    print(f"{date.today()}, {machine}, {python}, {packages}, {how}\n")
    print("| figure | p50 | p99 | max | wanted |\n|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
