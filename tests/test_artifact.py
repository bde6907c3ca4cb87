"""edgegpt.runtime.artifact: what an open file knows, and what a robot's process loads and writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.scripted import greedy
from helpers.tiny_files import TINY, tiny_file

from edgegpt import contract
from edgegpt.runtime import open_artifact


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_file(tmp_path_factory.mktemp("artifact"))


def test_an_artifact_knows_what_the_exporter_wrote(file: Path) -> None:
    artifact = open_artifact(str(file))
    assert (artifact.path, artifact.bytes) == (file, file.stat().st_size)
    assert (artifact.config, artifact.tokenizer.vocab_size) == (TINY, 270)
    assert (artifact.target, artifact.precision, artifact.recipe) == (contract.ENGINE, "fp32", {})
    assert (artifact.weights_sha256, artifact.evidence) == ("0" * 64, {"top1": 1.0})
    assert (artifact.tool, artifact.sampling) == ("tests", greedy(max_new_tokens=16))


def run(code: str, *args: object, **variables: object) -> str:
    """Run code in a process that must print nothing on stderr, and return its output."""
    command = [sys.executable, "-c", f"import sys; {code}", *map(str, args)]
    unset = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {key: str(value) for key, value in variables.items()}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert result.stderr == ""
    return result.stdout


# Each takes 0.5 to 16 MB of the process, for as long as it runs.
NOT_FOR_A_ROBOT = {
    *("pydantic", "pydantic_core", "annotated_types", "yaml", "jsonschema", "typer", "rich"),
    *("torch", "onnx", "safetensors", "transformers", "rclpy", "edgegpt_export"),
    *("numpy.random", "hashlib", "ssl", "socket", "http", "email", "urllib", "importlib.metadata"),
    *("logging", "tempfile", "difflib", "decimal", "asyncio", "multiprocessing", "concurrent"),
}


def test_a_robots_process_loads_little_and_writes_nothing_into_its_home(file: Path, tmp_path: Path) -> None:
    code = (
        "bare = set(sys.modules); import edgegpt; own = sys.modules.keys() - bare; "
        "import numpy, onnxruntime; before = set(sys.modules); "
        "model = edgegpt.load(sys.argv[1]); model.generate('go'); "
        "drawn = edgegpt.SamplingParams(seed=1, max_new_tokens=3, top_p=0.9); model.generate('go', drawn); "
        "model.new_session().generate('go', drawn); print(*own, *sys.modules.keys() - before)"
    )
    loaded = set(run(code, file, HOME=tmp_path).split())
    assert {"edgegpt.runtime.generator", "tokenizers"} <= loaded
    assert not loaded & NOT_FOR_A_ROBOT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "module", ["edgegpt.runtime.generator", "edgegpt.runtime.artifact", "edgegpt_export"]
)
def test_a_home_that_cannot_be_written_is_no_reason_for_a_word_on_stderr(file: Path, module: str) -> None:
    opened = "from edgegpt.runtime import open_artifact; open_artifact(sys.argv[1])"
    assert run(f"import {module}; {opened}", file, HOME="/dev/null") == ""


def test_importing_edgegpt_loads_nothing_until_a_name_is_used() -> None:
    output = run(
        "import edgegpt; print([m for m in ('numpy', 'onnxruntime', 'pydantic') if m in sys.modules]); "
        "print(*[getattr(edgegpt, name) and name for name in edgegpt.__all__])"
    )
    names = "EdgeGPTError Engine ModelConfig Reply SamplingParams TextGenerator __version__ load"
    assert output == f"[]\n{names}\n"
