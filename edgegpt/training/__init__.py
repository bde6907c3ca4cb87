"""Train a GPT from a run file."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.training.config import RunConfig as RunConfig
    from edgegpt.training.loop import STATE as STATE, TrainingProgress as TrainingProgress, train as train

__getattr__ = lazy_names(
    __name__,
    {
        "config": "RunConfig",
        "loop": "STATE TrainingProgress train",
    },
)
