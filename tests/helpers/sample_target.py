"""A board profile of round numbers made by hand: nothing in it was measured."""

from pathlib import Path

import yaml

from edgegpt.measure.machine import this_machine
from edgegpt.prediction.target import Target, TargetMachine

_SMALL = """
name: hand board
date: "2026-01-31"
threads: 1
machine: {cpu: Hand CPU, architecture: aarch64, cores: 4, versions: {onnxruntime: "1.0"}}
read_bandwidth: [{working_set_mb: 1.0, gb_s: 20.0}]
cache_streaming: [{working_set_mb: 1.0, us_per_mb: 0.0}, {working_set_mb: 100.0, us_per_mb: 50.0}]
nodes:
  norm: {node_us: 1.0, us_per_1000_values: 1.0}
  gelu: {node_us: 1.0, us_per_1000_values: 1.0}
  add: {node_us: 0.5, us_per_1000_values: 0.5}
  lookup_32_bits: {node_us: 0.5, us_per_1000_values: 0.5}
  lookup_8_bits: {node_us: 1.0, us_per_1000_values: 1.0}
calls:
  step: {call_us: 10.0, us_per_layer: 1.0, node_factor: 1.0}
  chunk: {call_us: 50.0, us_per_layer: 10.0, node_factor: 1.5}
  greedy: {node_us: 1.0, us_per_1000_values: 0.2}
  draw: {node_us: 10.0, us_per_1000_values: 50.0}
load:
  {import_ms: 200.0, base_ms: 20.0, ms_per_layer: 1.0, ms_per_1000_tokens: 5.0, ms_per_mb: &per_mb
    {inside: {fp32: 3.0, int8: 2.0, int4: 2.0}, beside: {fp32: 1.0, int8: 1.0, int4: 1.0}}}
memory: {import_mb: 70.0, base_mb: 10.0, mb_per_layer: 0.2, mb_per_1000_tokens: 1.0, mb_per_mb: *per_mb}
"""
_PRODUCT = {"node_us": 1.0, "us_per_1000_inputs": 1.0, "us_per_1000_outputs": 2.0}
_ATTENTION = {"node_us": 2.0, "us_per_1000_values": 2.0, "us_per_million_products": 100.0}
_BLOCKS = {32: (0,), 8: (32, 64, 128, 256), 4: (32, 64, 128)}
_TABLES = {
    "products": [
        {**_PRODUCT, "bits": bits, "block": block, "tokens": t, "us_per_million_weights": million * bits}
        for bits, blocks in _BLOCKS.items()
        for block in blocks
        for t, million in ((1, 10.0), (8, 20.0), (64, 90.0))
    ],
    "streaming": [
        {"bits": bits, "tokens": t, "working_set_mb": mb, "us_per_mb": us}
        for bits in (4, 8, 32)
        for t in (1, 64)
        for mb, us in ((1.0, 0.0), (10.0, 20.0), (100.0, 100.0))
    ],
    "attention": [{**_ATTENTION, "tokens": t, "us_per_1000_scores": 1.0} for t in (1, 8, 64)],
}
TARGET = Target.model_validate({**yaml.safe_load(_SMALL), **_TABLES})


def target_here() -> Target:
    """Return the same figures as a profile of this machine."""
    return TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})


def profile_file(folder: Path, target: Target = TARGET, **changes: object) -> Path:
    """Write a profile, with keys changed or added, and return its path."""
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump({**target.model_dump(), **changes}) if changes else target.to_yaml())
    return path
