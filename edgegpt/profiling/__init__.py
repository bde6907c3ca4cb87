"""Measure a board for predictions: operators, engine calls, fresh processes."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.profiling.profile import profile_board as profile_board

__getattr__ = lazy_names(
    __name__,
    {
        "profile": "profile_board",
    },
)
