"""How people say move, turn, wait and stop. The notation is explained in the package."""

MOVE = {
    # {dir}: forward, ahead, back, in reverse ...   {way}: forward or backward
    "any": """
{go} {dir} {dist}
{go} {dist} {dir}
{go} {dir} by {dist}
{go} {dir} for {dist}
{dist} {dir}
{dir} {dist}
{dir} by {dist}
{go} {way} a distance of {dist}
{go} a distance of {dist} {way}
{go} exactly {dist} {dir}
{go} {dir} exactly {dist}
{go} just {dist} {dir}
{go} {dir} just {dist}
keep going {dir} for {dist}
keep moving {dir} for {dist}
continue {dir} for {dist}
continue {way} by {dist}
cover {dist} {dir}
cover {dist} going {dir}
cover a distance of {dist} {way}
take yourself {dist} {dir}
get yourself {dist} {dir}
go {dist} in the {way} direction
move {dist} in the {way} direction
travel {dist} in the {way} direction
in the {way} direction, go {dist}
make a {way} move of {dist}
do a {way} move of {dist}
perform a {way} drive of {dist}
drive {way} until you have covered {dist}
move {way} until you have gone {dist}
roll {dir} until you have covered {dist}
go {dir} and cover exactly {dist}
? i need you {dist} {dir}
? i want you {dist} further {dir}
go {dist} further {dir}
move {dir} a further {dist}
move {dir} another {dist}
go another {dist} {dir}
drive another {dist} {dir}
shift {dist} {dir}
shift {dir} by {dist}
inch {dir} by {dist}
go slowly {dir} for {dist}
go slowly {dist} {dir}
move slowly {dir} by {dist}
""",
    "forward": """
advance {dist}
advance by {dist}
advance for {dist}
advance exactly {dist}
advance another {dist}
go straight for {dist}
go straight {dist}
drive straight on for {dist}
move straight on by {dist}
go straight on for {dist}
keep straight for {dist}
keep going straight for {dist}
step forward {dist}
step ahead by {dist}
push forward {dist}
carry on straight for {dist}
carry on ahead for {dist}
come forward {dist}
come forward by {dist}
""",
    "backward": """
back up {dist}
back up by {dist}
back up for {dist}
back up exactly {dist}
back up another {dist}
reverse {dist}
reverse by {dist}
reverse for {dist}
reverse exactly {dist}
reverse another {dist}
back off {dist}
back off by {dist}
back away {dist}
back away by {dist}
step back {dist}
step back by {dist}
retreat {dist}
retreat by {dist}
drive back {dist}
""",
}

