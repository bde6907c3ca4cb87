"""edgegpt.runtime.tuning: where a tuning is stored, when it is used; it changes speed, never an answer."""

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import Refused
from helpers.scripted import greedy
from helpers.threads import run_together
from helpers.tiny_files import forbid, tiny_file, tokenizer, torch_greedy

import edgegpt
from edgegpt import contract
from edgegpt.errors import EngineError, MeasureError
from edgegpt.runtime import (
    PREFILL_CHUNK,
    Engine,
    OrtBackend,
    TextGenerator,
    Tuning,
    file_identity,
    file_sha256,
    open_artifact,
    read_metadata,
    tuning,
)
from edgegpt.runtime.tuning import find, fingerprint, keep
from edgegpt_export import export_checkpoint

Log = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch
SHA = "a" * 64
TUNED = Tuning(decode_threads=1, prefill_threads=2, spinning=True, prefill_chunk=8)
TWO = Tuning(decode_threads=2, prefill_threads=2, spinning=False, prefill_chunk=32)
UNTUNED = (1, 1, "0", PREFILL_CHUNK)  # as `settings` returns it


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """An empty cache folder of a machine with two cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "allowed_cpus", lambda: (0, 1))
    monkeypatch.setattr(tuning, "cgroup_quota", lambda: None)
    tuning._warn.cache_clear()
    return tmp_path / "cache" / "edgegpt" / "tuning"


def warnings(caplog: Log) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_tuning_is_found_again_and_replaced_by_the_next(cache_folder: Path) -> None:
    path = keep(SHA, TUNED)
    assert path.is_relative_to(cache_folder)
    assert find(SHA) == TUNED
    assert keep(SHA, TWO) == path
    assert find(SHA) == TWO
    assert [file.name for file in cache_folder.rglob("*") if file.is_file()] == [path.name]
    assert find("b" * 64) is None  # another file


def test_without_a_tuning_nothing_is_logged_or_created(cache_folder: Path, caplog: Log) -> None:
    assert find(SHA) is None
    assert warnings(caplog) == []
    assert not cache_folder.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_cpus", (0, 2)),
        ("allowed_cpus", (0,)),
        ("cgroup_quota", 1.5),
        ("cpu_name", "another"),
        ("onnxruntime", "0.0"),
        ("edgegpt-robot", "0.0"),
    ],
)
def test_a_tuning_of_another_machine_share_of_it_or_version_is_not_used(
    monkeypatch: Patch, caplog: Log, name: str, value: object
) -> None:
    keep(SHA, TUNED)
    version = tuning._version
    with monkeypatch.context() as elsewhere:
        if hasattr(tuning, name):
            elsewhere.setattr(tuning, name, lambda: value)
        else:
            elsewhere.setattr(
                tuning, "_version", lambda package: value if package == name else version(package)
            )
        assert find(SHA) is None
        keep(SHA, Tuning.of_threads(1))
    assert find(SHA) == TUNED  # each keeps its own
    assert warnings(caplog) == []


def content(data: bytes) -> Callable[[Path, Patch], object]:
    return lambda path, patch: path.write_bytes(data)


def changed(*keys: str, value: object) -> Callable[[Path, Patch], None]:
    def change(path: Path, patch: Patch) -> None:
        kept = part = json.loads(path.read_text())
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        path.write_text(json.dumps(kept))

    return change


@pytest.mark.parametrize(
    "spoil",
    [
        *map(content, [b"", b"{", b"\xff\xfe\x00", b"null", b"[" * 9000, b" " * 10_001]),
        changed("tuning", "decode_threads", value=0),
        changed("tuning", "decode_threads", value=True),
        changed("tuning", "prefill_chunk", value="64"),
        changed("tuning", "turbo", value=1),
        changed("tuning", "prefill_threads", value=3),  # of two cores
        changed("machine", "quota", value=1.0),
        changed("file_sha256", value="b" * 64),
        forbid,
    ],
)
def test_a_damaged_or_foreign_tuning_is_logged_once_and_not_used(
    caplog: Log, monkeypatch: Patch, spoil: Callable[[Path, Patch], object]
) -> None:
    path = keep(SHA, TUNED)
    with monkeypatch.context() as patch:
        spoil(path, patch)
        assert find(SHA) is find(SHA) is None
    (warning,) = warnings(caplog)
    assert str(path.parent) in warning
    assert "`edgegpt tune`" in warning
    keep(SHA, TUNED)
    assert find(SHA) == TUNED


def test_a_file_in_the_folders_place_is_no_cache(cache_folder: Path, caplog: Log, refused: Refused) -> None:
    cache_folder.parent.mkdir(parents=True)
    cache_folder.write_text("in the way")
    assert find(SHA) is None
    assert warnings(caplog) == []
    with refused(MeasureError, cache_folder / SHA, "XDG_CACHE_HOME"):
        keep(SHA, TUNED)


def test_a_read_only_folder_and_a_missing_home_are_refused_with_the_way_out(
    refused: Refused, monkeypatch: Patch
) -> None:
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "access", lambda path, mode: False)  # as for every user but root
        with refused(MeasureError, "permission denied", "XDG_CACHE_HOME"):
            keep(SHA, TUNED)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert find(SHA) is None
    with refused(MeasureError, "XDG_CACHE_HOME"):
        keep(SHA, TUNED)


def test_a_relative_cache_folder_is_ignored_as_the_specification_says(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert keep(SHA, TUNED).is_relative_to(tmp_path / "home" / ".cache" / "edgegpt")


def test_concurrent_writers_and_readers_see_only_whole_tunings(caplog: Log) -> None:
    tunings = [Tuning.of_threads(1), Tuning.of_threads(2)]
    seen: list[Tuning | None] = []

    def write(n: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(20):
                keep(SHA, tunings[n % 2])
                seen.append(find(SHA))

        return work

    run_together(*map(write, range(4)))
    assert len(seen) == 80
    assert all(each in tunings for each in seen)
    assert warnings(caplog) == []
    assert [file.suffix for file in keep(SHA, TUNED).parent.iterdir()] == [".json"]


def test_the_fingerprint_is_the_processs_own(monkeypatch: Patch) -> None:
    monkeypatch.undo()
    assert fingerprint().cpus == tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize("name", ["decode_threads", "prefill_threads", "prefill_chunk", "spinning"])
def test_a_value_outside_its_range_is_refused(refused: Refused, name: str) -> None:
    for value in (0, "2", 1.5) if name != "spinning" else (1, None):
        with refused(EngineError, name, value):
            Tuning(**{**vars(TUNED), name: value})


def backend_of(model: TextGenerator) -> OrtBackend:
    assert isinstance(model.engine.backend, OrtBackend)
    return model.engine.backend


def settings(model: TextGenerator) -> tuple[int, int, str, int]:
    """Threads of both sessions, spinning, and the length of a chunk, as they are in force."""
    backend = backend_of(model)
    both = [session.get_session_options() for session in (backend.session, backend.prefill_session)]
    assert {options.inter_op_num_threads for options in both} == {1}
    (spinning,) = {options.get_session_config_entry("session.intra_op.allow_spinning") for options in both}
    decode, prefill = (options.intra_op_num_threads for options in both)
    return decode, prefill, spinning, model.engine.prefill_chunk


def test_load_uses_the_tuning_of_this_very_file_and_none_that_is_broken(tmp_path: Path, caplog: Log) -> None:
    file = tiny_file(tmp_path)
    assert settings(edgegpt.load(file)) == UNTUNED
    path = keep(file_sha256(file), TUNED)
    assert settings(edgegpt.load(file)) == (1, 2, "1", 8)
    assert warnings(caplog) == []
    path.write_text("{")
    assert settings(edgegpt.load(file)) == UNTUNED
    assert len(warnings(caplog)) == 1
    keep(file_sha256(file), TUNED)
    file.write_bytes(file.read_bytes() + b"\x3a\x00")  # an empty graph more: the same model, another file
    assert settings(edgegpt.load(file)) == UNTUNED


def test_threads_that_are_given_are_what_counts(tmp_path: Path) -> None:
    file = tiny_file(tmp_path)
    keep(file_sha256(file), TUNED)
    model = edgegpt.load(file, threads=2)
    assert settings(model) == (2, 2, "0", PREFILL_CHUNK)
    assert backend_of(model).session is backend_of(model).prefill_session
    assert open_artifact(file).prefill_session is None


def test_an_exported_file_is_identified_by_its_digest(file: Path) -> None:
    digest = read_metadata(file)[contract.META_FILE_SHA256]
    assert file_identity(file) == digest
    before = file.read_bytes()
    keep(digest, TUNED)
    assert open_artifact(file, threads=None).tuning == TUNED
    assert file.read_bytes() == before


@pytest.mark.parametrize("chosen", [TUNED, TWO])
@pytest.mark.parametrize("made", ["engine", "portable", "int8", "int8 with an int8 cache"])
def test_a_tuned_model_gives_the_same_tokens(
    tiny_checkpoint: Path, tmp_path: Path, made: str, chosen: Tuning
) -> None:
    if made in (contract.ENGINE, contract.PORTABLE):
        path = tiny_file(tmp_path, made)
    else:
        path, kv_cache = tmp_path / "tiny.onnx", "int8" if "cache" in made else "fp32"
        export_checkpoint(tiny_checkpoint, path, precision="int8", kv_cache=kv_cache)
    ids = tokenizer().encode_prompt("go to the kitchen, then find the red mug")
    assert len(ids) > chosen.prefill_chunk or chosen is TWO
    untuned, tuned = (
        list(
            Engine.from_artifact(open_artifact(path, threads=threads)).generate(
                ids, greedy(max_new_tokens=20)
            )
        )
        for threads in (1, chosen)
    )
    assert tuned == untuned


def noting(session: Any, name: str, ran: list[str]) -> Any:
    """A session that notes its name at each run."""

    def run(binding: Any) -> None:
        ran.append(name)
        session.run_with_iobinding(binding)

    return SimpleNamespace(io_binding=session.io_binding, run_with_iobinding=run)


def test_prompts_run_on_one_session_and_decode_steps_on_the_other_with_the_same_cache(tmp_path: Path) -> None:
    ran: list[str] = []
    artifact = open_artifact(tiny_file(tmp_path), threads=TUNED)
    decode = noting(artifact.session, "decode", ran)
    prefill = noting(artifact.prefill_session, "prefill", ran)
    engine = Engine(decode, artifact.config, n_valid=270, prefill_session=prefill, prefill_chunk=8)
    cache, ids, params = engine.new_cache(), list(range(20)), greedy(max_new_tokens=3)
    tokens = list(engine.generate(ids, params, cache=cache))
    assert tokens == torch_greedy(ids, 3)
    assert ran == ["prefill"] * 3 + ["decode"] * 2
    cache.rewind(21)
    fork = cache.fork()
    for each, new in ((fork, [5, 6]), (cache, [7])):
        assert list(engine.generate(new, params, cache=each)) == torch_greedy([*ids, tokens[0], *new], 3)
    assert engine.token_losses(ids).shape == (19,)


def test_the_warm_up_learns_the_latency_of_a_chunk(tmp_path: Path) -> None:
    file = tiny_file(tmp_path)
    keep(file_sha256(file), replace(TUNED, prefill_chunk=20))
    latency = edgegpt.load(file).latency
    assert latency.prefill_call is not latency.decode
    parts = (latency.decode, latency.prefill_call, latency.prefill_token)
    assert all(np.isfinite(part.fastest) for part in parts)
