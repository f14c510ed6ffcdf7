"""RWKV-7 by the formulas of its paper (arXiv 2503.14456), token by token, with the names of flash-linear-attention's folders."""
import os

import torch
from torch import nn


class LowRank(nn.Module):
    """out . act(in . x) + bias"""

    def __init__(self, width, rank, activation, bias=True):
        super().__init__()
        self.lora = nn.Sequential(nn.Linear(width, rank, bias=False), activation, nn.Linear(rank, width, bias=bias))

    def forward(self, x):
        return self.lora(x)


def shifted(x):
    """The row before each row; zeros before the first."""
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


class TimeMix(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        width, self.length, self.layer = config.hidden_size, config.head_dim, layer
        heads = width // self.length
        for letter in "rwkvag":
            self.register_parameter(f"x_{letter}", nn.Parameter(torch.zeros(1, 1, width)))
        self.k_k, self.k_a = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.r_k = nn.Parameter(torch.zeros(heads, self.length))
        for name in ("r_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.w_lora = LowRank(width, config.decay_low_rank_dim, nn.Tanh())
        self.a_lora = LowRank(width, config.a_low_rank_dim, nn.Identity())
        self.g_lora = LowRank(width, config.gate_low_rank_dim, nn.Sigmoid(), bias=False)
        if layer > 0:
            self.v_lora = LowRank(width, config.v_low_rank_dim, nn.Identity())
        self.g_norm = nn.GroupNorm(heads, width, eps=self.length * config.norm_eps)

    def forward(self, x, first_value):
        before = shifted(x)
        mixed = {letter: x + getattr(self, f"x_{letter}").view(-1) * (before - x) for letter in "rwkvag"}
        query, key, value = self.r_proj(mixed["r"]), self.k_proj(mixed["k"]), self.v_proj(mixed["v"])
        decay = torch.exp(-torch.exp(torch.tensor(-0.5, dtype=x.dtype)) * torch.sigmoid(self.w_lora(mixed["w"])))
        rate, gate = torch.sigmoid(self.a_lora(mixed["a"])), self.g_lora(mixed["g"])
        if self.layer == 0:
            first_value = value
        else:
            value = value + torch.sigmoid(self.v_lora(mixed["v"])) * (first_value - value)
        by_heads = (len(x), -1, self.length)
        removal = nn.functional.normalize((key * self.k_k).view(by_heads), dim=-1)
        key = key * (1 + (rate - 1) * self.k_a)
        query, key, decay, rate, heads = (t.view(by_heads) for t in (query, key, decay, rate, value))
        state = torch.zeros(heads.shape[1], self.length, self.length, dtype=x.dtype)
        results = []
        for t in range(len(x)):
            answer = torch.einsum("hij,hj->hi", state, removal[t])
            state = (state * decay[t][:, None, :] + torch.einsum("hi,hj->hij", heads[t], key[t])
                     - torch.einsum("hi,hj->hij", answer, removal[t] * rate[t]))
            results.append(torch.einsum("hij,hj->hi", state, query[t]))
        y = self.g_norm(torch.stack(results).view(len(x), -1)).view(by_heads)
        y = y + (query * key * self.r_k).sum(-1, keepdim=True) * heads
        return self.o_proj(y.reshape(len(x), -1) * gate), first_value


class ChannelMix(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.x_k = nn.Parameter(torch.zeros(config.hidden_size))
        self.key = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.value = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.value(torch.relu(self.key(x + self.x_k * (shifted(x) - x))) ** 2)


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        if layer == 0:
            self.pre_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.attn_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.ffn_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.attn, self.ffn = TimeMix(config, layer), ChannelMix(config)


class Rwkv7(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.model.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, use_cache=False):
        x, first_value = self.model.layers[0].pre_norm(self.model.embeddings(ids[0])), None
        for layer in self.model.layers:
            added, first_value = layer.attn(layer.attn_norm(x), first_value)
            x = x + added
            x = x + layer.ffn(layer.ffn_norm(x))
        return type("Result", (), {"logits": self.lm_head(self.model.norm(x))[None]})

    def spread(self, random):
        """Draws what has a range of its own: shares of the token before, decays, what scales keys."""
        ranges = {"x_": (0, 1), "w_lora.lora.2.bias": (-5, 3), "a_lora.lora.2.bias": (-2, 2), "v_lora.lora.2.bias": (-1, 2),
                  "k_k": (0.4, 1.2), "k_a": (0.3, 1.3), "r_k": (-0.3, 0.3)}
        with torch.no_grad():
            for name, value in self.named_parameters():
                for part, (low, high) in ranges.items():
                    if f".{part}" in name:
                        drawn = torch.from_numpy(random.uniform(low, high, tuple(value.shape)))
                        value.copy_(drawn.to(torch.bfloat16).to(value.dtype))

    def save_pretrained(self, folder, **_):
        from safetensors.torch import save_file
        os.makedirs(folder)
        save_file({k: v.contiguous() for k, v in self.state_dict().items()}, os.path.join(folder, "model.safetensors"),
                  metadata={"format": "pt"})
