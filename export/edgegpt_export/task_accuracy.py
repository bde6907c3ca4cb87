"""Compare the answers of a file on a user's examples with those of the float32 model."""

import onnxruntime as ort

from edgegpt.examples import Pair
from edgegpt.model import Checkpoint
from edgegpt.runtime import CheckResult, Engine, TextGenerator, evaluate, open_session
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.request import Examples, OnStep


def task_accuracy(
    session: ort.InferenceSession,
    checkpoint: Checkpoint,
    target: str,
    quantisation: Quantisation,
    examples: Examples,
    on_step: OnStep = lambda _: None,
) -> CheckResult:
    """Return the percentage points of exact match that the file loses on a user's examples.

    Both answer greedily through the engine: the file, open as `session`, and the checkpoint's own
    weights as float32. A gain counts as no loss.
    """
    pairs = examples.pairs
    n_valid = checkpoint.tokenizer.vocab_size
    on_step(f"answering {len(pairs)} examples in float32")
    reference = open_session(build_engine_graph(checkpoint.config, checkpoint.arrays).SerializeToString())
    full = _points(Engine(reference, checkpoint.config, n_valid=n_valid), checkpoint, pairs)
    on_step(f"answering {len(pairs)} examples with the file")
    engine = Engine(
        session, checkpoint.config, target=target, n_valid=n_valid, kv_cache=quantisation.kv_cache
    )
    file = _points(engine, checkpoint, pairs)
    what = (
        f"points of exact match lost on {len(pairs)} examples of {examples.name}: "
        f"float32 has {full:.1f} %, the file {file:.1f} %"
    )
    return CheckResult(
        "task accuracy", round(max(full - file, 0.0), 4), quantisation.limits.task_points, what
    )


def _points(engine: Engine, checkpoint: Checkpoint, pairs: list[Pair]) -> float:
    return 100 * evaluate(TextGenerator(engine, checkpoint.tokenizer), pairs).exact_match
