# cli_hybrid.sh - models of which most layers have no feed-forward network (Nemotron-H): every figure is of the layers that
# have one, the others are null or left out, and no figure is NaN.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

export HEARTH_NO_CACHE=1
said=$scratch/said
golden=$DATA/golden/nemotron-h-moe
model=$scratch/moe.gguf
text=$scratch/text
head -c 2500 "$SOURCE/models/stories-held.txt" >"$text"
networks="1 4 7"
others="0 2 3 5 6"

run() { # run COMMAND OPTION...: what it prints goes to $said
    "$HEARTH" "$@" >"$said" 2>"$scratch/err" || fail "${*##*/}: $(cat "$scratch/err")"
    if grep -qiE '(^|[^a-z])nan([^a-z]|$)' "$said"; then fail "${*##*/} says NaN"; else pass; fi
}

no_nan() { # no_nan FILE
    if grep -qiE '(^|[^a-z])nan([^a-z]|$)' "$1"; then fail "${1##*/} has NaN"; else pass; fi
}

# each WHAT PATH: the members of an array that layers without a network have are null, and no others
each() {
    local i
    for i in $others; do is "$1 of layer $i" "$(value "$said" "$2.$i")" null; done
    for i in $networks; do
        if [ "$(value "$said" "$2.$i")" = null ]; then fail "$1 of layer $i is null"; else pass; fi
    done
}

# ------------------------------------------------------------------ the reference's neurons

# 288 neurons of experts and 56 that every token uses, as golden.json counts them: over the prompt and its answer.
ids=$(value "$golden/golden.json" ids),$(value "$golden/golden.json" greedy)
run pack "$golden/model.gguf" "$model"
has "layout of the shared expert" "$(cat "$scratch/err")" "blk.1.ffn_down_t_shexp.weight"
run profile "$model" --ids "$ids" --probe-tokens 0 --json
each "the profile" layers
mean=0
at=0
for i in $networks; do
    want=$(awk -v a="$(value "$golden/golden.json" density.$at)" -v b="$(value "$golden/golden.json" density_shared.$at)" \
        'BEGIN { print (288 * a + 56 * b) / 344 }')
    near "density of layer $i" "$(value "$said" layers."$i".density)" "$want" 2e-4 # two neurons of 40 tokens
    mean=$(awk -v a="$mean" -v b="$want" 'BEGIN { print a + b / 3 }')
    at=$((at + 1))
done
near "density" "$(value "$said" density)" "$mean" 2e-4
is "tokens whose magnitudes were measured" "$(value "$said" measured_tokens)" 40
rm "$model.tune"

# The same neurons, counted while decoding: all tokens but the first.
run bench "$model" --ids "$ids" --contexts 0 --prompt-lengths 1 -n 39 -r 1 --compare dense,exact --json --plot "$scratch/b.svg"
no_nan "$scratch/b.svg"
each "the first row" rows.0.layers
each "the second row" rows.1.layers
near "dense reads the chosen experts" "$(value "$said" rows.0.density)" "$(awk 'BEGIN { printf "%.9f", (4 * 32 + 56) / 344 }')" 1e-8
near "density while decoding" "$(value "$said" rows.1.density)" "$mean" 0.005
near "mean of the layers" "$(value "$said" rows.1.density)" \
    "$(for i in $networks; do value "$said" "rows.1.layers.$i.active"; echo; done | awk '{ s += $1 / 3 } END { print s }')" 1e-6
cp "$said" "$scratch/saved.json"
run bench --from "$scratch/saved.json" --layers
is "layers without a network in the table" "$(grep -cE ' - +- +-$' "$said")" 10
run bench --from "$scratch/saved.json" --csv

# ------------------------------------------------------------------ learning

run profile "$model" --corpus "$text" --importance "$scratch/imatrix.gguf"
has "bytes of exact" "$(cat "$said")" "without a gate"
is "rows of the tables of layers and of experts" "$(grep -cE '^ +[0-9]+ +[0-9.]+ ' "$said")" 6
has "what a token considers" "$(cat "$said")" "of the neurons fire that a token considers"
density=$(awk '$1 == "density" { print $2 / 100 }' "$said")
share=$(sed -n 's/.*exact reads \([0-9]*\) %.*/\1/p' "$said")
# a token considers 184 of 344 neurons, whose rows of up are read, and those of down that fire
near "share of bytes" "$share" "$(awk -v d="$density" 'BEGIN { print 100 * (184 / 344 + d) / (2 * 184 / 344) }')" 1
"$HEARTH" inspect "$scratch/imatrix.gguf" >"$said"
for tensor in blk.0.ssm_in blk.0.ssm_out blk.1.ffn_up_exps blk.1.ffn_down_shexp blk.3.attn_q; do
    has "importance" "$(cat "$said")" "$tensor.weight.in_sum2"
