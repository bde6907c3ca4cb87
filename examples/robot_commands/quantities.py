"""Quantities: a number, how a person may write it, and what the robot is told.

Every function returns (words, value). A distance is counted in hundredths of a metre inside, so
that nothing is rounded twice; JSON gets an int when the value is whole.
"""

from random import Random
from typing import Any

from .choose import listed, pick

ONES = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = listed("_ _ twenty thirty forty fifty sixty seventy eighty ninety")

EVERYDAY_METRES = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 7, 8, 9, 10)
EVERYDAY_ANGLES = (90, 90, 90, 90, 45, 45, 45, 180, 180, 30, 30, 60, 60, 120, 135, 270, 360, 15, 10, 20, 75)
EVERYDAY_SECONDS = (
    1,
    2,
    2,
    3,
    3,
    4,
    5,
    5,
    5,
    6,
    7,
    8,
    9,
    10,
    10,
    10,
    12,
    15,
    15,
    20,
    20,
    25,
    30,
    30,
    40,
    45,
    50,
    60,
)


def in_words(n: int, sep: str = " ", hundred: str = "one hundred", conjunction: str = " and ") -> str:
    """35 -> "thirty five"; 120 -> "one hundred and twenty". Up to 9999."""
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


# One hundred and twenty may be said in several ways; the tables make a look-up of it.
STYLES = tuple(
    tuple(in_words(n, sep, hundred, conjunction) for n in range(1001))
    for sep, hundred, conjunction in (
        (" ", "a hundred", " and "),
        ("-", "a hundred", " and "),
        (" ", "one hundred", " and "),
        ("-", "one hundred", " "),
        (" ", "one hundred", " "),
    )
)


def words_for(rng: Random, n: int) -> str:
    """A whole number in words, in one of the usual spellings."""
    return STYLES[int(rng.random() * len(STYLES))][n] if n <= 1000 else in_words(n)


def decimal_digits(hundredths: int) -> str:
    """250 -> "2.5", 205 -> "2.05", 200 -> "2"."""
    whole, part = divmod(hundredths, 100)
    return f"{whole}.{part:02d}".rstrip("0").rstrip(".")


def decimal_words(hundredths: int) -> str:
    """250 -> "two point five"."""
    whole, _, part = decimal_digits(hundredths).partition(".")
    spoken = in_words(int(whole))
    return spoken + " point " + " ".join(ONES[int(d)] for d in part) if part else spoken


def number(hundredths: int) -> int | float:
    """Hundredths as JSON should have them."""
    return hundredths // 100 if hundredths % 100 == 0 else hundredths / 100


def feet_to_hundredths(half_feet: int) -> int:
    """1 ft = 0.3048 m, rounded to 2 decimals. No half foot lands on a tie."""
    return (half_feet * 1524 + 50) // 100


METRE = (("metre", "metres"), ("meter", "meters"))
CENTIMETRE = (("centimetre", "centimetres"), ("centimeter", "centimeters"))
FOOT = (("foot", "feet"),)
SECOND = (("second", "seconds"), ("second", "seconds"), ("sec", "secs"))
MINUTE = (("minute", "minutes"), ("minute", "minutes"), ("min", "mins"))


def fraction_words(rng: Random, hundredths: int, one: str, many: str, article: str = "a") -> str:
    """250 -> "two and a half metres"; halves and quarters only, and small whole numbers."""
    whole, part = divmod(hundredths, 100)
    if part == 0:
        if whole == 1 and rng.random() < 0.5:
            return f"{article} {one}"
        if whole == 2 and rng.random() < 0.25:
            return f"a couple of {many}"
        return f"{words_for(rng, whole)} {one if whole == 1 else many}"
    if whole == 0:
        return {
            50: f"half {article} {one}",
            25: f"a quarter of {article} {one}",
            75: f"three quarters of {article} {one}",
        }[part]
    tail = {50: "a half", 25: "a quarter", 75: "three quarters"}[part]
    if whole == 1 and rng.random() < 0.4:
        return f"{article} {one} and {tail}"
    return f"{words_for(rng, whole)} and {tail} {many}"


def with_unit(rng: Random, hundredths: int, names: tuple[Any, ...], short: str) -> str:
    """One way of writing a number with its unit: "2.5 m", "2.5m", "two and a half meters" ..."""
    one, many = pick(rng, names)
    how = rng.random()
    if how < 0.38:
        if hundredths % 25 == 0 and rng.random() < 0.8:
            return fraction_words(rng, hundredths, one, many)
        return f"{decimal_words(hundredths)} {one if hundredths == 100 else many}"
    digits = decimal_digits(hundredths)
    if how < 0.72 or not short:
        return f"{digits} {one if hundredths == 100 else many}"
    return f"{digits} {short}" if how < 0.86 else digits + short


def metres(rng: Random) -> int:
    """Hundredths of a metre from 1 to 1000, everyday ones more often."""
    kind = rng.random()
    if kind < 0.46:
        return 100 * pick(rng, EVERYDAY_METRES)
    if kind < 0.66:
        return 50 + 100 * int(rng.random() ** 1.5 * 10)
    if kind < 0.74:
        return pick(rng, (25, 75)) + 100 * int(rng.random() ** 2 * 10)
    if kind < 0.92:
        return 10 * (1 + int(rng.random() * 99))
    return 1 + int(rng.random() * 1000)


def centimetres(rng: Random) -> int:
    """From 1 to 1000, everyday ones more often."""
    kind = rng.random()
    if kind < 0.5:
        return 10 * (1 + int(rng.random() * 10))
    if kind < 0.72:
        return 5 * (1 + int(rng.random() * 60))
    if kind < 0.9:
        return 1 + int(rng.random() * 100)
    return 1 + int(rng.random() * 1000)


