"""One peer, one shape, one format: checks its numbers on a few tokens, then times it. Started by ./run, one process each.

Peers print what they like on standard output; the result goes into --out, as JSON.
"""

import argparse
import json
import sys

import layer as layers
from clock import Clock, time_calls

import shapes

NUM_CHECKED_TOKENS = 4
# ggml's rearranged weights are passed as one whole matrix of all experts; kt-kernel pads, and keeps scales as BF16.
MEMORY_FACTOR = 1.5


class Refused(Exception):
    """What was not met, and what would help."""

    def __init__(self, reason, remedy):
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy



def make_peer(name, folder, num_threads):
    if name == "ggml":
        import ggml_peer

        return ggml_peer.GgmlPeer(folder, num_threads), ggml_peer.ERROR_LIMIT
    import kt_peer

    return kt_peer.KtPeer(folder, num_threads), kt_peer.ERROR_LIMIT


def check(peer, layer, error_limit):
    """Relative error against the float32 reference. Refused: the peer computes another layer."""
    batch = layers.make_batch(layer.shape, NUM_CHECKED_TOKENS, seed=99)
    peer.prepare(batch)
    peer.run()
    error = layers.relative_error(peer.output(), layers.reference(layer, batch))
    if not error <= error_limit:
        raise Refused(f"its output must be within {error_limit} of the float32 reference (got {error:.3g})",
                      "it does not compute this layer: compare its version with the pinned one")
    return error


def check_memory(shape, weight_format):
    """Refused: the weights do not fit. A process killed for memory could not say so."""
    wanted = shape.num_weights() * weight_format.bits_per_weight / 8 * MEMORY_FACTOR
    available = available_bytes()
    if available is not None and wanted > available:
        raise Refused(f"its weights must fit into the available memory, {available / 1e9:.1f} GB "
                      f"(got {wanted / 1e9:.1f} GB)", "leave this shape or format out")


def available_bytes():
    with open("/proc/meminfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def measure_all(peer, shape, tokens, clock):
    """A row for each number of tokens; not_run says why one was left out. Time grows at most as the number of tokens."""
    rows, seconds_per_token = [], 0
    for num_tokens in tokens:
        expected = seconds_per_token * num_tokens
        if expected > clock.max_seconds:
            rows.append({"tokens": num_tokens, "not_run": f"up to {expected:.0f} s a call"})
            continue
        rows.append(measure(peer, shape, num_tokens, clock))
        seconds_per_token = rows[-1]["median_ms"] / 1e3 / num_tokens
    return rows


def measure(peer, shape, num_tokens, clock):
    batches = [layers.make_batch(shape, num_tokens, seed) for seed in range(layers.num_batches(shape, num_tokens))]
    seconds = time_calls(clock, batches, peer.prepare, peer.run)
    return {"tokens": num_tokens, "median_ms": 1e3 * seconds[len(seconds) // 2], "min_ms": 1e3 * seconds[0],
            "max_ms": 1e3 * seconds[-1], "calls": len(seconds)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=["ggml", "kt-kernel"], required=True)
    parser.add_argument("--folder", required=True, help="where the peer's libraries are")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--format", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-seconds", type=float, required=True)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def run(arguments):
    shape = layers.Shape(**shapes.parse(arguments.shape))
    tokens = [int(part) for part in arguments.tokens.split(",")]
    peer, error_limit = make_peer(arguments.peer, arguments.folder, arguments.threads)
    weight_format = peer.weight_format(arguments.format)
    check_memory(shape, weight_format)
    layer = layers.make_layer(shape, weight_format)
    if not peer.has_biases:
        layer = layers.without_biases(layer)
    peer.load(layer, max(*tokens, NUM_CHECKED_TOKENS))
    error = check(peer, layer, error_limit)
    common = {"peer": peer.name, "shape": shape.name, "error": error, **peer.describe()}
    clock = Clock(max_seconds=arguments.max_seconds)
    return [{**common, **row} for row in measure_all(peer, shape, tokens, clock)]


def main():
    arguments = parse_arguments()
    try:
        result = {"rows": run(arguments)}
    except Refused as error:
        result = {"error": error.reason, "remedy": error.remedy}
    except (RuntimeError, MemoryError, NotImplementedError, OSError, AttributeError) as error:
        # What a library of another version or for another CPU raises.
        result = {"error": f"{type(error).__name__}: {error}", "remedy": "use the pinned versions, or leave it out"}
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)
    sys.exit("error" in result)


if __name__ == "__main__":
    main()
