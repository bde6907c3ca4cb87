"""How people say goto, follow and say. The notation is explained in the package."""

GOTO = {
    "place": """
{visit} to the {place}
{visit} to the {place}
{visit} over to the {place}
{visit} back to the {place}
{visit} into the {place}
{visit} to {place}
{visit} straight to the {place}
goto {place}
goto the {place}
enter the {place}
reach the {place}
get to the {place}
get yourself to the {place}
get yourself over to the {place}
take yourself to the {place}
bring yourself to the {place}
make your way to the {place}
make your way over to the {place}
make your way into the {place}
find your way to the {place}
return to the {place}
come back to the {place}
come to the {place}
come over to the {place}
visit the {place}
pay a visit to the {place}
drive yourself to the {place}
drive yourself over to the {place}
meet me in the {place}
meet me at the {place}
join me in the {place}
head for the {place}
make for the {place}
set off for the {place}
set off to the {place}
proceed to the {place}
proceed straight to the {place}
run along to the {place}
run over to the {place}
step into the {place}
move yourself to the {place}
move yourself into the {place}
? i need you in the {place}
? i want you in the {place}
? i need you to be in the {place}
? you should be in the {place}
? your next stop is the {place}
? next stop, the {place}
? i am in the {place}, come here
? i am in the {place}, meet me there
? i'm waiting in the {place}, come over
? i'm in the {place}, join me here
? to the {place}
? off to the {place}
? over to the {place}
? destination: {place}
? your destination is the {place}
""",
    "dock": """
go charge yourself
go and charge yourself
go and charge
go charge your battery
go and charge your battery
go back to your charger
go back to your dock
return to your dock
return to your charger
return to your charging dock
drive back to your charging station
go recharge
go and recharge your battery
get back on your charger
head back to your dock
park on your charging dock
park at the charging station
? your battery is low, go charge
? your battery is low, return to your dock
""",
}

FOLLOW = {
    "me": """
follow me
follow me around
follow along behind me
follow right behind me
follow me closely
follow me wherever i go
follow behind me
start following me
keep following me
come along with me
come with me
come after me
walk with me
walk behind me
stay behind me
stay close behind me
stay close to me
stay with me
stick with me
stick close to me
tag along with me
tag along behind me
track me
keep tracking me
keep close to me
keep up with me
go wherever i go
go where i go
? i want you to come with me
? you should follow me
""",
    "person": """
follow [that|the|this] person
follow [that|the|this] person around
follow [that|the|this] person closely
follow along behind [that|the|this] person
follow behind [that|the|this] person
follow [that|the] [man|woman|guy|lady]
follow [that|the] [man|woman|guy|lady] in front of you
follow the person in front of you
follow the person ahead of you
follow the person you see
follow whoever is in front of you
follow somebody
follow a person
start following [that|the|this] person
keep following [that|the|this] person
walk behind [that|the|this] person
stay behind [that|the|this] person
stay close behind [that|the|this] person
stay close to [that|the|this] person
stick with [that|the|this] person
stick close to [that|the|this] person
tag along with [that|the|this] person
tag along behind [that|the|this] person
track [that|the|this] person
keep tracking the person in front of you
keep close to [that|the|this] person
keep up with [that|the|this] person
go wherever [that|the|this] person goes
""",
}

SAY = {
    # {quote}: any text in quotes   {text}: anything, bare   {fact}: a statement, bare
    "quoted": """
say {quote}
say {quote}
say {quote}
say {quote} out loud
say {quote} to {people}
say out loud {quote}
say the words {quote}
say the following: {quote}
say the phrase {quote}
say exactly {quote}
say this: {quote}
speak the words {quote}
speak the phrase {quote}
speak {quote} out loud
speak {quote}
announce {quote}
announce {quote} to {people}
announce the following: {quote}
announce this: {quote}
tell {people} {quote}
tell {people} the following: {quote}
tell {people} this: {quote}
tell {people}: {quote}
shout {quote}
shout {quote} to {people}
shout out {quote}
call out {quote}
call out {quote} to {people}
read out {quote}
read {quote} out loud
read this out loud: {quote}
read out the phrase {quote}
repeat after me: {quote}
repeat this: {quote}
repeat the words {quote}
repeat the phrase {quote} out loud
pronounce {quote}
whisper {quote}
whisper {quote} to {people}
let {people} hear {quote}
let {people} hear the words {quote}
use your voice to say {quote}
use your speaker to announce {quote}
use your speaker to say {quote}
? i want to hear you say {quote}
? i want you to say {quote} out loud
? let me hear you say {quote}
""",
    "text": """
say {text}
say {text}
say {text}
say: {text}
say the following: {text}
say this: {text}
say the words {text}
say out loud: {text}
say the phrase {text}
speak the words {text}
speak the phrase {text}
speak this: {text}
shout {text}
shout out {text}
call out {text}
repeat after me: {text}
repeat this: {text}
repeat the words {text}
repeat the following: {text}
announce the following: {text}
announce this: {text}
tell {people} the following: {text}
tell {people} this: {text}
read out the following: {text}
read out the words {text}
""",
    "fact": """
say that {fact}
say out loud that {fact}
announce that {fact}
announce that {fact}
announce to {people} that {fact}
announce {fact}
tell {people} {fact}
tell {people} {fact}
tell {people} that {fact}
tell {people} that {fact}
tell {people} out loud that {fact}
let {people} know that {fact}
let {people} know {fact}
inform {people} that {fact}
remind {people} that {fact}
make it known that {fact}
make an announcement that {fact}
make an announcement to {people} that {fact}
call out that {fact}
call out to {people} that {fact}
shout to {people} that {fact}
shout that {fact}
warn {people} that {fact}
""",
}
