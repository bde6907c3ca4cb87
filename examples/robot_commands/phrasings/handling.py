"""How people say find, pick and place. The notation is explained in the package."""

FIND = {
    "object": """
{seek} {obj}
{seek} {obj}
{seek} {obj}
try to {seek} {obj}
try and {seek} {obj}
go {seek} {obj}
go and {seek} {obj}
help me {seek} {obj}
help me to {seek} {obj}
look around for {obj}
look around and {seek} {obj}
have a look for {obj}
have a look around for {obj}
take a look for {obj}
take a look around for {obj}
have a search for {obj}
do a search for {obj}
start looking for {obj}
start searching for {obj}
start a search for {obj}
begin searching for {obj}
begin looking for {obj}
keep looking for {obj}
keep an eye out for {obj}
search around for {obj}
search the area for {obj}
search the room for {obj}
scan for {obj}
scan the area for {obj}
scan the room for {obj}
see if you can {seek} {obj}
see if you can see {obj}
see where {obj} is
check where {obj} is
find out where {obj} is
work out where {obj} is
show me where {obj} is
tell me where {obj} is
let me know where {obj} is
detect {obj}
discover where {obj} is
find me {obj}
find {obj} for me
locate {obj} for me
look for {obj} for me
? where is {obj}
? where's {obj}
? where did {obj} go
? where could {obj} be
? where might {obj} be
? do you see {obj} anywhere
? can you see {obj} anywhere
? have you seen {obj}
? have you seen {obj} anywhere
? did you see {obj} anywhere
? i can't find {obj}
? i can't find {obj}, help me look
? i can't see {obj} anywhere, look for it
? i lost {obj}
? i lost {obj}, help me find it
? i have lost {obj}, help me look for it
? i'm looking for {obj}
? i am looking for {obj}, help me find it
? i'm searching for {obj}, help me look
? i need to find {obj}
? i want to know where {obj} is
? any idea where {obj} is
""",
}

PICK = {
    "object": """
{grab} {obj}
{grab} {obj}
{grab} {obj}
{grab} {obj}
pick {obj} up
pick {obj} up with your gripper
pick {obj} up for me
lift {obj} up
lift {obj} up off the ground
pick up {obj} off the ground
pick {obj} up off the ground
take hold of {obj}
get hold of {obj}
grab hold of {obj}
get a hold of {obj}
get a grip on {obj}
take {obj} in your gripper
take {obj} with your gripper
grab {obj} with your gripper
grab {obj} for me
pick up {obj} for me
lift {obj} for me
collect {obj} for me
go {grab} {obj}
go and {grab} {obj}
try to {grab} {obj}
try and {grab} {obj}
reach for {obj} and grab it
reach out and {grab} {obj}
reach out for {obj} and pick it up
use your arm to {grab} {obj}
use your gripper to {grab} {obj}
use your gripper and {grab} {obj}
with your gripper, {grab} {obj}
with your arm, {grab} {obj}
close your gripper around {obj}
close your hand around {obj} and lift it
grip {obj}
grip {obj} and lift it
seize {obj}
gather up {obj}
scoop up {obj}
scoop {obj} up
snatch up {obj}
snatch {obj}
hoist {obj}
hoist up {obj}
raise {obj} off the ground
? i need you to hold {obj}
? i want you to hold {obj}
? i want {obj} in your gripper
? i need {obj} in your gripper
? i'd like {obj} picked up
? i want {obj} picked up
""",
    "it": """
{take} it
pick it up
pick it up
pick it up for me
pick it up with your gripper
lift it up
lift it up off the ground
take hold of it
get hold of it
grab hold of it
grab it with your gripper
take it with your gripper
take it in your gripper
grip it
""",
}

PLACE = {
    "object": """
{put} {obj} {on} {top}
{put} {obj} {on} {top}
{put} {obj} {on} {top}
{put} {obj} {on} {top}
{lay} {obj} down {on} {top}
{put} {obj} carefully {on} {top}
{put} {obj} gently {on} {top}
carefully {put} {obj} {on} {top}
gently {put} {obj} {on} {top}
try to {put} {obj} {on} {top}
go and {put} {obj} {on} {top}
go {put} {obj} {on} {top}
deposit {obj} {on} {top}
rest {obj} {on} {top}
position {obj} {on} {top}
release {obj} {on} {top}
release {obj} so that it sits on {top}
let {obj} rest on {top}
let {obj} sit on {top}
let go of {obj} {on} {top}
make {obj} sit on {top}
stick {obj} {on} {top}
balance {obj} {on} {top}
park {obj} {on} {top}
on top of {top}, {put} {obj}
on {top}, {put} {obj}
onto {top}, {put} {obj}
on {top} you should {put} {obj}
use your gripper to {put} {obj} {on} {top}
use your arm to {put} {obj} {on} {top}
with your gripper, {put} {obj} {on} {top}
with your arm, {put} {obj} {on} {top}
lower {obj} onto {top}
lower {obj} gently onto {top}
lower {obj} carefully down onto {top}
ease {obj} onto {top}
ease {obj} down onto {top}
slide {obj} onto {top}
slide {obj} gently onto {top}
? {obj} goes on {top}
? {obj} goes on top of {top}
? {obj} belongs on {top}
? {obj} should go on {top}
? {obj} should be on {top}
? {obj} should sit on top of {top}
? i want {obj} on {top}
? i want {obj} to sit on {top}
? i need {obj} on top of {top}
? i need {obj} to be on {top}
? i'd like {obj} on {top}
? i'd like {obj} to be on top of {top}
""",
    "it": """
{lay} it {on} {top}
{lay} it {on} {top}
{lay} it down {on} {top}
{lay} it carefully {on} {top}
{lay} it gently {on} {top}
carefully {lay} it {on} {top}
gently {lay} it {on} {top}
lower it onto {top}
lower it gently onto {top}
let it rest on {top}
let go of it {on} {top}
slide it onto {top}
ease it down onto {top}
deposit it {on} {top}
rest it {on} {top}
balance it {on} {top}
""",
}
