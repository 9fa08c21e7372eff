"""The layer on kt-kernel, KTransformers' CPU kernels: the calls that its own NativeMoEWrapper makes, without torch.

The wheel carries one extension module per instruction set and chooses among them by /proc/cpuinfo; so does this file,
through the wheel's own _cpu_detect.py. Within a module the class of a format is the first that the module has.
"""

import glob
import importlib.util
import os
from pathlib import Path

import numpy as np

import formats

CLASSES = {
    "mxfp4": ("AMXFP4_KGroup_MOE", "AVX2MXFP4_MOE"),
    "fp8": ("AMXFP8_MOE", "AVX2FP8_MOE"),
    "bf16": ("AMXBF16_MOE", "AVX2BF16_MOE"),
}
GROUPS = {"mxfp4": (4, 32), "fp8": (8, 128)}  # bits, weights along K that share a scale
LABELS = {"mxfp4": "MXFP4", "fp8": "FP8 128x128", "bf16": "BF16"}
WEIGHT_FORMATS = {"mxfp4": formats.Mxfp4, "fp8": formats.Fp8, "bf16": formats.Bf16}
ERROR_LIMIT = 0.03


def load_module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_extension(folder):
    """The best extension module of the wheel unpacked in folder for this CPU, and that one's name."""
    package = Path(folder) / "kt_kernel"
    # By path: importing the package would ask for torch.
    detect = load_module(package / "_cpu_detect.py", "kt_cpu_detect")
    variant = detect.detect_cpu_features()
    return detect.load_extension(variant), variant


def subpools(num_threads):
    """Threads of each NUMA node's pool: one pool unless the threads are more than one node has."""
    nodes = sorted(glob.glob("/sys/devices/system/node/node[0-9]*")) or ["node0"]
    per_node = (os.cpu_count() or 1) // len(nodes)
    num_pools = len(nodes) if num_threads > per_node and num_threads % len(nodes) == 0 else 1
    return [num_threads // num_pools] * num_pools


class KtPeer:
    name = "kt-kernel"
    has_biases = False

    def __init__(self, folder, num_threads):
        self.extension, self.variant = load_extension(folder)
        self.version = "kt-kernel " + next(Path(folder).glob("kt_kernel-*.dist-info")).stem.split("-")[1]
        config = self.extension.WorkerPoolConfig()
        config.subpool_thread_count = subpools(num_threads)
        config.subpool_count = len(config.subpool_thread_count)
        config.subpool_numa_map = list(range(config.subpool_count))
        self.pool = self.extension.CPUInfer(config)

    def weight_format(self, name):
        return WEIGHT_FORMATS[name]

    def load(self, layer, max_tokens):
        shape, name = layer.shape, layer.weight_format.name
        classes = [each for each in CLASSES[name] if hasattr(self.extension.moe, each)]
        if not classes:
            raise NotImplementedError(f"kt-kernel's {self.variant} module has none of {', '.join(CLASSES[name])}")
        self.layer, self.class_name = layer, classes[0]
        self.on_gpu = np.zeros(shape.num_experts, np.bool_)
        config = self.extension.moe.MOEConfig(shape.num_experts, shape.top_k, shape.hidden, shape.intermediate,
                                              self.on_gpu.ctypes.data)
        config.layer_idx, config.pool, config.max_len = 0, self.pool.backend_, max_tokens
        if name in GROUPS:
            config.quant_config.bits, config.quant_config.group_size = GROUPS[name]
            config.quant_config.zero_point = False
        if shape.limit is not None:
            config.swiglu_limit, config.swiglu_alpha = shape.limit, shape.alpha
        kept = self._point_at_weights(config)
        self.moe = getattr(self.extension.moe, self.class_name)(config)
        self.expert_map = np.arange(shape.num_experts, dtype=np.int64)
        self._wait_for(self.moe.load_weights_task(self.expert_map.ctypes.data))
        del kept  # the kernels have their own copy now

    def describe(self):
        note = ", without biases" if self.layer.shape.limit is not None else ""
        return {"version": self.version, "kernels": f"{self.variant} {self.class_name}",
                "format": LABELS[self.layer.weight_format.name] + note}

    def prepare(self, batch):
        self.batch = batch
        self.num_tokens = np.array([batch.num_tokens()], np.int32)
        self.y = np.zeros(batch.x.shape, np.uint16)

    def run(self):
        batch = self.batch
        self._wait_for(self.moe.forward_task(self.num_tokens.ctypes.data, self.layer.shape.top_k,
                                             batch.expert_ids.ctypes.data, batch.expert_weights.ctypes.data,
                                             batch.x.ctypes.data, self.y.ctypes.data, False))

    def output(self):
        return formats.from_bf16(self.y)

    def _wait_for(self, task):
        self.pool.submit(task)
        self.pool.sync()

    def _point_at_weights(self, config):
        """Pointers to codes and scales of every expert; returns the arrays that must live until they are copied."""
        kept = []
        for part, matrices in (("gate", self.layer.gate), ("up", self.layer.up), ("down", self.layer.down)):
            codes, scales = kt_arrays(self.layer.weight_format, matrices)
            kept += [codes, scales]
            setattr(config, f"{part}_projs", self._pointers(codes))
            setattr(config, f"{part}_scales", self._pointers(scales))
        return kept

    def _pointers(self, arrays):
        """[[address of each expert's array]]; 0 where there is none."""
        num_experts, distinct = self.layer.shape.num_experts, self.layer.num_distinct()
        if arrays is None:
            return [[0] * num_experts]
        return [[arrays[expert % distinct].ctypes.data for expert in range(num_experts)]]


def kt_arrays(weight_format, matrices):
    """(codes, scales) as kt-kernel takes them: MXFP4 as pairs of columns, low half first, with BF16 scales."""
    if weight_format is not formats.Mxfp4:
        return matrices.codes, matrices.scales
    codes = matrices.codes[:, :, 0::2] | (matrices.codes[:, :, 1::2] << 4)
    return np.ascontiguousarray(codes), matrices.scales.astype(np.uint16) << 7
