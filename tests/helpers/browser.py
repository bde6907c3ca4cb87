"""Debian's chromium by its command line: what a page looks like, on a screen and on paper."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--proxy-server=127.0.0.1:9",  # nothing listens there: a test sends nothing to anybody
)
DARK, LIGHT = 0, 1  # blink's preferredColorScheme

# A page has no scripts of its own, so what is asked of it is asked from a page around it.
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;display:block}</style>
<iframe id="page" width="%d" height="%d" srcdoc="%s"></iframe>
<script>document.getElementById("page").onload = event => {
  const page = event.target.contentDocument;
  const found = (%s)(page, event.target.contentWindow);
  document.body.setAttribute("data-found", JSON.stringify(found));
};</script>"""


def needs(*programs: str) -> None:
    """Skip the module where a program is missing; in CI nothing may be left out."""
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    sentence = (
        f"a browser test needs {' and '.join(missing)}; on Debian: apt-get install chromium poppler-utils"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


def chromium(*arguments: str) -> str:
    """Run it with a profile of its own and return what it prints."""
    with tempfile.TemporaryDirectory() as profile:
        run = subprocess.run(
            ["chromium", *FLAGS, f"--user-data-dir={profile}", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return run.stdout


def ask(page: str, script: str, *, width: int, folder: Path, scheme: int = LIGHT, height: int = 1000) -> Any:
    """What a JavaScript function of (document, window) returns for the page at this width."""
    wrapper = folder / "wrapper.html"
    wrapper.write_text(WRAPPER % (width, height, html.escape(page, quote=True), script), encoding="utf-8")
    dom = chromium(
        f"--window-size={max(width, 800)},{height}",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        wrapper.as_uri(),
    )
    (found,) = re.findall(r'data-found="([^"]*)"', dom)
    return json.loads(html.unescape(found))


def screenshot(page: str, out: Path, *, width: int, height: int, scheme: int = LIGHT) -> Path:
    """The page at this width, in a frame: a window of chromium has a least width, a frame has none."""
    wrapper = out.with_suffix(".html")
    wrapper.write_text(WRAPPER % (width, height, html.escape(page, quote=True), "() => 0"), encoding="utf-8")
    chromium(
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={out}",
        wrapper.as_uri(),
    )
    return out


def printed(page: Path, out: Path) -> list[str]:
    """The text of each page of what chromium prints."""
    chromium("--no-pdf-header-footer", f"--print-to-pdf={out}", page.as_uri())
    run = subprocess.run(["pdftotext", "-layout", str(out), "-"], capture_output=True, text=True, check=True)
    return run.stdout.split("\f")[:-1]
