"""Make .venv-peers: edgegpt with its exporter, and each peer that can be installed.

    python3 benchmarks/peer/install.py [--torch-index URL]

A peer that cannot be installed is said in one sentence and left out. llama-cpp-python has no wheel: it is
compiled for this processor, which takes about eight minutes on one core and needs a C++ compiler; the
others need nothing but pip. Run again, it takes seconds.
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
TOOLS = ["transformers", "matplotlib"]  # the twin of the weights, and the pictures

_CMAKE = "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-index", metavar="URL", help="index with CPU builds of torch")
    arguments = parser.parse_args()
    if not (VENV / "bin" / "python").exists():
        venv.create(VENV, with_pip=True)
    index = ["--index-url", arguments.torch_index] if arguments.torch_index else []
    base = [pinned("torch", PINS[0].read_text()), *index], ["-e", f"{ROOT}[export]", *TOOLS]
    for words in base:
        if not pip(words):
            sys.exit(f"{VENV.name} is not set up: pip install {' '.join(words)} failed, see above")
    for peer in PEERS:
        if not pip([peer]):
            say(f"{peer} is left out: pip could not install it, see above")


def pinned(package: str, constraints: str) -> str:
    """`torch` -> `torch==2.13.0`, as the constraints say."""
    found = re.search(rf"^{re.escape(package)}==[^\s;]+", constraints, re.MULTILINE)
    return found[0] if found else package


def pip(words: list[str]) -> bool:
    """Install under the constraints; whether it worked."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    pins = [word for path in PINS for word in ("-c", str(path))]
    say(f"installing {' '.join(words)}")
    environment = {**os.environ, "CMAKE_ARGS": f"{_CMAKE} {os.environ.get('CMAKE_ARGS', '')}".strip()}
    return subprocess.run([*command, *pins, *words], env=environment).returncode == 0


def say(sentence: str) -> None:
    """Print to where errors go, ahead of what pip prints."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
