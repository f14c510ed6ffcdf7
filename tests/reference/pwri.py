#!/usr/bin/env python3
"""GGUF files and PowerInfer's flavour of them, in numpy.

A PowerInfer file is a GGUF file (version 3, little-endian) with three differences:
  * the first four bytes are "PWRI" instead of "GGUF";
  * the FFN's down matrix is stored transposed, a row per neuron: blk.N.ffn_down_t.weight;
  * every layer has a predictor, blk.N.fc1.weight [rank, n_embd] and
    blk.N.fc2.weight [n_ff, rank]; the optional key powerinfer.sparse_threshold
    (float32, 0 when absent) is the score from which on a neuron counts as active.

Shapes are numpy shapes here (rows first); the file stores them reversed.

    python3 tests/reference/pwri.py FILE               # keys and tensors
    python3 tests/reference/pwri.py FILE --sums        # with a checksum for every tensor

As a module:
    f = File(path); f.magic; f.meta; f.tensors[name].shape; f.load(name); f.raw(name)
    w = Writer(path, meta, [(name, shape, kind), ...], magic=PWRI); w.put(name, array); w.close()
"""
import argparse
import struct
import zlib
from collections import namedtuple

import numpy as np

GGUF, PWRI = b"GGUF", b"PWRI"
ALIGNMENT = 32

# element kinds of metadata values
UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
SCALARS = {UINT8: "<B", INT8: "<b", UINT16: "<H", INT16: "<h", UINT32: "<I", INT32: "<i",
           FLOAT32: "<f", BOOL: "<?", UINT64: "<Q", INT64: "<q", FLOAT64: "<d"}

# tensor kinds: id, elements of a block, bytes of a block
Kind = namedtuple("Kind", "name id block bytes ftype")
KINDS = {k.name: k for k in (Kind("F32", 0, 1, 4, 0), Kind("F16", 1, 1, 2, 1),
                             Kind("Q4_0", 2, 32, 18, 2), Kind("Q8_0", 8, 32, 34, 7))}
KIND_OF_ID = {k.id: k for k in KINDS.values()}

Tensor = namedtuple("Tensor", "shape kind offset nbytes")

Q4_0_BLOCK = np.dtype([("d", "<f2"), ("q", "u1", 16)])
Q8_0_BLOCK = np.dtype([("d", "<f2"), ("q", "i1", 32)])


def nbytes(shape, kind):
    """Bytes of a tensor; its rows must be whole blocks."""
    k = KINDS[kind]
    if shape[-1] % k.block:
        raise ValueError(f"{kind} needs rows of a multiple of {k.block}, not {shape[-1]}")
    return int(np.prod(shape, dtype=np.int64)) // k.block * k.bytes


# ------------------------------------------------------------- block formats

def quantize_q8_0(a):
    """float32 [..., 32 n] -> blocks [..., n]: d = max|x| / 127, q = round(x / d)."""
    x = np.ascontiguousarray(a, np.float32).reshape(*a.shape[:-1], -1, 32)
    d = np.abs(x).max(-1) / np.float32(127)
    with np.errstate(divide="ignore"):
        inv = np.where(d > 0, np.float32(1) / d, np.float32(0)).astype(np.float32)
    y = x * inv[..., None]
    out = np.empty(d.shape, Q8_0_BLOCK)
    out["d"] = d
    out["q"] = np.trunc(y + np.copysign(np.float32(0.5), y))   # halves away from zero
    return out


def quantize_q4_0(a):
    """float32 [..., 32 n] -> blocks [..., n]: the element of largest magnitude becomes -8."""
    x = np.ascontiguousarray(a, np.float32).reshape(*a.shape[:-1], -1, 32)
    high, low = x.max(-1), x.min(-1)
    d = np.where(high > -low, high, low)
    tie = high == -low                       # the first of the two decides the sign
    if tie.any():
        rows = x[tie]
        d[tie] = np.take_along_axis(rows, np.abs(rows).argmax(-1)[:, None], -1)[:, 0]
    d = d / np.float32(-8)
    with np.errstate(divide="ignore"):
        inv = np.where(d != 0, np.float32(1) / d, np.float32(0)).astype(np.float32)
    q = x * inv[..., None]
    q += np.float32(8.5)
    q = np.minimum(q.astype(np.uint8), 15)
    out = np.empty(d.shape, Q4_0_BLOCK)
    out["d"] = d
    out["q"] = q[..., :16] | (q[..., 16:] << 4)   # low nibbles: elements 0-15, high: 16-31
    return out


