# cli_interrupt.sh - Ctrl-C ends long work cleanly: exit status 130, no file left.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
command -v timeout >/dev/null || skip "timeout is absent"

# $1 as eight bytes, little-endian.
u64() {
    local n=$1 i text=
    for i in 1 2 3 4 5 6 7 8; do
        text+=$(printf '\\x%02x' $((n & 255)))
        n=$((n >> 8))
    done
    printf '%b' "$text"
}

# A folder of noise, some of it not finite: 17 million weights per layer, which encode slowly whatever the machine.
make_folder() { # make_folder FOLDER LAYERS
    local d=1024 f=4096 v=512 at=0 json='{' i
    mkdir "$1"
    cat >"$1/config.json" <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": $d,
 "intermediate_size": $f, "num_hidden_layers": $2, "num_attention_heads": 16, "num_key_value_heads": 16,
 "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": $v,
 "tie_word_embeddings": true, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
JSON
    tensor() { # tensor NAME ROWS [COLUMNS]
        local count=$(($2 * ${3:-1})) shape=$2${3:+,$3}
        json+="\"$1\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[$at,$((at + 4 * count))]},"
        at=$((at + 4 * count))
    }
    tensor model.embed_tokens.weight $v $d
    tensor model.norm.weight $d
    for ((i = 0; i < $2; i++)); do
        for name in self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj; do
            tensor "model.layers.$i.$name.weight" $d $d
        done
        tensor "model.layers.$i.mlp.gate_proj.weight" $f $d
        tensor "model.layers.$i.mlp.up_proj.weight" $f $d
        tensor "model.layers.$i.mlp.down_proj.weight" $d $f
        tensor "model.layers.$i.input_layernorm.weight" $d
        tensor "model.layers.$i.post_attention_layernorm.weight" $d
    done
    json="${json%,}}"
    {
        u64 ${#json}
        printf '%s' "$json"
        head -c "$at" /dev/urandom
    } >"$1/model.safetensors"
}

# --foreground: else timeout sends SIGCONT as well, which takes back the SIGSTOP with which LeakSanitizer stops the threads
# of a program that ends, and that then waits for ever.
interrupted() { # interrupted WHAT SECONDS COMMAND...
    local got=0
    timeout --foreground --preserve-status -s INT "$2" "${@:3}" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
    is "exit status of $1" "$got" 130
    is "lines of $1" "$(grep -c '^hearth: ' "$scratch/err")" 1
}

make_folder "$scratch/large" 6
mkdir "$scratch/to"
echo old >"$scratch/to/old.gguf"
interrupted quantize 0.4 "$HEARTH" quantize "$scratch/large" "$scratch/to/new.gguf" q6_K -t 1 --allow-nonfinite
interrupted "quantize over a file" 0.4 "$HEARTH" quantize "$scratch/large" "$scratch/to/old.gguf" q6_K -t 1 --allow-nonfinite
interrupted convert 0.4 "$HEARTH" convert "$scratch/large" -o "$scratch/to/new.gguf" --type q6_K -t 1 --allow-nonfinite
interrupted pack 0.4 "$HEARTH" pack "$scratch/large" "$scratch/to/new.gguf" --tensor-type '*=q6_K' -t 1 --allow-nonfinite
interrupted "pack over a file" 0.4 "$HEARTH" pack "$scratch/large" "$scratch/to/old.gguf" --tensor-type '*=q6_K' -t 1 \
    --allow-nonfinite
# A signal that cannot be caught: what was there is there still.
timeout --foreground -s KILL 0.4 "$HEARTH" pack "$scratch/large" "$scratch/to/old.gguf" --tensor-type '*=q6_K' -t 1 \
    --allow-nonfinite 2>/dev/null || true
is "the old file after SIGKILL" "$(cat "$scratch/to/old.gguf")" old
find "$scratch/to" -type f ! -name old.gguf -delete
refused 1 "; --allow-nonfinite writes it all the same" "$HEARTH" quantize "$scratch/large" "$scratch/to/old.gguf" f16 -t 1
is "left behind" "$(ls -A "$scratch/to") $(cat "$scratch/to/old.gguf")" "old.gguf old"

model=$DATA/models/stories260K
for i in 1 2 3 4 5 6 7 8 9 10; do cat "$SOURCE/models/stories-held.txt"; done >"$scratch/text"
interrupted "eval ppl" 0.6 "$HEARTH" eval ppl "$model" "$scratch/text"
is "message of eval ppl" "$(cat "$scratch/err")" "hearth: $scratch/text: perplexity: cancelled"
interrupted bench 0.6 "$HEARTH" bench "$model" -r 1000
interrupted "eval logits" 0.6 "$HEARTH" eval logits "$scratch/large" --ids "$(seq -s, 0 500)" --out "$scratch/to/logits" \
    --cpu scalar
is "left behind" "$(ls -A "$scratch/to")" old.gguf

# Waiting for standard input ends as well, by the signal's name.
mkfifo "$scratch/input"
for signal in INT=130 TERM=143; do
    for words in "tokenize $model" "eval ppl $model -" "run $model -f -" "eval logits $model --ids @- --out $scratch/x"; do
        got=0
        exec 4<>"$scratch/input" # a writer that writes one byte, and no more
        printf 1 >&4
        # shellcheck disable=SC2086
        env --default-signal=INT timeout --foreground -s KILL 60 "$HEARTH" $words <"$scratch/input" >/dev/null 2>"$scratch/err" &
        # The byte is there until the program reads. One look may be wrong: `read -t 0` sometimes fails all the same.
        looks=0
        while [ $looks -lt 5 ]; do
            read -r -t 0 -u 4 && looks=0 || looks=$((looks + 1))
            sleep 0.01
        done
        kill -s "${signal%=*}" $!
        wait $! || got=$?
        exec 4>&-
        is "exit status of $words, SIG${signal%=*}" $got "${signal#*=}"
        is "message of $words, SIG${signal%=*}" "$(cat "$scratch/err")" "hearth: standard input: reading: interrupted"
    done
done

# An answer is cut short, what there is of it is printed. Bytes go through a pipe, so that the moment is known.
mkfifo "$scratch/pipe"
# (A shell starts its background with SIGINT ignored, and hearth respects that.)
env --default-signal=INT "$HEARTH" run "$DATA/models/stories-relu" -p "Once upon a time" --ignore-eos -t 1 \
    --cpu scalar >"$scratch/pipe" 2>"$scratch/err" &
program=$!
got=0
{ head -c 40 >"$scratch/out" && kill -INT $program && cat >>"$scratch/out"; } <"$scratch/pipe"
wait $program || got=$?
has "beginning of a stopped answer" "$(cat "$scratch/out")" "Once upon a time"
case $got:$(cat "$scratch/err") in
    130:*", cancelled"*) pass ;;
    *) fail "a stopped answer: exit status $got, $(cat "$scratch/err")" ;;
esac

# At a terminal long work shows how far it is; elsewhere it prints nothing.
if has_terminal; then
    for columns in 120 50 12; do
        shown=$(TERM=xterm script -qec "stty columns $columns; timeout --foreground -s INT 3 '$HEARTH' quantize \
            '$scratch/large' '$scratch/to/new.gguf' q6_K -t 1 --allow-nonfinite" /dev/null </dev/null | tr '\r' '\n' |
            grep "$(printf '\033\\[K')c" | sed "s/$(printf '\033\\[K')//" || true)
        case $columns in
            120) has "progress" "$shown" "converting \[*\] * %, * left" ;;
            50) has "narrow progress" "$shown" "converting \[*\] * %, * left" ;;
            12) has "progress without a bar" "$shown" "converting" ;;
        esac
        is "progress wider than $columns columns" "$(awk -v n="$columns" 'length >= n' <<<"$shown" | wc -l)" 0
    done
fi

finish
