# ruff: noqa: E501  (a template is one line)
"""What the robot is asked to say: a small grammar of everyday sentences, with real and invented words.

A fact follows "tell everyone that"; any text follows "say"; between quotes there may be capitals, punctuation and even
words that look like commands, all to be repeated letter by letter.
"""

from random import Random
from typing import Any

from .choose import listed, pick
from .vocabulary import NOUNS, invent
from .templates import lines, parse, render

LONGEST = 60

FACTS = [
    parse(line)
    for line in lines("""
[dinner|lunch|breakfast|supper|tea|the food|the soup|the cake] is [ready|on the table|served|getting cold|almost ready|nearly done]
the {noun} is [broken|missing|ready|here|empty|full|dirty|clean|gone|lost|hot|on fire|out of reach]
the {noun} is [on|under|behind|near|next to] the {noun}
the {noun} and the {noun} are [missing|ready|here|gone]
[i|we] [found|lost|dropped|need|want|like|broke|cannot find|cannot reach] the {noun}
[the meeting|the movie|the show|the game|class|the party|the call|bedtime|{word}] [starts|begins|ends] [at {clock}|in {count} minutes|soon|tomorrow]
[it is|it's] [time to go|time for bed|getting late|raining|snowing|cold outside|very hot today|{clock}|your turn|my birthday]
[the door|the window|the gate|the fridge|the oven|the light|the tv] is [open|closed|still on|still open|locked|unlocked|off]
[the guests|the kids|your parents|the neighbours|our friends|the plumber|{word} and {word}] [are here|have arrived|are waiting|will be late|called]
[the doctor|the postman|the teacher|the boss|grandma|grandpa|mom|dad|{word}] [is here|has arrived|is waiting|will be late|called|is at the door]
[the taxi|the bus|the package|the parcel|the pizza|the delivery|the mail] is [here|late|at the door|on its way]
[my|the|your] battery is [low|full|almost empty|at {count} percent]
[i am|i'm|we are] [on my way|in the kitchen|ready|busy|lost|back|stuck|tired|hungry|here|leaving|almost done|in the office|called {word}]
[the code|the password|the room number|the answer|the score|the flight number] is [{code}|{word}|{count}]
[school|work|the shop|the office|the library] is [closed today|open today|closing soon|open until {clock}]
[you|they|we|all of us] [should|must|can|will|need to] [hurry up|come here|wait outside|be quiet|go home|leave now|eat now|look at the {noun}]
[nobody|everyone|somebody|no one] is [home|here|in the garage|outside|upstairs|at the door]
there is [a {noun}|a {word}|water|a problem|a spill|milk|smoke|somebody] [on the floor|in the kitchen|in the hallway|at the door|outside|here]
[{word}|the {word}] is [here|ready|broken|very {adjective}|out of {word}|a {noun}|{adjective} and {adjective}]
[{word}|mister {word}|doctor {word}] [wants|needs|likes|has|lost] [a|the|that] [{noun}|{word}]
the {adjective} {noun} is [mine|yours|for {word}|for sale|ready|broken]
""")
]

GREETINGS = [
    parse(line)
    for line in lines("""
hello
hello there
hi
hi there
good [morning|evening|afternoon|night]
good [morning|evening|night] {word}
[hello|hi|welcome|goodbye|bye|thank you|sorry|congratulations] {word}
[goodbye|bye bye|see you later|see you soon|see you tomorrow|so long]
[welcome home|welcome back|welcome to the party|nice to meet you|happy birthday|merry christmas|happy new year]
[thank you|thanks a lot|thank you so much|you are welcome|no problem|excuse me|well done|good job|good luck]
[i am a robot|i am rover|my name is rover|my name is {word}|i love robots|i like you|how are you|how do you do]
[happy birthday|good luck|well done|get well soon|thank you|good night|welcome back] [{word}|{word} and {word}]
[ready or not here i come|one two three|once upon a time|abracadabra|cheese|yes|no|maybe|okay|oops|hooray|wow|boo]
{word}
{word} {word}
{word} {word} {word}
{word} {noun} {word}
{noun}
{noun} {noun}
{adjective} {noun}
{adjective} {word}
the {adjective} {noun}
the {noun} {word} the {adjective} {word}
{code}
""")
]

