"""Objects and surfaces: noun phrases of real and invented words, the same in the prompt and in the answer.

A model of 2 M parameters must not learn 250 nouns, it must learn to copy. So half of the objects hold a
word that occurs nowhere else: syllables of many shapes, or random letters.
"""

import re
from random import Random
from zlib import crc32

from .phrasings import PHRASINGS, SYNONYMS
from .templates import choose, split_words

# Nouns, compound ones between bars. A trailing * marks a plural or mass noun: some scissors, not a scissors.
TRAIN_NOUNS = """
mug cup bowl plate fork spoon knife glass bottle jar pot pan kettle teapot saucer tray napkin*
spatula whisk ladle toaster blender grater peeler corkscrew sponge towel dishcloth apron lunchbox
thermos straw* candle lighter apple banana orange lemon pear peach plum carrot potato tomato onion
cucumber pepper sandwich cookie muffin bagel bread* cheese* butter* milk* juice* water* coffee* tea*
sugar* salt* rice* pasta* cereal* chocolate* candy* egg melon grapes* hammer wrench screwdriver
pliers* drill saw chisel file bolt screw nail nut washer clamp ladder bucket rope chain hose shovel
rake trowel broom mop dustpan brush paintbrush sandpaper* toolbox flashlight battery cable plug
socket fuse lamp bulb fan heater clock radio speaker headphones* microphone camera tripod phone
tablet laptop keyboard mouse monitor printer charger remote controller joystick book notebook
magazine newspaper envelope letter folder binder stapler pen pencil marker crayon eraser ruler
scissors* tape* glue* stamp calculator calendar card wallet purse backpack suitcase bag basket box
crate carton barrel ball bat racket kite puzzle doll robot toy balloon dice* drum guitar flute
violin trumpet bell whistle shirt jacket coat sweater sock shoe boot sandal slipper hat cap scarf
glove belt tie umbrella watch ring necklace bracelet sunglasses* key keychain coin mirror comb razor
toothbrush toothpaste* soap* shampoo* lotion* tissue* bandage pillow blanket cushion rug vase flower
plant seed leaf rock pebble stick feather shell magnet lens sensor motor wheel gear spring lever
valve pipe tube wire antenna circuit chip helmet goggles* mask
coffee mug|tape measure|water bottle|tennis ball|paper towel|coffee cup|tea towel
soup spoon|phone charger|car key|tool bag|soda can|paint can|rubber band
paper clip|light bulb|spray bottle|cereal box|toy car|teddy bear|plastic bag
"""

HELD_OUT_NOUNS = """
goblet chopsticks* colander strainer tongs* skillet pitcher tumbler flask canister mango kiwi
avocado broccoli* pretzel waffle pancake honey* yogurt* mustard* axe crowbar mallet spanner anvil
pulley hinge bracket stopwatch thermometer compass telescope binoculars* microscope projector router
webcam diary postcard brochure clipboard sharpener highlighter easel trophy medal lantern matchbox
frisbee yoyo marble harmonica banjo mitten poncho bonnet brooch earring tweezers* hairbrush loofah
sachet acorn pinecone seashell
walkie talkie|bird feeder|lawn gnome
"""

# What things are put on. They are looked for and picked up as well, when small.
TRAIN_SURFACES = """
table desk shelf counter chair sofa couch floor bench stool tray nightstand bookshelf cabinet
windowsill bed carpet mat workbench countertop cart stand box crate plate stove fridge dishwasher
piano armchair doormat rug book pillow
coffee table|kitchen counter|dining table|side table|top shelf|lower shelf|office chair
work table|glass table
"""

HELD_OUT_SURFACES = """
dresser ottoman mantelpiece sideboard pedestal plinth futon recliner trolley hammock altar podium
placemat coaster
credenza|chaise
"""

# In the order in which English puts them before a noun.
ADJECTIVES = (
    split_words("big small large little tiny huge tall short long wide thin thick flat heavy light"),
    split_words(
        "old new clean dirty empty full broken shiny dusty soft hard wet dry round square striped spotted"
    ),
    split_words(
        "red blue green yellow black white brown purple pink grey gray golden silver beige "
        "turquoise crimson teal violet"
    ),
    split_words(
        "wooden plastic metal steel copper brass ceramic rubber leather cotton woollen paper cardboard"
    ),
)
EVERY_ADJECTIVE = tuple(word for group in ADJECTIVES for word in group)


