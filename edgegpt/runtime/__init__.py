"""Run one .onnx file: tokens in and out, text in and out. numpy, onnxruntime and tokenizers only."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.runtime.artifact import (
        Artifact as Artifact,
        ArtifactSummary as ArtifactSummary,
        file_identity as file_identity,
        open_artifact as open_artifact,
        summarize_artifact as summarize_artifact,
    )
    from edgegpt.runtime.engine import Cancellation as Cancellation, Clock as Clock, Engine as Engine
    from edgegpt.runtime.evaluation import evaluate as evaluate
    from edgegpt.runtime.evidence import (
        LIMITS as LIMITS,
        CheckResult as CheckResult,
        Evidence as Evidence,
        Limits as Limits,
        ParityRow as ParityRow,
        read_evidence as read_evidence,
        three_digits as three_digits,
    )
    from edgegpt.runtime.generator import Session as Session, TextGenerator as TextGenerator, load as load
    from edgegpt.runtime.kv_cache import KVCache as KVCache
    from edgegpt.runtime.onnx_file import (
        File as File,
        file_bytes as file_bytes,
        file_sha256 as file_sha256,
        metadata_entry as metadata_entry,
        read_file as read_file,
        read_metadata as read_metadata,
    )
    from edgegpt.runtime.ort_backend import (
        Backend as Backend,
        BoundCall as BoundCall,
        CallArrays as CallArrays,
        OrtBackend as OrtBackend,
        check_file_name as check_file_name,
        open_session as open_session,
        return_free_memory as return_free_memory,
    )
    from edgegpt.runtime.reply import (
        FinishReason as FinishReason,
        Reply as Reply,
        TextChunk as TextChunk,
        Timing as Timing,
        Usage as Usage,
        percentile as percentile,
    )
    from edgegpt.runtime.sampling import (
        SamplingParams as SamplingParams,
        new_rng as new_rng,
        sample as sample,
    )
    from edgegpt.runtime.self_check import (
        causality as causality,
        differing_tokens as differing_tokens,
        kl as kl,
        repeat_checks as repeat_checks,
        stepwise as stepwise,
    )
    from edgegpt.runtime.stream import Stream as Stream
    from edgegpt.runtime.tuning import PREFILL_CHUNK as PREFILL_CHUNK, Tuning as Tuning

__getattr__ = lazy_names(
    __name__,
    {
        "artifact": "Artifact ArtifactSummary file_identity open_artifact summarize_artifact",
        "engine": "Cancellation Clock Engine",
        "evaluation": "evaluate",
        "generator": "Session TextGenerator load",
        "evidence": "LIMITS CheckResult Evidence Limits ParityRow read_evidence three_digits",
        "kv_cache": "KVCache",
        "onnx_file": "File file_bytes file_sha256 metadata_entry read_file read_metadata",
        "ort_backend": (
            "Backend BoundCall CallArrays OrtBackend check_file_name open_session return_free_memory"
        ),
        "reply": "FinishReason Reply TextChunk Timing Usage percentile",
        "sampling": "SamplingParams new_rng sample",
        "self_check": "causality differing_tokens kl repeat_checks stepwise",
        "stream": "Stream",
        "tuning": "PREFILL_CHUNK Tuning",
    },
)
