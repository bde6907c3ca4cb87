"""A board profile of round numbers made by hand: nothing in it was measured."""

from edgegpt.prediction.target import (
    Attention,
    Bandwidth,
    CacheStreaming,
    Call,
    Calls,
    Line,
    Load,
    Memory,
    Nodes,
    PerMb,
    PerPrecision,
    Product,
    Streaming,
    Target,
    TargetMachine,
)

_BLOCKS = {32: (0,), 8: (32, 64, 128, 256), 4: (32, 64, 128)}
_PER_MB = PerMb(
    inside=PerPrecision(fp32=3.0, int8=2.0, int4=2.0), beside=PerPrecision(fp32=1.0, int8=1.0, int4=1.0)
)

TARGET = Target(
    name="hand board",
    date="2026-01-31",
    threads=1,
    machine=TargetMachine(cpu="Hand CPU", architecture="aarch64", cores=4, versions={"onnxruntime": "1.0"}),
    read_bandwidth=[Bandwidth(working_set_mb=1.0, gb_s=20.0)],
    products=[
        Product(
            bits=bits,
            block=block,
            tokens=tokens,
            node_us=1.0,
            us_per_1000_inputs=1.0,
            us_per_1000_outputs=2.0,
            us_per_million_weights=10.0 * bits * (1 + tokens // 8),
        )
        for bits, blocks in _BLOCKS.items()
        for block in blocks
        for tokens in (1, 8, 64)
    ],
    streaming=[
        Streaming(bits=bits, tokens=tokens, working_set_mb=size, us_per_mb=us)
        for bits in (4, 8, 32)
        for tokens in (1, 64)
        for size, us in ((1.0, 0.0), (10.0, 20.0), (100.0, 100.0))
    ],
    cache_streaming=[
        CacheStreaming(working_set_mb=size, us_per_mb=us) for size, us in ((1.0, 0.0), (100.0, 50.0))
    ],
    attention=[
        Attention(
            tokens=tokens,
            node_us=2.0,
            us_per_1000_values=2.0,
            us_per_million_products=100.0,
            us_per_1000_scores=1.0,
        )
        for tokens in (1, 8, 64)
    ],
    nodes=Nodes(
        norm=Line(node_us=1.0, us_per_1000_values=1.0),
        gelu=Line(node_us=1.0, us_per_1000_values=1.0),
        add=Line(node_us=0.5, us_per_1000_values=0.5),
        lookup_32_bits=Line(node_us=0.5, us_per_1000_values=0.5),
        lookup_8_bits=Line(node_us=1.0, us_per_1000_values=1.0),
    ),
    calls=Calls(
        step=Call(call_us=10.0, us_per_layer=1.0, node_factor=1.0),
        chunk=Call(call_us=50.0, us_per_layer=10.0, node_factor=1.5),
        greedy=Line(node_us=1.0, us_per_1000_values=0.2),
        draw=Line(node_us=10.0, us_per_1000_values=50.0),
    ),
    load=Load(import_ms=200.0, base_ms=20.0, ms_per_layer=1.0, ms_per_1000_tokens=5.0, ms_per_mb=_PER_MB),
    memory=Memory(import_mb=70.0, base_mb=10.0, mb_per_layer=0.2, mb_per_1000_tokens=1.0, mb_per_mb=_PER_MB),
)
