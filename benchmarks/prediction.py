"""Measure the error of predictions, on models that the profile did not time.

    .venv/bin/python benchmarks/prediction.py

Every sweep profiles this machine and then measures each model once, so that other load on the shared cache
affects both alike; a figure's error is the median over the sweeps. `--target` predicts from a stored profile
instead, whose error includes what has changed since.

Each model has random weights and is measured in a fresh process per sweep: time to first token of two
prompts, the time of a token at two cache fills, load, peak memory. Prints Markdown; exits with 1 if the
median error is above 15 % or the worst above 35 %. Needs onnx, not torch.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from edgegpt.accounting import parameter_count
from edgegpt.cli.output import steps
from edgegpt.config import ModelConfig
from edgegpt.measure import BURST, MeasureSpec, measure_process, this_machine, threads_text, versions_text
from edgegpt.prediction import Predictor, Target, caveats
from edgegpt.profiling import profile_board
from edgegpt_export import synthetic
from edgegpt_export.synthetic import write_random_file

Pair = tuple[dict[str, float], dict[str, float]]  # one model's figures by name: predicted, measured
Shape = tuple[
    int, int, int, int, int, bool, str
]  # vocab_size, block_size, n_layer, n_head, n_embd, tied, precision

MEDIAN, WORST = 0.15, 0.35
PROMPTS = (12, 100)

# 0.5 M to 60 M parameters. A profile times no model with the width and depth of one of these.
SHAPES: list[Shape] = [
    (512, 256, 2, 4, 128, False, "fp32"),
    (512, 256, 2, 4, 128, True, "int8"),
    (512, 320, 4, 6, 192, False, "fp32"),
    (512, 320, 4, 6, 192, True, "int4"),
    (1024, 256, 12, 4, 128, True, "int8"),
    (4096, 512, 6, 8, 256, False, "fp32"),
    (4096, 512, 6, 8, 256, True, "int8"),
    (4096, 512, 6, 8, 256, True, "int4"),
    (2048, 512, 10, 5, 320, True, "fp32"),
    (2048, 512, 16, 6, 384, True, "int8"),
    (8192, 1024, 8, 8, 512, False, "fp32"),
    (8192, 1024, 8, 8, 512, True, "int8"),
    (8192, 1024, 8, 8, 512, False, "int4"),
    (16384, 512, 24, 9, 288, True, "int4"),
    (16384, 512, 12, 9, 576, True, "int8"),
    (16384, 512, 12, 9, 576, True, "fp32"),
]


@dataclass(frozen=True)
class Figure:
    """One figure of one model in the unit of its name, predicted and measured in each sweep."""

    model: str
    name: str
    predicted: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def error(self) -> float:
        """Error relative to the measurement of the same sweep; the median over the sweeps."""
        pairs = zip(self.predicted, self.measured, strict=True)
        return statistics.median(predicted / measured - 1 for predicted, measured in pairs)

    def row(self) -> str:
        """Return the row of the Markdown table."""
        predicted, measured = statistics.median(self.predicted), statistics.median(self.measured)
        figures = f"{predicted:.4g} | {measured:.4g} | {min(self.measured):.4g} to {max(self.measured):.4g}"
        return f"| {self.model} | {self.name} | {figures} | {self.error:+.0%} |"


@dataclass(frozen=True)
class Model:
    """A model of one of SHAPES, written to a file."""

    config: ModelConfig
    precision: str
    path: Path

    @classmethod
    def written(cls, folder: Path, shape: Shape) -> "Model":
        """Write a file with random weights to the folder."""
        vocab_size, block_size, n_layer, n_head, n_embd, tied, precision = shape
        config = ModelConfig(
            vocab_size=vocab_size,
            block_size=block_size,
            n_layer=n_layer,
            n_head=n_head,
            n_embd=n_embd,
            tie_embeddings=tied,
        )
        path = folder / ("-".join(map(str, shape)) + ".onnx")
        write_random_file(path, config, precision)
        return cls(config, precision, path)

    @property
    def name(self) -> str:
        """Size, shape and precision."""
        config = self.config
        millions = parameter_count(config) / 1e6
        return f"{millions:.1f} M: {config.n_layer} x {config.n_embd}, {self.precision}"

    @property
    def fills(self) -> tuple[int, int]:
        """Tokens in a cache that is nearly empty and in one that is nearly full."""
        return BURST, self.config.block_size - 2 * BURST

    def measure(self, threads: int, seconds: float) -> dict[str, float]:
        """Measure the figures in one fresh process."""
        plan = MeasureSpec(
            threads=threads, prompts=PROMPTS, fills=self.fills, seconds=seconds, idle_seconds=0.0
        )
        run = measure_process(self.path, plan)
        found = {f"ttft {n}, ms": run.first_token[n].p50 for n in PROMPTS}
        found |= {f"token {n}, ms": run.token[n].p50 for n in self.fills}
        return found | {"load, ms": run.load_ms, "peak RSS, MB": (run.peak_rss_bytes or 0) / 1e6}

    def predict(self, target: Target) -> dict[str, float]:
        """Predict the same figures from a profile."""
        predictor, model = Predictor(target), (self.config, self.precision)
        found = {f"ttft {n}, ms": predictor.predict(*model, prompt_tokens=n).ttft_ms for n in PROMPTS}
        for n in self.fills:
            found[f"token {n}, ms"] = predictor.predict(*model, cached_tokens=n + BURST // 2).token_ms
        whole = predictor.predict(*model)
        return found | {"load, ms": whole.load_ms, "peak RSS, MB": whole.peak_rss_mb}


def sweep(models: list[Model], stored: Target | None, seconds: float) -> Iterator[Pair]:
    """Yield the figures of each model: predicted, measured."""
    target = stored or profile_board(synthetic, write_random_file)
    for caveat in caveats(target):
        print(f"Warning: {caveat}.", flush=True)
    for model in models:
        yield model.predict(target), model.measure(target.threads, seconds)


def figures(models: list[Model], sweeps: list[list[Pair]]) -> list[Figure]:
    """Collect the sweeps: one Figure for each model and name."""
    found = []
    for model, pairs in zip(models, zip(*sweeps, strict=True), strict=True):
        for name in pairs[0][0]:
            predicted = tuple(prediction[name] for prediction, _ in pairs)
            measured = tuple(measurement[name] for _, measurement in pairs)
            found.append(Figure(model.name, name, predicted, measured))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, help="stored profile; by default each sweep profiles")
    parser.add_argument("--sweeps", type=int, default=5, help="times to profile and to measure")
    parser.add_argument("--seconds", type=float, default=1.5, help="to measure each model in a sweep")
    arguments = parser.parse_args()
    stored = None if arguments.target is None else Target.from_yaml(arguments.target)
    here = this_machine()
    threads = threads_text(stored.threads if stored else 1)
    print(f"{here.cpu}, {threads}, {versions_text(here.versions)}, {date.today()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        models = [Model.written(Path(folder), shape) for shape in SHAPES]
        sweeps = []
        with steps() as on_step:
            for i in range(arguments.sweeps):
                on_step(f"{i} of {arguments.sweeps} sweeps done")
                sweeps.append(list(sweep(models, stored, arguments.seconds)))
        found = figures(models, sweeps)
    print("\n| model | figure | predicted | measured | sweeps | error |\n|---|---|---|---|---|---|")
    for figure in found:
        print(figure.row())
    errors = sorted(abs(figure.error) for figure in found)
    middle, worst = statistics.median(errors), errors[-1]
    for kind in ("ttft", "token", "load", "peak"):
        part = [abs(figure.error) for figure in found if figure.name.startswith(kind)]
        print(f"{kind}: median error {statistics.median(part):.1%}, worst {max(part):.1%}")
    print(f"\n{len(found)} figures of {len(SHAPES)} models: median error {middle:.1%}, worst {worst:.1%}")
    print(f"asked: median at most {MEDIAN:.0%}, worst at most {WORST:.0%}")
    return int(middle > MEDIAN or worst > WORST)


if __name__ == "__main__":
    sys.exit(main())
