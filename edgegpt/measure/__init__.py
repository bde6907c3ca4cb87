"""What a model costs on this machine: times, memory, bytes.

Nothing is imported here, so that the process that measures (`edgegpt.measure.child`) loads what a
robot's process loads and no more. Where to look:

    process       measure_process: one fresh child process measures one file
    plan          Plan, what a child shall do, and ProcessFigures, what it found
    timing        first_token_ms, token_ms: one sample and one burst, on an engine in this process
    rounds        Rounds: every prompt length and cache fill in turn
    leak          growth: how memory grows from request to request
    waiting       moment: how long a process was kept from its core
    distribution  Distribution: percentiles with their confidence intervals
    machine       machine: which machine, how many cores, how busy
    free_memory   available_memory_bytes: what this process may still take
    memory        resident memory of this process, private and mapped apart
    bandwidth     read_bandwidth: how fast this machine reads memory
"""
