"""ggml's C functions through ctypes: what one MoE layer needs, and no more.

The libraries are those that environment.py builds: libggml-base.so and one libggml-cpu-NAME.so per instruction set, of
which the best that this CPU runs is taken, as ggml's own loader does.
"""

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

TYPE_F32, TYPE_Q8_0, TYPE_I32, TYPE_BF16, TYPE_MXFP4 = 0, 8, 26, 30, 39
STATUS_SUCCESS = 0
_BUFFER_USAGE_WEIGHTS = 1


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class TensorHead(ctypes.Structure):
    """The first members of struct ggml_tensor."""

    _fields_ = [("type", c_int), ("buffer", c_void_p), ("ne", c_int64 * 4), ("nb", c_size_t * 4)]


_P = c_void_p
# name: (result, arguments)
_BASE_FUNCTIONS = {
    "ggml_version": (c_char_p, []),
    "ggml_init": (_P, [InitParams]),
    "ggml_new_tensor_2d": (_P, [_P, c_int, c_int64, c_int64]),
    "ggml_new_tensor_3d": (_P, [_P, c_int, c_int64, c_int64, c_int64]),
    "ggml_set_input": (None, [_P]),
    "ggml_set_output": (None, [_P]),
    "ggml_nbytes": (c_size_t, [_P]),
    "ggml_mul_mat_id": (_P, [_P, _P, _P, _P]),
    "ggml_add_id": (_P, [_P, _P, _P, _P]),
    "ggml_swiglu_split": (_P, [_P, _P, _P]),
    "ggml_swiglu_oai": (_P, [_P, _P, _P, c_float, c_float]),
    "ggml_mul": (_P, [_P, _P, _P]),
    "ggml_add": (_P, [_P, _P, _P]),
    "ggml_cont": (_P, [_P, _P]),
    "ggml_view_2d": (_P, [_P, _P, c_int64, c_int64, c_size_t, c_size_t]),
    "ggml_new_graph": (_P, [_P]),
    "ggml_build_forward_expand": (None, [_P, _P]),
    "ggml_gallocr_new": (_P, [_P]),
    "ggml_gallocr_free": (None, [_P]),
    "ggml_gallocr_alloc_graph": (c_bool, [_P, _P]),
    "ggml_free": (None, [_P]),
    "ggml_backend_reg_dev_get": (_P, [_P, c_size_t]),
    "ggml_backend_reg_get_proc_address": (_P, [_P, c_char_p]),
    "ggml_backend_dev_init": (_P, [_P, c_char_p]),
    "ggml_backend_dev_buffer_type": (_P, [_P]),
    "ggml_backend_dev_supports_op": (c_bool, [_P, _P]),
    "ggml_backend_buft_name": (c_char_p, [_P]),
    "ggml_backend_buft_is_host": (c_bool, [_P]),
    "ggml_backend_buft_alloc_buffer": (_P, [_P, c_size_t]),
    "ggml_backend_buffer_free": (None, [_P]),
    "ggml_backend_buffer_set_usage": (None, [_P, c_int]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_P, [_P, _P]),
    "ggml_backend_tensor_set": (None, [_P, _P, c_size_t, c_size_t]),
    "ggml_backend_tensor_get": (None, [_P, _P, c_size_t, c_size_t]),
    "ggml_backend_graph_compute": (c_int, [_P, _P]),
}


class Ggml:
    """The functions of libggml-base as methods without their prefix, and one CPU backend with its number of threads."""

    def __init__(self, folder, num_threads):
        base = ctypes.CDLL(str(Path(folder) / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        for name, (result, arguments) in _BASE_FUNCTIONS.items():
            function = getattr(base, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)
        self.variant, library = best_cpu_library(folder)
        library.ggml_backend_init.restype = c_void_p
        registry = library.ggml_backend_init()
        self.device = self.backend_reg_dev_get(registry, 0)
        self.backend = self.backend_dev_init(self.device, None)
        set_num_threads = CFUNCTYPE(None, c_void_p, c_int)(
            self.backend_reg_get_proc_address(registry, b"ggml_backend_set_n_threads"))
        set_num_threads(self.backend, num_threads)
        self.cpu_buffer_type = self.backend_dev_buffer_type(self.device)
        self._extra_buffer_types = list_of_pointers(
            self.backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts"), self.device)

    def context(self, num_bytes=16 << 20):
        """A context for tensors and graphs without their data."""
        return self.init(InitParams(num_bytes, None, True))

    def weight_buffer_type(self, type_code, columns, rows, num_experts):
        """Where llama.cpp would keep such weights: the first buffer type that rearranges them and supports the product."""
        for buffer_type in self._extra_buffer_types:
            context = self.context(1 << 16)
            weights = self.new_tensor_3d(context, type_code, columns, rows, num_experts)
            x = self.new_tensor_3d(context, TYPE_F32, columns, 1, 1)
            ids = self.new_tensor_2d(context, TYPE_I32, 1, 1)
            product = self.mul_mat_id(context, weights, x, ids)
            buffer = self.backend_buft_alloc_buffer(buffer_type, 0)
            TensorHead.from_address(weights).buffer = buffer
            is_supported = self.backend_dev_supports_op(self.device, product)
            self.backend_buffer_free(buffer)
            self.free(context)
            if is_supported:
                return buffer_type
        return self.cpu_buffer_type

    def allocate_weights(self, context, buffer_type):
        buffer = self.backend_alloc_ctx_tensors_from_buft(context, buffer_type)
        if not buffer:
            raise MemoryError("ggml could not allocate the weights")
        self.backend_buffer_set_usage(buffer, _BUFFER_USAGE_WEIGHTS)

    def set(self, tensor, array, offset=0):
        self.backend_tensor_set(tensor, array.ctypes.data, offset, array.nbytes)

    def get(self, tensor, array):
        self.backend_tensor_get(tensor, array.ctypes.data, 0, array.nbytes)

    def compute(self, graph):
        status = self.backend_graph_compute(self.backend, graph)
        if status != STATUS_SUCCESS:
            raise RuntimeError(f"ggml_backend_graph_compute must succeed (got status {status})")


def best_cpu_library(folder):
    """(name, library) of the CPU backend with the highest score on this machine; a score of 0 cannot run here."""
    best = (0, "", None)
    for path in sorted(Path(folder).glob("libggml-cpu-*.so")):
        library = ctypes.CDLL(str(path))
        score = library.ggml_backend_score()
        if score > best[0]:
            best = (score, path.stem.removeprefix("libggml-cpu-"), library)
    if best[2] is None:
        raise RuntimeError(f"no libggml-cpu-*.so in {folder} runs on this CPU")
    return best[1:]


def list_of_pointers(address, device):
    """What ggml_backend_dev_get_extra_bufts returns: pointers up to a null."""
    pointers, found = CFUNCTYPE(POINTER(c_void_p), c_void_p)(address)(device), []
    while pointers and pointers[len(found)]:
        found.append(pointers[len(found)])
    return found
