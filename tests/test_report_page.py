"""The page of `edgegpt report` in a browser: on a desk, on a phone, in the dark and on paper."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from helpers.browser import DARK, LIGHT, ask, chromium, needs, printed, screenshot
from helpers.page_text import words
from helpers.sample_report import MACHINE, made_bench, made_check, made_report
from helpers.sample_target import TARGET
from PIL import Image

from edgegpt.budget.budget import Board, Budget, FirstTokenLatency
from edgegpt.budget.verdict import Estimate
from edgegpt.cli.main import main
from edgegpt.report.html import page as html_of, times
from edgegpt.runtime.evidence import CheckResult
from edgegpt_export import export_checkpoint

pytestmark = pytest.mark.slow

PHONE, DESK = 375, 1280
HARD = "W" * 45  # the widest letter, and nowhere to break it
# Hosts that chromium asks on its own account, for the time, updates and experiments; fonts, scripts and
# pictures of a page come from others, of the same maker too.
CHROMIUMS_OWN = {
    "accounts.google.com",
    "clients2.google.com",
    "clientservices.googleapis.com",
    "optimizationguide-pa.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "safebrowsingohttpgateway.googleapis.com",
    "update.googleapis.com",
}
NAME = "<b>tiny</b> & co, of a team with rather long_file_names.onnx"
BUDGET = """
name: my-robot
parameters: 5e6
artifact_mb: 8
kv_cache_mb: 8
peak_rss_mb: 1e4
load_ms: 1e6
idle_cpu_percent: 1e6
threads: 1
"""

OVERFLOW = """(page, window) => ({
  scrolls: page.documentElement.scrollWidth - window.innerWidth,
  beyond: [...page.querySelectorAll("body *")]
    .filter(element => element.getBoundingClientRect().right > window.innerWidth + 1)
    .map(element => element.tagName + " " + element.textContent.trim().slice(0, 40)),
})"""

PICTURES = """(page, window) => [...page.querySelectorAll("figure svg")].map(picture => {
  const box = picture.getBoundingClientRect();
  const letters = [...picture.querySelectorAll("text")].map(text => text.getBoundingClientRect().height);
  return {x: box.x, y: box.y, width: box.width, height: box.height, text: Math.min(...letters),
    page: page.documentElement.scrollHeight};
})"""

# Contrast by WCAG 2.2, 1.4.3, of every text against the nearest background behind it.
CONTRAST = """(page, window) => {
  const channels = colour => colour.match(/[0-9.]+/g).map(Number);
  const linear = c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = channels(colour).map(c => linear(c / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = window.getComputedStyle(element).backgroundColor;
      if (channels(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT), found = [];
  for (let node; node = walker.nextNode();) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.getClientRects().length) continue;
    const style = window.getComputedStyle(element);
    const a = light(element.closest("svg") ? style.fill : style.color), b = light(behind(element));
    found.push([(Math.max(a, b) + .05) / (Math.min(a, b) + .05), node.textContent.trim().slice(0, 40)]);
  }
  return {texts: found.length, worst: found.sort((a, b) => a[0] - b[0])[0]};
}"""

MINIMUM_CONTRAST = 4.5  # of text, level AA


@pytest.fixture(scope="module", autouse=True)
def browser() -> None:
    needs("chromium", "pdftotext")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, browser: None) -> Path:
    """A page as a user gets it: everything is measured."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "robot.yaml").write_text(BUDGET)
    export_checkpoint(tiny_checkpoint, folder / NAME.replace("/", "∕"), precision="int8")
    arguments = ["--out", str(folder / "report.html"), "--seconds", "0"]
    file = str(folder / NAME.replace("/", "∕"))
    assert main(["report", file, *arguments, "--budget", str(folder / "robot.yaml")]) == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def page(report: Path) -> str:
    return report.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_nothing_reaches_beyond_the_screen(page: str, tmp_path: Path, width: int) -> None:
    assert ask(page, OVERFLOW, width=width, folder=tmp_path) == {"scrolls": 0, "beyond": []}


@pytest.mark.parametrize("width", [320, PHONE])
def test_names_without_a_place_to_break_them_stay_on_a_phone(
    tiny_checkpoint: Path, tmp_path: Path, width: int
) -> None:
    file = tmp_path / f"{HARD}.onnx"
    export_checkpoint(tiny_checkpoint, file)
    budget = Budget(
        name=HARD, artifact_mb=0.1, ttft_ms=FirstTokenLatency(p50=1.0), board=Board(description=HARD)
    )
    held = made_check(file, budget, {"artifact_mb": Estimate.exact(0.25), "ttft_ms.p50": None})
    silicon = replace(MACHINE, cpu=HARD, system=HARD, versions={**MACHINE.versions, HARD: HARD})
    target = TARGET.model_copy(update={"name": HARD})
    report = made_report(file, checked=held, bench=made_bench(file, machine=silicon), target=target)
    evidence = replace(report.evidence, checks=(*report.evidence.checks, CheckResult(HARD, 0.0, 1.0, "")))
    hard = replace(
        report,
        facts=replace(report.facts, data_file=HARD, data_sha256="d" * 64, tool=HARD, weights_sha256=HARD),
        evidence=evidence,
    )
    found = ask(html_of(hard), OVERFLOW, width=width, folder=tmp_path)
    assert found == {"scrolls": 0, "beyond": []}


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_every_text_can_be_read_by_day_and_by_night(page: str, tmp_path: Path, scheme: int) -> None:
    found = ask(page, CONTRAST, width=DESK, folder=tmp_path, scheme=scheme)
    assert found["texts"] > 300
    contrast, text = found["worst"]
    assert contrast >= MINIMUM_CONTRAST, text


def test_day_and_night_differ(page: str, tmp_path: Path) -> None:
    background = "(page, window) => window.getComputedStyle(page.body).backgroundColor"
    by_day, by_night = (
        ask(page, background, width=DESK, folder=tmp_path, scheme=scheme) for scheme in (LIGHT, DARK)
    )
    assert by_day == "rgb(255, 255, 255)"
    assert by_night != by_day


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, LIGHT), (DESK, LIGHT), (DESK, DARK)])
def test_the_pictures_are_drawn(page: str, tmp_path: Path, width: int, scheme: int) -> None:
    pictures: list[dict[str, Any]] = ask(page, PICTURES, width=width, folder=tmp_path)
    assert len(pictures) == 6
    height = int(pictures[0]["page"])
    shot = Image.open(
        screenshot(page, tmp_path / "page.png", width=width, height=height, scheme=scheme)
    ).convert("RGB")
    assert shot.size == (width, height)
    for picture in pictures:
        assert picture["text"] >= 9, "letters of at least 9 pixels, ascenders and all"
        x, y = picture["x"], picture["y"]
        pixels = np.asarray(shot.crop((x, y, x + picture["width"], y + picture["height"])))
        background = pixels[0, 0]
        drawn = (np.abs(pixels.astype(int) - background).max(axis=2) > 40).mean()
        assert 0.01 < drawn < 0.7
        coloured = (pixels.max(axis=2).astype(int) - pixels.min(axis=2)) > 60  # neither ink nor grid
        assert coloured.mean() > 0.001


