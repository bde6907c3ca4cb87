"""Compare edgegpt with transformers on the same random weights: time to first token, time per token.

    .venv/bin/python benchmarks/decode.py

Both engines run in one process, and their bursts alternate, so that noise of the machine affects both. A
decode step is everything from one greedy token to the next. Its overhead is the time outside onnxruntime's
run call. Prints Markdown.
"""

import argparse
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
import transformers
from gpt2_twin import gpt2_twin

from edgegpt.config import ModelConfig
from edgegpt.model import GPT
from edgegpt.runtime import Engine, SamplingParams, open_session
from edgegpt.system import cpu_name
from edgegpt_export import build_engine_graph

CONFIGS = Path(__file__).parents[1] / "configs" / "models"
PROMPT, STEPS, ROUNDS = 32, 64, 12


class TimedSession:
    """An onnxruntime session that adds up the time of its run calls."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self.io_binding = session.io_binding
        self.inside = 0.0

    def run_with_iobinding(self, binding: Any) -> None:
        """Run the model, and add the time to `inside`."""
        start = perf_counter()
        self._session.run_with_iobinding(binding)
        self.inside += perf_counter() - start


@dataclass
class Times:
    """Milliseconds of all rounds without the warm-up round."""

    first: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def add_burst(self, tokens: Iterator[int]) -> None:
        """Time one reply token by token; the time of the first includes the prefill."""
        marks = [perf_counter()]
        for _ in tokens:
            marks.append(perf_counter())
        gaps = [1e3 * gap for gap in np.diff(marks)]
        self.first.append(gaps[0])
        self.steps.extend(gaps[1:])


@torch.inference_mode()
def transformers_tokens(model: transformers.GPT2LMHeadModel, ids: list[int]) -> Iterator[int]:
    """Decode greedily with transformers' own cache, without the bookkeeping of its generate()."""
    new, cache = torch.tensor([ids]), transformers.DynamicCache()
    for _ in range(STEPS + 1):
        output = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
        new = output.logits[:, -1].argmax(-1, keepdim=True)
        yield int(new)


def time_bursts(decoders: dict[str, Callable[[], Iterator[int]]]) -> dict[str, Times]:
    """Time a burst of each decoder in every round, after one burst of each to warm up."""
    for decode in decoders.values():
        Times().add_burst(decode())
    times = {name: Times() for name in decoders}
    for _ in range(ROUNDS):
        for name, decode in decoders.items():
            times[name].add_burst(decode())
    return times


def overheads(session: ort.InferenceSession, config: ModelConfig, ids: list[int]) -> list[float]:
    """Return the microseconds of each greedy step outside onnxruntime's run call."""
    timed = TimedSession(session)
    engine = Engine(timed, config)
    params = SamplingParams(max_new_tokens=STEPS + 1, temperature=0.0)
    outside: list[float] = []
    for _ in range(ROUNDS):
        tokens = engine.generate(ids, params)
        next(tokens)
        for _ in range(STEPS):
            timed.inside = 0.0
            start = perf_counter()
            next(tokens)
            outside.append(1e6 * (perf_counter() - start - timed.inside))
    return outside


def measure(name: str, threads: int, folder: Path) -> Iterator[str]:
    """Yield the table's rows of one model at one number of threads."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    config = ModelConfig.from_yaml(CONFIGS / f"{name}.yaml")
    model = GPT(config).eval()
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    file = folder / f"{name}.onnx"
    start = perf_counter()
    onnx.save(build_engine_graph(config, weights), str(file))
    seconds = perf_counter() - start
    session = open_session(file, threads)
    engine, twin = Engine(session, config), gpt2_twin(model)
    cache = engine.new_cache()
    ids = np.random.default_rng(0).integers(config.vocab_size, size=PROMPT).tolist()
    params = SamplingParams(max_new_tokens=STEPS + 1, temperature=0.0)

    def ours() -> Iterator[int]:
        cache.rewind(0)
        return engine.generate(ids, params, cache=cache)

    times = time_bursts({"edgegpt fp32": ours, "transformers": lambda: transformers_tokens(twin, ids)})
    ratio = np.median(times["transformers"].steps) / np.median(times["edgegpt fp32"].steps)
    overhead = np.median(overheads(session, config, ids))
    ours_only = f"{ratio:.1f}x | {overhead:.1f} us | {seconds:.2f} s"
    for (peer, t), rest in zip(times.items(), (ours_only, "1x | |"), strict=True):
        yield f"| {name} | {threads} | {peer} | {spread(t.first)} | {spread(t.steps)} | {rest} |"


def spread(milliseconds: list[float]) -> str:
    """Return p50, p99 and the least."""
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return f"{p50:.3f} / {p99:.3f} / {min(milliseconds):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["nano", "micro", "small"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments = parser.parse_args()
    versions = (
        f"onnxruntime {ort.__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    )
    machine = f"{cpu_name()}, {platform.machine()}, Python {platform.python_version()}"
    print(f"{machine}, {versions}, {date.today()}\n")
    print(f"Prompt of {PROMPT} tokens, {STEPS} steps, {ROUNDS} rounds; milliseconds as p50 / p99 / min.\n")
    print("| model | threads | engine | first token | decode step | ratio p50 | overhead p50 | export |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name in arguments.models:
            for threads in arguments.threads:
                for row in measure(name, threads, Path(folder)):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
