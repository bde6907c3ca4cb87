"""Draw docs/figures/rooms.svg: the rooms of `edgegpt/`, floor above floor.

python tools/docs/rooms_figure.py
"""

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rooms import Room, rooms

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "docs" / "figures" / "rooms.svg"

_WIDTH: Final = 1000
_BOX: Final = 54  # height
_GAP: Final = 10
_PER_ROW: Final = 4
_COLUMN: Final = (_WIDTH - 40 - _GAP * (_PER_ROW - 1)) / _PER_ROW
_COLOURS: Final = {  # by the packages that a room needs
    "robot": ("#d9ead8", "#2e6b34", "robot: numpy and onnxruntime"),
    "tools": ("#dbe6f4", "#2b5387", "tools: measure, plan, report"),
    "torch": ("#f6e3d3", "#8a4b17", "workstation: torch"),
    "plain": ("#e9e9ec", "#44474f", "plain Python, used by all"),
}
_KIND: Final = {
    **dict.fromkeys(("runtime", "serving"), "robot"),
    **dict.fromkeys(("model", "training"), "torch"),
    **dict.fromkeys(("errors", "contract", "files", "system", "tokenizer", "config", "examples"), "plain"),
    **dict.fromkeys(("quantization", "accounting"), "plain"),
}


def figure(found: list[Room]) -> str:
    """Return the picture as SVG text."""
    y, parts = 52, [_legend()]
    for floor in sorted({room.floor for room in found}, reverse=True):
        on_floor = [room for room in found if room.floor == floor]
        for start in range(0, len(on_floor), _PER_ROW):
            row = on_floor[start : start + _PER_ROW]
            parts += [_box(room, 20 + n * (_COLUMN + _GAP), y) for n, room in enumerate(row)]
            y += _BOX + _GAP
        parts.append(
            f'<line x1="20" x2="{_WIDTH - 20}" y1="{y}" y2="{y}" stroke="#c3c7cf" stroke-dasharray="2 4"/>'
        )
        y += _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        "<title>Rooms of edgegpt: each imports only rooms of the floors below it</title>\n"
        f'<rect width="{_WIDTH}" height="{y}" rx="10" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts[:-1], "</svg>", ""])


def _legend() -> str:
    x, parts = 20, []
    for fill, ink, text in _COLOURS.values():
        parts.append(
            f'<rect x="{x}" y="18" width="14" height="14" rx="3" fill="{fill}" stroke="{ink}"/>'
            f'<text x="{x + 20}" y="30" fill="#44474f" font-size="12">{escape(text)}</text>'
        )
        x += 250
    return "\n".join(parts)


def _box(room: Room, x: float, y: float) -> str:
    fill, ink, _ = _COLOURS[_KIND.get(room.name, "tools")]
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{_COLUMN:.0f}" height="{_BOX}" rx="6" fill="{fill}"/>'
        f'<text x="{x + 12:.0f}" y="{y + 22}" fill="{ink}" font-weight="600">{escape(room.name)}</text>'
        f'<text x="{x + 12:.0f}" y="{y + 41}" fill="#3a3d44" font-size="11">{escape(room.duty)}</text>'
    )


if __name__ == "__main__":
    OUT.write_text(figure(rooms(ROOT / "edgegpt")), encoding="utf-8")
