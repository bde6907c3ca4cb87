"""Distances, angles and times: how a person may write them, and the number that the robot gets.

Distances are counted in hundredths of a metre and times in hundredths of a second, so that nothing is
rounded twice; JSON gets an int when the value is whole.
"""

from random import Random
from typing import NamedTuple

from .templates import choose, split_words


class Quantity(NamedTuple):
    """A distance in metres or a time in seconds."""

    text: str
    value: int | float


class Angle(NamedTuple):
    """An angle, in the two forms that templates need."""

    text: str  # after a verb: "90 degrees"
    before_noun: str  # before "turn": "90 degree"
    degrees: int


ONES = split_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = split_words("_ _ twenty thirty forty fifty sixty seventy eighty ninety")

EVERYDAY_METRES = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 7, 8, 9, 10)
EVERYDAY_ANGLES = (90, 90, 90, 90, 45, 45, 45, 180, 180, 30, 30, 60, 60, 120, 135, 270, 360, 15, 10, 20, 75)
EVERYDAY_SECONDS = (
    *(1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 10, 10),
    *(12, 15, 15, 20, 20, 25, 30, 30, 40, 45, 50, 60),
)


def in_words(n: int, sep: str = " ", hundred: str = "one hundred", conjunction: str = " and ") -> str:
    """Return a number up to 9999 in words: 35 -> "thirty five", 120 -> "one hundred and twenty"."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (sep + ONES[n % 10] if n % 10 else "")
    if n < 1000:
        head = hundred if n < 200 else ONES[n // 100] + " hundred"
        return head + (conjunction + in_words(n % 100, sep) if n % 100 else "")
    head = ONES[n // 1000] + " thousand"
    rest = n % 1000
    if not rest:
        return head
    return head + (conjunction if rest < 100 else " ") + in_words(rest, sep, hundred, conjunction)


# 0 to 1000 in the usual spellings of numbers in words, as tables for speed.
SPELLINGS = tuple(
    tuple(in_words(n, sep, hundred, conjunction) for n in range(1001))
    for sep, hundred, conjunction in (
        (" ", "a hundred", " and "),
        ("-", "a hundred", " and "),
        (" ", "one hundred", " and "),
        ("-", "one hundred", " "),
        (" ", "one hundred", " "),
    )
)


def spelled(rng: Random, n: int) -> str:
    """Return a whole number in words, in one of the usual spellings."""
    return choose(rng, SPELLINGS)[n] if n <= 1000 else in_words(n)


def decimal_digits(hundredths: int) -> str:
    """Return hundredths as a decimal number: 250 -> "2.5", 205 -> "2.05", 200 -> "2"."""
    whole, part = divmod(hundredths, 100)
    return f"{whole}.{part:02d}".rstrip("0").rstrip(".")


def decimal_words(hundredths: int) -> str:
    """Return hundredths as a decimal number in words: 250 -> "two point five"."""
    whole, _, part = decimal_digits(hundredths).partition(".")
    spoken = in_words(int(whole))
    return spoken + " point " + " ".join(ONES[int(d)] for d in part) if part else spoken


def number(hundredths: int) -> int | float:
    """Return hundredths as the number for JSON, an int when it is whole."""
    return hundredths // 100 if hundredths % 100 == 0 else hundredths / 100


def feet_to_hundredths(half_feet: int) -> int:
    """Return half feet in hundredths of a metre, rounded; 1 ft = 0.3048 m, and no half foot is a tie."""
    return (half_feet * 1524 + 50) // 100


Names = tuple[tuple[str, str], ...]  # singular and plural of a unit, one pair for each spelling

METRE = (("metre", "metres"), ("meter", "meters"))
CENTIMETRE = (("centimetre", "centimetres"), ("centimeter", "centimeters"))
FOOT = (("foot", "feet"),)
SECOND = (("second", "seconds"), ("second", "seconds"), ("sec", "secs"))
MINUTE = (("minute", "minutes"), ("minute", "minutes"), ("min", "mins"))


def fraction_words(rng: Random, hundredths: int, one: str, many: str, article: str = "a") -> str:
    """Return quarters with their unit in words: 250 -> "two and a half metres"."""
    whole, part = divmod(hundredths, 100)
    if part == 0:
        if whole == 1 and rng.random() < 0.5:
            return f"{article} {one}"
        if whole == 2 and rng.random() < 0.25:
            return f"a couple of {many}"
        return f"{spelled(rng, whole)} {one if whole == 1 else many}"
    if whole == 0:
        return {
            50: f"half {article} {one}",
            25: f"a quarter of {article} {one}",
            75: f"three quarters of {article} {one}",
        }[part]
    tail = {50: "a half", 25: "a quarter", 75: "three quarters"}[part]
    if whole == 1 and rng.random() < 0.4:
        return f"{article} {one} and {tail}"
    return f"{spelled(rng, whole)} and {tail} {many}"


def with_unit(rng: Random, hundredths: int, names: Names, short: str) -> str:
    """Return a number with its unit, in one of many ways: "2.5 m", "2.5m", "two and a half meters"."""
    one, many = choose(rng, names)
    form = rng.random()
    if form < 0.38:
        if hundredths % 25 == 0 and rng.random() < 0.8:
            return fraction_words(rng, hundredths, one, many)
        return f"{decimal_words(hundredths)} {one if hundredths == 100 else many}"
    digits = decimal_digits(hundredths)
    if form < 0.72 or not short:
        return f"{digits} {one if hundredths == 100 else many}"
    return f"{digits} {short}" if form < 0.86 else digits + short


def metres(rng: Random) -> int:
    """Draw hundredths of a metre from 1 to 1000, everyday ones more often."""
    kind = rng.random()
    if kind < 0.46:
        return 100 * choose(rng, EVERYDAY_METRES)
    if kind < 0.66:
        return 50 + 100 * int(rng.random() ** 1.5 * 10)
    if kind < 0.74:
        return choose(rng, (25, 75)) + 100 * int(rng.random() ** 2 * 10)
    if kind < 0.92:
        return 10 * (1 + int(rng.random() * 99))
    return 1 + int(rng.random() * 1000)


def centimetres(rng: Random) -> int:
    """Draw centimetres from 1 to 1000, everyday ones more often."""
    kind = rng.random()
    if kind < 0.5:
        return 10 * (1 + int(rng.random() * 10))
    if kind < 0.72:
        return 5 * (1 + int(rng.random() * 60))
    if kind < 0.9:
        return 1 + int(rng.random() * 100)
    return 1 + int(rng.random() * 1000)


def distance(rng: Random) -> Quantity:
    """Draw a distance up to 10 m, in metres, centimetres or feet."""
    unit = rng.random()
    if unit < 0.66:
        value = metres(rng)
        return Quantity(with_unit(rng, value, METRE, "m"), number(value))
    if unit < 0.85:
        return in_centimetres(rng)
    if rng.random() < 0.7:
        half_feet = 2 * (1 + int(rng.random() ** 2 * 32))
    else:
        half_feet = 1 + int(rng.random() ** 1.5 * 64)
    return Quantity(with_unit(rng, half_feet * 50, FOOT, "ft"), number(feet_to_hundredths(half_feet)))


def in_centimetres(rng: Random) -> Quantity:
    """Draw a distance in centimetres, mostly in digits: in words a number beyond a hundred is long."""
    value = centimetres(rng)
    if value > 1 and rng.random() >= 0.75:
        return Quantity(f"{spelled(rng, value)} {choose(rng, CENTIMETRE)[1]}", number(value))
    one, many = choose(rng, CENTIMETRE)
    form = rng.random()
    if form < 0.45:
        text = f"{value} {one if value == 1 else many}"
    else:
        text = f"{value} cm" if form < 0.75 else f"{value}cm"
    return Quantity(text, number(value))


def angle(rng: Random) -> Angle:
    """Draw an angle from 1 to 360 degrees, everyday ones more often."""
    kind = rng.random()
    if kind < 0.62:
        degrees = choose(rng, EVERYDAY_ANGLES)
    elif kind < 0.82:
        degrees = 5 * (1 + int(rng.random() * 72))
    else:
        degrees = 1 + int(rng.random() * 360)
    return written_angle(rng, degrees)


def written_angle(rng: Random, degrees: int) -> Angle:
    """Return a given angle, in one of many ways of writing it."""
    unit = "degree" if degrees == 1 else "degrees"
    form = rng.random()
    if form < 0.3:
        words = spelled(rng, degrees)
        return Angle(f"{words} {unit}", f"{words} degree", degrees)
    before_noun = f"{degrees} degree" if form < 0.7 else f"{degrees}-degree"
    if form < 0.72:
        return Angle(f"{degrees} {unit}", before_noun, degrees)
    if form < 0.8:
        return Angle(f"{degrees} deg", f"{degrees} deg", degrees)
    if form < 0.84:
        return Angle(f"{degrees}deg", f"{degrees} deg", degrees)
    if form < 0.95:
        return Angle(f"{degrees}°", f"{degrees}°", degrees)
    return Angle(str(degrees), before_noun, degrees)


def seconds(rng: Random) -> Quantity:
    """Draw a time up to 600 s, in seconds or minutes."""
    kind = rng.random()
    if kind < 0.55:
        value = 100 * choose(rng, EVERYDAY_SECONDS)
    elif kind < 0.63:
        value = 50 + 100 * int(rng.random() ** 1.5 * 10)
    elif kind < 0.68:
        value = 10 * (1 + int(rng.random() * 99))
    elif kind < 0.8:
        value = 100 * (1 + int(rng.random() ** 2 * 600))
    else:
        half_minutes = 1 + int(rng.random() ** 1.5 * 20)
        return Quantity(with_unit(rng, half_minutes * 50, MINUTE, ""), half_minutes * 30)
    return Quantity(with_unit(rng, value, SECOND, "s"), number(value))


FAR_METRES = (11, 12, 15, 18, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 300, 500, 1000)
WIDE_DEGREES = (361, 400, 450, 500, 540, 600, 720, 800, 900, 1000, 365, 370, 390)
LONG_SECONDS = (601, 620, 650, 700, 720, 800, 900, 1000)
LONG_TIMES = split_words(
    "half an hour|an hour|a quarter of an hour|an hour and a half|a whole day|a week|a month|a year"
)
FAR_UNITS = (("kilometre", "kilometres"), ("mile", "miles"), ("kilometer", "kilometers"))
LONG_UNITS = (("hour", "hours"), ("hour", "hours"), ("day", "days"), ("week", "weeks"))


def too_far(rng: Random) -> str:
    """Draw a distance of more than 10 m."""
    unit = rng.random()
    if unit < 0.6:
        value = choose(rng, FAR_METRES) if rng.random() < 0.6 else 11 + int(rng.random() * 490)
        return with_unit(rng, 100 * value, METRE, "m")
    if unit < 0.75:
        return f"{1010 + 10 * int(rng.random() * 400)} {choose(rng, ('cm', 'centimetres', 'centimeters'))}"
    if unit < 0.9:
        return with_unit(rng, 100 * (34 + int(rng.random() * 300)), FOOT, "ft")
    one, many = choose(rng, FAR_UNITS)
    return large_unit(rng, 1 + int(rng.random() * 50), one, many)


def too_wide(rng: Random) -> Angle:
    """Draw an angle of more than 360 degrees."""
    degrees = choose(rng, WIDE_DEGREES) if rng.random() < 0.6 else 361 + int(rng.random() * 640)
    return written_angle(rng, degrees)


def too_long(rng: Random) -> str:
    """Draw a time of more than 600 s."""
    unit = rng.random()
    if unit < 0.3:
        value = choose(rng, LONG_SECONDS) if rng.random() < 0.5 else 601 + int(rng.random() * 3000)
        return f"{value} {choose(rng, ('seconds', 'seconds', 'secs', 's'))}"
    if unit < 0.65:
        value = 11 + int(rng.random() ** 2 * 80)
        text = str(value) if rng.random() < 0.6 else spelled(rng, value)
        return f"{text} {choose(rng, ('minutes', 'minutes', 'mins'))}"
    if unit < 0.75:
        return choose(rng, LONG_TIMES)
    one, many = choose(rng, LONG_UNITS)
    return large_unit(rng, 1 + int(rng.random() * 12), one, many)


def large_unit(rng: Random, value: int, one: str, many: str) -> str:
    """Return a whole number with its unit, in digits or words."""
    return f"{value if rng.random() < 0.5 else spelled(rng, value)} {one if value == 1 else many}"