def encode(a, kind):
    """float array -> the tensor's bytes as an array."""
    if kind == "F32":
        return np.ascontiguousarray(a, "<f4")
    if kind == "F16":
        return np.ascontiguousarray(a, np.float32).astype("<f2")
    return quantize_q4_0(a) if kind == "Q4_0" else quantize_q8_0(a)


def decode(raw, kind, shape, dtype=np.float32):
    """The tensor's bytes (buffer or array) -> array of the given shape."""
    buffer = raw.view(np.uint8).reshape(-1) if isinstance(raw, np.ndarray) else np.frombuffer(raw, np.uint8)
    if kind in ("F32", "F16"):
        return buffer.view("<f4" if kind == "F32" else "<f2").astype(dtype).reshape(shape)
    b = buffer.view(Q4_0_BLOCK if kind == "Q4_0" else Q8_0_BLOCK)
    x = np.empty((b.size, 32), dtype)
    if kind == "Q4_0":
        x[:, :16] = b["q"] & 15
        x[:, 16:] = b["q"] >> 4
        x -= 8
    else:
        x[:] = b["q"]
    x *= b["d"].astype(np.float32)[:, None]
    return x.reshape(shape)


# -------------------------------------------------------------------- reading

class File:
    """An open file; tensors are memory-mapped and decoded on demand.
    meta: key -> value; kinds: key -> element kind (of an array's elements: (ARRAY, kind))."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 0
        self.magic = bytes(self._take(4))
        if self.magic not in (GGUF, PWRI):
            raise ValueError(f"{path}: neither GGUF nor PWRI")
        self.version, n_tensors, n_keys = struct.unpack("<IQQ", self._take(20))
        if self.version not in (2, 3):
            raise ValueError(f"{path}: version {self.version}")
        self.meta, self.kinds, self.tensors = {}, {}, {}
        for _ in range(n_keys):
            key, kind = self._string(), self._u32()
            if kind == ARRAY:
                item, n = self._u32(), self._u64()
                if item in SCALARS:
                    size = struct.calcsize(SCALARS[item])
                    value = np.frombuffer(self._take(n * size), SCALARS[item].replace("?", "u1")).tolist()
                else:
                    value = [self._string() for _ in range(n)]
                kind = (ARRAY, item)
            else:
                value = self._scalar(kind)
            self.meta[key], self.kinds[key] = value, kind
        entries = []
        for _ in range(n_tensors):
            name = self._string()
            shape = tuple(self._u64() for _ in range(self._u32()))[::-1]
            entries.append((name, shape, self._u32(), self._u64()))
        step = self.meta.get("general.alignment", ALIGNMENT)
        start = (self.at + step - 1) // step * step
        for name, shape, kind_id, offset in entries:
            if kind_id not in KIND_OF_ID:
                raise ValueError(f"{name}: tensor kind {kind_id} is not supported")
            kind = KIND_OF_ID[kind_id].name
            size = nbytes(shape, kind)
            if start + offset + size > self.data.size:
                raise ValueError(f"{name}: reaches past the end of the file")
            self.tensors[name] = Tensor(shape, kind, start + offset, size)

    def _take(self, n):
        if self.at + n > self.data.size:
            raise ValueError("file ends early")
        piece = self.data[self.at:self.at + n].tobytes()
        self.at += n
        return piece

    def _u32(self):
        return struct.unpack("<I", self._take(4))[0]

    def _u64(self):
        return struct.unpack("<Q", self._take(8))[0]

    def _string(self):
        return self._take(self._u64()).decode("utf-8", "surrogateescape")

    def _scalar(self, kind):
        if kind == STRING:
            return self._string()
        return struct.unpack(SCALARS[kind], self._take(struct.calcsize(SCALARS[kind])))[0]

    def raw(self, name):
        """The tensor's bytes as stored, uint8 [nbytes]."""
        t = self.tensors[name]
        return self.data[t.offset:t.offset + t.nbytes]

    def load(self, name, dtype=np.float32):
        """The tensor's values."""
        t = self.tensors[name]
        return decode(np.asarray(self.raw(name)), t.kind, t.shape, dtype)


