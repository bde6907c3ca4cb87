"""edgegpt.runtime.artifact: what an open file knows, and what a robot's process loads and writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiny_files import TINY, tiny_file

from edgegpt import contract
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.sampling import SamplingParams


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_file(tmp_path_factory.mktemp("artifact"))


def test_an_artifact_knows_what_the_exporter_wrote(file: Path) -> None:
    artifact = open_artifact(str(file))
    assert artifact.path == file
    assert artifact.config == TINY
    assert artifact.tokenizer.vocab_size == 270
    assert (artifact.target, artifact.precision) == (contract.ENGINE, "fp32")
    assert artifact.recipe == {}
    assert artifact.evidence == {"top1": 1.0}
    assert artifact.weights_sha256 == "0" * 64
    assert artifact.tool == "tests"
    assert artifact.sampling == SamplingParams(temperature=0.0, max_new_tokens=16)
    assert artifact.bytes == file.stat().st_size


def test_the_session_uses_the_threads_asked_for_and_never_spins(file: Path) -> None:
    options = open_artifact(file, threads=2).session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def run(code: str, *args: object, **variables: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    unset = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {key: str(value) for key, value in variables.items()}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)


def test_a_robot_loads_and_answers_without_torch_onnx_or_a_word_on_stderr(file: Path) -> None:
    result = run(
        "import sys, edgegpt; edgegpt.load(sys.argv[1]).generate('go'); "
        "print([m for m in ('torch', 'onnx', 'rclpy', 'rich', 'typer', 'safetensors') if m in sys.modules])",
        file,
    )
    assert result.stdout == "[]\n"
    assert result.stderr == ""


# Each takes 0.5 to 16 MB of the process, for as long as it runs.
NOT_FOR_A_ROBOT = {
    *("pydantic", "pydantic_core", "annotated_types", "yaml", "jsonschema", "typer", "rich"),
    *("torch", "onnx", "safetensors", "transformers", "rclpy", "edgegpt_export"),
    *("numpy.random", "hashlib", "ssl", "socket", "http", "email", "urllib", "importlib.metadata"),
    *("logging", "tempfile", "difflib", "decimal", "asyncio", "multiprocessing", "concurrent"),
}


def test_a_robots_process_loads_little_besides_numpy_onnxruntime_and_tokenizers(file: Path) -> None:
    modules = "import sys, numpy, onnxruntime; before = set(sys.modules); "
    answers = (
        "import edgegpt; model = edgegpt.load(sys.argv[1]); model.generate('go'); "
        "drawn = edgegpt.SamplingParams(seed=1, max_new_tokens=3, top_p=0.9); model.generate('go', drawn); "
        "model.new_session().generate('go', drawn); "
    )
    result = run(modules + answers + "print(*sys.modules.keys() - before)", file, ORT_DISABLE_TELEMETRY=1)
    loaded = set(result.stdout.split())
    assert {"edgegpt.runtime.generator", "tokenizers"} <= loaded
    assert not loaded & NOT_FOR_A_ROBOT


def test_a_robot_writes_no_file_into_its_home(file: Path, tmp_path: Path) -> None:
    run("import sys, edgegpt; edgegpt.load(sys.argv[1]).generate('go')", file, HOME=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "module", ["edgegpt.runtime.generator", "edgegpt.runtime.artifact", "edgegpt_export"]
)
def test_a_home_that_cannot_be_written_is_no_reason_for_a_word_on_stderr(file: Path, module: str) -> None:
    opened = "from edgegpt.runtime.artifact import open_artifact; open_artifact(sys.argv[1])"
    code = f"import sys, {module}; {opened}"
    result = run(code, file, HOME="/dev/null")
    assert (result.stdout, result.stderr) == ("", "")


def test_importing_edgegpt_loads_nothing_until_a_name_is_used() -> None:
    result = run(
        "import sys, edgegpt; print([m for m in ('numpy', 'onnxruntime', 'pydantic') if m in sys.modules]); "
        "print(*[getattr(edgegpt, name) and name for name in edgegpt.__all__])"
    )
    names = "EdgeGPTError Engine ModelConfig Reply SamplingParams TextGenerator __version__ load"
    assert result.stdout == f"[]\n{names}\n"
