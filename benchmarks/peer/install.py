"""Make .venv-peers: edgegpt with its exporter, and every peer that can be installed.

    python3 benchmarks/peer/install.py [--torch-index URL]

A peer that cannot be installed is reported in one sentence and left out. llama-cpp-python has no wheel: it
is compiled for this processor, which takes about eight minutes on one core and needs a C++ compiler; the
others need only pip. A second run takes seconds.
"""

import argparse
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-peers"
PINS = [ROOT / "constraints.txt", ROOT / "constraints-peers.txt"]
PEERS = ["onnxruntime-genai", "ctranslate2", "openvino", "gguf", "llama-cpp-python"]
TOOLS = ["transformers", "matplotlib"]  # transformers is also a peer; matplotlib draws the pictures

_CMAKE = "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-index", metavar="URL", help="index with CPU builds of torch")
    arguments = parser.parse_args()
    if not (VENV / "bin" / "python").exists():
        venv.create(VENV, with_pip=True)
    index = ["--index-url", arguments.torch_index] if arguments.torch_index else []
    for packages in ([pinned("torch", PINS[0].read_text()), *index], ["-e", f"{ROOT}[export]", *TOOLS]):
        if not pip_install(packages):
            sys.exit(f"{VENV.name} is not set up: pip install {' '.join(packages)} failed, see above")
    for peer in PEERS:
        if not pip_install([peer]):
            log(f"{peer} is left out: pip could not install it, see above")


def pinned(package: str, constraints: str) -> str:
    """Add the version in the constraints, if there is one: `torch` -> `torch==2.13.0`."""
    found = re.search(rf"^{re.escape(package)}==[^\s;]+", constraints, re.MULTILINE)
    return found[0] if found else package


def pip_install(packages: list[str]) -> bool:
    """Install packages under the constraints; return whether that worked."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    pins = [argument for path in PINS for argument in ("-c", str(path))]
    log(f"installing {' '.join(packages)}")
    environment = {**os.environ, "CMAKE_ARGS": f"{_CMAKE} {os.environ.get('CMAKE_ARGS', '')}".strip()}
    return subprocess.run([*command, *pins, *packages], env=environment).returncode == 0


def log(sentence: str) -> None:
    """Print to stderr, before the output of pip."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
