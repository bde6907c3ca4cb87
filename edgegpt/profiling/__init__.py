"""Measure a board for `edgegpt.target`: nodes in small graphs, calls of small engines, fresh processes.

The graphs come from whoever calls, since this package is the robot's and knows no onnx:

    profile       profile: everything, one after another, to a Target
    graphs        what a maker of graphs has to offer
    clock         the fastest of many interleaved calls, or their median
    bound         a graph's session over arrays that are bound once
    fit           sums of terms that are not negative, by least squares
    products      products by shape, bits and tokens, and what weights from further away cost
    attention     attention by new and cached tokens
    nodes         norms, GELU, additions, lookups
    calls         what a call of the engine costs besides its nodes; choosing a token
    processes     load time and memory of fresh processes
"""
