"""Rounds the matrices of a model to numbers of 4 or 8 bits and saves them in words, as GPTQ, AWQ and compressed-tensors do.

The model that is rounded keeps the values that the numbers stand for, so its logits are the reference of the folder. How numbers
lie in words follows GPTQModel (nn_modules/qlinear), AutoAWQ (modules/linear/gemm.py) and compressed-tensors (pack_quantized).
"""
import os

import numpy as np
import torch

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i of a word has the number of row 8 w + AWQ_ORDER[i]


def settings_of(config):
    """(method, bits, columns of a group, zeros are the middle, columns are in another order)."""
    method = config["quant_method"]
    if method == "compressed-tensors":
        weights = config["config_groups"]["group_0"]["weights"]
        return method, weights["num_bits"], weights["group_size"] or 0, weights["symmetric"], False
    return method, config["bits"], config["group_size"], config.get("sym", not config.get("zero_point", False)), config.get("desc_act", False)


def round_matrix(weight, config, random):
    """(numbers [rows][columns], scales [rows][groups], zeros [rows][groups], group of each column)."""
    method, bits, size, middle, shuffled = settings_of(config)
    rows, columns = weight.shape
    size = size or columns
    of_column = np.arange(columns) // size
    if shuffled:
        of_column = random.permutation(of_column)
    most = 2 ** bits - 1
    scales = np.zeros((rows, columns // size), np.float32)
    zeros = np.full(scales.shape, 2 ** (bits - 1), np.int64)
    for g in range(columns // size):
        part = weight[:, of_column == g]
        if middle:
            scales[:, g] = np.abs(part).max(1) / (2 ** (bits - 1) - 1)
        else:
            scales[:, g] = 2.0 ** np.ceil(np.log2((part.max(1) - part.min(1)) / (most - 1)))  # zero * scale is a half float
            zeros[:, g] = np.clip(np.round(-part.min(1) / scales[:, g]), 1, most)
    scales = torch.from_numpy(scales).to(torch.bfloat16 if method == "compressed-tensors" else torch.float16)
    of_value = scales.float().numpy()[:, of_column]
    numbers = np.clip(np.round(weight / of_value) + zeros[:, of_column], 0, most).astype(np.int64)
    return numbers, scales, zeros, of_column


def pack(numbers, bits, order=None):
    """Words of the numbers of the last axis, in their order or another one."""
    n = 32 // bits
    parts = numbers.reshape(*numbers.shape[:-1], -1, n)[..., order or list(range(n))].astype(np.uint64)
    words = (parts << (np.arange(n, dtype=np.uint64) * bits)).sum(-1).astype(np.uint32)
    return torch.from_numpy(words.view(np.int32).copy())


def tensors_of(name, rounded, config):
    """The tensors that a folder has of the matrix NAME.weight."""
    method, bits, _, middle, _ = settings_of(config)
    numbers, scales, zeros, of_column = rounded
    if config.get("format") == "int-quantized":
        return {name + ".weight": torch.from_numpy((numbers - 128).astype(np.int8)), name + ".weight_scale": scales}
    if method == "compressed-tensors":
        out = {name + ".weight_packed": pack(numbers, bits), name + ".weight_scale": scales,
               name + ".weight_shape": torch.tensor(numbers.shape, dtype=torch.int64)}
        if not middle:
            out[name + ".weight_zero_point"] = pack(zeros.T, bits).T
        return out
    if method == "awq":
        return {name + ".qweight": pack(numbers.T, bits, AWQ_ORDER), name + ".qzeros": pack(zeros.T, bits, AWQ_ORDER),
                name + ".scales": scales.T}
    stored = zeros if config.get("checkpoint_format") == "gptq_v2" else zeros - 1
    return {name + ".qweight": pack(numbers, bits).T, name + ".qzeros": pack(stored.T, bits), name + ".scales": scales.T,
            name + ".g_idx": torch.from_numpy(of_column.astype(np.int32))}


def round_to_words(model, config):
    random = np.random.default_rng(7)

    def round_one(name, values):
        rounded = round_matrix(values.numpy(), config, random)
        numbers, scales, zeros, of_column = rounded
        values = (numbers - zeros[:, of_column]) * scales.float().numpy()[:, of_column]
        return torch.from_numpy(values.astype(np.float32)), tensors_of(name, rounded, config)

    round_layers(model, round_one)


def round_layers(model, round_one):
    """Replaces the matrices of the layers, but for those of routers, by what round_one makes of a name and a matrix: values, and the tensors
    that a folder has of it. The model is saved with these."""
    stored, taken = {}, set()

    def take(name, matrix):
        values, tensors = round_one(name, matrix.float())
        stored.update(tensors)
        return values

    for name, weight in model.named_parameters():
        if ".layers." not in name or weight.dim() < 2 or name.endswith("mlp.gate.weight"):
            continue
        taken.add(name)
        if weight.dim() == 2:
            weight.data = take(name.removesuffix(".weight"), weight.data)
            continue
        stem, _, kind = name.rpartition(".")
        parts = ("gate_proj", "up_proj") if kind == "gate_up_proj" else (kind,)
        weight.data = torch.stack([  # experts: a tensor each
            torch.cat([take(f"{stem}.{e}.{part}", half) for part, half in zip(parts, matrix.chunk(len(parts)))])
            for e, matrix in enumerate(weight.data)])
    model.float()
    model.save_pretrained = lambda folder, **_: save(model, taken, stored, folder)


def save(model, taken, stored, folder):
    from safetensors.torch import save_file
    out = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items() if name not in taken}
    os.makedirs(folder)
    save_file({name: value.contiguous() for name, value in {**out, **stored}.items()}, os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})