TURN = {
    # {side}: left or right   {clock}: clockwise is right   {angle}: 90 degrees   {bend}: 90 degree
    "any": """
{spin} {side} {angle}
{spin} {angle} {side}
{spin} {side} by {angle}
{spin} {angle} to the {side}
{spin} to the {side} by {angle}
{spin} to your {side} by {angle}
{spin} {angle} to your {side}
{spin} by {angle} to the {side}
{spin} {angle} {clock}
{spin} {clock} {angle}
{spin} {clock} by {angle}
{spin} by {angle} {clock}
{spin} yourself {angle} {clock}
{spin} yourself {angle} to the {side}
{spin} on the spot by {angle} to the {side}
{spin} on the spot {angle} {clock}
{spin} in place {angle} to the {side}
{spin} in place by {angle} {clock}
{spin} {side} exactly {angle}
{spin} exactly {angle} to the {side}
{side} {angle}
{side} by {angle}
{angle} {side}
{angle} to the {side}
{angle} {clock}
make a {bend} turn to the {side}
make a {bend} {side} turn
make a {side} turn of {angle}
make a turn of {angle} to the {side}
do a {bend} turn to the {side}
do a {bend} {side} turn
do a {side} turn of {angle}
do a {bend} turn {clock}
take a {bend} turn to the {side}
take a {side} turn of {angle}
perform a {bend} turn to the {side}
perform a {side} turn of {angle}
{bend} turn to the {side}
{side} turn, {angle}
{side} turn of {angle}
face {angle} to the {side}
face {angle} further {side}
face {angle} {clock}
change your heading by {angle} to the {side}
change heading {angle} to the {side}
shift your heading {angle} {clock}
adjust your heading by {angle} to the {side}
adjust your heading {angle} {clock}
keep turning {side} until you have turned {angle}
turn {side} until you have turned {angle}
twist {side} by {angle}
twist {angle} to the {side}
swing {side} by {angle}
swing {angle} to the {side}
swing round {angle} to the {side}
""",
    "90": """
{spin} {side}
{spin} to the {side}
make a {side} turn
make a quarter turn {side}
make a quarter turn to the {side}
do a quarter turn {side}
do a quarter turn to the {side}
do a quarter turn {clock}
make a quarter turn {clock}
quarter turn {side}
quarter turn {clock}
a quarter turn to the {side}
{spin} a quarter turn {side}
{spin} a quarter turn to the {side}
{spin} a quarter turn {clock}
make a right angle turn to the {side}
""",
    "180": """
make a half turn {side}
make a half turn to the {side}
do a half turn {side}
do a half turn to the {side}
do a half turn {clock}
make a half turn {clock}
half turn {side}
{spin} a half turn {side}
{spin} a half turn to the {side}
{spin} half a turn {clock}
make a u-turn to the {side}
do a u-turn to the {side}
do a u-turn {side}
turn around to the {side}
turn all the way around to the {side} to face the other way
turn to face the other way, going {clock}
""",
    "270": """
make a three quarter turn {side}
do a three quarter turn to the {side}
make a three quarter turn to the {side}
do a three quarter turn {clock}
{spin} three quarters of a turn {clock}
{spin} three quarters of a turn to the {side}
""",
    "360": """
make a full turn {side}
make a full turn to the {side}
do a full turn to the {side}
do a full turn {clock}
do a full circle {clock}
{spin} a full turn {clock}
{spin} a full turn to the {side}
{spin} a full circle {clock}
{spin} a full circle to the {side}
{spin} one full turn {side}
spin all the way around {clock}
""",
    # Without a side we turn left: counterclockwise is the positive angle in ROS (REP 103).
    "180 left": """
turn around
turn yourself around
do a u-turn
make a u-turn
u-turn
do a half turn
make a half turn
spin around to face the other way
turn to face the other way
face the other way
""",
    "360 left": """
do a full turn
make a full turn
do a full circle
{spin} a full circle
{spin} in a full circle
spin all the way around
""",
}

WAIT = {
    "time": """
{wait} for {time}
{wait} for {time}
{wait} {time}
{wait} here for {time}
{wait} there for {time}
{wait} just {time}
{wait} for just {time}
{wait} exactly {time}
{wait} for exactly {time}
{wait} right where you are for {time}
{wait} for a total of {time}
{wait} another {time}
{wait} for another {time}
do nothing for {time}
do nothing for the next {time}
do not move for {time}
don't move for {time}
don't do anything for {time}
don't do anything for the next {time}
stay where you are for {time}
stay put for {time}
stay there for {time}
stay right here for {time}
stay in place for {time}
stand still for {time}
stand there for {time}
stand where you are for {time}
keep still for {time}
keep waiting for {time}
remain still for {time}
remain where you are for {time}
remain in place for the next {time}
idle for {time}
rest for {time}
rest here for {time}
rest where you are for {time}
sleep for {time}
take a break of {time}
take a break for {time}
take a pause of {time}
take a rest of {time}
make a pause of {time}
have a pause of {time}
let {time} pass
let {time} go by
give it {time}
allow {time} to pass
give me {time}
delay for {time}
count off {time}
{time} pause
{time} break
? i need you to stay put for {time}
? i want you to stay still for {time}
""",
}

STOP = {
    "stop": """
stop
stop
halt
freeze
stop moving
stop moving at once
stop at once
stop immediately
stop right there
stop right here
stop where you are
stop right where you are
stop driving
stop driving at once
stop what you are doing
stop whatever you are doing
stop everything
stop everything immediately
stop all motion
stop your motors
halt all motion
halt right there
halt where you are
halt immediately
halt at once
freeze right there
freeze where you are
freeze immediately
come to a stop
come to a halt
come to a complete stop
come to a complete halt
make a full stop
make a complete stop
cease all motion
cease moving
cease moving immediately
quit moving
quit driving
hit the brakes
use your brakes
brake
brake immediately
cut your motors
? emergency stop
? whoa, stop
? whoa, stop right there
? that's far enough, stop
? that's far enough, halt
? you can stop moving
""",
}
