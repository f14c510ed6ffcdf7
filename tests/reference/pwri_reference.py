#!/usr/bin/env python3
"""Reference forward pass in numpy float64 for GGUF and PowerInfer files
(llama, bamboo, opt, falcon; F32, F16, Q8_0, Q4_0).

    python3 tests/reference/pwri_reference.py FILE --ids 1,5,9 --mode predicted --out logits.f32
    python3 tests/reference/pwri_reference.py FILE --random 64 --stats
    python3 tests/reference/pwri_reference.py FILE --ids 1,5,9 --compare logits.f32

Modes, see MODES:
    dense      every neuron
    exact      neurons whose activation is not zero; the same sum as dense for ReLU
    predicted  neurons whose score fc2 . relu(fc1 . r) is not below the threshold.
               r is the residual stream *before* the norm (llama, bamboo, opt: after
               attention was added; falcon: the input of the layer)

--emulate rounds activations where PowerInfer's CPU kernels do, see Rounding.

As a module:  m = Model(path); r = m(ids, mode="predicted"); r.logits [n_tokens, n_vocab];
r.active[layer], r.predicted[layer] bool [n_tokens, n_ff]
"""
import argparse
import json
import math

import numpy as np

import pwri

MODES = ("dense", "exact", "predicted")


# ------------------------------------------------------- operations (any dtype)

def rms_norm(x, weight, eps):
    """x [n_tokens, n_embd]"""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight + bias


def relu(x):
    return np.maximum(x, 0)


