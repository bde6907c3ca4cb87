"""Check that a file fits into memory, by counting, before it is loaded."""

from pathlib import Path
from typing import Final

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.budget.budget import Board
from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError, MeasureError
from edgegpt.runtime import file_bytes, read_metadata
from edgegpt.system import available_memory_bytes

# Python, numpy and onnxruntime without any model: 51 MB on x86-64 (configs/targets/), less a fifth for builds
# for other processors, which were not measured.
RUNTIME_BYTES: Final = 40_000_000


def check_memory(path: Path, board: Board | None, *, here: bool = True) -> None:
    """Refuse a file that cannot fit into memory, before a session is made.

    The count is a lower bound: runtime, weights once and one cache. Activations and weights that onnxruntime
    packs a second time come on top, so a file that passes may still be too large.

    Args:
        path: the file.
        board: the board it is meant for.
        here: whether it will be loaded on this machine too.

    Raises:
        MeasureError: the file needs more than the board has, or more than is free in this machine or in the
            control group of this process.
    """
    need = least_bytes(path)
    if need is None:  # what is wrong with the file is reported when it is opened
        return
    if board is not None and board.memory_mb is not None and need > 1e6 * board.memory_mb.value:
        way_out = "export it at a lower precision, or choose a smaller model"
        if need < 2 * RUNTIME_BYTES:
            smaller = "a smaller model or " if 1e6 * board.memory_mb.value > RUNTIME_BYTES else ""
            way_out = (
                f"{RUNTIME_BYTES / 1e6:,.0f} MB of that are the runtime's, with any model; check "
                f"board.memory_mb, or choose {smaller}a board with more memory"
            )
        raise MeasureError(
            f"{path} needs at least {need / 1e6:,.0f} MB (runtime, weights, cache) and the board "
            f"({board.description}) has {board.memory_mb.value:,.0f} MB; {way_out}"
        )
    free = available_memory_bytes() if here else None
    if free is not None and need > free:
        raise MeasureError(
            f"{path} needs at least {need / 1e6:,.0f} MB (runtime, weights, cache) and this machine has "
            f"{free / 1e6:,.0f} MB free; end other programs, or choose a smaller model"
        )


def least_bytes(path: Path) -> int | None:
    """Return the least memory of a process that runs this file; None where the file cannot be read."""
    try:
        if not path.is_file():  # opening a pipe would wait for its writer
            return None
        metadata = read_metadata(path)
        config = ModelConfig.parse(metadata[contract.META_CONFIG], str(path))
        cache = kv_cache_bytes(config, config.block_size, metadata[contract.META_KV_CACHE])
        size = file_bytes(path, metadata)
    except (OSError, ValueError, KeyError, ConfigError):
        return None
    return RUNTIME_BYTES + size + cache
