"""Call a generator of training examples, which a run file names by its import path.

A generator is a function that you write:

    def generate(split: str, count: int, seed: int) -> Iterable[tuple[str, str]]:
        ...

It yields `count` pairs of prompt and completion, the same ones for the same arguments. `split` names
one of its sets of examples, such as train; it raises ValueError for an unknown name.
`examples/robot_commands` is such a generator.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import cast

from edgegpt.errors import ConfigError, DataError
from edgegpt.examples import Pair, fault_of

Generator = Callable[[str, int, int], Iterable[object]]


def generate_pairs(name: str, split: str, count: int, seed: int, folder: Path) -> list[Pair]:
    """Return `count` pairs of the generator `name`, which is `module:function` or `module`.

    The module is imported from `folder` or from the installed packages. The function is `generate`
    where `name` holds none.

    Raises:
        ConfigError: the module cannot be imported or has no such function.
        DataError: the function raises, or yields fewer than `count` examples or something other than
            pairs of texts.
    """
    with _import_path(folder):
        function = _imported(name, folder)
        try:
            rows = list(islice(function(split, count, seed), count))
        except Exception as e:  # a user's function raises what it likes
            raise DataError(f"generator {name!r} failed for split {split!r} ({_cause(e)})") from e
    if len(rows) < count:
        raise DataError(f"generator {name!r} yields {len(rows)} of {count} examples of split {split!r}")
    return [_pair(row, f"generator {name!r}, example {number}") for number, row in enumerate(rows, start=1)]


@contextmanager
def _import_path(folder: Path) -> Iterator[None]:
    """Put `folder` first on the import path, as for a script in it."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def _imported(name: str, folder: Path) -> Generator:
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as e:  # a user's module raises what it likes
        hint = ""
        if isinstance(e, ImportError):
            hint = f"; it must be in generator_path {str(folder.resolve())!r} or installed"
        raise ConfigError(f"generator {name!r} cannot be imported ({_cause(e)}){hint}") from e
    function = getattr(module, function_name or "generate", None)
    if not callable(function):
        where = getattr(module, "__file__", None) or module_name
        raise ConfigError(
            f"generator {name!r}: {where} has no function {function_name or 'generate'!r}; "
            "write MODULE:FUNCTION to name another"
        )
    return cast(Generator, function)


def _pair(row: object, where: str) -> Pair:
    match row:
        case (str(prompt), str(completion)):
            pair = Pair(prompt, completion)
            fault = fault_of(pair)
        case _:
            fault = "expected a pair of texts (prompt, completion)"
    if fault:
        raise DataError(f"{where}: {fault}, got {repr(row)[:80]}")
    return pair


def _cause(error: Exception) -> str:
    """Return class and first line of an error."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
