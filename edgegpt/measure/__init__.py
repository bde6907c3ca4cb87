"""What a model costs on this machine: times, memory, bytes.

Nothing is imported here, so that the process that measures (`edgegpt.measure.child`) loads what a
robot's process loads and no more. Where to look:

    process       measure_process: one fresh child process measures one file
    plan          Plan, what a child shall do, and ProcessFigures, what it found
    timing        measure_first_token, measure_tokens: on an engine in this process
    distribution  Distribution: percentiles with their confidence intervals
    machine       machine: which machine, how many cores, how busy
    memory        resident memory of this process, private and mapped apart
    bandwidth     read_bandwidth: how fast this machine reads memory
"""