# -------------------------------------------------------------------- writing

def _pack_string(s):
    b = s.encode("utf-8", "surrogateescape") if isinstance(s, str) else bytes(s)
    return struct.pack("<Q", len(b)) + b


def _pack_value(kind, v):
    return _pack_string(v) if kind == STRING else struct.pack(SCALARS[kind], v)


def _pack_meta(key, value):
    """value: bool, int (uint32), float (float32), str, or (kind, list) for an array."""
    if isinstance(value, tuple):
        kind, items = value
        if kind in SCALARS:
            body = np.asarray(items).astype(SCALARS[kind].replace("?", "u1")).tobytes()
        else:
            body = b"".join(map(_pack_string, items))
        return _pack_string(key) + struct.pack("<IIQ", ARRAY, kind, len(items)) + body
    kind = BOOL if isinstance(value, bool) else UINT32 if isinstance(value, int) else \
        FLOAT32 if isinstance(value, float) else STRING
    return _pack_string(key) + struct.pack("<I", kind) + _pack_value(kind, value)


class Writer:
    """Writes the header at once and the tensors one after another, so a model never has to
    be in memory. layout: (name, shape, kind) in file order; the data must come in that order.
    A tensor may be put in slices of whole rows."""

    def __init__(self, path, meta, layout, magic=GGUF):
        head = [magic, struct.pack("<IQQ", 3, len(layout), len(meta))]
        head += [_pack_meta(k, v) for k, v in meta.items()]
        offset = 0
        for name, shape, kind in layout:
            head.append(_pack_string(name) + struct.pack("<I", len(shape)))
            head.append(struct.pack(f"<{len(shape)}Q", *reversed(shape)))
            head.append(struct.pack("<IQ", KINDS[kind].id, offset))
            offset += -(-nbytes(shape, kind) // ALIGNMENT) * ALIGNMENT
        head = b"".join(head)
        self.file = open(path, "wb")
        self.file.write(head + bytes(-len(head) % ALIGNMENT))
        self.queue, self.done = list(layout), 0

    def put(self, name, array):
        """array: float values, or the blocks that encode() gave; a tensor or its next rows."""
        expected, shape, kind = self.queue[0]
        if name != expected:
            raise ValueError(f"{name} came where {expected} is due")
        encoded = array.dtype.fields is not None or (kind == "F16" and array.dtype == np.float16)
        data = np.ascontiguousarray(array if encoded else encode(array, kind)).view(np.uint8)
        self.file.write(data.tobytes())
        self.done += data.size
        total = nbytes(shape, kind)
        if self.done > total:
            raise ValueError(f"{name}: more rows than declared")
        if self.done == total:
            self.file.write(bytes(-total % ALIGNMENT))
            self.queue.pop(0)
            self.done = 0

    def close(self):
        if self.queue:
            raise ValueError(f"{self.queue[0][0]} was not written")
        self.file.close()


def write(path, meta, tensors, magic=GGUF):
    """tensors: name -> (array, kind)."""
    w = Writer(path, meta, [(n, a.shape, k) for n, (a, k) in tensors.items()], magic)
    for name, (a, _) in tensors.items():
        w.put(name, a)
    w.close()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("file")
    p.add_argument("--sums", action="store_true", help="print a CRC-32 of every tensor's bytes")
    args = p.parse_args()
    f = File(args.file)
    print(f"{f.magic.decode()} version {f.version}, {len(f.meta)} keys, {len(f.tensors)} tensors")
    for key, value in f.meta.items():
        print(f"{key} = " + (f"[{len(value)}] {value[:4]}" if isinstance(value, list) else repr(value)))
    for name, t in f.tensors.items():
        line = f"{name:32} {t.kind:5} {list(t.shape)}"
        print(line + (f" {zlib.crc32(f.raw(name)):08x}" if args.sums else ""))


if __name__ == "__main__":
    main()
