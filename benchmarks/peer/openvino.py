"""OpenVINO on edgegpt's portable file; OpenVINO's own pass turns the cache into states of the model.

The cache is not copied between calls, but each call still concatenates it. The inference precision is set
to float32: on a processor with bfloat16, that would be OpenVINO's default.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openvino as ov
from openvino._offline_transformations import apply_make_stateful_transformation

from edgegpt import contract
from peer.engine import Logits, Peer, checkpoint_path, peer_of


def prepare(folder: Path, variant: str) -> None:
    from edgegpt.config import ModelConfig
    from edgegpt_export import export_checkpoint

    portable = folder / "portable.onnx"
    export_checkpoint(checkpoint_path(folder), portable, target=contract.PORTABLE)
    config = ModelConfig.from_yaml(checkpoint_path(folder) / "config.yaml")
    model = ov.Core().read_model(portable)
    past = [name for layer in range(config.n_layer) for name in contract.past_names(layer)]
    present = [name for layer in range(config.n_layer) for name in contract.present_names(layer)]
    shapes = {name: [1, config.n_kv_head, -1, config.head_dim] for name in past}
    model.reshape({contract.INPUT_IDS: [1, -1], contract.POSITION_IDS: [1, -1], **shapes})
    apply_make_stateful_transformation(model, dict(zip(past, present, strict=True)))
    ov.save_model(model, _file(folder), compress_to_fp16=False)


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(_file(folder), "CPU", options).create_infer_request()
    length = 0

    def empty() -> None:
        nonlocal length
        request.reset_state()
        length = 0

    def read(new: Sequence[int]) -> Logits:
        nonlocal length
        end = length + len(new)
        ids, positions = np.array([new], np.int64), np.arange(length, end, dtype=np.int64)[None]
        request.set_tensor(contract.INPUT_IDS, ov.Tensor(ids, shared_memory=True))
        request.set_tensor(contract.POSITION_IDS, ov.Tensor(positions, shared_memory=True))
        request.infer()
        length = end
        logits: Logits = request.get_tensor(contract.LOGITS).data[0, -1]
        return logits

    return peer_of(empty, read)


def _file(folder: Path) -> Path:
    return folder / "openvino.xml"
