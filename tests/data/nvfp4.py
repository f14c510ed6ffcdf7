"""Rounds the matrices of a model to NVFP4, floats of 4 bits of which 16 share a float of 8 bits and all a float of 32, and saves them as
NVIDIA's ModelOpt and compressed-tensors do; of ModelOpt with some matrices as floats of 8 bits.

The model that is rounded keeps the values that the numbers stand for, so its logits are the reference of the folder. How numbers
lie follows ModelOpt (torch/quantization/qtensor/nvfp4_tensor.py) and compressed-tensors (compressors/nvfp4).
"""
import torch

from words import round_layers

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
    round_layers(model, lambda name, weight: tensors_of(name, weight, settings))
