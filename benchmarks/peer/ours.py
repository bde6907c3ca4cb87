"""edgegpt itself: `Engine`, from token to token; the choice of the token and its Python are inside."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from edgegpt.runtime import Engine, SamplingParams, open_artifact
from peer.engine import Burst, Logits, Peer, logits_of, timed
from peer.folder import checkpoint_path


def engine_file(folder: Path, precision: str) -> Path:
    """The file of a precision, exported once."""
    out = folder / f"edgegpt.{precision}.onnx"
    if not out.exists():
        from edgegpt_export import export_checkpoint  # the process that measures does without

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
        assert logits is not None  # there is no halt
        return logits

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        cache.rewind(0)
        return logits_of(read, ids, at_once)

    return Peer(burst, logits)
