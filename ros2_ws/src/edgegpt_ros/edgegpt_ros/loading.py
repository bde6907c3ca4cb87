"""From a model file to a generator and what there is to say about it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgegpt_msgs.msg import ModelInfo
from rclpy.impl.rcutils_logger import RcutilsLogger

import edgegpt
from edgegpt.accounting import parameter_count
from edgegpt.errors import ConfigError
from edgegpt.runtime import Artifact, Engine, TextGenerator, open_artifact
from edgegpt_ros.resident import peak_rss_bytes
from edgegpt_ros.wire import wire

if TYPE_CHECKING:
    from edgegpt.budget import Budget

_MB = 1e6


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to answer, and all of its ModelInfo but the options."""

    generator: TextGenerator
    info: ModelInfo


def load_model(
    path: str, *, threads: int, capacity: int, tokens_depth: int, budget: str, logger: RcutilsLogger
) -> Loaded:
    """Load and warm up a model; capacity 0 is the model's own, threads 0 what `edgegpt tune` found.

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
        check_budget(limits, artifact, engine, logger)
    return Loaded(generator, _info(artifact, engine))


def _read_budget(path: str) -> "Budget":
    from edgegpt.budget import (
        Budget,  # brings pydantic, 16 MB, which a node without a budget does not need
    )

    return Budget.from_yaml(path)


def check_budget(limits: "Budget", artifact: Artifact, engine: Engine, logger: RcutilsLogger) -> None:
    """Hold a loaded model to the limits that loading it can judge: sizes, and memory until now.

    Raises:
        ConfigError: at least one is exceeded.
    """
    measured = {
        "parameters": float(parameter_count(artifact.config)),
        "artifact_mb": artifact.bytes / _MB,
        "kv_cache_mb": engine.cache_bytes / _MB,
        "peak_rss_mb": peak_rss_bytes() / _MB,
    }
    exceeded = [
        f"{name} is {value:g} and at most {limit:g}"
        for name, value in measured.items()
        if (limit := getattr(limits, name)) is not None and value > limit
    ]
    if exceeded:
        raise ConfigError(f"{artifact.path} exceeds the budget {limits.name!r}: {', '.join(exceeded)}")
    named = [name.partition(".")[0] for name in limits.limits()]
    timed = [name for name in dict.fromkeys(named) if name not in measured]
    if timed:
        logger.info(
            f"the budget {limits.name!r} is met; its {', '.join(timed)} are not judged here "
            "but by `edgegpt check`"
        )


def _info(artifact: Artifact, engine: Engine) -> ModelInfo:
    config = artifact.config
    return ModelInfo(
        name=wire(artifact.path.stem),
        path=wire(str(artifact.path)),
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
