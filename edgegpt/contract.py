"""The contract between exporter and engine: names in an artifact's graph and metadata.

The exporter writes these names and the engine reads them; the two share nothing else.

Graph inputs:
    input_ids                  int64 (batch, sequence)
    position_ids               int64 (batch, sequence), absolute; column -1 + 1 is the total length
    past_key_values.{i}.key    float32 or int8 (batch, n_kv_head, past, head_dim), a pair for each layer
    past_key_values.{i}.value
    logits_start               int64 (1,), engine target only and optional: the first new token whose
                               logits are computed; 0 (all) unless given, -1 for the last alone
Graph outputs:
    logits                     float32 (batch, rows, vocab_size), rows from logits_start on
    present.{i}.key            as past, (batch, n_kv_head, present, head_dim)
    present.{i}.value

In the engine target past and present may be one buffer of fixed capacity: rows from
the first position of the call on are not read, rows of the new tokens are written in place. In the
portable target present is past and the new rows concatenated.
"""

from typing import Final

FORMAT_VERSION: Final = 2

INPUT_IDS: Final = "input_ids"
POSITION_IDS: Final = "position_ids"
LOGITS_START: Final = "logits_start"
LOGITS: Final = "logits"

ENGINE: Final = "engine"
PORTABLE: Final = "portable"

KV_CACHES: Final = ("fp32", "int8")  # types of the numbers in the cache

# metadata_props keys
META_FORMAT_VERSION: Final = "edgegpt.format_version"
META_TARGET: Final = "edgegpt.target"  # engine | portable
META_CONFIG: Final = "edgegpt.config"  # ModelConfig as JSON; YAML is read too
META_TOKENIZER: Final = "edgegpt.tokenizer"  # text of tokenizer.json
META_PRECISION: Final = "edgegpt.precision"  # fp32 | int8 | int4 | auto
META_RECIPE: Final = "edgegpt.recipe"  # JSON: how weights were quantised; {} for fp32
META_KV_CACHE: Final = "edgegpt.kv_cache"  # type of the cache, fp32 | int8
META_WEIGHTS_SHA256: Final = "edgegpt.weights_sha256"  # sha256 of the checkpoint's model.safetensors
META_DATA_FILE: Final = "edgegpt.data_file"  # NAME.onnx.data; absent when weights are inside
META_DATA_SHA256: Final = "edgegpt.data_sha256"  # sha256 of that file
META_EVIDENCE: Final = "edgegpt.evidence"  # JSON: results of the verification
META_SAMPLING: Final = "edgegpt.sampling"  # JSON: sampling defaults of this model
META_TOOL: Final = "edgegpt.tool"  # "edgegpt 0.1.0, torch 2.13.0, ..."
META_FILE_SHA256: Final = "edgegpt.file_sha256"  # sha256 of all bytes before this entry, which is the last

# Above this many bytes of weights they move to NAME.onnx.data, which onnxruntime maps instead of reading:
# half the time to load and up to half of the private memory (benchmarks/load.py). Below, one file is handier.
EXTERNAL_DATA_BYTES: Final = 10 * 1000 * 1000

# Bytes reserved in a file for the results of its verification.
EVIDENCE_BYTES: Final = 4000


def past_names(layer: int) -> tuple[str, str]:
    """Return the graph input names of one layer's cached keys and values."""
    return f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"


def present_names(layer: int) -> tuple[str, str]:
    """Return the graph output names of one layer's updated keys and values."""
    return f"present.{layer}.key", f"present.{layer}.value"
