"""One call of the graph over plain buffers.

A step reads token ids and positions and writes logits, keys and values, all in arrays that its
maker gave it once. The caller changes what is in the arrays and calls the step again. Shapes: T new
tokens, V vocab_size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt import contract

Step = Callable[[], None]


def shared_step(
    session: ort.InferenceSession,
    input_ids: NDArray[np.int64],
    position_ids: NDArray[np.int64],
    logits: NDArray[np.float32],
    cache: Sequence[NDArray[np.float32]],
) -> Step:
    """A step of the engine target: past and present are one buffer, bound once, nothing is copied.

    Args:
        session: of an engine-target file.
        input_ids: (1, T).
        position_ids: (1, T), absolute.
        logits: (1, T, V), written.
        cache: keys and values of each layer, (1, n_kv_head, capacity, head_dim), written in place.
    """
    binding = session.io_binding()
    binding.bind_ortvalue_input(contract.INPUT_IDS, _alias(input_ids))
    binding.bind_ortvalue_input(contract.POSITION_IDS, _alias(position_ids))
    binding.bind_ortvalue_output(contract.LOGITS, _alias(logits))
    past, present = _cache_names(len(cache) // 2)
    for past_name, present_name, array in zip(past, present, cache, strict=True):
        value = _alias(array)
        binding.bind_ortvalue_input(past_name, value)
        binding.bind_ortvalue_output(present_name, value)
    run = session.run_with_iobinding

    def step() -> None:
        run(binding)

    return step


def copying_step(
    session: ort.InferenceSession,
    input_ids: NDArray[np.int64],
    position_ids: NDArray[np.int64],
    logits: NDArray[np.float32],
    cache: Sequence[NDArray[np.float32]],
) -> Step:
    """The same for the portable target, which takes the used positions and returns them and the new."""
    past, present = _cache_names(len(cache) // 2)
    outputs = [contract.LOGITS, *present]

    def step() -> None:
        start, end = int(position_ids[0, 0]), int(position_ids[0, -1]) + 1
        feeds: dict[str, Any] = {contract.INPUT_IDS: input_ids, contract.POSITION_IDS: position_ids}
        for name, array in zip(past, cache, strict=True):
            feeds[name] = np.ascontiguousarray(array[:, :, :start])
        results: list[Any] = session.run(outputs, feeds)
        logits[:] = results[0]
        for array, new in zip(cache, results[1:], strict=True):
            array[:, :, start:end] = new[:, :, start:end]

    return step


def _alias(array: NDArray[Any]) -> ort.OrtValue:
    """An OrtValue over the array's own memory, not a copy."""
    return ort.OrtValue.ortvalue_from_numpy(array)


def _cache_names(n_layer: int) -> tuple[list[str], list[str]]:
    past = [name for layer in range(n_layer) for name in contract.past_names(layer)]
    present = [name for layer in range(n_layer) for name in contract.present_names(layer)]
    return past, present
