"""Rounds the matrices of a model to NVFP4, floats of 4 bits of which 16 share a float of 8 bits and all a float of 32, and saves them as
NVIDIA's ModelOpt and compressed-tensors do; of ModelOpt with some matrices as floats of 8 bits.

The model that is rounded keeps the values that the numbers stand for, so its logits are the reference of the folder. How numbers
lie follows ModelOpt (torch/quantization/qtensor/nvfp4_tensor.py) and compressed-tensors (compressors/nvfp4).
"""
import os

import torch

FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
MOST4, MOST8, TOGETHER = 6, 448, 16


def round_to_nvfp4(weight, divides):
    """(values, bytes of numbers [rows][columns / 2], scales [rows][columns / 16], factor). divides: values are divided by the factor."""
    blocks = weight.double().reshape(weight.shape[0], -1, TOGETHER)
    factor = (blocks.abs().max() / (MOST4 * MOST8)).float()
    stored = (1 / factor if divides else factor).float()
    unit = 1 / stored.double() if divides else stored.double()
    scales = (blocks.abs().amax(-1) / MOST4 / unit).to(torch.float8_e4m3fn)
    of_block = scales.double()[..., None] * unit
    codes = (blocks / of_block)[..., None].sub(FLOAT4).abs().argmin(-1)
    values = (FLOAT4[codes] * of_block).reshape(weight.shape).float()
    codes = codes.reshape(weight.shape)
    return values, (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), scales, stored


def round_to_f8(weight):
    factor = (weight.abs().max() / MOST8).float()
    codes = (weight / factor).to(torch.float8_e4m3fn)
    return (codes.double() * factor.double()).float(), codes, factor


def tensors_of(name, weight, settings):
    """(values, the tensors that a folder has of the matrix NAME.weight)."""
    if settings["quant_method"] == "compressed-tensors":
        values, numbers, scales, factor = round_to_nvfp4(weight, True)
        return values, {name + ".weight_packed": numbers, name + ".weight_scale": scales, name + ".weight_global_scale": factor.reshape(1),
                        name + ".input_global_scale": torch.tensor([7.0])}
    if settings["quantized_layers"][name]["quant_algo"] == "FP8":
        values, codes, factor = round_to_f8(weight)
        out = {name + ".weight": codes, name + ".weight_scale": factor}
    else:
        values, numbers, scales, factor = round_to_nvfp4(weight, False)
        out = {name + ".weight": numbers, name + ".weight_scale": scales, name + ".weight_scale_2": factor}
    out[name + ".input_scale"] = torch.tensor(0.5)
    for part in "kv":
        if name.endswith(f"{part}_proj"):
            out[f"{name}.{part}_scale"] = torch.tensor(0.25)
    return values, out


def round_matrices(model, settings):
    stored, taken = {}, set()

    def round_one(name, weight):
        values, tensors = tensors_of(name, weight.float(), settings)
        stored.update(tensors)
        return values

    for name, weight in model.named_parameters():
        if ".layers." not in name or weight.dim() < 2 or name.endswith("mlp.gate.weight"):
            continue
        taken.add(name)
        if weight.dim() == 2:
            weight.data = round_one(name.removesuffix(".weight"), weight.data)
            continue
        experts = []  # a tensor each
        for e, matrix in enumerate(weight.data):
            parts = ("gate_proj", "up_proj") if name.endswith("gate_up_proj") else ("down_proj",)
            stem = name.rpartition(".")[0]
            experts.append(torch.cat([round_one(f"{stem}.{e}.{part}", half) for part, half in zip(parts, matrix.chunk(len(parts)))]))
        weight.data = torch.stack(experts)
    model.float()
    model.save_pretrained = lambda folder, **_: save(model, taken, stored, folder)


def save(model, taken, stored, folder):
    from safetensors.torch import save_file
    out = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items() if name not in taken}
    os.makedirs(folder)
    save_file({name: value.contiguous() for name, value in {**out, **stored}.items()}, os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})
