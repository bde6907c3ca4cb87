"""The run file of `edgegpt train RUN.yaml`: a checked, frozen training configuration."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from edgegpt.config import Count, ModelConfig, Positive, StrictModel, load_yaml, validate
from edgegpt.errors import ConfigError

Seed = Annotated[int, Field(ge=0, lt=2**32)]
_YAML: Final = (".yaml", ".yml")
_GENERATOR: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?", re.ASCII)


def _model(value: object) -> ModelConfig | str:
    """Parse a nested model config; its problems are reported together with those of the run file."""
    if isinstance(value, dict):
        try:
            return validate(value, "model", ModelConfig)
        except ConfigError as e:
            raise ValueError(str(e).removeprefix("model: ")) from e
    if isinstance(value, ModelConfig) or (isinstance(value, str) and Path(value).suffix in _YAML):
        return value
    raise PydanticCustomError("model", "must be `key: value` lines or the path of a .yaml with them")


class Source(StrictModel):
    """Source of examples: a file, or a generator that an import path names."""

    path: str | None = Field(
        None, description="A .jsonl of {prompt, completion}, or a .txt; relative to the run file."
    )
    generator: str | None = Field(
        None,
        description="Import path of a function that generates examples: MODULE:FUNCTION, or MODULE alone "
        "for its function `generate`; it is called with split, examples and seed.",
    )
    split: str = Field("train", description="Name of one of the generator's sets of examples.")
    examples: Count = Field(10_000, description="Number of examples to generate.")
    seed: Seed = Field(0, description="Seed of the generator.")

    @model_validator(mode="after")
    def _one_source(self) -> "Source":
        if (self.path is None) == (self.generator is None):
            raise ValueError("give either path or generator")
        if self.path is not None and Path(self.path).suffix not in (".jsonl", ".txt"):
            raise ValueError(f"path must end in .jsonl or .txt, got {self.path!r}")
        if self.generator is not None and not _GENERATOR.fullmatch(self.generator):
            raise ValueError(f"generator must be MODULE or MODULE:FUNCTION, got {self.generator!r}")
        return self


class RunConfig(StrictModel):
    """Everything that determines a trained model; the same file gives the same model."""

    model_config = ConfigDict(title="edgegpt training run")

    out: str = Field(description="Checkpoint folder to write; relative to the run file.")
    model: Annotated[ModelConfig | str, BeforeValidator(_model)] | None = Field(
        None,
        description="Shape of a new model, or the path of its .yaml, relative to the run file; a tokenizer "
        "is trained to vocab_size.",
    )
    start_from: str | None = Field(
        None, description="Checkpoint folder to continue from, with its tokenizer; relative to the run file."
    )
    tokenizer_split: Literal["gpt2", "words"] | None = Field(
        None,
        description="How a new tokenizer splits text: gpt2 (default) joins a space to the next word; "
        "words does not.",
    )
    train: list[Source] = Field(min_length=1, description="Training examples, mixed.")
    validation: dict[str, Source] = Field(description="Named validation sets.")
    generator_path: str = Field(
        ".",
        description="Folder to import generators from, before installed packages; relative to the run file.",
    )
    seed: Seed = Field(0, description="Seed of weights, batches and dropout.")
    steps: Count = Field(description="Optimiser steps.")
    batch_tokens: Count = Field(description="Maximum number of tokens in a batch, padding included.")
    learning_rate: Positive = Field(description="Peak learning rate of AdamW.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up, before a cosine decay to 0.")
    weight_decay: float = Field(
        0.1, ge=0.0, description="Weight decay of matrices; biases and norms have none."
    )
    beta2: float = Field(0.99, gt=0.0, lt=1.0, description="Second beta of AdamW.")
    gradient_clip: Positive = Field(1.0, description="Maximum norm of the gradient.")
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations in the backward pass: less memory, more time."
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="Precision of matrix products.")
    stored_weights: Literal["fp32", "fp16", "bf16"] = Field(
        "fp32", description="Precision of model.safetensors."
    )
    validate_every: Count = Field(500, description="Steps between validations; each saves the state.")
    threads: int = Field(0, ge=0, le=256, description="CPU threads; 0 uses torch's default.")

    @model_validator(mode="after")
    def _one_start(self) -> "RunConfig":
        if (self.model is None) == (self.start_from is None):
            raise ValueError(
                "give either model, to train from scratch, or start_from, to continue from a checkpoint"
            )
        if self.start_from is not None and self.tokenizer_split is not None:
            raise ValueError(
                f"start_from has a tokenizer already, got tokenizer_split {self.tokenizer_split!r}"
            )
        return self

    @model_validator(mode="after")
    def _warmup_ends(self) -> "RunConfig":
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps must be below steps, got {self.warmup_steps} and {self.steps}")
        return self

    @classmethod
    def from_yaml(cls, path: str | Path) -> "RunConfig":
        """Read a run file; raise ConfigError naming file, key and value."""
        return load_yaml(path, cls)

    def with_model(self, folder: Path) -> "RunConfig":
        """Return the run with the model's config instead of its path, which is relative to `folder`.

        Raises:
            ConfigError: the file does not exist or is not a model config; names file, key and value.
        """
        if not isinstance(self.model, str):
            return self
        return self.model_copy(update={"model": ModelConfig.from_yaml(folder / self.model)})
