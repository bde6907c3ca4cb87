"""What a duel of two ways to run a file found."""

from pydantic import BaseModel, ConfigDict


class Relative(BaseModel):
    """A time beside that of one thread, which was measured in the same rounds.

    Attributes:
        ms: the median, in milliseconds.
        share: the median of the rounds' ratios to one thread; below 1 is faster.
        low: that median's confidence interval (edgegpt.measure.distribution); 0 where there were too
            few rounds.
        high: as low; infinity where there were too few rounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ms: float
    share: float
    low: float
    high: float


class Duel(BaseModel):
    """So many threads against one that reads prompts in pieces of PREFILL_CHUNK.

    One thread is measured against itself too, which shows how far noise alone carries.

    Attributes:
        threads: of onnxruntime.
        spinning: whether they keep their cores busy while they wait.
        cache_fill: tokens in the cache before a burst of further tokens.
        prompt_tokens: length of the prompt.
        token: one further token.
        prompt: prompt to first token, by the length of its pieces; PREFILL_CHUNK is one of them.
        session_bytes: private memory that the session took, beside one that was there; None where the
            system does not tell.
        waited_percent: share of the time in which the process was ready to run but other work had its core.
        round_ms: one thread's median token time in each round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: int
    spinning: bool
    cache_fill: int
    prompt_tokens: int
    token: Relative
    prompt: dict[int, Relative]
    session_bytes: int | None
    waited_percent: float | None
    round_ms: tuple[float, ...]

    def __str__(self) -> str:
        """As `2 spinning threads`."""
        return f"{self.threads} {'spinning ' * self.spinning}{'thread' if self.threads == 1 else 'threads'}"
