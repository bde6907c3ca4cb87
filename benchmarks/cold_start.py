"""How long a fresh process takes until it can answer: import, load and warm-up of one file.

    .venv/bin/python benchmarks/cold_start.py rover.onnx

The interpreter's own start is not counted; the operating system's file cache is warm after the first run,
which is left out. Prints Markdown.
"""

import json
import subprocess
import sys

import numpy as np

RUNS = 20
CHILD = """
import time
start = time.perf_counter()
import edgegpt

edgegpt.load
loaded_code = time.perf_counter()
model = edgegpt.load({file!r}, threads=1)
loaded = time.perf_counter()
reply = model.generate("drive forward two metres")
import json
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({{
    "import ms": 1e3 * (loaded_code - start),
    "load and warm-up ms": 1e3 * (loaded - loaded_code),
    "import to ready ms": 1e3 * (loaded - start),
    "first request ms": reply.timing.total_ms,
    "peak RSS MB": int(status["VmHWM"].split()[0]) * 1024 / 1e6,
}}))
"""


def run(file: str) -> dict[str, float]:
    """One fresh process."""
    output = subprocess.run([sys.executable, "-c", CHILD.format(file=file)], check=True, capture_output=True)
    result: dict[str, float] = json.loads(output.stdout)
    return result


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: cold_start.py FILE.onnx")
    runs = [run(sys.argv[1]) for _ in range(RUNS + 1)][1:]
    print("| | p50 | max |\n|---|---|---|")
    for key in runs[0]:
        values = [r[key] for r in runs]
        print(f"| {key} | {np.median(values):.1f} | {max(values):.1f} |")


if __name__ == "__main__":
    main()
