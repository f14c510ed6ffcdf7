"""hearth from Python: one file over hearth.h, with nothing but the standard library.

    import hearth

    with hearth.Model("models/stories-relu-q8_0.gguf") as model:
        for piece in model.generate("Once upon a time", max_tokens=60):
            print(piece, end="", flush=True)

The library is found by the name that HEARTH_LIBRARY gives, else as the system finds libhearth.so (LD_LIBRARY_PATH). Its
functions are declared in hearth.h, where also stands what each of them promises; `lib` calls them as they are. An object
belongs to one thread at a time, as a session does.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Iterator, Sequence

# ---------------------------------------------------------------- structs, field by field as hearth.h has them

_progress_function = ctypes.CFUNCTYPE(c_bool, c_void_p, c_char_p, c_uint64, c_uint64)


class _Progress(ctypes.Structure):
    _fields_ = [("report", _progress_function), ("user", c_void_p)]


class _Log(ctypes.Structure):
    _fields_ = [("line", c_void_p), ("user", c_void_p)]


class _Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", ctypes.c_char * 1024)]


class _RuntimeOptions(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_uint), ("cpu_level", c_char_p), ("device", c_char_p), ("cache_folder", c_char_p),
                ("memory_bytes", c_uint64), ("log", _Log)]


class _ModelOptions(ctypes.Structure):
    _fields_ = [("ffn_activation", c_char_p), ("tune", c_char_p), ("progress", _Progress), ("log", _Log)]


class ModelInfo(ctypes.Structure):
    """What a model is; see hearth_model_info."""

    _fields_ = [("path", c_char_p), ("name", c_char_p), ("family", c_char_p), ("activation", c_char_p),
                ("layer_count", c_uint32), ("embedding_length", c_uint32), ("neuron_count", c_uint32),
                ("head_count", c_uint32), ("kv_head_count", c_uint32), ("head_length", c_uint32),
                ("vocabulary_size", c_uint32), ("context_length", c_uint32), ("parameter_count", c_uint64),
                ("weight_bytes", c_uint64), ("has_tokenizer", c_bool), ("bos", c_int32), ("eos", c_int32),
                ("powerinfer", c_bool), ("neuron_major", c_bool), ("predictors", c_bool), ("tuned", c_bool),
                ("predictor_threshold", c_float), ("tune_problem", c_char_p)]


class _EngineOptions(ctypes.Structure):
    _fields_ = [("placement", c_void_p), ("activations", c_int), ("progress", _Progress),
                ("stream", c_int), ("stream_bytes", c_uint64)]


class _Tracer(ctypes.Structure):
    _fields_ = [("see", c_void_p), ("user", c_void_p)]


class _SessionOptions(ctypes.Structure):
    _fields_ = [("context", c_uint32), ("sequences", c_uint32), ("batch", c_uint32), ("output_rows", c_uint32),
                ("kv", c_int), ("progress", _Progress), ("tracer", _Tracer), ("marks", c_uint64),
                ("cache_positions", c_uint64), ("spare_sequences", c_uint64)]


class _Row(ctypes.Structure):
    _fields_ = [("token", c_int32), ("sequence", c_uint32), ("output", c_bool)]


class _Sampling(ctypes.Structure):
    _fields_ = [("temperature", c_float), ("top_k", c_uint32), ("top_p", c_float), ("min_p", c_float),
                ("repeat_penalty", c_float), ("presence_penalty", c_float), ("frequency_penalty", c_float),
                ("penalty_window", c_uint32), ("biases", c_void_p), ("bias_count", c_size_t), ("seed", c_uint64)]


class _AnswerOptions(ctypes.Structure):
    _fields_ = [("stops", POINTER(c_char_p)), ("stop_count", c_size_t), ("ignore_end", c_bool), ("max_tokens", c_uint32),
                ("draft_tokens", c_uint64), ("draft", c_void_p),
                ("grammar", c_void_p)]


class _ChatOptions(ctypes.Structure):
    _fields_ = [("no_answer", c_bool), ("template_text", c_char_p), ("template_name", c_char_p), ("tools", c_char_p),
                ("variables", c_char_p)]


#: Structs by their names in hearth.h, so that their sizes can be compared.
STRUCTS = {"hearth_error": _Error, "hearth_runtime_options": _RuntimeOptions, "hearth_model_options": _ModelOptions,
           "hearth_model_info": ModelInfo, "hearth_engine_options": _EngineOptions,
           "hearth_session_options": _SessionOptions, "hearth_row": _Row, "hearth_sampling": _Sampling,
           "hearth_answer_options": _AnswerOptions, "hearth_chat_options": _ChatOptions, "hearth_progress": _Progress, "hearth_tracer": _Tracer, "hearth_log": _Log}

MODES = ("auto", "dense", "exact", "predicted", "pruned")
_KV = ("f16", "f32", "q8_0")
_ACTIVATIONS = ("auto", "f32", "bf16")
_TEXT_SPECIAL, _TEXT_PARSE_CONTROL = 1, 2
_DETOKENIZE_CONTINUE = 2
_STOP_NONE = 0
_GBNF, _JSON_SCHEMA = 0, 1

# ---------------------------------------------------------------- functions

_text_out, _size_out = POINTER(c_void_p), POINTER(c_size_t)
_signatures = {
    "hearth_version": (c_char_p, []),
    "hearth_free": (None, [c_void_p]),
    "hearth_runtime_create_sized": (c_int, [POINTER(c_void_p), POINTER(_RuntimeOptions), c_size_t, POINTER(_Error)]),
    "hearth_runtime_destroy": (None, [c_void_p]),
    "hearth_model_open_sized": (c_int, [POINTER(c_void_p), c_char_p, POINTER(_ModelOptions), c_size_t, POINTER(_Error)]),
    "hearth_model_close": (None, [c_void_p]),
    "hearth_model_describe_sized": (None, [c_void_p, POINTER(ModelInfo), c_size_t]),
    "hearth_tokenize": (c_int, [c_void_p, c_char_p, c_size_t, ctypes.c_uint, POINTER(POINTER(c_int32)), _size_out,
                                POINTER(_Error)]),
    "hearth_chat_render_sized": (c_int, [c_void_p, c_char_p, POINTER(_ChatOptions), c_size_t, POINTER(c_char_p), _size_out,
                                         POINTER(POINTER(c_int32)), _size_out, POINTER(_Error)]),
    "hearth_detokenizer_create": (c_int, [POINTER(c_void_p), c_void_p, ctypes.c_uint, POINTER(_Error)]),
    "hearth_detokenizer_destroy": (None, [c_void_p]),
    "hearth_detokenizer_push": (c_int, [c_void_p, c_int32, _text_out, _size_out, POINTER(_Error)]),
    "hearth_detokenizer_finish": (None, [c_void_p, _text_out, _size_out]),
    "hearth_placement_create": (c_int, [POINTER(c_void_p), c_void_p, c_int, POINTER(_Error)]),
    "hearth_placement_destroy": (None, [c_void_p]),
    "hearth_engine_create_sized": (c_int, [POINTER(c_void_p), c_void_p, c_void_p, POINTER(_EngineOptions), c_size_t,
                                    POINTER(_Error)]),
    "hearth_engine_destroy": (None, [c_void_p]),
    "hearth_engine_mode": (c_int, [c_void_p]),
    "hearth_engine_guarantee": (c_int, [c_void_p]),
    "hearth_guarantee_name": (c_char_p, [c_int]),
    "hearth_mode_name": (c_char_p, [c_int]),
    "hearth_session_create_sized": (c_int, [POINTER(c_void_p), c_void_p, POINTER(_SessionOptions), c_size_t, POINTER(_Error)]),
    "hearth_session_destroy": (None, [c_void_p]),
    "hearth_session_feed": (c_int, [c_void_p, POINTER(_Row), c_size_t, POINTER(_Error)]),
    "hearth_session_logits": (c_int, [c_void_p, c_size_t, c_size_t, POINTER(c_float), POINTER(_Error)]),
    "hearth_session_hidden": (c_int, [c_void_p, c_size_t, c_size_t, POINTER(c_float), POINTER(_Error)]),
    "hearth_session_output_count": (c_size_t, [c_void_p]),
    "hearth_session_context": (c_uint32, [c_void_p]),
    "hearth_session_free_positions": (c_uint64, [c_void_p]),
    "hearth_session_length": (c_uint32, [c_void_p, c_uint32]),
    "hearth_session_reach": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hearth_session_truncate": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(_Error)]),
    "hearth_session_fork": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(_Error)]),
    "hearth_session_token_bytes": (c_double, [c_void_p]),
    "hearth_sampling_default_sized": (None, [POINTER(_Sampling), c_size_t]),
    "hearth_sampler_create_sized": (c_int, [POINTER(c_void_p), POINTER(_Sampling), c_size_t, c_uint32, POINTER(_Error)]),
    "hearth_sampler_destroy": (None, [c_void_p]),
    "hearth_sampler_accept": (None, [c_void_p, c_int32]),
    "hearth_grammar_create": (c_int, [POINTER(c_void_p), c_void_p, c_int, c_char_p, c_size_t, c_char_p, POINTER(_Error)]),
    "hearth_grammar_destroy": (None, [c_void_p]),
    "hearth_answer_pick": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_int32), POINTER(_Error)]),
    "hearth_answer_create_sized": (c_int, [POINTER(c_void_p), c_void_p, POINTER(_AnswerOptions), c_size_t, POINTER(_Error)]),
    "hearth_answer_destroy": (None, [c_void_p]),
    "hearth_answer_push": (c_int, [c_void_p, c_int32, _text_out, _size_out, POINTER(c_int), POINTER(_Error)]),
    "hearth_answer_finish": (None, [c_void_p, _text_out, _size_out]),
}

lib = ctypes.CDLL(os.environ.get("HEARTH_LIBRARY", "libhearth.so.0"))
for _name, (_result, _arguments) in _signatures.items():
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments


class HearthError(Exception):
    """A call failed; str() is the library's line, `status` its number in hearth_status."""

    def __init__(self, error: _Error) -> None:
        super().__init__(error.text.decode("utf-8", "replace"))
        self.status: int = error.status


