"""Generate the reference of the Python API: the list of its names; mkdocstrings reads the docstrings."""

from typing import Final

# Heading, one sentence, names. A name is a class, a function or a module, and has to exist.
API: Final = {
    "Text generation": (
        "`edgegpt.load`, `TextGenerator`, `SamplingParams` and `Reply` can be imported from `edgegpt`.",
        [
            "edgegpt.runtime.generator.load",
            "edgegpt.runtime.generator.TextGenerator",
            "edgegpt.runtime.generator.Session",
            "edgegpt.runtime.sampling.SamplingParams",
            "edgegpt.runtime.reply.Reply",
            "edgegpt.runtime.reply.Usage",
            "edgegpt.runtime.reply.Timing",
            "edgegpt.runtime.reply.TextChunk",
        ],
    ),
    "Engine": (
        "Token ids in, token ids out. `Engine` can be imported from `edgegpt`.",
        [
            "edgegpt.runtime.engine.Engine",
            "edgegpt.runtime.kv_cache.KVCache",
            "edgegpt.runtime.artifact.open_artifact",
            "edgegpt.runtime.artifact.Artifact",
        ],
    ),
    "Serving": (
        "One engine thread for many clients. `GenerationServer` can be imported from `edgegpt.serving`.",
        [
            "edgegpt.serving.server.GenerationServer",
            "edgegpt.serving.request.RequestHandle",
            "edgegpt.serving.request.Outcome",
        ],
    ),
    "Config and accounting": (
        "`ModelConfig` can be imported from `edgegpt`.",
        ["edgegpt.config.model.ModelConfig", "edgegpt.accounting"],
    ),
    "Export": (
        "For the workstation: needs the extra `[export]`.",
        ["edgegpt_export.export.export_checkpoint", "edgegpt_export.verify.verify_file"],
    ),
    "Errors": ("All errors are subclasses of `EdgeGPTError`.", ["edgegpt.errors"]),
}


def api_page() -> str:
    """Return Markdown with one section per subject and one mkdocstrings block per name."""
    lines = ["# Python API", ""]
    for heading, (sentence, names) in API.items():
        lines += [f"## {heading}", "", sentence, ""]
        for name in names:
            lines += [f"::: {name}", "    options:", "      heading_level: 3", ""]
    return "\n".join(lines)
