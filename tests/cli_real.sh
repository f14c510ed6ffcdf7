# cli_real.sh - the trained models: ids, greedy tokens, logits and losses, against the float64 reference.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

held=$SOURCE/models/stories-held.txt
for name in stories-relu stories260K stories260K-relu; do
    golden=$DATA/golden/real/$name/golden.json
    "$HEARTH" convert "$DATA/models/$name" -o "$scratch/$name.gguf" 2>/dev/null
    vocabulary=$(value "$golden" vocab_size)
    for model in "$DATA/models/$name" "$scratch/$name.gguf"; do
        first=0
        for i in 0 1 2; do
            text=$(value "$golden" prompts.$i.text)
            ids=$(value "$golden" prompts.$i.ids)
            is "$name ids of prompt $i" "$("$HEARTH" tokenize "$model" "$text" | tr ' ' ,)" "$ids"

            "$HEARTH" run "$model" -p "$text" -n 48 --temp 0 --json --kv f32 --ignore-eos >"$scratch/run.json"
            is "$name greedy ids of prompt $i" "$(value "$scratch/run.json" ids)" "$(value "$golden" prompts.$i.greedy_ids)"
            is "$name prompt tokens" "$(value "$scratch/run.json" prompt_tokens)" \
                "$(value "$golden" prompts.$i.logit_rows)"
            is "$name stop reason" "$(value "$scratch/run.json" stop_reason)" length
            # What the reference detokenizes on its own lacks the blank before the first word.
            said=$(value "$scratch/run.json" text)
            is "$name greedy text of prompt $i" "${said# }" "$(value "$golden" prompts.$i.greedy_text)"

            "$HEARTH" eval logits "$model" --ids "$ids" --out "$scratch/logits" --kv f32
            close "$name ${model##*/} prompt $i" "$scratch/logits" "$DATA/golden/real/$name/logits.f32" 1e-5 $first
            first=$((first + $(value "$golden" prompts.$i.logit_rows) * vocabulary))
        done
        "$HEARTH" eval ppl "$model" "$DATA/golden/real/nll-text.txt" --json --kv f32 >"$scratch/ppl.json"
        near "$name nll" "$(value "$scratch/ppl.json" mean_nll)" "$(value "$golden" nll.mean_nll)" 1e-3
        is "$name nll tokens" "$(value "$scratch/ppl.json" tokens)" "$(value "$golden" nll.tokens)"
        printf '  %-44s %s (reference %s)\n' "$name ${model##*/} nll" "$(value "$scratch/ppl.json" mean_nll)" \
            "$(value "$golden" nll.mean_nll)"
    done
    "$HEARTH" eval ppl "$scratch/$name.gguf" "$held" --json --kv f32 --separator '<|endoftext|>' --limit 60 \
        >"$scratch/ppl.json"
    near "$name stories" "$(value "$scratch/ppl.json" mean_nll)" "$(value "$golden" stories.mean_nll)" 1e-3
    is "$name stories tokens" "$(value "$scratch/ppl.json" tokens)" "$(value "$golden" stories.tokens)"
    # What 1e-3 in the mean allows its exponential.
    expected=$(value "$golden" stories.mean_nll)
    near "$name perplexity" "$(value "$scratch/ppl.json" perplexity)" \
        "$(awk -v n="$expected" 'BEGIN { printf "%.9f", exp(n) }')" \
        "$(awk -v n="$expected" 'BEGIN { printf "%.9f", exp(n) * (exp(1e-3) - 1) }')"
    printf '  %-44s %s (reference %s)\n' "$name stories" "$(value "$scratch/ppl.json" mean_nll)" \
        "$(value "$golden" stories.mean_nll)"
done

# Plain text: the prompt and what follows; a stop string ends it and is not shown.
model=$scratch/stories-relu.gguf
golden=$DATA/golden/real/stories-relu/golden.json
said=$("$HEARTH" run "$model" -p "Once upon a time" -n 48 --temp 0 2>"$scratch/err")
is "plain text" "$said" "Once upon a time$(value "$golden" prompts.0.greedy_text)"
has "status" "$(cat "$scratch/err")" "48 tokens, * tokens/s; mode "
said=$("$HEARTH" run "$model" -p "Once upon a time" -n 48 --temp 0 --stop " named" 2>/dev/null)
is "stop string" "$said" "Once upon a time, there was a little girl"
printf 'Once upon a time\n' | "$HEARTH" run "$model" -f - -n 8 --temp 0 --json >"$scratch/f.json"
"$HEARTH" run "$model" -p "Once upon a time" -n 8 --temp 0 --json --sparsity dense >"$scratch/p.json"
is "prompt from a file" "$(value "$scratch/f.json" ids)" "$(value "$scratch/p.json" ids)"
is "fields of run --json" "$(value "$scratch/p.json" "" 2>/dev/null | sort | tr '\n' ' ')" \
    "accepted_tokens decode_seconds decode_tokens device draft_tokens guarantee guard hot_set ids mode placement plan prompt_seconds prompt_tokens pruning reused_tokens sparsity stop_reason text "
is "mode" "$(value "$scratch/p.json" mode)" dense
is "guarantee" "$(value "$scratch/p.json" guarantee)" bitwise

