"""The project's kinds of YAML file, told apart by their keys: somebody may have given one for another."""

from collections.abc import Collection
from typing import Final

# By the name of the class: what it is called, and keys that no other kind has.
KINDS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "Budget": (
        "a budget (as in configs/budgets/)",
        frozenset(
            {"parameters", "artifact_mb", "kv_cache_mb", "peak_rss_mb", "load_ms", "ttft_ms", "token_ms"}
        )
        | {"jitter", "idle_cpu_percent", "rss_slope_kb_per_1000", "accuracy", "board"},
    ),
    "Target": (
        "a profile of a board (see `edgegpt profile`)",
        frozenset({"machine", "read_bandwidth", "products", "streaming", "cache_streaming", "attention"}),
    ),
    "ModelConfig": (
        "a model config (as in configs/models/)",
        frozenset({"vocab_size", "block_size", "n_layer", "n_head", "n_embd"}),
    ),
    "RunConfig": (
        "a training run (as in configs/training/)",
        frozenset({"out", "train", "validation", "steps", "batch_tokens", "learning_rate"}),
    ),
}


def other_kind(keys: Collection[object], wanted: str) -> str:
    """`a budget, not a profile of a board` where the keys are those of another kind, and else nothing.

    One key may be a slip, so it takes two of the other kind, or all but `name` and `threads`.
    """
    own_name, own_keys = KINDS.get(wanted, ("", frozenset()))
    if not own_name or own_keys & set(keys):
        return ""
    for kind, (name, telling) in KINDS.items():
        told = telling & set(keys)
        if kind != wanted and (len(told) > 1 or (told and told == set(keys) - {"name", "threads"})):
            return f"{name.partition(' (')[0]}, not {own_name}"
    return ""