def _call(function, *arguments) -> None:
    """Calls a function that takes an error record last; raises what it says."""
    error = _Error()
    if function(*arguments, byref(error)) != 0:
        raise HearthError(error)


def _sized(struct: ctypes.Structure) -> tuple:
    """The two arguments of a struct that may grow: where it is, and its size."""
    return byref(struct), ctypes.sizeof(struct)


def _create(function, *arguments) -> c_void_p:
    out = c_void_p()
    _call(function, byref(out), *arguments)
    return out


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def version() -> str:
    """The library's version."""
    return lib.hearth_version().decode()


# ---------------------------------------------------------------- the model

class Model:
    """An open model, ready to be fed: runtime, model, engine and a session of `sequences` sequences."""

    def __init__(self, path: str, *, mode: str = "auto", context: int = 0, sequences: int = 1, kv: str = "f16",
                 threads: int = 0, cpu: str | None = None, tune: str | None = None, activations: str = "auto",
                 outputs: int = 0) -> None:
        """path: a GGUF file or a Hugging Face folder. mode: one of MODES. context: positions of a sequence, 0 for what
        the model was made for. kv: "f16" or "f32". threads: 0 for one per core. cpu: a CPU level; None: the best.
        tune: a tune file; None: PATH.tune where there is one, "": none. activations: "auto", "f32" for checks, or "bf16".
        outputs: the most that `feed` may be asked for, 0 for `sequences`. HearthError: as the functions of hearth.h."""
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; there are {', '.join(MODES)}")
        if kv not in _KV:
            raise ValueError(f"unknown format of keys and values {kv!r}; there are {', '.join(_KV)}")
        if activations not in _ACTIVATIONS:
            raise ValueError(f"unknown activations {activations!r}; there are {', '.join(_ACTIVATIONS)}")
        self._runtime = self._model = self._engine = self._session = None
        placement = None
        try:
            self._runtime = _create(lib.hearth_runtime_create_sized,
                                    *_sized(_RuntimeOptions(threads=threads, cpu_level=_encoded(cpu))))
            self._model = _create(lib.hearth_model_open_sized, os.fsencode(path), *_sized(_ModelOptions(tune=_encoded(tune))))
            placement = _create(lib.hearth_placement_create, self._model, MODES.index(mode))
            self._engine = _create(lib.hearth_engine_create_sized, self._runtime, self._model,
                                   *_sized(_EngineOptions(placement=placement,
                                                         activations=_ACTIVATIONS.index(activations))))
            options = _SessionOptions(context=context, sequences=sequences, kv=_KV.index(kv), output_rows=outputs)
            self._session = _create(lib.hearth_session_create_sized, self._engine, *_sized(options))
        except BaseException:
            self.close()
            raise
        finally:
            lib.hearth_placement_destroy(placement)
        self.info = ModelInfo()
        lib.hearth_model_describe_sized(self._model, *_sized(self.info))
        for name, kind in ModelInfo._fields_:
            if kind is c_char_p:  # the model's own text, which ends with it: a copy outlives it
                setattr(self.info, name, getattr(self.info, name))
        self._logits = (c_float * self.info.vocabulary_size)()

    def close(self) -> None:
        """Gives everything back; the object can only be closed again."""
        for name, destroy in (("_session", lib.hearth_session_destroy), ("_engine", lib.hearth_engine_destroy),
                              ("_model", lib.hearth_model_close), ("_runtime", lib.hearth_runtime_destroy)):
            destroy(getattr(self, name))
            setattr(self, name, None)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> c_void_p:
        if self._session is None:
            raise ValueError("the model is closed")
        return self._session

    @property
    def mode(self) -> str:
        """What is skipped: the mode of the weakest layer."""
        self._open()
        return lib.hearth_mode_name(lib.hearth_engine_mode(self._engine)).decode()

    @property
    def guarantee(self) -> str:
        """What may differ from dense because of it."""
        self._open()
        return lib.hearth_guarantee_name(lib.hearth_engine_guarantee(self._engine)).decode()

    # ---- text

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        """Token ids of a text; special: with the BOS and EOS that the model wants."""
        self._open()
        data, ids, count = text.encode("utf-8"), POINTER(c_int32)(), c_size_t()
        _call(lib.hearth_tokenize, self._model, data, len(data), _TEXT_SPECIAL if special else 0, byref(ids), byref(count))
        result = ids[:count.value]
        lib.hearth_free(ctypes.cast(ids, c_void_p))
        return result

    def render(self, messages: Sequence[dict], template: str | None = None, tools: Sequence[dict] | None = None,
               variables: dict | None = None, answer: bool = True) -> list[int]:
        """Token ids of a conversation; template: a name such as "chatml", None: the model's own; answer: where it begins."""
        self._open()
        options = _ChatOptions(not answer, None, template.encode("utf-8") if template else None,
                               json.dumps(tools).encode("utf-8") if tools is not None else None,
                               json.dumps(variables).encode("utf-8") if variables is not None else None)
        ids, count = POINTER(c_int32)(), c_size_t()
        _call(lib.hearth_chat_render_sized, self._model, json.dumps(messages).encode("utf-8"), byref(options),
              ctypes.sizeof(options), None, None, byref(ids), byref(count))
        result = ids[:count.value]
        lib.hearth_free(ctypes.cast(ids, c_void_p))
        return result

    def detokenize(self, ids: Sequence[int], continues: bool = False) -> str:
        """The text of token ids; continues: it goes on behind other text, so that a leading blank stays."""
        self._open()
        detokenizer = _create(lib.hearth_detokenizer_create, self._model, _DETOKENIZE_CONTINUE if continues else 0)
        try:
            text, size, parts = c_void_p(), c_size_t(), []
            for token in ids:
                _call(lib.hearth_detokenizer_push, detokenizer, token, byref(text), byref(size))
                parts.append(ctypes.string_at(text, size.value) if size.value else b"")
            lib.hearth_detokenizer_finish(detokenizer, byref(text), byref(size))
            parts.append(ctypes.string_at(text, size.value) if size.value else b"")
        finally:
            lib.hearth_detokenizer_destroy(detokenizer)
        return b"".join(parts).decode("utf-8")

    # ---- sequences

    def feed(self, ids: Sequence[int], sequence: int = 0, outputs: int = 1) -> None:
        """Appends tokens to a sequence; `logits` are then those behind the last of them. outputs: of how many of the last
        tokens `hidden` has the states, at most what the model was opened with."""
        session, first = self._open(), len(ids) - outputs
        rows = (_Row * len(ids))(*(_Row(token, sequence, i >= first) for i, token in enumerate(ids)))
        _call(lib.hearth_session_feed, session, rows, len(ids))

    def logits(self) -> array.array:
        """Logits behind the token fed last, one for each word of the vocabulary."""
        session = self._open()
        last = max(lib.hearth_session_output_count(session), 1) - 1
        _call(lib.hearth_session_logits, session, last, 1, self._logits)
        return array.array("f", self._logits)

    def hidden(self) -> list[array.array]:
        """Final hidden states of the tokens that the last feed was asked for, in order, `info.embedding_length` values
        each: what the head makes logits of."""
        session, length = self._open(), self.info.embedding_length
        count = lib.hearth_session_output_count(session)
        values = (c_float * (count * length))()
        _call(lib.hearth_session_hidden, session, 0, count, values)
        return [array.array("f", values[i * length:(i + 1) * length]) for i in range(count)]

    def length(self, sequence: int = 0) -> int:
        """Positions of a sequence so far."""
        return lib.hearth_session_length(self._open(), sequence)

    def reach(self, length: int, sequence: int = 0) -> int:
        """The greatest length of at most `length` to which `truncate` can cut: less only where layers are recurrent."""
        return lib.hearth_session_reach(self._open(), sequence, length)

    def truncate(self, length: int, sequence: int = 0) -> None:
        """Forgets what follows the first `length` positions."""
        _call(lib.hearth_session_truncate, self._open(), sequence, length)

    def fork(self, source: int, target: int) -> None:
        """Makes sequence `target` a copy of sequence `source`."""
        _call(lib.hearth_session_fork, self._open(), source, target)

    # ---- answers

    def generate(self, prompt: str | Sequence[int], *, max_tokens: int = 0, temperature: float | None = None,
                 seed: int = 0, stops: Sequence[str] = (), sequence: int = 0, grammar: str | None = None,
                 schema: dict | None = None) -> Iterator[str]:
        """Feeds the prompt and yields the text of the answer, piece by piece, until the model or one of `stops` ends it,
        or there are max_tokens (0: until the context is full). temperature 0 takes the likeliest token each time, None is
        the library's default. grammar (GBNF) or schema (JSON): what the text must be. What was fed stays in the sequence, so that another call goes on from there. HearthError: also
        where the prompt is empty or does not fit into the context."""
        ids = self.tokenize(prompt, special=self.length(sequence) == 0) if isinstance(prompt, str) else list(prompt)
        sampling = _Sampling()
        lib.hearth_sampling_default_sized(*_sized(sampling))
        sampling.seed = seed
        if temperature is not None:
            sampling.temperature = temperature
        strings = (c_char_p * len(stops))(*(s.encode("utf-8") for s in stops))
        options = _AnswerOptions(stops=strings, stop_count=len(stops), max_tokens=max_tokens)
        sampler = answer = rule = None
        try:
            if grammar is not None or schema is not None:
                form, rules = (_GBNF, grammar) if grammar is not None else (_JSON_SCHEMA, json.dumps(schema))
                rule = _create(lib.hearth_grammar_create, self._model, form, rules.encode("utf-8"), len(rules.encode("utf-8")), None)
                options.grammar = rule
            sampler = _create(lib.hearth_sampler_create_sized, *_sized(sampling), self.info.vocabulary_size)
            answer = _create(lib.hearth_answer_create_sized, self._model, *_sized(options))
            for token in ids:
                lib.hearth_sampler_accept(sampler, token)
            text, size, stop, chosen = c_void_p(), c_size_t(), c_int(_STOP_NONE), c_int32()
            self.feed(ids, sequence)
            while True:
                _call(lib.hearth_session_logits, self._session, 0, 1, self._logits)
                _call(lib.hearth_answer_pick, answer, sampler, self._logits, byref(chosen))
                token = chosen.value
                lib.hearth_sampler_accept(sampler, token)
                _call(lib.hearth_answer_push, answer, token, byref(text), byref(size), byref(stop))
                if size.value:
                    yield ctypes.string_at(text, size.value).decode("utf-8")
                if stop.value != _STOP_NONE or self.length(sequence) == lib.hearth_session_context(self._session):
                    break
                self.feed([token], sequence)
            lib.hearth_answer_finish(answer, byref(text), byref(size))
            if size.value:
                yield ctypes.string_at(text, size.value).decode("utf-8")
        finally:
            lib.hearth_answer_destroy(answer)
            lib.hearth_sampler_destroy(sampler)
            lib.hearth_grammar_destroy(rule)
