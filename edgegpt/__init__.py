"""Put a small GPT on a robot.

The public names are loaded when they are first used, so that `import edgegpt` costs next to nothing
and a program that only reads a config loads no onnxruntime.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

# onnxruntime reads this when it is imported, from 1.32 on: its telemetry would write below the home
# folder, and warn on stderr where it cannot.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from edgegpt.config import ModelConfig
    from edgegpt.errors import EdgeGPTError
    from edgegpt.runtime import Engine, Reply, SamplingParams, TextGenerator, load

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


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) that imports a package's public names when they are first used.

    Args:
        package: the package's dotted name.
        homes: names, separated by spaces, by the module of the package that defines them.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(import_module(package), name, value)
        return value

    return __getattr__


_public = lazy_names(
    "edgegpt",
    {
        "config": "ModelConfig",
        "errors": "EdgeGPTError",
        "runtime": "Engine Reply SamplingParams TextGenerator load",
    },
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("edgegpt-robot")
        return globals()[name]
    return _public(name)


def __dir__() -> list[str]:
    return sorted(__all__)
