"""make_torch_folder.py FROM TO [SHARDS]: a Hugging Face folder with the weights as torch.save writes them, without torch.

FROM has model.safetensors; TO, which exists, gets everything but that, and pytorch_model.bin, or so many shards with an
index.
"""
import collections
import io
import json
import os
import pickle
import shutil
import struct
import sys
import types
import zipfile

STORAGES = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2)}

torch = types.ModuleType("torch")
torch._utils = types.ModuleType("torch._utils")
sys.modules["torch"], sys.modules["torch._utils"] = torch, torch._utils
for storage, _ in STORAGES.values():
    setattr(torch, storage, type(storage, (), {"__module__": "torch"}))


def _rebuild_tensor_v2(*arguments):
    raise NotImplementedError


_rebuild_tensor_v2.__module__ = "torch._utils"
torch._utils._rebuild_tensor_v2 = _rebuild_tensor_v2


class Storage:
    def __init__(self, kind, key, count):
        self.id = ("storage", getattr(torch, STORAGES[kind][0]), key, "cpu", count)


class Tensor:
    def __init__(self, storage, shape):
        self.storage, self.shape = storage, tuple(shape)

    def __reduce__(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return _rebuild_tensor_v2, (self.storage, 0, self.shape, tuple(strides), False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        return thing.id if isinstance(thing, Storage) else None


def save(path, tensors):
    """tensors: name -> (kind, shape, bytes)."""
    state, parts = {}, []
    for key, (name, (kind, shape, data)) in enumerate(tensors.items()):
        state[name] = Tensor(Storage(kind, str(key), len(data) // STORAGES[kind][1]), shape)
        parts.append((f"archive/data/{key}", data))
    text = io.BytesIO()
    Pickler(text, 2).dump(state)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", "little")
        for part in parts:
            archive.writestr(*part)


def main():
    source, target = sys.argv[1:3]
    shards = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with open(os.path.join(source, "model.safetensors"), "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    header.pop("__metadata__", None)
    tensors = {name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])]) for name, row in header.items()}
    for name in os.listdir(source):
        if name not in ("model.safetensors", "model.gguf"):
            shutil.copy(os.path.join(source, name), target)
    names = list(tensors)
    if shards == 1:
        save(os.path.join(target, "pytorch_model.bin"), tensors)
        return
    where = {}
    for i in range(shards):
        shard = f"pytorch_model-{i + 1:05}-of-{shards:05}.bin"
        save(os.path.join(target, shard), {name: tensors[name] for name in names[i::shards]})
        where.update({name: shard for name in names[i::shards]})
    with open(os.path.join(target, "pytorch_model.bin.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)


main()
