"""Predict what a model costs on a profiled board."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.prediction.cost_model import (
        CallCosts as CallCosts,
        Curve as Curve,
        ModelWork as ModelWork,
        OpCosts as OpCosts,
    )
    from edgegpt.prediction.predict import (
        Prediction as Prediction,
        Predictor as Predictor,
        artifact_mb as artifact_mb,
        caveats as caveats,
        is_here as is_here,
    )
    from edgegpt.prediction.target import (
        Attention as Attention,
        Bandwidth as Bandwidth,
        Bits as Bits,
        CacheStreaming as CacheStreaming,
        Call as Call,
        Calls as Calls,
        Line as Line,
        Load as Load,
        Memory as Memory,
        Nodes as Nodes,
        PerMb as PerMb,
        PerPrecision as PerPrecision,
        Product as Product,
        Streaming as Streaming,
        Target as Target,
        TargetMachine as TargetMachine,
    )

__getattr__ = lazy_names(
    __name__,
    {
        "cost_model": "CallCosts Curve ModelWork OpCosts",
        "predict": "Prediction Predictor artifact_mb caveats is_here",
        "target": (
            "Attention Bandwidth Bits CacheStreaming Call Calls Line Load Memory Nodes PerMb "
            "PerPrecision Product Streaming Target TargetMachine"
        ),
    },
)
