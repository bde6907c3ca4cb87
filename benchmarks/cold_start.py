"""Measure the time until a fresh process can answer, and its memory then.

    .venv/bin/python benchmarks/cold_start.py rover.onnx

Times import, load and warm-up of one file, without the start of the interpreter. The first run, which warms
the file cache, is left out. Modules are loaded from bytecode, as in an installed edgegpt. Memory is the
difference from a process that has imported only numpy and onnxruntime: private pages, and mapped pages,
which are code and files that the system may drop and that processes share. Prints Markdown.
"""

import json
import os
import subprocess
import sys

import numpy as np

RUNS = 20
MEMORY = """
import json

def memory():
    lines = [line.split() for line in open("/proc/self/smaps_rollup")][1:]
    mb = {words[0]: int(words[1]) * 1024 / 1e6 for words in lines}
    return {"RSS": mb["Rss:"], "private": mb["Anonymous:"], "mapped": mb["Rss:"] - mb["Anonymous:"]}
"""
BARE = f"""{MEMORY}
import numpy, onnxruntime

print(json.dumps(memory()))
"""
CHILD = f"""
import sys, time
start = time.perf_counter()
import edgegpt

edgegpt.load
loaded_code = time.perf_counter()
model = edgegpt.load(sys.argv[1])
loaded = time.perf_counter()
{MEMORY}
held = memory()
reply = model.generate("drive forward two metres")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({{
    "import ms": 1e3 * (loaded_code - start),
    "load and warm-up ms": 1e3 * (loaded - loaded_code),
    "import to ready ms": 1e3 * (loaded - start),
    "first request ms": reply.timing.total_ms,
    "peak RSS MB": int(status["VmHWM"].split()[0]) * 1024 / 1e6,
    **held,
}}))
"""


def run(code: str, *arguments: str) -> dict[str, float]:
    """Run code in a fresh process and return the JSON that it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["ORT_DISABLE_TELEMETRY"] = "1"  # edgegpt sets it too
    output = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, env=environment
    )
    result: dict[str, float] = json.loads(output.stdout)
    return result


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: cold_start.py FILE.onnx")
    bare = [run(BARE) for _ in range(RUNS + 1)][1:]
    runs = [run(CHILD, sys.argv[1]) for _ in range(RUNS + 1)][1:]
    print("| | p50 | max |\n|---|---|---|")
    for key in runs[0]:
        base = float(np.median([r[key] for r in bare])) if key in bare[0] else 0.0
        values = [r[key] - base for r in runs]
        name = f"{key} after loading, MB above numpy and onnxruntime alone" if key in bare[0] else key
        print(f"| {name} | {np.median(values):.1f} | {max(values):.1f} |")


if __name__ == "__main__":
    main()
