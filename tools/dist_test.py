"""Build sdist and wheel, install each without extras into an environment of its own, and answer there.

    .venv/bin/python tools/dist_test.py FILE.onnx

FILE.onnx is an export of checkpoints/rover. Everything is written to runs/dist, which is emptied first.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "runs" / "dist"
VENV: Final = FOLDER / "venv"
PYTHON: Final = VENV / "bin" / "python"

PACKAGES: Final = {"edgegpt", "edgegpt_export"}
# For the workstation: the demonstration's data generator and the repository's tools.
NOT_IN_WHEEL: Final = ("robot_commands", "phrasings", "schemas")
INSTRUCTION: Final = "drive forward two metres"
ANSWER: Final = '{"commands":[{"action":"move","direction":"forward","distance_m":2}]}'
USE_AS_LIBRARY: Final = """
import sys
from importlib.util import find_spec
import edgegpt
extras = [name for name in ("torch", "onnx", "safetensors", "matplotlib") if find_spec(name)]
if extras:
    sys.exit(f"the runtime must not install {extras}")
print(edgegpt.load(sys.argv[1]).generate(sys.argv[2]).text)
"""


def main(model: Path) -> None:
    """Build, check the wheel's content, and use both distributions."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    step("Building sdist and wheel", sys.executable, "-m", "build", "--outdir", str(FOLDER), str(ROOT))
    (wheel,), (sdist,) = FOLDER.glob("*.whl"), FOLDER.glob("*.tar.gz")
    check_contents(wheel)
    for distribution in (wheel, sdist):
        step("Clean environment", sys.executable, "-m", "venv", "--clear", str(VENV))
        before = installed_bytes()
        pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install"]
        step(f"Installing {distribution.name}", *pip, "-c", str(ROOT / "constraints.txt"), str(distribution))
        use(model)
        print(
            f"{distribution.name}: {distribution.stat().st_size / 1e6:.2f} MB; "
            f"installed with what it needs: {(installed_bytes() - before) / 1e6:.0f} MB"
        )


def check_contents(wheel: Path) -> None:
    """Exit if the wheel holds more than the two packages, or a part of them that is not for users."""
    names = zipfile.ZipFile(wheel).namelist()
    wrong = {name.partition("/")[0] for name in names if ".dist-info/" not in name} - PACKAGES
    wrong |= {word for word in NOT_IN_WHEEL if any(word in name for name in names)}
    if wrong:
        sys.exit(f"{wheel.name} must not hold {', '.join(sorted(wrong))}")


def use(model: Path) -> None:
    """Exit if the installed runtime does not answer as rover does, from the command line and from Python."""
    command = str(VENV / "bin" / "edgegpt")
    if "7.77 MB" not in output(command, "info", str(model)):
        sys.exit(f"edgegpt info does not show the size of {model}")
    for way in ([command, "generate", str(model)], [str(PYTHON), "-c", USE_AS_LIBRARY, str(model)]):
        answer = output(*way, INSTRUCTION)
        if answer != ANSWER:
            sys.exit(f"{Path(way[0]).name} answered {answer!r}, expected {ANSWER!r}")


def output(*command: str) -> str:
    """Return what a command prints, run outside the repository; exit if it fails."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=FOLDER, env=environment())
    if result.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {result.returncode}")
    return result.stdout.strip()


def step(what: str, *command: str) -> None:
    """Run one step quietly, see tools/step; exit if it fails."""
    log = FOLDER / f"{what.split()[0].lower()}.log"
    quietly = [str(ROOT / "tools" / "step"), str(log), what]
    code = subprocess.run([*quietly, *command], env=environment()).returncode
    if code:
        sys.exit(code)


def environment() -> dict[str, str]:
    """Return this process's environment without variables that point Python to the repository."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def installed_bytes() -> int:
    """Return the size of all files in the clean environment."""
    return sum(path.lstat().st_size for path in VENV.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
