"""The nouns and adjectives. A trailing * marks a plural or mass noun: some scissors, never a scissors."""

from .choose import listed

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
    listed("big small large little tiny huge tall short long wide thin thick flat heavy light"),
    listed(
        "old new clean dirty empty full broken shiny dusty soft hard wet dry round square striped spotted"
    ),
    listed(
        "red blue green yellow black white brown purple pink grey gray golden silver beige "
        "turquoise crimson teal violet"
    ),
    listed("wooden plastic metal steel copper brass ceramic rubber leather cotton woollen paper cardboard"),
)
EVERY_ADJECTIVE = tuple(word for group in ADJECTIVES for word in group)


def phrases(text: str) -> tuple[str, ...]:
    """Words split at blanks; lines with | hold compound nouns."""
    found: list[str] = []
    for line in text.strip().splitlines():
        found += [part.strip() for part in (line.split("|") if "|" in line else line.split())]
    return tuple(found)
