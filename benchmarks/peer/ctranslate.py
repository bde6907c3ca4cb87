"""CTranslate2, converted from the transformers model by its own GPT-2 loader.

Its decoding loop is in C++ and calls back for each token; the clock is read there. Logits come from
`forward_batch`, which reads all tokens at once; `Parity.own` compares the timed path with them.
"""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import ctranslate2
import numpy as np

from peer.engine import Burst, Logits, Peer, read_shape


def prepare(folder: Path, variant: str) -> None:
    import transformers
    from ctranslate2.converters.transformers import GPT2Loader

    from peer.hf import twin_folder

    twin = transformers.GPT2LMHeadModel.from_pretrained(twin_folder(folder))
    spec = GPT2Loader().get_model_spec(twin)
    names = _token_names(twin.config.vocab_size)
    spec.register_vocabulary(names)
    # A special token that is not in the vocabulary would be appended, and the head has no row for it.
    spec.config.unk_token = spec.config.bos_token = spec.config.eos_token = names[0]
    spec.validate()
    spec.optimize(quantization=variant)
    home = _home(folder, variant)
    home.mkdir(exist_ok=True)
    spec.save(str(home))


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    generator = ctranslate2.Generator(
        str(_home(folder, variant)), "cpu", compute_type=variant, inter_threads=1, intra_threads=threads
    )
    names = _token_names(read_shape(folder).vocab_size)

    def burst(prompt: Sequence[int], n: int) -> Burst:
        marks, tokens = [], []

        def take(step: ctranslate2.GenerationStepResult) -> bool:
            marks.append(perf_counter())
            tokens.append(step.token_id)
            return False

        start = [names[i] for i in prompt]
        marks.append(perf_counter())
        generator.generate_batch(
            [start], min_length=n, max_length=n, include_prompt_in_result=False, callback=take
        )
        return marks, tokens

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        return np.asarray(generator.forward_batch([list(ids)]))[0, at_once - 1 :]

    return Peer(burst, logits)


def _token_names(vocab_size: int) -> list[str]:
    return [f"t{i}" for i in range(vocab_size)]


def _home(folder: Path, variant: str) -> Path:
    return folder / f"ctranslate2-{variant}"