def test_it_prints_on_a_few_whole_pages(report: Path, tmp_path: Path) -> None:
    sheets = printed(report, tmp_path / "report.pdf")
    assert 4 <= len(sheets) <= 8
    assert all(len(sheet.split()) > 20 for sheet in sheets)
    assert "<b>tiny" in sheets[0]
    assert "Passed" in sheets[0]


def test_no_short_table_is_cut_by_the_end_of_a_sheet(report: Path, tmp_path: Path) -> None:
    sheets = printed(report, tmp_path / "report.pdf")
    for first, last in (
        ("against my-robot", "fresh processes"),
        ("Parity: PyTorch against the file", "limit"),
        ("Causality, cache and contents", "batch = singles"),
        ("Repeated for this page", "determinism"),
        ("This file, by component", "graph, tokenizer"),
        ("Precision recipe", "mlp.proj"),
        ("Work and traffic", "prompt of 47"),
    ):
        (sheet,) = [sheet for sheet in sheets if first in sheet]
        assert last in sheet[sheet.index(first) :], first


def test_the_browser_sends_no_request(report: Path, tmp_path: Path) -> None:
    """All that would leave goes to a proxy here; a page that does ask shows that it would."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if urlsplit(self.path if "//" in self.path else f"//{self.path}").hostname not in CHROMIUMS_OWN:
                asked.append(self.path)
            self.send_error(404)

        do_CONNECT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxy = f"--proxy-server=127.0.0.1:{server.server_address[1]}"
    try:
        talkative = tmp_path / "talkative.html"
        wanted = ("http://example.invalid/a.png", "http://fonts.googleapis.com/css?family=Roboto")
        talkative.write_text("".join(f'<img src="{url}">' for url in wanted) + "<p>there</p>")
        assert "there" in chromium(proxy, "--dump-dom", talkative.as_uri())
        assert set(wanted) <= set(asked)
        asked.clear()
        assert "How to reproduce it" in chromium(proxy, "--dump-dom", report.as_uri())
        assert asked == []
    finally:
        server.shutdown()
        server.server_close()


def test_the_policy_stops_what_a_name_might_bring(page: str, tmp_path: Path) -> None:
    """A second lock behind the escaping."""
    evil = page.replace("<main>", "<main><script>document.title = 'taken'</script>")
    assert ask(evil, "(page, window) => page.title", width=DESK, folder=tmp_path).startswith("<b>tiny")


def test_json_and_page_are_of_the_same_measurement(
    report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = report.parent.glob("*.onnx")
    out = tmp_path / "again.htm"
    assert main(["report", str(file), "--out", str(out), "--seconds", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is True
    assert document["budget"] is None
    text = out.read_text(encoding="utf-8")
    assert document["file"]["sha256"] in text
    said = words(text)
    for name in ("token_ms", "first_token_ms"):
        rows = document["bench"][name]
        least = min(row["p50"] for row in rows)
        for row in rows:
            n, (low, high) = row.get("cache_fill", row.get("prompt_tokens")), row["p50_interval"]
            interval = f"{times(low, least)} to {'?' if high is None else times(high, least)}"
            p50, p90, p99, most = (times(row[figure], least) for figure in ("p50", "p90", "p99", "max"))
            assert f" {n} {p50} {interval} {p90} {p99} {most} {row['jitter']:.2f} " in said, row
