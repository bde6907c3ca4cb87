"""How many threads, of which kind, and how much of a prompt at once: measured on this machine.

Nothing is imported here, so that the process that measures (`edgegpt.autotune.child`) loads no more than
it needs. Where to look:

    run      autotune: measures a file at every number of threads and keeps what is best
    duel     the process that measures two ways to run a file against each other
    figures  Duel, what such a process found
    choice   choose: from duels to a Tuning, and why
"""
