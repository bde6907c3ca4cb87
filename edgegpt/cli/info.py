"""`edgegpt info FILE.onnx`."""

from dataclasses import asdict
from typing import Any

from edgegpt.cli.output import FileArgument, JsonOption, megabytes, print_json, stdout, table
from edgegpt.errors import ArtifactError


def info(file: FileArgument, as_json: JsonOption = False) -> None:
    """Show a file's shape, precision, origin, verification result and sampling defaults."""
    from edgegpt.accounting import kv_cache_bytes, parameter_count
    from edgegpt.runtime import open_artifact, read_evidence

    artifact = open_artifact(file, threads=None)
    config = artifact.config
    facts: dict[str, Any] = {
        "path": str(artifact.path),
        "bytes": artifact.bytes,
        "target": artifact.target,
        "precision": artifact.precision,
        "recipe": artifact.recipe,
        "kv_cache": artifact.kv_cache,
        "parameters": parameter_count(config),
        "config": asdict(config),
        "tokenizer_vocab_size": artifact.tokenizer.vocab_size,
        "kv_cache_bytes_per_token": kv_cache_bytes(config, 1, artifact.kv_cache),
        "kv_cache_bytes": kv_cache_bytes(config, config.block_size, artifact.kv_cache),
        "sampling": asdict(artifact.sampling),
        "weights_sha256": artifact.weights_sha256,
        "tool": artifact.tool,
        "runs_here_with": asdict(artifact.tuning),
        "evidence": artifact.evidence,
    }
    if as_json:
        print_json(facts)
        return
    try:
        verified = read_evidence(artifact).summary()
    except ArtifactError as e:
        verified = str(e)
    shape = f"{config.family}: {config.n_layer} layers, {config.n_head} heads, n_embd {config.n_embd}"
    rows = [
        ["size", megabytes(artifact.bytes)],
        ["model", f"{shape}, {facts['parameters']:,} parameters"],
        ["context", f"{config.block_size} tokens"],
        ["vocabulary", f"{artifact.tokenizer.vocab_size} tokens in {config.vocab_size} rows"],
        ["target, precision", f"{artifact.target}, {artifact.precision}"],
        [
            "KV cache",
            f"{artifact.kv_cache}, {megabytes(facts['kv_cache_bytes'])}, "
            f"{facts['kv_cache_bytes_per_token']:,} bytes a token",
        ],
        ["sampling defaults", ", ".join(f"{key} {value}" for key, value in _set(facts["sampling"]))],
        ["verified", verified],
        ["weights sha256", artifact.weights_sha256],
        ["made by", artifact.tool],
        ["runs here with", str(artifact.tuning)],
    ]
    stdout.print(table(str(artifact.path), ["", ""], rows, numbers=False))


def _set(sampling: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in sampling.items() if value not in (None, ())]
