"""edgegpt.runtime.onnx_file: the checksum of a file is the sha256 that other tools compute."""

import hashlib
import sys
from pathlib import Path

import pytest

from edgegpt.runtime.onnx_file import _SMALL, file_sha256


@pytest.fixture
def without_pythons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Python that was built with OpenSSL's hashes alone."""
    for name in ("_sha2", "_sha256"):
        monkeypatch.setitem(sys.modules, name, None)


def check(folder: Path, size: int) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    path = folder / "some.bin"
    path.write_bytes(content[:size])
    assert file_sha256(path) == hashlib.sha256(content[:size]).hexdigest()
    assert file_sha256(path, size // 2) == hashlib.sha256(content[: size // 2]).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 100_000, _SMALL, _SMALL + 1, 2 * _SMALL + 2])
def test_the_checksum_is_sha256_at_every_size(tmp_path: Path, size: int) -> None:
    check(tmp_path, size)


@pytest.mark.usefixtures("without_pythons_own")
def test_the_checksum_is_sha256_in_every_python(tmp_path: Path) -> None:
    check(tmp_path, 100_000)
