"""Check a model file against the limits of a BUDGET.yaml."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.budget.budget import (
        Budget as Budget,
        FirstTokenLatency as FirstTokenLatency,
        limit_names as limit_names,
    )
    from edgegpt.budget.check import (
        SECONDS as SECONDS,
        Check as Check,
        check_file as check_file,
        check_fit as check_fit,
        check_seconds as check_seconds,
    )
    from edgegpt.budget.estimates import estimate_samples as estimate_samples
    from edgegpt.budget.format import (
        HEADER as HEADER,
        cells as cells,
        doubt as doubt,
        remarks as remarks,
        sentence as sentence,
    )
    from edgegpt.budget.memory import RUNTIME_BYTES as RUNTIME_BYTES, check_memory as check_memory
    from edgegpt.budget.sample_size import (
        SecondsOption as SecondsOption,
        board_limits as board_limits,
        held_limits as held_limits,
    )
    from edgegpt.budget.verdict import (
        Estimate as Estimate,
        Row as Row,
        Verdict as Verdict,
        is_timed as is_timed,
        plain as plain,
        rounded_up as rounded_up,
        rows as rows,
    )

__getattr__ = lazy_names(
    __name__,
    {
        "budget": "Budget FirstTokenLatency limit_names",
        "check": "Check SECONDS check_file check_fit check_seconds",
        "estimates": "estimate_samples",
        "format": "HEADER cells doubt remarks sentence",
        "memory": "RUNTIME_BYTES check_memory",
        "sample_size": "SecondsOption board_limits held_limits",
        "verdict": "Estimate Row Verdict is_timed plain rounded_up rows",
    },
)
