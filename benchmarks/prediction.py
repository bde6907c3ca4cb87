"""How far predictions are off: models that the profile did not time, measured beside what it says of them.

    .venv/bin/edgegpt profile --out target.yaml
    .venv/bin/python benchmarks/prediction.py --target target.yaml

Each model has random weights and is measured in fresh processes that take turns, as `edgegpt check` does
it: time to first token of two prompts, the time of a token at two cache fills, load, peak memory. Prints
Markdown; exits with 1 where the median error is above 15 % or the worst above 35 %. Needs onnx, no torch.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.progress import track

from edgegpt.accounting import parameter_count
from edgegpt.config import ModelConfig
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.plan import Plan, ProcessFigures
from edgegpt.measure.process import measure_process
from edgegpt.prediction import Predictor, caveats
from edgegpt.row_text import versions_text
from edgegpt.target import Target
from edgegpt_export.random_file import write_random_file

MEDIAN, WORST = 0.15, 0.35
BURST = 16
PROMPTS = (12, 100)

# vocab_size, block_size, n_layer, n_head, n_embd, tied, precision: 0.5 M to 60 M parameters. None has the
# width and the depth of a model that a profile times.
MODELS = [
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
    """One figure of one model, predicted and measured, in the unit of its name."""

    model: str
    name: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """As a share of what was measured."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Model:
    """One of MODELS, written to a file."""

    config: ModelConfig
    precision: str
    path: Path

    @classmethod
    def written(cls, folder: Path, model: tuple) -> "Model":
        """Random weights in a file of the folder."""
        vocab_size, block_size, n_layer, n_head, n_embd, tied, precision = model
        config = ModelConfig(
            vocab_size=vocab_size,
            block_size=block_size,
            n_layer=n_layer,
            n_head=n_head,
            n_embd=n_embd,
            tie_embeddings=tied,
        )
        path = folder / ("-".join(map(str, model)) + ".onnx")
        write_random_file(path, config, precision)
        return cls(config, precision, path)

    @property
    def name(self) -> str:
        """Its size, shape and precision."""
        config = self.config
        millions = parameter_count(config) / 1e6
        return f"{millions:.1f} M: {config.n_layer} x {config.n_embd}, {self.precision}"

    @property
    def fills(self) -> tuple[int, int]:
        """A cache that is nearly empty and one that is nearly full, in tokens."""
        return BURST, self.config.block_size - 2 * BURST


def measured(models: list[Model], threads: int, sweeps: int, seconds: float) -> list[list[ProcessFigures]]:
    """Fresh processes of each model; every sweep takes each once, so that a busy minute hits all."""
    runs: list[list[ProcessFigures]] = [[] for _ in models]
    for _ in track(range(sweeps), "measuring", console=Console(stderr=True)):
        for model, of_model in zip(models, runs, strict=True):
            plan = Plan(
                threads=threads,
                prompts=PROMPTS,
                fills=model.fills,
                burst=BURST,
                seconds=seconds,
                idle_seconds=0.0,
            )
            of_model.append(measure_process(model.path, plan))
    return runs


def figures(predictor: Predictor, model: Model, runs: list[ProcessFigures]) -> list[Figure]:
    config, precision = model.config, model.precision

    def ttft(n: int) -> float:
        return predictor.predict(config, precision, prompt_tokens=n).ttft_ms

    def token(n: int) -> float:
        return predictor.predict(config, precision, cached_tokens=n + BURST // 2).token_ms

    pairs = [(f"ttft {n}, ms", ttft(n), median(runs, lambda r, n=n: r.first_token[n])) for n in PROMPTS]
    pairs += [(f"token {n}, ms", token(n), median(runs, lambda r, n=n: r.token[n])) for n in model.fills]
    loads = statistics.median(run.load_ms for run in runs)
    peak = max(run.peak_rss_bytes or 0 for run in runs) / 1e6
    pairs += [("load, ms", predictor.predict(config, precision).load_ms, loads)]
    pairs += [("peak RSS, MB", predictor.predict(config, precision).peak_rss_mb, peak)]
    return [Figure(model.name, label, predicted, measured) for label, predicted, measured in pairs]


def median(runs: list[ProcessFigures], part: Callable[[ProcessFigures], Distribution]) -> float:
    return Distribution.joined([part(run) for run in runs]).p50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--sweeps", type=int, default=5, help="fresh processes of each model")
    parser.add_argument("--seconds", type=float, default=1.5, help="in each process")
    arguments = parser.parse_args()
    target = Target.from_yaml(arguments.target)
    versions = versions_text(target.machine.versions)
    print(f"{target.machine.cpu}, threads {target.threads}, {versions}, {date.today()}", flush=True)
    for caveat in caveats(target):
        print(f"Careful: {caveat}.")
    with tempfile.TemporaryDirectory() as folder:
        models = [Model.written(Path(folder), model) for model in MODELS]
        runs = measured(models, target.threads, arguments.sweeps, arguments.seconds)
    predictor = Predictor(target)
    found = [f for model, own in zip(models, runs, strict=True) for f in figures(predictor, model, own)]
    print("\n| model | figure | predicted | measured | error |\n|---|---|---|---|---|")
    for figure in found:
        row = f"{figure.model} | {figure.name} | {figure.predicted:.4g} | {figure.measured:.4g}"
        print(f"| {row} | {figure.error:+.0%} |")
    errors = sorted(abs(figure.error) for figure in found)
    middle, worst = statistics.median(errors), errors[-1]
    for kind in ("ttft", "token", "load", "peak"):
        part = [abs(figure.error) for figure in found if figure.name.startswith(kind)]
        print(f"{kind}: median error {statistics.median(part):.1%}, worst {max(part):.1%}")
    print(f"\n{len(found)} figures of {len(MODELS)} models: median error {middle:.1%}, worst {worst:.1%}")
    print(f"asked: median at most {MEDIAN:.0%}, worst at most {WORST:.0%}")
    return int(middle > MEDIAN or worst > WORST)


if __name__ == "__main__":
    sys.exit(main())
