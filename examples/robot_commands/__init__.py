"""Instructions to a robot and the commands they mean: what the shipped checkpoint `rover` is trained on.

A prompt is what a person says, the completion is one line of compact JSON, valid under schema.json:

    drive forward two metres  ->  {"commands":[{"action":"move","direction":"forward","distance_m":2}]}

Everything is generated: `generate(split, count, seed)` yields the same examples on every machine, and the
first n of a longer run are the run of n. There are four splits.

train             Training templates, training nouns, training invented words.

plain             As train, but only the ten shortest templates of each kind, which are what people say most
                  and what too few examples of train say.

unseen_phrasings  At least one command of every example uses a template that training never sees: about 15 %
                  of each action's templates, chosen in CRC-32 order among those whose every word also occurs
                  in a training template of the same action. The phrasing is new, the words are not; objects
                  are those of train. Requests out of scope are split alike.

unseen_objects    Training templates, and in every example an object to find, pick or place. All nouns are set
                  aside (more than 80, none of them in train), and so are all invented words: a word is held
                  out when crc32(word) % 10 == 0, so the two sets of invented words cannot meet.

About 8 % of train and unseen_phrasings is out of scope, `{"commands":[]}`: chit-chat, questions, chores,
places the robot does not know, more than 10 m, 360 degrees or 600 s.

Where people leave something open, four conventions close it: "turn left" is a quarter turn; a turn around
without a side goes left (positive in ROS, REP 103); "it" is the object just found or picked up; a full stop
after unquoted speech ends the instruction and is not spoken.
"""

import json
from pathlib import Path
from typing import Any

from .compose import SPLITS, Example, generate

__all__ = ["SPLITS", "Example", "generate", "schema"]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the completions."""
    text = Path(__file__).with_name("schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
