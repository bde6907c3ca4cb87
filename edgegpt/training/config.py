"""A training run as a file: `edgegpt train RUN.yaml`."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from edgegpt.config import ModelConfig, load_yaml, validate

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Positive = Annotated[float, Field(gt=0.0)]
_YAML: Final = (".yaml", ".yml")
_GENERATOR: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?", re.ASCII)


def _model(value: object) -> ModelConfig | str:
    if isinstance(value, dict):
        return validate(value, "model", ModelConfig)
    if isinstance(value, ModelConfig) or (isinstance(value, str) and Path(value).suffix in _YAML):
        return value
    raise PydanticCustomError("model", "must be `key: value` lines or the path of a .yaml with them")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Source(_Strict):
    """Where examples come from: a file, or a generator that an import path names."""

    path: str | None = Field(
        None, description="A .jsonl of {prompt, completion}, or a .txt; relative to the run file."
    )
    generator: str | None = Field(
        None,
        description="Import path of a function that generates examples: MODULE:FUNCTION, or MODULE alone "
        "for its function `generate`; it is called with split, examples and seed.",
    )
    split: str = Field("train", description="Of the generator: which of its sets of examples.")
    examples: Count = Field(10_000, description="Of the generator: how many.")
    seed: Seed = Field(0, description="Of the generator.")

    @model_validator(mode="after")
    def _one_source(self) -> "Source":
        if (self.path is None) == (self.generator is None):
            raise ValueError("give either path or generator")
        if self.path is not None and Path(self.path).suffix not in (".jsonl", ".txt"):
            raise ValueError(f"path must end in .jsonl or .txt, got {self.path!r}")
        if self.generator is not None and not _GENERATOR.fullmatch(self.generator):
            raise ValueError(f"generator must be MODULE or MODULE:FUNCTION, got {self.generator!r}")
        return self


class RunConfig(_Strict):
    """Everything that decides what a run trains; the same file gives the same model."""

    model_config = ConfigDict(title="edgegpt training run")

    out: str = Field(description="Checkpoint folder to write; relative to the run file.")
    model: Annotated[ModelConfig | str, BeforeValidator(_model)] | None = Field(
        None,
        description="Shape of a new model, or the path of its .yaml, relative to the run file; a tokenizer "
        "is trained to vocab_size.",
    )
    start_from: str | None = Field(
        None, description="Checkpoint folder to go on from, with its tokenizer; relative to the run file."
    )
    tokenizer_split: Literal["gpt2", "words"] | None = Field(
        None,
        description="Of a new tokenizer: gpt2 (default) joins a space to the next word; words does not.",
    )
    train: list[Source] = Field(min_length=1, description="Training examples, mixed.")
    validation: dict[str, Source] = Field(description="Named validation sets.")
    generator_path: str = Field(
        ".",
        description="Folder in which the modules of generators are looked for, before installed packages; "
        "relative to the run file.",
    )
    seed: Seed = Field(0, description="Of weights, batches and dropout.")
    steps: Count = Field(description="Optimiser steps.")
    batch_tokens: Count = Field(description="Tokens in a batch, padding included.")
    learning_rate: Positive = Field(description="Peak learning rate of AdamW.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up; a cosine down to 0 follows.")
    weight_decay: float = Field(0.1, ge=0.0, description="Of matrices; biases and norms have none.")
    beta2: float = Field(0.99, gt=0.0, lt=1.0, description="AdamW's second beta.")
    gradient_clip: Positive = Field(1.0, description="Largest norm of the gradient.")
    gradient_checkpointing: bool = Field(False, description="Less memory, more time.")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="Arithmetic of matrix products.")
    stored_weights: Literal["fp32", "fp16", "bf16"] = Field("fp32", description="Of model.safetensors.")
    validate_every: Count = Field(500, description="Steps between validations; each saves the state.")
    threads: int = Field(0, ge=0, le=256, description="CPU threads; 0 leaves the choice to torch.")

    @model_validator(mode="after")
    def _one_beginning(self) -> "RunConfig":
        if (self.model is None) == (self.start_from is None):
            raise ValueError("give either model, to begin anew, or start_from, to go on from a checkpoint")
        if self.start_from is not None and self.tokenizer_split is not None:
            raise ValueError(f"start_from brings its tokenizer, got tokenizer_split {self.tokenizer_split!r}")
        return self

    @model_validator(mode="after")
    def _warmup_ends(self) -> "RunConfig":
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps must be below steps, got {self.warmup_steps} and {self.steps}")
        return self

    @classmethod
    def from_yaml(cls, path: str | Path) -> "RunConfig":
        """Read a run file; raises ConfigError naming file, key and value."""
        return load_yaml(path, cls)

    def with_model(self, folder: Path) -> "RunConfig":
        """The same run with the model's config in place of its path, which is relative to `folder`.

        Raises:
            ConfigError: there is no such file, or it is no model config; it names file, key and value.
        """
        if not isinstance(self.model, str):
            return self
        return self.model_copy(update={"model": ModelConfig.from_yaml(folder / self.model)})
