"""The layer that every peer runs: shape, synthetic weights, tokens with their experts, and what it should compute."""

from dataclasses import dataclass, replace

import numpy as np

import formats

# Experts beyond this many repeat the weights of earlier ones, each in memory of its own. A prime, so that an expert taken
# for another shows unless the two are a multiple of it apart.
NUM_DISTINCT_EXPERTS = 7
# Calls with few tokens take different experts in turn, as in `megamoe bench`: the same ones would stay in the cache.
NUM_ROTATED_BATCHES = 16


@dataclass(frozen=True)
class Shape:
    """out = gate * sigmoid(alpha * gate) * (up + up_offset), gate capped at limit and up clamped to +-limit."""

    name: str
    hidden: int
    intermediate: int
    num_experts: int
    top_k: int
    alpha: float = 1.0
    up_offset: float = 0.0
    limit: float | None = None
    has_biases: bool = False

    def num_weights(self):
        return 3 * self.num_experts * self.hidden * self.intermediate


@dataclass
class Layer:
    shape: Shape
    weight_format: type
    gate: formats.Matrices  # [distinct, intermediate, hidden]
    up: formats.Matrices  # [distinct, intermediate, hidden]
    down: formats.Matrices  # [distinct, hidden, intermediate]
    biases: tuple  # float32 [experts, intermediate], [experts, intermediate], [experts, hidden]; () = none

    def num_distinct(self):
        return len(self.gate.codes)


@dataclass
class Batch:
    x: np.ndarray  # uint16 BF16 [tokens, hidden]
    expert_ids: np.ndarray  # int64 [tokens, top_k]
    expert_weights: np.ndarray  # float32 [tokens, top_k]

    def num_tokens(self):
        return len(self.x)


def make_layer(shape, weight_format, seed=1):
    rng = np.random.default_rng(seed)
    num = min(NUM_DISTINCT_EXPERTS, shape.num_experts)
    wide, narrow = (shape.intermediate, shape.hidden), (shape.hidden, shape.intermediate)
    gate, up, down = (weight_format.draw(rng, num, *size) for size in (wide, wide, narrow))
    biases = ()
    if shape.has_biases:
        sizes = (shape.intermediate, shape.intermediate, shape.hidden)
        biases = tuple(rng.normal(0, 0.3, (shape.num_experts, size)).astype(np.float32) for size in sizes)
    return Layer(shape, weight_format, gate, up, down, biases)


def without_biases(layer):
    return replace(layer, shape=replace(layer.shape, has_biases=False), biases=())


def make_batch(shape, num_tokens, seed):
    """Every token takes top_k different experts, each set of them equally likely."""
    rng = np.random.default_rng(seed)
    x = formats.to_bf16(rng.standard_normal((num_tokens, shape.hidden), np.float32))
    ids = rng.random((num_tokens, shape.num_experts)).argsort(axis=1)[:, : shape.top_k]
    weights = rng.uniform(0.5, 1.5, ids.shape).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    return Batch(x, np.ascontiguousarray(ids, np.int64), weights)


def num_batches(shape, num_tokens):
    return 1 if num_tokens * shape.top_k >= 8 * shape.num_experts else NUM_ROTATED_BATCHES


def activate(shape, gate, up):
    if shape.limit is not None:
        gate, up = np.minimum(gate, shape.limit), np.clip(up, -shape.limit, shape.limit)
    return gate / (1 + np.exp(-shape.alpha * gate)) * (up + shape.up_offset)


def reference(layer, batch):
    """float32 [tokens, hidden]: the layer from its weights' exact values."""
    shape, values = layer.shape, layer.weight_format.values
    x, y = formats.from_bf16(batch.x), np.zeros(batch.x.shape, np.float32)
    for expert in np.unique(batch.expert_ids):
        tokens, slots = np.nonzero(batch.expert_ids == expert)
        i = expert % layer.num_distinct()
        gate, up = x[tokens] @ values(layer.gate, i).T, x[tokens] @ values(layer.up, i).T
        if layer.biases:
            gate, up = gate + layer.biases[0][expert], up + layer.biases[1][expert]
        out = activate(shape, gate, up) @ values(layer.down, i).T
        if layer.biases:
            out = out + layer.biases[2][expert]
        y[tokens] += out * batch.expert_weights[tokens, slots][:, None]
    return y


def relative_error(y, expected):
    """Root of the sum of squared differences over that of the expected values."""
    return float(np.linalg.norm(y - expected) / np.linalg.norm(expected))
