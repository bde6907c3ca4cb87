"""Measure what a model costs on this machine: times, memory, bytes.

A process that measures (`edgegpt.measure.child`) loads what a robot's process loads and no more, so each
name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.measure.bandwidth import (
        beyond_cache_bytes as beyond_cache_bytes,
        read_bandwidth as read_bandwidth,
    )
    from edgegpt.measure.bench import INSIDE as INSIDE, Bench as Bench, run_bench as run_bench
    from edgegpt.measure.distribution import (
        CONFIDENCE as CONFIDENCE,
        P99_SAMPLES as P99_SAMPLES,
        Distribution as Distribution,
        Interval as Interval,
    )
    from edgegpt.measure.leak import growth as growth
    from edgegpt.measure.machine import (
        Machine as Machine,
        this_machine as this_machine,
        threads_text as threads_text,
        versions_text as versions_text,
    )
    from edgegpt.measure.noise import (
        DISTURBED_PERCENT as DISTURBED_PERCENT,
        load_noise as load_noise,
        measured_noise as measured_noise,
        noise_remark as noise_remark,
        noise_sentence as noise_sentence,
    )
    from edgegpt.measure.plot import (
        draw_first_token as draw_first_token,
        draw_tail as draw_tail,
        draw_token as draw_token,
        save_plot as save_plot,
    )
    from edgegpt.measure.process import (
        check_threads as check_threads,
        measure_process as measure_process,
        run_child as run_child,
    )
    from edgegpt.measure.spec import (
        BURST as BURST,
        MOST_TIMES as MOST_TIMES,
        STEADY_REQUESTS as STEADY_REQUESTS,
        Bandwidth as Bandwidth,
        MeasureSpec as MeasureSpec,
        ProcessResult as ProcessResult,
    )
    from edgegpt.measure.timing import (
        MS as MS,
        Rounds as Rounds,
        first_token_ms as first_token_ms,
        random_ids as random_ids,
        token_ms as token_ms,
    )
    from edgegpt.measure.worker import (
        OnStep as OnStep,
        Progress as Progress,
        end_with_parent as end_with_parent,
        run_job as run_job,
    )

__getattr__ = lazy_names(
    __name__,
    {
        "bandwidth": "beyond_cache_bytes read_bandwidth",
        "bench": "Bench INSIDE run_bench",
        "distribution": "CONFIDENCE Distribution Interval P99_SAMPLES",
        "machine": "Machine this_machine threads_text versions_text",
        "noise": "DISTURBED_PERCENT load_noise measured_noise noise_remark noise_sentence",
        "plot": "draw_first_token draw_tail draw_token save_plot",
        "process": "check_threads measure_process run_child",
        "spec": "BURST Bandwidth MOST_TIMES MeasureSpec ProcessResult STEADY_REQUESTS",
        "leak": "growth",
        "timing": "MS Rounds first_token_ms random_ids token_ms",
        "worker": "OnStep Progress end_with_parent run_job",
    },
)
