"""Load a model file for the node: a generator, and its description as ModelInfo."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgegpt_msgs.msg import ModelInfo
from rclpy.impl.rcutils_logger import RcutilsLogger

import edgegpt
from edgegpt.accounting import parameter_count
from edgegpt.errors import ConfigError
from edgegpt.runtime import Artifact, Engine, TextGenerator, open_artifact
from edgegpt.system import peak_rss_bytes
from edgegpt_ros.convert import ros_text

if TYPE_CHECKING:
    from edgegpt.budget import Budget

_MB = 1e6


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to answer, and its ModelInfo without the options."""

    generator: TextGenerator
    info: ModelInfo


def load_model(
    path: str, *, threads: int, capacity: int, tokens_depth: int, budget: str, logger: RcutilsLogger
) -> LoadedModel:
    """Load and warm up a model; capacity 0 is the model's own, threads 0 what `edgegpt tune` has stored.

    Raises:
        ConfigError: the path is empty, the context is larger than tokens_depth, or the model exceeds
            the budget.
        ArtifactError, EngineError, NonFiniteLogitsError: as edgegpt.load.
    """
    if not path:
        raise ConfigError("model is not set; give the path of an .onnx file made by `edgegpt export`")
    limits = _read_budget(budget) if budget else None
    artifact = open_artifact(Path(path).expanduser(), threads=threads or None)
    engine = Engine.from_artifact(artifact, capacity=capacity or None)
    if engine.capacity > tokens_depth:
        raise ConfigError(
            f"the context of {engine.capacity} tokens is above tokens_depth {tokens_depth}, so chunks could "
            "be lost; raise tokens_depth or lower capacity"
        )
    generator = TextGenerator(engine, artifact.tokenizer, artifact.sampling)
    generator.warm_up()
    if limits is not None:
        _check_budget(limits, artifact, engine, logger)
    return LoadedModel(generator, _model_info(artifact, engine))


def _read_budget(path: str) -> "Budget":
    from edgegpt.budget import Budget  # imports pydantic, 16 MB that a node without a budget does not need

    return Budget.from_yaml(path)


def _check_budget(budget: "Budget", artifact: Artifact, engine: Engine, logger: RcutilsLogger) -> None:
    """Judge the limits that need no timing: sizes, and the memory of this process so far.

    Raises:
        ConfigError: at least one is exceeded.
    """
    from edgegpt.budget import Verdict, estimate_samples, rows, sentence

    figures: dict[str, float | None] = {
        "parameters": parameter_count(artifact.config),
        "artifact_mb": artifact.bytes / _MB,
        "kv_cache_mb": engine.cache_bytes / _MB,
        "peak_rss_mb": None if (peak := peak_rss_bytes()) is None else peak / _MB,
    }
    limits = budget.limits()
    judged = {name: limit for name, limit in limits.items() if figures.get(name) is not None}
    estimates = {name: estimate_samples(name, value) for name, value in figures.items() if value is not None}
    broken = [sentence(row) for row in rows(judged, estimates) if row.verdict is Verdict.BROKEN]
    if broken:
        raise ConfigError(f"{artifact.path} exceeds the budget {budget.name!r}: {'; '.join(broken)}")
    if not_judged := dict.fromkeys(name.partition(".")[0] for name in limits if name not in judged):
        logger.info(
            f"the model keeps the budget {budget.name!r}; the node does not judge {', '.join(not_judged)}, "
            "`edgegpt check` does"
        )


def _model_info(artifact: Artifact, engine: Engine) -> ModelInfo:
    config = artifact.config
    return ModelInfo(
        name=ros_text(artifact.path.stem),
        path=ros_text(str(artifact.path)),
        bytes=artifact.bytes,
        parameters=parameter_count(config),
        precision=artifact.precision,
        target=artifact.target,
        weights_sha256=artifact.weights_sha256,
        tool=artifact.tool,
        edgegpt_version=edgegpt.__version__,
        family=config.family,
        vocab_size=config.vocab_size,
        block_size=config.block_size,
        n_layer=config.n_layer,
        n_head=config.n_head,
        n_kv_head=config.n_kv_head,
        n_embd=config.n_embd,
        capacity=engine.capacity,
        kv_cache_bytes=engine.cache_bytes,
        threads=artifact.tuning.decode_threads,
    )
