"""The strongest models that a budget allows, found by counting and predicting, without training any.

scaling       which of two models is expected to be stronger, and why
space         the models that are looked at
limits        the limits that can be counted or predicted, and a model's figures for them
search        look at a range of the space; put the results of ranges together
spread        run ranges one after another or in processes
ray_cluster   run them on a Ray cluster
plan          plan: from a budget to ranked models
finalists     build the best with random weights and measure them on this machine
proof         which of them keeps the budget when measured; else a second search
impossible    why nothing keeps a budget, and the nearest values that can be kept
numbers       as a budget file takes them
written       a finished models/*.yaml
"""
