"""The layer on ggml's CPU backend: the graph that llama.cpp builds for the experts of one layer."""

import numpy as np

import formats
from ggml_library import TYPE_BF16, TYPE_F32, TYPE_I32, TYPE_MXFP4, TYPE_Q8_0, Ggml

TYPE_CODES = {"mxfp4": TYPE_MXFP4, "q8_0": TYPE_Q8_0, "bf16": TYPE_BF16}
# What ggml rounds activations to before it multiplies.
LABELS = {"mxfp4": "MXFP4 x Q8_0", "q8_0": "Q8_0 x Q8_0", "bf16": "BF16 x BF16"}
# ggml has no FP8; Q8_0 has the nearest number of bytes.
WEIGHT_FORMATS = {"mxfp4": formats.Mxfp4, "fp8": formats.Q8_0, "bf16": formats.Bf16}
# Above rounding of activations to 8 or 16 bits with the sums' own error, below any wrong layer.
ERROR_LIMIT = 0.03


def ggml_rows(weight_format, matrices, i):
    """Matrix i as ggml stores it: uint8 [rows, bytes of a row]."""
    codes = matrices.codes[i]
    if weight_format is formats.Bf16:
        return codes.view(np.uint8)
    blocks = codes.reshape(len(codes), -1, 32)
    scales = np.ascontiguousarray(matrices.scales[i])[:, :, None].view(np.uint8)
    if weight_format is formats.Mxfp4:
        blocks = blocks[:, :, :16] | (blocks[:, :, 16:] << 4)
    return np.concatenate([scales, blocks.view(np.uint8)], axis=2).reshape(len(codes), -1)


class GgmlPeer:
    name = "ggml"
    has_biases = True

    def __init__(self, folder, num_threads):
        self.ggml = Ggml(folder, num_threads)

    def weight_format(self, name):
        return WEIGHT_FORMATS[name]

    def load(self, layer, max_tokens):
        del max_tokens  # a graph is sized for each number of tokens
        g, shape = self.ggml, layer.shape
        self.layer, self.graphs = layer, {}
        self.type_code = TYPE_CODES[layer.weight_format.name]
        self.buffer_type = g.weight_buffer_type(self.type_code, shape.hidden, shape.intermediate, shape.num_experts)
        context = g.context()
        wide = [g.new_tensor_3d(context, self.type_code, shape.hidden, shape.intermediate, shape.num_experts)
                for _ in range(2)]
        narrow = g.new_tensor_3d(context, self.type_code, shape.intermediate, shape.hidden, shape.num_experts)
        g.allocate_weights(context, self.buffer_type)
        self.weights = [*wide, narrow]
        for tensor, matrices in zip(self.weights, (layer.gate, layer.up, layer.down)):
            self._set_experts(tensor, matrices)
        context = g.context()
        self.biases = [g.new_tensor_2d(context, TYPE_F32, values.shape[1], values.shape[0]) for values in layer.biases]
        if self.biases:
            g.allocate_weights(context, g.cpu_buffer_type)
        for tensor, values in zip(self.biases, layer.biases):
            g.set(tensor, values)

    def describe(self):
        buffer_name = self.ggml.backend_buft_name(self.buffer_type).decode()
        note = "" if self.buffer_type == self.ggml.cpu_buffer_type else ", repacked"
        return {"version": f"ggml {self.ggml.version().decode()}", "kernels": self.ggml.variant, "buffer": buffer_name,
                "format": LABELS[self.layer.weight_format.name] + note}

    def prepare(self, batch):
        """Puts the batch into the graph for its number of tokens."""
        if batch.num_tokens() not in self.graphs:
            self.graphs[batch.num_tokens()] = self._build(batch.num_tokens())
        self.current = self.graphs[batch.num_tokens()]
        self.ggml.set(self.current["x"], formats.from_bf16(batch.x))
        self.ggml.set(self.current["ids"], batch.expert_ids.astype(np.int32))
        self.ggml.set(self.current["expert_weights"], batch.expert_weights)

    def run(self):
        self.ggml.compute(self.current["graph"])

    def output(self):
        y = np.empty((self.current["num_tokens"], self.layer.shape.hidden), np.float32)
        self.ggml.get(self.current["y"], y)
        return y

    def _set_experts(self, tensor, matrices):
        distinct = [ggml_rows(self.layer.weight_format, matrices, i) for i in range(self.layer.num_distinct())]
        num_experts = self.layer.shape.num_experts
        if self.buffer_type == self.ggml.cpu_buffer_type:
            for expert in range(num_experts):
                rows = distinct[expert % len(distinct)]
                self.ggml.set(tensor, rows, expert * rows.nbytes)
            return
        # A buffer type that rearranges takes the whole tensor at once.
        self.ggml.set(tensor, np.stack([distinct[expert % len(distinct)] for expert in range(num_experts)]))

    def _build(self, num_tokens):
        g, shape = self.ggml, self.layer.shape
        context = g.context()
        x = g.new_tensor_3d(context, TYPE_F32, shape.hidden, 1, num_tokens)
        ids = g.new_tensor_2d(context, TYPE_I32, shape.top_k, num_tokens)
        expert_weights = g.new_tensor_3d(context, TYPE_F32, 1, shape.top_k, num_tokens)
        for tensor in (x, ids, expert_weights):
            g.set_input(tensor)
        graph = g.new_graph(context)
        up, gate = self._product(context, 1, x, ids), self._product(context, 0, x, ids)
        if shape.limit is None:
            hidden = g.swiglu_split(context, gate, up)
        else:
            hidden = g.swiglu_oai(context, gate, up, shape.alpha, shape.limit)
        experts = g.mul(context, self._product(context, 2, hidden, ids), expert_weights)
        y = self._sum_over_experts(context, graph, experts, num_tokens)
        g.set_output(y)
        g.build_forward_expand(graph, y)
        if not g.gallocr_alloc_graph(g.gallocr_new(g.cpu_buffer_type), graph):
            raise MemoryError("ggml could not allocate the activations")
        return {"x": x, "ids": ids, "expert_weights": expert_weights, "graph": graph, "y": y, "num_tokens": num_tokens}

    def _product(self, context, which, x, ids):
        out = self.ggml.mul_mat_id(context, self.weights[which], x, ids)
        return self.ggml.add_id(context, out, self.biases[which], ids) if self.biases else out

    def _sum_over_experts(self, context, graph, experts, num_tokens):
        g, shape = self.ggml, self.layer.shape
        row_bytes = 4 * shape.hidden
        views = [g.view_2d(context, experts, shape.hidden, num_tokens, shape.top_k * row_bytes, i * row_bytes)
                 for i in range(shape.top_k)]
        g.build_forward_expand(graph, experts)
        total = views[0]
        for view in views[1:]:
            total = g.add(context, total, view)
        return total if shape.top_k > 1 else g.cont(context, total)