# A forbidden token does not come; a forced one does nothing but come.
"$HEARTH" run "$model" -p "Once upon a time" -n 4 --temp 0 --json --logit-bias 432=-inf >"$scratch/b.json"
case ",$(value "$scratch/b.json" ids)," in
    *,432,*) fail "--logit-bias: token 432 came though forbidden" ;;
    *) pass ;;
esac
"$HEARTH" run "$model" -p "Once upon a time" -n 4 --temp 0 --json --logit-bias 300=1000 >"$scratch/b.json"
is "forced token" "$(value "$scratch/b.json" ids)" 300,300,300,300

# Lines from standard input continue one text: two halves of a sentence say what the whole one says.
said=$(printf 'Once upon a time\n\n' | "$HEARTH" run "$model" -n 24 --temp 0 2>/dev/null | tr -d '\n')
whole=$(value "$golden" prompts.0.greedy_text)
is "an empty line goes on" "$said" "$whole"

# llama.cpp's protocol: whole windows of the text with one BOS before it, the first id of each replaced by BOS, and
# scored are the ids behind the middle, window/2 + 1 and on. Here from the logits of `eval logits`, which are held
# against the reference above: row p foresees id p + 1.
window=128
text=$DATA/golden/real/nll-text.txt
vocabulary=$(value "$golden" vocab_size)
read -ra ids < <("$HEARTH" tokenize "$model" -f "$text")
is "ids of the text" "${#ids[@]}" $(($(value "$golden" nll.tokens) + 1))
scored=0
: >"$scratch/losses"
for ((at = 0; at + window <= ${#ids[@]}; at += window)); do
    part=("${ids[0]}" "${ids[@]:at + 1:window - 1}")
    "$HEARTH" eval logits "$model" --ids "$(IFS=, && echo "${part[*]}")" --out "$scratch/logits" --kv f32
    od -An -v -tf4 -w$((4 * vocabulary)) -j $((4 * vocabulary * window / 2)) "$scratch/logits" |
        awk -v ids="${part[*]:window / 2 + 1}" '
            BEGIN { count = split(ids, id, " ") }
            NR <= count {
                sum = 0
                for (i = 1; i <= NF; i++)
                    sum += exp($i)
                print log(sum) - $(id[NR] + 1)
            }' OFMT=%.12g >>"$scratch/losses"
    scored=$((scored + window / 2 - 1))
done
"$HEARTH" eval ppl "$model" "$text" --json --protocol llama.cpp -c $window --kv f32 >"$scratch/half.json"
is "ids scored by halves" "$(value "$scratch/half.json" tokens)" "$scored"
is "losses computed here" "$(grep -c . "$scratch/losses")" "$scored"
# The same logits, added in another order in double precision.
near "loss by halves" "$(value "$scratch/half.json" mean_nll)" \
    "$(awk '{ sum += $1 } END { printf "%.12f", sum / NR }' "$scratch/losses")" 1e-6

# Perplexity itself, to 1e-3 of what the float64 reference says, in both protocols: of a trained model, and of a golden
# llama, whose weights are random and whose perplexity is therefore far above that of guessing. The expected losses are
# those of tools/reference.py: with `ids` as `hearth tokenize` prints them (BOS is ids[0]) and N the context,
#
#   m = reference.Model(FOLDER)
#   def losses(window):                                     # of window[1], window[2] ...
#       x = m(window).logits[:-1]
#       return np.log(np.exp(x).sum(-1)) - x[np.arange(len(window) - 1), window[1:]]
#   hearth:    mean of losses([ids[0]] + ids[i:i + N - 1])         for i in range(1, len(ids), N - 1)
#   llama.cpp: mean of losses([ids[0]] + ids[i + 1:i + N])[N // 2:] for i in range(0, len(ids) - N + 1, N)
printf %s "Once upon a time there was a little cat. It saw a big dog, and it ran away as fast as it could run. The dog was \
only sleeping, and the cat came back to look at it from the top of the wall." >"$scratch/cat.txt"
reference() { # reference MODEL TEXT CONTEXT PROTOCOL TOKENS LOSS
    local expected
    expected=$(awk -v n="$6" 'BEGIN { printf "%.9f", exp(n) }')
    "$HEARTH" eval ppl "$1" "$2" -c "$3" --protocol "$4" --json >"$scratch/ppl.json"
    is "tokens of ${1##*test-data/} by $4" "$(value "$scratch/ppl.json" tokens)" "$5"
    near "perplexity of ${1##*test-data/} by $4" "$(value "$scratch/ppl.json" perplexity)" "$expected" \
        "$(awk -v e="$expected" 'BEGIN { print 1e-3 * e }')"
    printf '  %-44s %s (reference %s)\n' "perplexity by $4" "$(value "$scratch/ppl.json" perplexity)" "$expected"
}
reference "$DATA/golden/llama/model.gguf" "$scratch/cat.txt" 64 hearth 173 9.411960933082144
reference "$DATA/golden/llama/model.gguf" "$scratch/cat.txt" 64 llama.cpp 62 9.737214356134674
reference "$DATA/models/stories-relu" "$text" 512 hearth 952 1.6386965645937523
reference "$DATA/models/stories-relu" "$text" 128 llama.cpp 441 1.7258907975188844

finish
