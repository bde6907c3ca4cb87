"""The node's own `main` with a faulty engine; a program that tests start.

Environment variables:
    EDGEGPT_TEST_LOAD_S     additional seconds of loading
    EDGEGPT_TEST_STEP_MS    additional milliseconds per token
    EDGEGPT_TEST_HANG_S     additional seconds of an answer's sixth token
    EDGEGPT_TEST_COUNT_S    additional seconds of counting more than a thousand characters
    EDGEGPT_TEST_ENDLESS    1: the model never samples the end of text
    EDGEGPT_TEST_FAIL       path; if the file exists, the sixth token of an answer deletes it and fails
    EDGEGPT_TEST_EXECUTOR   multi: run under a MultiThreadedExecutor, for the benchmark that compares
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import rclpy.executors
from edgegpt_ros.main import main

from edgegpt.errors import EngineError
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.generator import TextGenerator
from edgegpt.serving.server import GenerationServer
from edgegpt.tokenizer import Tokenizer

LOAD_S = float(os.environ.get("EDGEGPT_TEST_LOAD_S", "0"))
HANG_S = float(os.environ.get("EDGEGPT_TEST_HANG_S", "0"))
STEP_S = float(os.environ.get("EDGEGPT_TEST_STEP_MS", "0")) / 1000
COUNT_S = float(os.environ.get("EDGEGPT_TEST_COUNT_S", "0"))
ENDLESS = os.environ.get("EDGEGPT_TEST_ENDLESS") == "1"
FAIL = Path(os.environ.get("EDGEGPT_TEST_FAIL", "/nowhere"))

make, prefill, decode = TextGenerator.__init__, Engine.prefill, Engine.decode_one_token
warm_up, count_tokens = TextGenerator.warm_up, GenerationServer.count_tokens


def faulty_make(self: TextGenerator, engine: Any, tokenizer: Tokenizer, *args: Any, **options: Any) -> None:
    engine.eos_id, engine.calls = tokenizer.eos_id, 0
    make(self, engine, tokenizer, *args, **options)


def slow_warm_up(self: TextGenerator) -> None:
    time.sleep(LOAD_S)
    warm_up(self)


def slow_count(self: GenerationServer, prompt: str, **options: Any) -> Any:
    time.sleep(COUNT_S if len(prompt) > 1000 else 0)
    return count_tokens(self, prompt, **options)


def faulty_prefill(self: Any, *args: Any, **options: Any) -> Any:
    self.calls = 0
    return endless(self, prefill(self, *args, **options))


def faulty_decode(self: Any, *args: Any, **options: Any) -> Any:
    self.calls += 1
    if STEP_S:
        time.sleep(STEP_S)
    if self.calls == 5 and HANG_S:
        time.sleep(HANG_S)
    if self.calls == 5 and FAIL.exists():
        FAIL.unlink()
        raise EngineError("injected")
    return endless(self, decode(self, *args, **options))


def endless(engine: Any, logits: Any) -> Any:
    if ENDLESS and logits is not None:
        logits[engine.eos_id] = np.finfo(np.float32).min / 1e20
    return logits


TextGenerator.__init__, Engine.prefill, Engine.decode_one_token = faulty_make, faulty_prefill, faulty_decode
TextGenerator.warm_up, GenerationServer.count_tokens = slow_warm_up, slow_count

if os.environ.get("EDGEGPT_TEST_EXECUTOR") == "multi":
    rclpy.executors.SingleThreadedExecutor = lambda: rclpy.executors.MultiThreadedExecutor(2)

if __name__ == "__main__":
    main()
