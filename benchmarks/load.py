"""Compare three forms of a file: weights inside, in an external file, and onnxruntime's own format.

    python benchmarks/load.py [--models micro small] [--precisions fp32 int8]

Prints, for each model and precision, the median of fresh processes: milliseconds to open a session, and the
resident MB (1e6 bytes) that the session adds, private and mapped from files, before and after a decode step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

FORMS = ("inside", "beside", "ort")
_RUNS = 5


def child(path: str) -> None:
    """Open one file and print its time and memory as JSON."""
    from edgegpt.config import ModelConfig
    from edgegpt.runtime import Engine, open_session
    from edgegpt.system import memory

    def resident() -> tuple[float, float]:
        """Return the private and the mapped MB of this process."""
        now = memory()
        assert now is not None, "memory cannot be read: this needs Linux's /proc/self/smaps_rollup"
        return now.private_bytes / 1e6, now.mapped_bytes / 1e6

    config = ModelConfig.from_yaml(Path(path).parent / "config.yaml")
    before = resident()
    start = time.perf_counter()
    session = open_session(Path(path))
    load_ms = 1e3 * (time.perf_counter() - start)
    opened = resident()
    engine = Engine(session, config)
    cache = engine.new_cache()
    engine.prefill(cache, [0] * 8)
    engine.decode_one_token(cache, 0)
    ran = resident()
    added = [[after[i] - before[i] for i in (0, 1)] for after in (opened, ran)]
    print(json.dumps({"load_ms": load_ms, "opened": added[0], "ran": added[1]}))


def write(folder: Path, model_name: str, precision: str) -> dict[str, Path]:
    """Write one model of random weights in the three forms; return the files."""
    import numpy as np
    import onnx
    import onnxruntime as ort

    from edgegpt.config import ModelConfig
    from edgegpt.quantization import recipe
    from edgegpt_export.graph import build_engine_graph

    root = Path(__file__).parent.parent
    config = ModelConfig.from_yaml(root / "configs" / "models" / f"{model_name}.yaml")
    (folder / "config.yaml").write_text(config.to_yaml())
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(0, 0.02, shape).astype(np.float32)
        for name, shape in config.parameter_shapes().items()
    }
    model = build_engine_graph(config, weights, recipe(config, precision))
    paths = {form: folder / f"{form}{'.ort' if form == 'ort' else '.onnx'}" for form in FORMS}
    onnx.save(model, str(paths["inside"]))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(paths["ort"])
    options.add_session_config_entry("session.save_model_format", "ORT")
    ort.InferenceSession(str(paths["inside"]), options, providers=["CPUExecutionProvider"])
    onnx.save(model, str(paths["beside"]), save_as_external_data=True, location="beside.data")
    return paths


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["nano", "micro", "small"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    from rich.console import Console
    from rich.table import Table

    memory = ("private MB", "mapped MB", "private, ran", "mapped, ran")
    table = Table("model", "precision", "form", "load ms", *memory)
    for model in arguments.models:
        for precision in arguments.precisions:
            for form, runs in measure(model, precision).items():
                numbers = [median(run["load_ms"] for run in runs)]
                for when in ("opened", "ran"):
                    numbers += [median(run[when][i] for run in runs) for i in (0, 1)]
                table.add_row(model, precision, form, *(f"{number:.1f}" for number in numbers))
    Console(width=120).print(table)


def measure(model: str, precision: str) -> dict[str, list[dict[str, Any]]]:
    """Run _RUNS children for each form, the forms in turns; return what they print."""
    figures: dict[str, list[dict[str, Any]]] = {form: [] for form in FORMS}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), model, precision)
        for _ in range(_RUNS):
            for form, path in paths.items():
                command = [sys.executable, __file__, "--child", str(path)]
                figures[form].append(json.loads(subprocess.check_output(command)))
    return figures


if __name__ == "__main__":
    main()
