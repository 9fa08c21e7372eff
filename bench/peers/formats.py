"""Number formats of weights: how a random matrix is drawn in each, and what its codes mean in float32.

Codes are drawn directly, so that the float32 value of every weight is known exactly and no peer's quantiser stands
between a peer and the reference. Values are near a normal distribution of standard deviation 1 / sqrt(columns).
"""

import statistics
from dataclasses import dataclass

import numpy as np

E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@dataclass
class Matrices:
    """Several matrices of one format. codes: [num, rows, columns]; scales: as the format says, or None."""

    codes: np.ndarray
    scales: np.ndarray | None


def ceil_div(a, b):
    return -(-a // b)


def normal_quantiles(num):
    """num values, equally likely, of the standard normal distribution."""
    normal = statistics.NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / num) for i in range(num)], np.float32)


def to_bf16(values):
    """float32 -> the nearest BF16, ties to even, as uint16. No NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(codes):
    return (codes.astype(np.uint32) << 16).view(np.float32)


def e4m3_values():
    """[256]: the value of each E4M3 code (the variant without infinities)."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    magnitude[(codes & 127) == 127] = np.nan
    return np.where(codes < 128, magnitude, -magnitude).astype(np.float32)


def nearest_codes(values, table):
    distance = np.abs(values[:, None] - table[None, :])
    return np.nanargmin(distance, axis=1).astype(np.uint8)


def draw_from(table, rng, shape):
    index_type = np.uint8 if len(table) == 256 else np.uint16
    return table[rng.integers(0, len(table), shape, dtype=index_type)]


class Mxfp4:
    """E2M1 codes, one a byte here; scales: E8M0 exponents, [num, rows, columns / 32]."""

    name = "mxfp4"
    bits_per_weight = 4.25

    @staticmethod
    def draw(rng, num, rows, columns):
        codes = rng.integers(0, 16, (num, rows, columns), dtype=np.uint8)
        typical = round(-np.log2(np.sqrt(columns) * np.sqrt(np.mean(E2M1_VALUES**2))))
        exponents = rng.integers(126 + typical, 129 + typical, (num, rows, columns // 32), dtype=np.uint8)
        return Matrices(codes, exponents)

    @staticmethod
    def values(matrices, i):
        scales = np.exp2(matrices.scales[i].astype(np.float32) - 127)
        return E2M1_VALUES[matrices.codes[i]] * np.repeat(scales, 32, axis=-1)


class Fp8:
    """E4M3 codes; scales: float32 for each block of 128x128, [num, rows / 128, columns / 128], rounded up."""

    name = "fp8"
    bits_per_weight = 8

    @staticmethod
    def draw(rng, num, rows, columns):
        # Times 64: a quantised checkpoint fills the format's range; its smallest values are no subnormals.
        table = nearest_codes(normal_quantiles(256) * 64, e4m3_values())
        scales = rng.uniform(0.5, 1.5, (num, ceil_div(rows, 128), ceil_div(columns, 128)))
        return Matrices(draw_from(table, rng, (num, rows, columns)),
                        (scales / (64 * np.sqrt(columns))).astype(np.float32))

    @staticmethod
    def values(matrices, i):
        _, rows, columns = matrices.codes.shape
        scales = np.repeat(np.repeat(matrices.scales[i], 128, axis=0), 128, axis=1)[:rows, :columns]
        return e4m3_values()[matrices.codes[i]] * scales


class Q8_0:
    """ggml's int8 codes; scales: float16, [num, rows, columns / 32]."""

    name = "q8_0"
    bits_per_weight = 8.5

    @staticmethod
    def draw(rng, num, rows, columns):
        table = np.round(normal_quantiles(256) * 40).astype(np.int8)
        scales = rng.uniform(0.5, 1.5, (num, rows, columns // 32)) / (40 * np.sqrt(columns))
        return Matrices(draw_from(table, rng, (num, rows, columns)), scales.astype(np.float16))

    @staticmethod
    def values(matrices, i):
        return matrices.codes[i] * np.repeat(matrices.scales[i].astype(np.float32), 32, axis=-1)


class Bf16:
    """BF16 codes as uint16; no scales."""

    name = "bf16"
    bits_per_weight = 16

    @staticmethod
    def draw(rng, num, rows, columns):
        table = to_bf16(normal_quantiles(1 << 16) / np.sqrt(columns))
        return Matrices(draw_from(table, rng, (num, rows, columns)), None)

    @staticmethod
    def values(matrices, i):
        return from_bf16(matrices.codes[i])


BY_NAME = {each.name: each for each in (Mxfp4, Fp8, Q8_0, Bf16)}
