"""How long calls take, by the same rules as `megamoe bench`: warm up, then at least so many calls and seconds."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    num_calls: int = 5  # at least
    min_seconds: float = 0.5  # keep calling at least this long
    max_seconds: float = 30.0  # but start no further call after this long


def time_calls(clock, batches, prepare, run):
    """Seconds of each timed call of run(), sorted. prepare(batch) puts a batch in place and is not timed."""
    seconds, begin = [], time.perf_counter()
    num_warmup_calls = max(2, len(batches))
    for i in range(num_warmup_calls):
        prepare(batches[i % len(batches)])
        run()
        if time.perf_counter() - begin > clock.max_seconds / 3:
            break
    begin = time.perf_counter()
    call = num_warmup_calls
    while len(seconds) < clock.num_calls or sum(seconds) < clock.min_seconds:
        prepare(batches[call % len(batches)])
        call += 1
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        seconds.append(end - start)
        if end - begin > clock.max_seconds:
            break
    return sorted(seconds)
