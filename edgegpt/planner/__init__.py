"""The strongest models that a budget allows, found by counting and predicting, without training any.

scaling       which of two models is expected to be stronger, and why
space         the models that are looked at
limits        the limits that can be counted or predicted, and a model's figures for them
search        look at a range of the space; put the results of ranges together
spread        run ranges one after another, in processes, or on a Ray cluster
ray_cluster   the last of these
plan          plan: from a budget to ranked models
finalists     build the best with random weights and measure them on this machine
written       a finished models/*.yaml
"""