COMMAND_LIKE = [
    parse(line)
    for line in lines("""
[turn|look] [left|right]
turn [left|right] {degrees} degrees
go to the [kitchen|bedroom|office|garage|bathroom|hallway|living room]
go [forward|back|away|home]
drive [forward|back] {count} metres
pick up the {noun}
find the {noun}
put the {noun} on the {noun}
please [stop|wait|wait here|follow me|move|step aside|come in|sit down]
[stop|wait|follow me|stop right there|wait {count} seconds]
""")
]

QUESTIONS = [
    parse(line)
    for line in lines("""
[where|how|who|what] is [the {noun}|{word}|my {noun}]
[are you|is everyone|is anybody] [okay|ready|hungry|home|there|coming|awake]
[do you|does anyone] [need|want|like|have] [help|a {noun}|some tea|the {noun}|a {word}]
can i [help you|come in|have the {noun}]
who [wants|has|took|lost] [the {noun}|a {noun}|my {word}|dinner]
what time is it
where is everybody
""")
]

TIMES = (
    *[f"{hour} o'clock" for hour in listed("one two three five six seven nine ten")],
    "7 pm",
    "8 am",
    "5 pm",
    "10 am",
    "half past six",
    "half past two",
    "noon",
    "midnight",
)
ADJECTIVES = listed(
    "red blue green yellow big small old new happy funny strange nice clever brave quick slow wooden shiny"
)
COUNTS = listed("two three four five six seven eight ten twelve fifteen twenty 2 3 5 10 15 20 30 45 50")
DEGREES = ("30", "45", "60", "90", "120", "180", "270", "thirty", "forty five", "ninety")


class Words:
    """Looks like a dict to render(): each slot is drawn when it is asked for, so {word} {word} are two words."""

    def __init__(self, rng: Random, unseen: bool):
        self.rng, self.unseen = rng, unseen

    def __getitem__(self, slot: str) -> str:
        rng = self.rng
        if slot == "noun":
            return pick(rng, NOUNS[self.unseen])[0] if rng.random() < 0.75 else invent(rng, self.unseen)
        if slot == "word":
            return invent(rng, self.unseen)
        if slot == "adjective":
            return pick(rng, ADJECTIVES)
        if slot == "clock":
            return pick(rng, TIMES)
        if slot == "count":
            return pick(rng, COUNTS)
        if slot == "degrees":
            return pick(rng, DEGREES)
        return (
            str(int(rng.random() * 9000) + 1000) if rng.random() < 0.5 else str(int(rng.random() * 990) + 10)
        )


def draw(rng: Random, grammar: list[Any], unseen: bool, longest: int = LONGEST) -> str:
    """A sentence of the grammar, at most so long."""
    words = Words(rng, unseen)
    while True:
        text = render(pick(rng, grammar), words, rng)
        if len(text) <= longest:
            return text


def fact(rng: Random, unseen: bool) -> tuple[Any, ...]:
    """(the text, the text as it is written), here the same"""
    return (draw(rng, FACTS, unseen),) * 2


def text(rng: Random, unseen: bool) -> tuple[Any, ...]:
    """The same for anything one may say."""
    return (draw(rng, FACTS if rng.random() < 0.4 else GREETINGS, unseen),) * 2


def quote(rng: Random, unseen: bool) -> tuple[Any, ...]:
    """(the text, the text in its quotes)"""
    kind = rng.random()
    grammar = FACTS if kind < 0.4 else GREETINGS if kind < 0.78 else QUESTIONS if kind < 0.9 else COMMAND_LIKE
    said = draw(rng, grammar, unseen, LONGEST - 12)
    if rng.random() < 0.12 and grammar is not QUESTIONS:
        greeting = pick(rng, ("hello", "hi", "attention", "sorry", "excuse me", "okay", "hey"))
        said = f"{greeting}, {said}"
    if rng.random() < 0.45:
        said = said[0].upper() + said[1:]
    if grammar is QUESTIONS:
        said += "?" if rng.random() < 0.7 else ""
    elif rng.random() < 0.35:
        said += pick(rng, (".", ".", "!"))
    if "'" in said or rng.random() < 0.6:
        return said, f'"{said}"'
    return said, f"'{said}'"
