# ruff: noqa: E501  (a template is one line)
"""What people ask that the robot cannot do. {obj}, {word}, {city}, {spot} and {number} are filled by out_of_scope.py."""

REQUESTS = {
    "chat": """
[hi|hello|hey|good morning|good evening|good night|howdy|greetings|yo] [|there|robot|rover|my friend|buddy]
how are you [|today|doing|feeling today]
how was your [day|night|weekend|trip]
what is your [name|age|job|favourite colour|favourite food|opinion of {obj}]
who [are you|made you|built you|is your boss|is the president|won the game|wrote this book]
what [are you|can you do|do you want|do you think|are you doing|do you like]
are you [a robot|alive|happy|sad|hungry|tired|real|there|okay|human|listening|busy]
do you [like|love|hate|want|know] [me|music|cats|dogs|people|{obj}|your job|football]
i [am|feel] [so|very|really|a bit|] [tired|happy|sad|hungry|bored|sick|lonely|cold|hot]
i [love|like|hate|bought|sold|broke|painted] {obj}
you are [great|funny|so slow|my best friend|the best|a good robot|very kind|useless|amazing]
[thanks|thank you|well done|good job|nice work|great|perfect|never mind|forget it|no worries|sorry]
[hm|hmm|ok|okay|uh|um|well|yes|no|maybe|sure|what|huh|oh|ah|wow|cool|nice|lol|so|right then|test|testing]
[my|our] [mother|brother|sister|friend|neighbour|boss|cat|dog] is [nice|tired|sick|hungry|coming|asleep|funny]
it is [a nice day|raining again|too hot today|my birthday|friday|too late]
[today|yesterday|tomorrow] [is|was|will be] [a nice day|friday|my birthday|great|too hot]
""",
    "questions": """
what is [the weather|the temperature|the time|the date|the news] [|today|tomorrow|like today|in {city}|right now]
what's the [weather|time|date|temperature|news] [|today|tomorrow|like today|in {city}]
will it [rain|snow|be cold|be hot|be sunny] [today|tomorrow|this week|in {city}]
how [far|big|old|cold|expensive] is {city}
how many [people|cats|dogs|days|eggs|books] are there [|in {city}|in a year|in the world]
what is {number} [plus|minus|times|divided by] {number}
how much is {number} [plus|minus|times|divided by] {number}
calculate {number} [plus|minus|times|divided by] {number}
{number} [plus|minus|times|+|-|*] {number}
what is the [square root|half|double] of {number}
what is the capital of [france|spain|italy|japan|peru|{word}]
what is {obj} [|made of|used for|worth|for]
what does {word} mean
what colour is {obj}
how do [i|you] [cook|make|fix|clean|build|draw|use|open] {obj}
how much [does {obj} cost|is {obj}|does {obj} weigh]
why is [the sky blue|{obj} so expensive|the grass green|it so cold|my phone so slow]
when [is|was] [christmas|easter|my birthday|the next bus|the last train|the war]
who invented {obj}
which is [better|bigger|older], {obj} or {obj}
is [it|{obj}] [expensive|real|good|cold outside|raining|cheap]
can you [swim|fly|sing|dance|cook|smell|speak french|do maths|play chess]
explain [physics|gravity|how {obj} works|the rules of chess|what a {word} is]
define [gravity|love|{word}]
translate {obj} [into|to] [french|german|spanish|italian]
how do you spell {word}
do you know the way to {city}
""",
    "media": """
play [some|my favourite|a bit of|the latest] [music|jazz|song|songs|radio show|podcast]
play [a song|a game|chess|cards|hide and seek|football] with [me|us|the kids]
sing [a song|me a song|something|a lullaby|happy birthday|a song about {obj}]
tell me [a joke|a story|the news|something funny|a secret|about {city}|about {obj}|about yourself|the time]
tell us [a joke|a story|something funny|about yourself|about {obj}]
go ahead and tell me [a joke|a story|the news|something funny]
[write|compose|recite] [a poem|a letter|an email|a story|a song|an essay] [|about {obj}|about {city}|to my boss|for me]
write [a python script|some code|a function|a program] [|to sort a list|for me|that prints {number}]
[read|send|answer|delete] [my emails|my messages|the email|a text to mom|that message]
[call|text|phone|ring] [mom|dad|my boss|the police|a taxi|the doctor|grandma|{city}]
[take|snap] a [picture|photo|selfie|video] [|of me|of {obj}|of the garden]
[show|find] me [a video|pictures|a film|a song|a map] of [{obj}|{city}|cats]
[turn|switch] [on|off] the [lights|tv|heating|oven|music|radio|alarm|air conditioning]
[turn|switch] the [lights|tv|heating|oven|music|radio|alarm] [on|off]
turn [up|down] the [volume|heating|music|tv|lights]
turn the [volume|music|heating|tv] [up|down]
put on [some music|the tv|a film|your coat|a show]
put [the kettle on|some music on|the lights on|the tv on]
set [an alarm|a timer|a reminder] for {number} [minutes|hours|o'clock]
remind me to [call mom|buy {obj}|drink water|sleep] [tomorrow|tonight|later]
[order|buy|book] [a pizza|{obj}|a taxi|a table|some food|a flight to {city}] [|for me|online|tonight]
search the [internet|web] for {obj}
look up [{obj}|the weather|{city}|the word {word}] online
google [{obj}|{city}|{word}]
stop the [music|alarm|car|bus|timer|video|noise|war]
record [a video|my voice|this song]
""",
    "chores": """
[cook|bake|boil|fry|eat|drink] [dinner|lunch|some rice|a cake|an egg|some soup|{obj}]
[make|brew] [me|us] [a coffee|some tea|a sandwich|dinner|breakfast|a cake|a drink]
[make|brew] [coffee|some tea|dinner|breakfast|a cake|my bed]
[clean|wash|wipe|scrub|polish|dust|rinse] {obj}
[clean|vacuum|mop|sweep|tidy|paint] the [kitchen|bathroom|living room|floor|garage|hallway|office|bedroom]
[repair|fix|paint|break|burn|sell|eat|cut|smash|bend|fold|melt|destroy] {obj}
[open|close|lock|unlock] the [door|window|fridge|oven|gate|curtains|box|garage door]
[open|close|lock|unlock] {obj}
[throw|kick|toss] {obj} [|away|out|at me|out of the window|in the bin]
do [the dishes|the laundry|my homework|the ironing|the shopping|your homework|a backflip|a dance|some yoga|the splits]
[water|feed|walk] the [plants|dog|cat|flowers|fish|goldfish]
[dance|sing|jump|fly|swim|climb|sleep tight|smile|laugh|cry|hop|whistle|dream|think]
[jump|climb|fly] [over|onto|up|around] [{obj}|the stairs|the wall|the fence|the roof]
[dance|jump|sing|swim] [with me|for us|around|like a star]
give [me|us|him] [a hug|a massage|a kiss|a high five|some money|a hand|a break]
iron my [shirt|trousers|clothes]
fold [the laundry|my clothes|the towels]
run [a diagnostic|an update|a bath|a marathon|a virus scan|for president]
[charge|update|reboot|restart] [my phone|my laptop|the computer|the server|your software]
[help|teach] me [with my homework|to dance|to cook|to speak french|to use {obj}|with {obj}]
drive me to [work|school|the airport|{city}]
take me [home|out|to {city}|to the cinema|to school]
take [a nap|a shower|a seat|my word for it|a guess|it easy|your time|notes]
""",
    "near": """
pick [a number|a colour|a name|a side|a winner|a fight|a movie|a date] [|for me|for us|at random|please]
pick [me|us|him] up [at {number}|from work|from school|from the airport|after school|tomorrow]
pick up [the phone|the pace|the kids from school|the tab|a new hobby|my parcel from the post office]
find out [what the weather is|who called|what time it is|how much it costs|why it is raining|who won the game]
find [a way to {city}|a job|a solution|some time for me|your inner peace|a good restaurant|a recipe for dinner]
find me [a job|a hotel in {city}|a good restaurant|a recipe for dinner|cheap flights]
look [after|into] [the kids|the matter|the problem|yourself|the baby]
look forward to [christmas|the weekend|my birthday]
follow up on [the email|the order|that call|the meeting]
follow [your dreams|your heart|the recipe|the rules|the news|me on instagram]
go [ahead|away|crazy|nuts|figure|fish|shopping|swimming|to sleep|to bed|to hell|for it]
go to [sleep|the next song|page {number}|the website|the next slide]
go [to school|to work|on holiday|out for dinner|for a swim] [|with me|tomorrow|tonight]
move [on|to {city}|the meeting to friday|my appointment|the file to the trash]
drive [me crazy|me home|a hard bargain|safely|a car|the truck]
stop by [the shop|the office|my place] [tomorrow|tonight|later|on friday]
stop [worrying|complaining|singing|joking|thinking about {obj}|being so slow]
wait [until tomorrow|for the bus|until friday|for my call|until it rains|for christmas]
wait a minute, [what did you say|who are you|i have a question]
hold [the line|a meeting|the door for me]
turn [into a frog|the page|pink|green|invisible|a profit|yourself in|{number} years old]
spin [me a story|the wheel|a yarn|some wool]
roll [the dice|up your sleeves|a cigarette|over and play dead]
back up [my files|my phone|the database|your claim]
reverse [the list|the order|the decision|the word {word}]
place [an order|a bet|a call|an ad] [|for me|for pizza|on the red horse|for {obj}]
put [yourself in my shoes|up with it|it in writing|the baby to bed|some effort into it]
drop [me a line|the subject|by for tea|the class|your prices]
leave [me alone|a message for mom|a tip|it to me|the country]
set [up a meeting|the table for dinner|a record|yourself free|sail]
lift [my spirits|the ban|weights]
get [lost|some rest|married|a life|out of here|well soon|a job|rich]
take [care|a look at my homework|part in the game|a bow|over the world]
collect [taxes|stamps for a hobby|my parcel from the post office]
say
say
say [something|something nice|a few words|something about {obj}|it again]
say something [funny|nice|smart] about [me|{obj}|{city}]
tell [everyone|mom|the kids] [something|anything|a joke|a story|something funny]
repeat [yourself|that|it again]
read [a book|me a story|the newspaper|my mind]
come [to my party|up with an idea|of age|back to me on that|clean]
return [my call|the favour|{obj} to the shop|to normal]
head [for the hills|of the company]
track [my parcel|my order|my calories]
show me [the money|how to cook|your homework|what you can do|some respect]
stay [positive|healthy|in school|cool|for dinner]
search your [feelings|memory|heart]
turn [over a new leaf|the tables|a blind eye]
""",
    "far": """
[go|drive|travel|fly|move|walk|run|head|navigate] to [{city}|the {spot}]
[go|drive|travel|walk|run] all the way to [{city}|the {spot}]
take the [bus|train|plane|boat|next flight] to [{city}|the {spot}]
[book|buy] a [ticket|train|flight] to {city}
""",
}