done
run profile "$DATA/golden/nemotron-h-latent/model.gguf" --corpus "$text" --no-save --importance "$scratch/latent.gguf"
"$HEARTH" inspect "$scratch/latent.gguf" >"$said"
for tensor in ffn_latent_down ffn_latent_up; do
    has "importance of experts of another width" "$(cat "$said")" "blk.1.$tensor.weight.in_sum2"
done
run inspect "$model" --plot "$scratch/counts.svg"
no_nan "$scratch/counts.svg"
run tune "$model" --corpus "$text" --choose bytes --recall 0.9 --epochs 1
has "what was tuned" "$(cat "$said")" "3 layers of 344 neurons"
run tune "$model" --corpus "$text" --choose bytes --recall 0.9 --epochs 1 --json
each "the choice" layers
near "density of the text" "$(value "$said" density)" "$density" 0.001
run inspect "$model" --plot "$scratch/tuned.svg"
no_nan "$scratch/tuned.svg"
run inspect "$model" --json
each "what was learnt" tune.layers
run inspect "$model"
has "predictors" "$(cat "$said")" "of 3 layers, predictors of"

# ------------------------------------------------------------------ using it

run run "$model" -p "Once upon a time" -n 4 --temp 0 --json
is "layers that the guard compared" "$(value "$said" guard.layers)" 3
run eval sparsity "$model" "$text" --no-speed --json --svg "$scratch/cost.svg"
no_nan "$scratch/cost.svg"
is "second setting" "$(value "$said" rows.1.setting)" exact
near "exact is dense" "$(value "$said" rows.1.quality)" 0 1e-6
near "density of exact" "$(value "$said" rows.1.density)" "$density" 0.005
for mode in exact predicted pruned; do run eval ppl "$model" "$text" --sparsity $mode --no-guard; done

# A predictor of experts of another width lets through what it was measured to: what it misses changes little.
latent=$DATA/golden/nemotron-h-latent/model.gguf
run tune "$latent" --corpus "$text" --choose bytes --budget 50% --recall 0.999 --epochs 1 --out "$scratch/latent.tune" --json
run eval kl "$latent" "$text" --against dense --sparsity predicted --no-guard --tune "$scratch/latent.tune" --json
near "divergence of experts of another width" "$(value "$said" mean_kl)" 0 0.05

# ------------------------------------------------------------------ placements

cat >"$scratch/place.json" <<'END'
{"sides": ["cpu"], "kv": "cpu", "embedding": "cpu", "head": "cpu", "layers": [
 {"form": "host", "selector": "all", "assignments": []},
 {"form": "host", "selector": "sign", "assignments": [{"side": "cpu", "neurons": [[0, 88]]}]},
 {"form": "host", "selector": "all", "assignments": []},
 {"form": "host", "selector": "all", "assignments": []},
 {"form": "host", "selector": "sign", "assignments": [{"side": "cpu", "neurons": [[0, 88]]}]},
 {"form": "host", "selector": "all", "assignments": []},
 {"form": "host", "selector": "all", "assignments": [{"side": "cpu", "neurons": [[0, 88]]}]},
 {"form": "host", "selector": "all", "assignments": []}]}
END
small=$DATA/golden/nemotron-h/model.gguf
run run "$small" --place "$scratch/place.json" -p "Once" -n 3 --temp 0 --json
sed 's/"selector": "all", "assignments": \[\]/"selector": "sign", "assignments": []/' "$scratch/place.json" >"$scratch/wrong.json"
refused 1 "layer 0 has no feed-forward network" "$HEARTH" run "$small" --place "$scratch/wrong.json" -p "Once" -n 3

# ------------------------------------------------------------------ number formats

run quantize "$golden/model.gguf" "$scratch/q4.gguf" q4_k_m --importance "$scratch/imatrix.gguf"
for tensor in ssm_conv1d.weight ssm_a ssm_d ssm_norm.weight ffn_gate_inp.weight; do
    is "formats of $tensor" "$("$HEARTH" inspect "$scratch/q4.gguf" | grep -E "^blk\.[0-9]+\.$tensor " | awk '{ print $(NF - 2) }' | sort -u)" f32
done
for tensor in ssm_in.weight ssm_out.weight attn_q.weight; do
    is "layers whose $tensor is rounded" "$(grep -cE "^blk\.[0-9]+\.$tensor .*-> " "$scratch/err")" "$([ $tensor = attn_q.weight ] && echo 2 || echo 3)"
done
run run "$scratch/q4.gguf" -p "Once upon a time" -n 4 --temp 0 --json

finish