def rope(x, positions, base, neox):
    """x [n_tokens, n_head, head_size]; pairs are (2i, 2i+1), or (i, i + half) if neox."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)
    cos, sin = (f(angle).astype(x.dtype)[:, None, :] for f in (np.cos, np.sin))
    even, odd = (x[..., :half], x[..., half:]) if neox else (x[..., 0::2], x[..., 1::2])
    out = np.empty_like(x)
    a, b = even * cos - odd * sin, even * sin + odd * cos
    if neox:
        out[..., :half], out[..., half:] = a, b
    else:
        out[..., 0::2], out[..., 1::2] = a, b
    return out


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, rounding=None):
    """Causal. q [n_tokens, n_head, size], k and v [n_tokens, n_head_kv, size]
    -> [n_tokens, n_head * size]"""
    n, n_head, size = q.shape
    group = n_head // k.shape[1]
    mask = np.triu(np.full((n, n), -np.inf, q.dtype), 1)
    half = rounding.half if rounding else (lambda a: a)
    out = np.empty_like(q)
    q, k, v = half(q), half(k), half(v)
    for h in range(n_head):
        s = q[:, h] @ k[:, h // group].T / math.sqrt(size) + mask
        out[:, h] = half((rounding.softmax if rounding else softmax)(s)) @ v[:, h // group]
    return out.reshape(n, n_head * size)


class Rounding:
    """Where PowerInfer's CPU kernels round activations: before a product with F16 weights
    to float16, with Q4_0 or Q8_0 weights to blocks of 32 with 8 bits; the KV cache, the
    queries and the attention weights to float16; exp() through a float16 table."""

    @staticmethod
    def half(a):
        return a.astype(np.float16).astype(np.float64)

    @staticmethod
    def blocks(a):
        """Q8_0 with halves to even, as the AVX2 version does."""
        x = a.astype(np.float32).reshape(*a.shape[:-1], -1, 32)
        top = np.abs(x).max(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            inv = np.where(top > 0, np.float32(127) / top, np.float32(0)).astype(np.float32)
        d = (top / np.float32(127)).astype(np.float16).astype(np.float64)
        return (np.rint(x * inv) * d).reshape(a.shape)

    def for_kind(self, a, kind):
        return a if kind == "F32" else self.half(a) if kind == "F16" else self.blocks(a)

    def softmax(self, s):
        e = self.half(np.exp(self.half(s - s.max(-1, keepdims=True))))
        return e / e.sum(-1, keepdims=True)


# ------------------------------------------------------------------- the model

class Result:
    def __init__(self):
        self.logits, self.active, self.predicted = None, [], []


class Model:
    def __init__(self, path):
        f = self.file = pwri.File(path)
        self.sparse = f.magic == pwri.PWRI
        self.arch = a = f.meta["general.architecture"]
        if a not in ("llama", "bamboo", "opt", "falcon"):
            raise ValueError(f"architecture {a} is not supported")
        self.n_embd = f.meta[a + ".embedding_length"]
        self.n_layer = f.meta[a + ".block_count"]
        self.n_ff = f.meta[a + ".feed_forward_length"]
        self.n_head = f.meta[a + ".attention.head_count"]
        self.n_head_kv = f.meta.get(a + ".attention.head_count_kv", self.n_head)
        self.size = self.n_embd // self.n_head
        self.base = f.meta.get(a + ".rope.freq_base", 10000.0)
        self.eps = f.meta.get(a + ".attention.layer_norm_rms_epsilon",
                              f.meta.get(a + ".attention.layer_norm_epsilon", 0.0))
        if a == "opt" and self.sparse:
            self.eps = 0.0      # PowerInfer reads no epsilon for opt and computes with zero
        self.threshold = f.meta.get("powerinfer.sparse_threshold", 0.0)
        self.silu = not self.sparse and a == "llama" and f.meta.get("llama.hidden_activation") != "relu"
        self.gated = a in ("llama", "bamboo")

    def w(self, name):
        return self.file.load(name, np.float64)

    def mul(self, x, name, rounding=None, bias=None):
        """x [n_tokens, n_in] times a weight matrix [n_out, n_in]"""
        if rounding:
            x = rounding.for_kind(x, self.file.tensors[name].kind)
        y = x @ self.w(name).T
        return y if bias is None else y + self.w(bias)

    def norm(self, x, name):
        if self.gated:
            return rms_norm(x, self.w(name + ".weight"), self.eps)
        return layer_norm(x, self.w(name + ".weight"), self.w(name + ".bias"), self.eps)

    def attend(self, x, b, positions, rounding):
        bias = (lambda n: b + n + ".bias") if self.arch == "opt" else (lambda n: None)
        if self.arch == "falcon":
            qkv = self.mul(x, b + "attn_qkv.weight", rounding)
            kv = self.n_head_kv * self.size
            q, k, v = qkv[:, :self.n_embd], qkv[:, self.n_embd:-kv], qkv[:, -kv:]
        else:
            q, k, v = (self.mul(x, b + n + ".weight", rounding, bias(n)) for n in ("attn_q", "attn_k", "attn_v"))
        q, k, v = (a.reshape(len(x), -1, self.size) for a in (q, k, v))
        if self.arch != "opt":
            q, k = (rope(a, positions, self.base, self.arch == "falcon") for a in (q, k))
        return self.mul(attention(q, k, v, rounding), b + "attn_output.weight", rounding, bias("attn_output"))

    def ffn(self, x, r, b, mode, rounding, result):
        """x: normed input, r: input of the predictor, both [n_tokens, n_embd]"""
        opt = self.arch == "opt"
        up = self.mul(x, b + "ffn_up.weight", rounding, b + "ffn_up.bias" if opt else None)
        if self.gated:
            gate = self.mul(x, b + "ffn_gate.weight", rounding)
            if self.silu:
                h = gate / (1 + np.exp(-gate)) * up
            else:
                h = relu(gate) * (relu(up) if self.arch == "bamboo" else up)
            active = (gate > 0) & (up > 0) if self.arch == "bamboo" else gate > 0
        else:
            h, active = relu(up), up > 0
        result.active.append(active)
        if self.sparse:
            hidden = relu(self.mul(r, b + "fc1.weight", rounding))
            chosen = self.mul(hidden, b + "fc2.weight", rounding) >= self.threshold
            result.predicted.append(chosen)
            if mode == "predicted":
                h = h * chosen
            down, kind = self.w(b + "ffn_down_t.weight"), self.file.tensors[b + "ffn_down_t.weight"].kind
        else:
            down, kind = self.w(b + "ffn_down.weight").T, self.file.tensors[b + "ffn_down.weight"].kind
        if rounding:
            h = rounding.for_kind(h, kind)
        y = h @ down
        return y + self.w(b + ("ffn_down_t" if self.sparse else "ffn_down") + ".bias") if opt else y

    def __call__(self, ids, mode="dense", emulate=False):
        if mode not in MODES or (mode == "predicted" and not self.sparse):
            raise ValueError(f"mode {mode} does not fit this file")
        rounding, result = Rounding() if emulate else None, Result()
        positions = np.arange(len(ids))
        x = self.w("token_embd.weight")[ids]
        if self.arch == "opt":
            x = x + self.w("position_embd.weight")[positions + 2]
        for layer in range(self.n_layer):
            b = f"blk.{layer}."
            normed = self.norm(x, b + "attn_norm")
            if self.arch == "falcon":       # attention and FFN side by side, on the same norm
                second = b + "attn_norm_2"  # 40B: attention has a norm of its own
                a = self.norm(x, second) if second + ".weight" in self.file.tensors else normed
                x = x + self.attend(a, b, positions, rounding) + self.ffn(normed, x, b, mode, rounding, result)
            else:
                x = x + self.attend(normed, b, positions, rounding)
                x = x + self.ffn(self.norm(x, b + "ffn_norm"), x, b, mode, rounding, result)
        head = "output.weight" if "output.weight" in self.file.tensors else "token_embd.weight"
        result.logits = self.mul(self.norm(x, "output_norm"), head, rounding)
        return result

    # ------------------------------------------------------------- statistics

    def bytes_per_token(self, active, predicted, fired):
        """Weight bytes that an ideal decode reads for one token in each mode, given per layer
        the density, the share let through and the share let through that fires. Predicted reads
        the selecting matrix (gate, or up) of what is let through and the others only where it
        fires. For bamboo, `exact` and `predicted` count up only where gate and up fire: a lower
        bound. No KV cache, no activations."""
        t = self.file.tensors
        size = lambda name: t[name].nbytes if name in t else 0
        head = size("output.weight") or size("token_embd.weight")
        embd = size("token_embd.weight") // t["token_embd.weight"].shape[0]
        total = dict.fromkeys(MODES, size("output_norm.weight") + size("output_norm.bias") + head + embd)
        down = "ffn_down_t.weight" if self.sparse else "ffn_down.weight"
        ffn_dense = 0
        for layer in range(self.n_layer):
            b = f"blk.{layer}."
            ffn = [size(b + n) for n in ("ffn_gate.weight", "ffn_up.weight", down)]
            selector = ffn[0] if self.gated else ffn[1]
            mlp = size(b + "fc1.weight") + size(b + "fc2.weight")
            rest = sum(v.nbytes for n, v in t.items() if n.startswith(b)) - sum(ffn) - mlp
            ffn_dense += sum(ffn)
            for mode, share in (("dense", sum(ffn)),
                                ("exact", selector + active[layer] * (sum(ffn) - selector)),
                                ("predicted", mlp + predicted[layer] * selector
                                 + fired[layer] * (sum(ffn) - selector))):
                total[mode] += rest + share
        if not self.sparse:
            del total["predicted"]
        return {k: int(v) for k, v in total.items()}, ffn_dense

    def stats(self, ids, hot=0.26):
        """Densities per layer (mean over tokens), recall and precision of the predictor,
        share of all activations made by the `hot` most active neurons, bytes per token."""
        result = self(ids, "predicted" if self.sparse else "dense")
        layers, active, predicted, fired = [], [], [], []
        for i, a in enumerate(result.active):
            counts = np.sort(a.sum(0))[::-1]
            row = {"layer": i, "actual": a.mean(), "hot_share": counts[:int(hot * a.shape[1])].sum() / max(counts.sum(), 1)}
            if self.sparse:
                p = result.predicted[i]
                row.update(predicted=p.mean(), recall=(a & p).sum() / max(a.sum(), 1),
                           precision=(a & p).sum() / max(p.sum(), 1))
            active.append(row["actual"])
            fired.append((a & p).mean() if self.sparse else 0)
            predicted.append(row.get("predicted", 0))
            layers.append({k: v if k == "layer" else round(float(v), 4) for k, v in row.items()})
        per_token, ffn_dense = self.bytes_per_token(active, predicted, fired)
        mean = {k: round(float(np.mean([r[k] for r in layers])), 4) for k in layers[0] if k != "layer"}
        return {"arch": self.arch, "tokens": len(ids), "threshold": self.threshold, "hot": hot, "mean": mean,
                "bytes_per_token": per_token, "ffn_bytes_dense": ffn_dense,
                "logits": {"std": round(float(result.logits.std()), 4),
                           "finite": bool(np.isfinite(result.logits).all()),
                           "distinct_argmax": len(set(result.logits.argmax(-1).tolist()))},
                "layers": layers}


def distance(a, b):
    """Relative L2 distance of a from b."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("file")
    p.add_argument("--ids", help="token ids, comma-separated")
    p.add_argument("--random", type=int, metavar="N", help="N random token ids instead")
    p.add_argument("--seed", type=int, default=1, help="of --random")
    p.add_argument("--mode", choices=MODES, help="default: predicted for PowerInfer files, else dense")
    p.add_argument("--emulate", action="store_true", help="round as PowerInfer's CPU kernels do")
    p.add_argument("--out", help="write logits, float32 [n_tokens, n_vocab]")
    p.add_argument("--compare", help="print the relative L2 distance to these float32 logits")
    p.add_argument("--stats", action="store_true", help="print densities and bytes per token as JSON")
    args = p.parse_args()
    model = Model(args.file)
    n_vocab = model.file.tensors["token_embd.weight"].shape[0]
    ids = np.random.default_rng(args.seed).integers(3, n_vocab, args.random) if args.random else \
        np.array([int(i) for i in args.ids.split(",")])
    if args.stats:
        print(json.dumps(model.stats(ids), indent=1))
        return
    logits = model(ids, args.mode or ("predicted" if model.sparse else "dense"), args.emulate).logits
    if args.out:
        logits.astype("<f4").tofile(args.out)
    if args.compare:
        other = np.fromfile(args.compare, "<f4").reshape(logits.shape).astype(np.float64)
        print(json.dumps({"relative_l2": distance(logits, other), "max_abs": float(np.abs(logits - other).max()),
                          "same_argmax": float((logits.argmax(-1) == other.argmax(-1)).mean())}))
    if not args.out and not args.compare:
        print(logits.argmax(-1).tolist())


if __name__ == "__main__":
    main()