def distance(rng: Random) -> tuple[Any, ...]:
    """(words, metres)"""
    unit = rng.random()
    if unit < 0.66:
        value = metres(rng)
        return with_unit(rng, value, METRE, "m"), number(value)
    if unit < 0.85:
        value = centimetres(rng)
        if value == 1 or rng.random() < 0.75:  # digits; in words beyond a hundred it grows long
            one, many = pick(rng, CENTIMETRE)
            how = rng.random()
            text = (
                f"{value} {one if value == 1 else many}"
                if how < 0.45
                else f"{value} cm"
                if how < 0.75
                else f"{value}cm"
            )
        else:
            text = f"{words_for(rng, value)} {pick(rng, CENTIMETRE)[1]}"
        return text, number(value)
    half_feet = (
        2 * (1 + int(rng.random() ** 2 * 32)) if rng.random() < 0.7 else 1 + int(rng.random() ** 1.5 * 64)
    )
    return with_unit(rng, half_feet * 50, FOOT, "ft"), number(feet_to_hundredths(half_feet))


def angle(rng: Random) -> tuple[Any, ...]:
    """(words after a verb, words before the noun "turn", degrees)"""
    kind = rng.random()
    if kind < 0.62:
        value = pick(rng, EVERYDAY_ANGLES)
    elif kind < 0.82:
        value = 5 * (1 + int(rng.random() * 72))
    else:
        value = 1 + int(rng.random() * 360)
    return angle_in(rng, value)


def angle_in(rng: Random, value: int) -> tuple[Any, ...]:
    """The same for a given angle."""
    degrees = "degree" if value == 1 else "degrees"
    how = rng.random()
    if how < 0.3:
        said = words_for(rng, value)
        return f"{said} {degrees}", f"{said} degree", value
    before = f"{value} degree" if how < 0.7 else f"{value}-degree"
    if how < 0.72:
        return f"{value} {degrees}", before, value
    if how < 0.8:
        return f"{value} deg", f"{value} deg", value
    if how < 0.84:
        return f"{value}deg", f"{value} deg", value
    if how < 0.95:
        return f"{value}°", f"{value}°", value
    return str(value), before, value


def seconds(rng: Random) -> tuple[Any, ...]:
    """(words, seconds)"""
    kind = rng.random()
    if kind < 0.55:
        value = 100 * pick(rng, EVERYDAY_SECONDS)
    elif kind < 0.63:
        value = 50 + 100 * int(rng.random() ** 1.5 * 10)
    elif kind < 0.68:
        value = 10 * (1 + int(rng.random() * 99))
    elif kind < 0.8:
        value = 100 * (1 + int(rng.random() ** 2 * 600))
    else:
        half_minutes = 1 + int(rng.random() ** 1.5 * 20)
        return with_unit(rng, half_minutes * 50, MINUTE, ""), half_minutes * 30
    return with_unit(rng, value, SECOND, "s"), number(value)


def too_far(rng: Random) -> str:
    """More than 10 m, in words."""
    unit = rng.random()
    if unit < 0.6:
        value = (
            pick(rng, (11, 12, 15, 18, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 300, 500, 1000))
            if rng.random() < 0.6
            else 11 + int(rng.random() * 490)
        )
        return with_unit(rng, 100 * value, METRE, "m")
    if unit < 0.75:
        return f"{1010 + 10 * int(rng.random() * 400)} {pick(rng, ('cm', 'centimetres', 'centimeters'))}"
    if unit < 0.9:
        return with_unit(rng, 100 * (34 + int(rng.random() * 300)), FOOT, "ft")
    one, many = pick(rng, (("kilometre", "kilometres"), ("mile", "miles"), ("kilometer", "kilometers")))
    value = 1 + int(rng.random() * 50)
    return f"{value if rng.random() < 0.5 else words_for(rng, value)} {one if value == 1 else many}"


def too_wide(rng: Random) -> tuple[Any, ...]:
    """More than 360 degrees, as angle_in() gives them."""
    return angle_in(
        rng,
        pick(rng, (361, 400, 450, 500, 540, 600, 720, 800, 900, 1000, 365, 370, 390))
        if rng.random() < 0.6
        else 361 + int(rng.random() * 640),
    )


def too_long(rng: Random) -> str:
    """More than 600 s, in words."""
    unit = rng.random()
    if unit < 0.3:
        value = (
            pick(rng, (601, 620, 650, 700, 720, 800, 900, 1000))
            if rng.random() < 0.5
            else 601 + int(rng.random() * 3000)
        )
        return f"{value} {pick(rng, ('seconds', 'seconds', 'secs', 's'))}"
    if unit < 0.65:
        value = 11 + int(rng.random() ** 2 * 80)
        said = value if rng.random() < 0.6 else words_for(rng, value)
        return f"{said} {pick(rng, ('minutes', 'minutes', 'mins'))}"
    if unit < 0.75:
        return pick(
            rng,
            (
                "half an hour",
                "an hour",
                "a quarter of an hour",
                "an hour and a half",
                "a whole day",
                "a week",
                "a month",
                "a year",
            ),
        )
    one, many = pick(rng, (("hour", "hours"), ("hour", "hours"), ("day", "days"), ("week", "weeks")))
    value = 1 + int(rng.random() * 12)
    return f"{value if rng.random() < 0.5 else words_for(rng, value)} {one if value == 1 else many}"