LONGEST = 24  # characters of a noun phrase
VOWELS = "aeiou"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# What C, V and D are in the shapes of invented words: consonants, vowels, consonants that end a syllable.
SOUNDS = {
    "C": split_words(
        "b c d f g h j k l m n p r s t v w z bl br ch cl cr dr fl fr gl gr kn pl pr qu sc sh sk sl "
        "sm sn sp st str sw th tr tw wh wr zh"
    ),
    "V": split_words("a e i o u a e i o u ai au ea ee ei ia ie io oa oi oo ou ua ui y"),
    "D": split_words(
        "b ck d f g k l ll lm lt m mp n nd ng nk nt p r rb rd rk rm rn rt s sh sk ss st t th v x z zz"
    ),
}
SHAPES = split_words("CVD CVCV CVDCVD VCV VDCV CVCVD CVCVCV CVDCV VCVD CVDCVCVD CVCVCVD VDCVD CVVD CVCVDCV")

# Words with a meaning of their own here; an invented word is none of them.
TAKEN = frozenset(
    re.findall(
        r"[a-z]+",
        " ".join(t for variants in PHRASINGS.values() for group in variants.values() for t in group)
        + " "
        + " ".join(word for group in SYNONYMS.values() for word in group)
        + TRAIN_NOUNS
        + HELD_OUT_NOUNS
        + TRAIN_SURFACES
        + HELD_OUT_SURFACES
        + " ".join(EVERY_ADJECTIVE)
        + " the a an my that this some our your his her its and then next after before finally first once"
        " when please thanks thank cheers you now kindly lastly second last done also rover robot hey hi"
        " hello it is are was of to for in up down under left right metre meter foot feet degree deg sec min"
        " one two ten six half zero not but if so or",
    )
)


def is_held_out(word: str) -> bool:
    """Return whether an invented word is of the tenth that training never sees."""
    return crc32(word.encode()) % 10 == 0


def invent_word(rng: Random, unseen: bool) -> str:
    """Return an invented word, of the held-out tenth or of the rest."""
    while True:
        if rng.random() < 0.7:
            word = "".join([choose(rng, SOUNDS[sound]) for sound in choose(rng, SHAPES)])
        else:
            word = "".join([choose(rng, LETTERS) for _ in range(3 + int(rng.random() * 9))])
        if 3 <= len(word) <= 11 and is_held_out(word) == unseen and word not in TAKEN:
            return word


Nouns = tuple[tuple[str, bool], ...]  # noun, and whether it is a plural or mass noun


def parse_nouns(text: str) -> Nouns:
    """Return the nouns of a text, with their trailing * as a bool."""
    return tuple((noun.rstrip("*"), noun.endswith("*")) for noun in split_words(text))


# unseen -> nouns
OBJECTS = {False: parse_nouns(TRAIN_NOUNS), True: parse_nouns(HELD_OUT_NOUNS)}
SURFACES = {False: parse_nouns(TRAIN_SURFACES), True: parse_nouns(HELD_OUT_SURFACES)}
SINGULAR = ("the",) * 9 + ("a",) * 4 + ("my",) * 3 + ("that",) * 2 + ("this", "our", "your")
PLURAL = ("the",) * 6 + ("some",) * 4 + ("my",) * 2 + ("our",)


def noun_phrase(rng: Random, unseen: bool, nouns: dict[bool, Nouns]) -> tuple[str, str]:
    """Return a noun phrase with and without its determiner: "the blue zorvick cup", "blue zorvick cup"."""
    while True:
        noun, plural = choose(rng, nouns[unseen])
        if rng.random() < 0.47:
            invented = invent_word(rng, unseen)
            if rng.random() < 0.7:
                noun, plural = invented, False
            else:
                noun = f"{invented} {noun}"
        adjectives = rng.random()
        if adjectives < 0.32:
            noun = f"{choose(rng, EVERY_ADJECTIVE)} {noun}"
        elif adjectives < 0.4:
            first, second = choose(rng, ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
            noun = f"{choose(rng, ADJECTIVES[first])} {choose(rng, ADJECTIVES[second])} {noun}"
        if len(noun) <= LONGEST:
            break
    if rng.random() < 0.07:
        return noun, noun
    determiner = choose(rng, PLURAL if plural else SINGULAR)
    if determiner == "a" and noun[0] in VOWELS:
        determiner = "an"
    return f"{determiner} {noun}", noun


def object_phrase(rng: Random, unseen: bool) -> tuple[str, str]:
    """Return something to find or to pick up, with and without its determiner."""
    return noun_phrase(rng, unseen, OBJECTS)


def surface_phrase(rng: Random, unseen: bool) -> tuple[str, str]:
    """Return something to put things on, with and without its determiner."""
    return noun_phrase(rng, unseen, SURFACES)
