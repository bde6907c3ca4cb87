"""Put a small GPT on a robot.

The public names are loaded when they are first used, so that `import edgegpt` costs next to nothing
and a program that only reads a config loads no onnxruntime.
"""

import os
from typing import TYPE_CHECKING, Any

# onnxruntime reads this when it is imported, from 1.32 on: its telemetry would write below the home
# folder, and warn on stderr where it cannot.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from edgegpt.config.model import ModelConfig
    from edgegpt.errors import EdgeGPTError
    from edgegpt.runtime.engine import Engine
    from edgegpt.runtime.generator import TextGenerator, load
    from edgegpt.runtime.reply import Reply
    from edgegpt.runtime.sampling import SamplingParams

    __version__: str

__all__ = [
    "EdgeGPTError",
    "Engine",
    "ModelConfig",
    "Reply",
    "SamplingParams",
    "TextGenerator",
    "__version__",
    "load",
]

_HOME = {
    "EdgeGPTError": "edgegpt.errors",
    "Engine": "edgegpt.runtime.engine",
    "ModelConfig": "edgegpt.config",
    "Reply": "edgegpt.runtime.reply",
    "SamplingParams": "edgegpt.runtime.sampling",
    "TextGenerator": "edgegpt.runtime.generator",
    "load": "edgegpt.runtime.generator",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("edgegpt")
    elif name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'edgegpt' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
