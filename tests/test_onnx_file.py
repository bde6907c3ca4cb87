"""edgegpt.runtime.onnx_file: the checksum of a file is the sha256 that other tools compute."""

import hashlib
import sys
from pathlib import Path

import pytest

from edgegpt.runtime import file_sha256
from edgegpt.runtime.onnx_file import _SMALL


@pytest.mark.parametrize("openssl_alone", [False, True])
@pytest.mark.parametrize("size", [0, 1, 100_000, _SMALL, _SMALL + 1, 2 * _SMALL + 2])
def test_the_checksum_is_sha256_at_every_size_in_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, openssl_alone: bool
) -> None:
    if openssl_alone:  # as in a Python that was built without hashes of its own
        for name in ("_sha2", "_sha256"):
            monkeypatch.setitem(sys.modules, name, None)
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    path = tmp_path / "some.bin"
    path.write_bytes(content)
    for end in (size, size // 2):
        assert file_sha256(path, end) == hashlib.sha256(content[:end]).hexdigest()
    assert file_sha256(path) == file_sha256(path, size)
