"""Time MatMulNBits by block size and bits, and FusedMatMul, on the shapes of our models.

    python benchmarks/matmul_nbits.py [--tokens 1]

Prints microseconds of one product (T, K) x (K, N), the best of --rounds interleaved rounds, one thread. The
exporter's block sizes follow from this table.
"""

import argparse
import time
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

SHAPES = [(128, 384), (128, 512), (192, 576), (192, 768), (256, 1024), (384, 1536), (768, 2304), (768, 768)]
SHAPES += [(512, 128), (768, 192), (1536, 384), (3072, 768), (768, 3072), (192, 512), (768, 50257)]
BLOCKS = [16, 32, 64, 128, 256]


def session(k: int, n: int, bits: int, block: int) -> ort.InferenceSession:
    """Open a model of one product; 32 bits are a FusedMatMul."""
    rng = np.random.default_rng(0)
    if bits == 32:
        weights = [numpy_helper.from_array(rng.standard_normal((n, k)).astype(np.float32), "w")]
        node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", transB=1)
    else:
        blocks = -(-k // block)
        packed = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        scales = rng.random((n, blocks)).astype(np.float32)
        weights = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")]
        attributes: dict[str, Any] = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": 4}
        node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["t", n])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def measure(k: int, n: int, tokens: int, rounds: int) -> dict[tuple[int, int], float]:
    """Return the best microseconds by (bits, block)."""
    kinds = [(32, 0)] + [(bits, block) for bits in (8, 4) for block in BLOCKS]
    runs = {}
    for kind in kinds:
        s = session(k, n, *kind)
        x, y = np.ones((tokens, k), np.float32), np.empty((tokens, n), np.float32)
        binding = s.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
        runs[kind] = (s, binding, x, y)
    best = dict.fromkeys(kinds, np.inf)
    for _ in range(rounds):
        for kind, (s, binding, *_buffers) in runs.items():
            start = time.perf_counter()
            for _ in range(5):
                s.run_with_iobinding(binding)
            best[kind] = min(best[kind], (time.perf_counter() - start) / 5 * 1e6)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    table = Table("K", "N", "fp32", *(f"{bits}b/{block}" for bits in (8, 4) for block in BLOCKS))
    for k, n in SHAPES:
        best = measure(k, n, arguments.tokens, arguments.rounds)
        table.add_row(str(k), str(n), *(f"{us:.1f}" for us in best.values()))
    Console(width=140).print(f"microseconds for {arguments.tokens} token(s)", table)


if __name__ == "__main__":
    main()
