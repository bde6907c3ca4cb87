"""The parts of benchmarks/peers.py: one file per engine, and what starts, times and reports them."""
