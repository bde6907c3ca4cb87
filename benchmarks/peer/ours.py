"""edgegpt: a step of `Engine.generate`, with the choice of the token and the Python around it."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from edgegpt.runtime import Engine, SamplingParams, open_artifact
from peer.engine import Burst, Logits, Peer, checkpoint_path, logits_of, timed


def engine_file(folder: Path, precision: str) -> Path:
    """Return the exported file of a precision; export it if it does not exist yet."""
    out = folder / f"edgegpt.{precision}.onnx"
    if not out.exists():
        from edgegpt_export import export_checkpoint  # not loaded in the process that is measured

        export_checkpoint(checkpoint_path(folder), out, precision=precision)
    return out


def prepare(folder: Path, variant: str) -> None:
    engine_file(folder, variant)


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    engine = Engine.from_artifact(open_artifact(engine_file(folder, variant), threads=threads))
    cache = engine.new_cache()

    def burst(prompt: Sequence[int], n: int) -> Burst:
        cache.rewind(0)
        params = SamplingParams(max_new_tokens=n, temperature=0.0)
        start = perf_counter()
        return timed(start, engine.generate(prompt, params, cache=cache))

    def read(new: Sequence[int]) -> Logits:
        if len(new) == 1:
            return engine.decode_one_token(cache, new[0])
        logits = engine.prefill(cache, new)
        assert logits is not None  # None only after a cancellation
        return logits

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        cache.rewind(0)
        return logits_of(read, ids, at_once)

    return Peer(burst, logits)
