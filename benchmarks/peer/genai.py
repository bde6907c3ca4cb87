"""onnxruntime-genai on the same engine file, by a genai_config.json: its own decoding loop and cache.

Our graph takes position_ids and no attention mask, which it allows; past and present share a buffer.
A step is `generate_next_token` and reading the token.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import onnxruntime_genai as og

from peer.engine import Burst, Logits, Peer, logits_of, timed
from peer.folder import checkpoint_path


def prepare(folder: Path, variant: str) -> None:
    from edgegpt.config import ModelConfig
    from peer.genai_config import genai_config
    from peer.ours import engine_file

    file = engine_file(folder, variant)
    home = _home(folder, variant)
    home.mkdir(exist_ok=True)
    for part in folder.glob(
        f"{file.name}*"
    ):  # the weights may lie beside; it takes no path out of its folder
        os.link(part, home / part.name)
    config = genai_config(ModelConfig.from_yaml(checkpoint_path(folder) / "config.yaml"), file.name)
    (home / "genai_config.json").write_text(json.dumps(config, indent=2))


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    config = og.Config(str(_home(folder, variant)))
    options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
    model = og.Model(config)
    generator = og.Generator(model, og.GeneratorParams(model))

    def tokens(prompt: Sequence[int], n: int) -> Iterable[int]:
        generator.append_tokens(np.asarray(prompt, np.int32))
        for _ in range(n):
            generator.generate_next_token()
            yield int(generator.get_next_tokens()[0])

    def burst(prompt: Sequence[int], n: int) -> Burst:
        generator.rewind_to(0)
        return timed(perf_counter(), tokens(prompt, n))

    def read(new: Sequence[int]) -> Logits:
        generator.append_tokens(np.asarray(new, np.int32))
        return generator.get_logits().reshape(-1)

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        generator.rewind_to(0)
        return logits_of(read, ids, at_once)

    return Peer(burst, logits)


def _home(folder: Path, variant: str) -> Path:
    return folder / f"genai-{variant}"
