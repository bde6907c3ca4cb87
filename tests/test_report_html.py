"""The page of `edgegpt report` is one that needs nothing else and harms nobody."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.page_text import Seen, words
from helpers.sample_report import NAME, made_page, made_report

from edgegpt.report.html import page

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def html(file: Path) -> str:
    return made_page(file)


def test_names_from_elsewhere_are_text_and_never_markup(html: str) -> None:
    seen = Seen(html)
    assert not list(seen.named("script"))
    assert not list(seen.named("img"))
    assert "onerror" not in {name for _, attributes in seen.tags for name in attributes}
    text = words(html)
    assert NAME in text
    assert "<script>alert(2)</script>" in text


def test_the_page_asks_for_nothing(html: str) -> None:
    """Neither by what it holds nor by what its policy would let it ask for."""
    seen = Seen(html)
    for tag, attributes in seen.tags:
        assert tag not in ("link", "script", "iframe", "object", "embed", "base", "form"), tag
        for name in ("src", "srcset", "data", "poster", "action", "background", "ping"):
            assert name not in attributes, (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), attributes
    assert not re.findall(r"url\((?!['\"]?#)", html)
    assert "@import" not in html
    assert "http:" not in html
    assert "https:" not in html
    (policy,) = [m["content"] for m in seen.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_page_has_a_language_headings_and_headers(html: str) -> None:
    seen = Seen(html)
    assert next(seen.named("html"))["lang"] == "en"
    assert len(list(seen.named("h1"))) == 1
    assert len(list(seen.named("h2"))) >= 6
    assert not [tag for tag, _ in seen.tags if re.fullmatch("h[3-6]", tag)]  # no level is left out
    headers = list(seen.named("th"))
    assert {header.get("scope") for header in headers} == {"row", "col"}
    assert len(list(seen.named("table"))) == len(list(seen.named("caption")))
    pictures = [div for div in seen.named("div") if div.get("role") == "img"]
    assert len(pictures) == len(list(seen.named("svg"))) == 6
    assert all(len(picture["aria-label"] or "") > 60 for picture in pictures)


def test_no_two_things_of_the_page_have_one_id(html: str) -> None:
    ids = [attributes["id"] for _, attributes in Seen(html).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'(?:href="|url\()#([^")]+)', html):
        assert reference in ids


def test_the_colours_of_the_pictures_are_the_pages(html: str) -> None:
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.findall(r"(?:fill|stroke): #", pictures)
    declared = set(re.findall(r"(--[a-z]+):", html))
    assert set(re.findall(r"var\((--[a-z]+)\)", html)) <= declared


def test_the_same_report_gives_the_same_page(file: Path) -> None:
    assert page(made_report(file)) == page(made_report(file))


def test_the_users_own_style_of_pictures_is_not_the_pages(file: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text(
        "text.usetex: True\naxes.facecolor: black\ntext.color: white\nfont.size: 30\nlines.linewidth: 9\n"
    )
    script = (
        "import sys, pathlib\n"
        "from made_report import made_report\n"
        "from edgegpt.report.html import page\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "print(page(made_report(pathlib.Path(sys.argv[1]))), end='')"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(file)],
        env={
            **os.environ,
            "MATPLOTLIBRC": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout == page(made_report(file))


def test_a_name_with_dollars_is_no_formula(file: Path) -> None:
    report = made_report(file)
    odd = replace(report, facts=replace(report.facts, precision=r"$\frac$"))
    assert r"$\frac$" in words(page(odd))


def test_a_name_cannot_turn_the_text_around_it(file: Path) -> None:
    turned = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.onnx"
    report = made_report(file)
    html = page(replace(report, facts=replace(report.facts, path=Path(turned))))
    _, body = html.split("</head>")
    outside = re.sub(r"<bdi.*?</bdi>|<pre>.*?</pre>", "", body, flags=re.DOTALL)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in outside
