"""The parts of benchmarks/peers.py: one file per engine, and what runs and compares them."""
