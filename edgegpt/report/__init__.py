"""One page about one file, to attach to a release. Where to look:

gather      gather: measures and counts everything, gives a Report
given       a budget and a profile: read once, hashed, and held against the file before anything is measured
facts       what the file is and where it comes from
weights     parameters and bytes of each component, bits of each matrix
proof       the evidence in the file, and what is repeated here
roofline    work and traffic of a token and of a prompt beside the machine's bandwidth
predicted   what a profile of a board says: the roof of arithmetic, and predictions beside measurements
commands    how to do it again
document    a Report as JSON
charts      the pictures (matplotlib, extra [report])
page        a Report as HTML (jinja2, extra [report])
"""
