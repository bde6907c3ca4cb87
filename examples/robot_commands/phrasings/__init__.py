"""How people say it: the templates of every action, read from the text files of this folder.

A file holds one template a line. `== move forward ==` begins those of the action `move` in its variant
`forward`: a variant is what the words alone decide, such as a direction, an angle or a pronoun. Lines
that start with `#` are comments. A template that is written several times is drawn more often.

In a template, `[a|b]` is one of its options, `{go}` one of SYNONYMS, and any other `{slot}` is filled by
the module that draws the template. A leading `?` marks a sentence that is no imperative: it takes no
"could you" before it and is never part of a plan.
"""

from pathlib import Path

Templates = dict[str, list[str]]  # variant -> templates

SYNONYMS: dict[str, tuple[str, ...]] = {
    slot: tuple(options.split("|"))
    for slot, options in {
        "go": "go|go|move|drive|roll|head|travel|scoot|proceed",
        "spin": "turn|turn|turn|rotate|spin|pivot|swivel",
        "visit": "go|go|drive|head|move|travel|navigate|roll|walk",
        "seek": "find|find|locate|look for|search for|seek out|spot|track down|hunt for",
        "grab": "grab|pick up|pick up|take|lift|get|collect|fetch|grasp",
        "take": "grab|grab|take|lift|get|collect|fetch|grasp",
        "lay": "put|put|place|set|leave|drop|lay",
        "put": "put|put|place|set|leave|drop|lay|set down|put down",
        "on": "on|on|onto|on top of",
        "wait": "wait|wait|pause|hold|stay still|hold still|stand by",
        "people": "everyone|everybody|the family|the kids|them|people|the guests|all of them",
    }.items()
}


def read_templates(name: str) -> dict[str, Templates]:
    """Return action -> variant -> templates of one file of this folder, in its order."""
    found: dict[str, Templates] = {}
    templates: list[str] = []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            action, _, variant = line.strip("= ").partition(" ")
            templates = found.setdefault(action, {}).setdefault(variant, [])
        elif line and not line.startswith("#"):
            templates.append(line)
    return found


PHRASINGS = read_templates("driving.txt") | read_templates("handling.txt") | read_templates("company.txt")
REQUESTS = read_templates("requests.txt")["request"]
SPEECH = read_templates("speech.txt")["speech"]
