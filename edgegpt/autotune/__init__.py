"""Measure which number of threads and which prefill chunk are fastest on this machine."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.autotune.choose import MARGIN as MARGIN, PairedComparison as PairedComparison, Ratio as Ratio
    from edgegpt.autotune.run import Autotuned as Autotuned, autotune as autotune

__getattr__ = lazy_names(
    __name__,
    {
        "choose": "MARGIN PairedComparison Ratio",
        "run": "Autotuned autotune",
    },
)
