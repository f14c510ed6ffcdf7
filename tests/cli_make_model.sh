# cli_make_model.sh - bench/make-model: hearth finds in its models what was planted, in every format; the same bytes from
# any number of threads; wrong use.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
make=$BUILD/bench/make-model
[ -x "$make" ] || fail "$make is not built"
said=$scratch/said

made() { # made NAME ARGUMENTS...: a model
    "$make" "${@:2}" "$scratch/$1.gguf" 2>"$scratch/err" || fail "make-model ${*:2}: $(cat "$scratch/err")"
}
# ids FROM BELOW COUNT: made-up tokens
ids() {
    awk -v from="$1" -v below="$2" -v n="$3" 'BEGIN { srand(3); for (i = 0; i < n; i++)
        printf "%s%d", i ? " " : "", from + int(rand() * (below - from)) }'
}
# counted NAME IDS
counted() {
    "$HEARTH" profile "$scratch/$1.gguf" --ids "$2" --no-save --probe-tokens 0 --json >"$said" 2>"$scratch/err" ||
        fail "profile $1: $(cat "$scratch/err")"
}

# ------------------------------------------------------------------ what was planted
# Bounds of densities. The tiny shape has 96 clusters (its predictor's width less 32) of neurons that fire together at
# most, so the density of a token and layer has a variance of p (1 - p) / 96 at most, and its mean over n tokens five
# standard errors of 5 sqrt(p (1 - p) / 96 / n). What the thresholds leave out, attention's part of the stream, is 5 % of
# the variance for the first token and 5 e / n % for the n-th, 0.2 % on average over windows of 512: below a tenth of that.
tokens=2000 formats="f32 f16 bf16 q8_0 q4_0 q4_K q6_K q5_K iq4_nl q3_K"
# Sanitizers look at the same code in fewer formats.
sanitized && tokens=500 formats="f32 q4_0 q4_K"
ids 3 2048 $tokens >"$scratch/ids"
bound() { # bound DENSITY
    awk -v p="$1" -v n=$tokens 'BEGIN { print 5 * sqrt(p * (1 - p) / 96 / n) }'
}
check_density() { # check_density NAME DENSITY IDS
    local layer
    counted "$1" "$3"
    for layer in 0 1 2 3; do
        near "$1: density of layer $layer" "$(value "$said" layers.$layer.density)" "$2" "$(bound "$2")"
    done
}

# The power law once more: p(u) = min(0.95, a u^-g), the hottest 26 % make 80 %. Prints the share of the neurons that make
# 80 % of what is counted in so many tokens: when all are alike in both domains, and when each domain has its own order.
expected_shares() { # expected_shares DENSITY NEURONS TOKENS
    awk -v density="$1" -v f="$2" -v tokens="$3" '
        function fill(g, low, high, a, i, sum, step) {
            low = 0; high = 10
            for (step = 0; step < 50; step++) {
                a = (low + high) / 2; sum = 0
                for (i = 0; i < f; i++) { p[i] = a * ((i + .5) / f) ^ -g; if (p[i] > .95) p[i] = .95; sum += p[i] }
                if (sum / f > density) high = a; else low = a
            }
        }
        function hot(i, sum, first) {
            for (i = 0; i < f; i++) { sum += p[i]; if (i < int(.26 * f)) first += p[i] }
            return first / sum
        }
        function normal(i, sum) { for (i = 0; i < 12; i++) sum += rand(); return sum - 6 }
        function share(i, j, x, sum, part, place, count) {   # of q as it is counted, by counting sort
            for (i = 0; i < f; i++) {
                x = q[i] + sqrt(q[i] * (1 - q[i]) / tokens) * normal(); if (x < 0) x = 0
                sum += x; count[int(x * 100000)]++
            }
            for (j = 200000; j >= 0; j--) for (i = 0; i < count[j]; i++) {
                part += j / 100000; place++
                if (part >= .8 * sum) return place / f
            }
        }
        BEGIN {
            srand(5); low = 0; high = 3
            for (step = 0; step < 30; step++) { g = (low + high) / 2; fill(g); if (hot() > .8) high = g; else low = g }
            for (i = 0; i < f; i++) { q[i] = p[i]; order[i] = i }
            printf "%.4f ", share()
            for (i = f - 1; i > 0; i--) { j = int(rand() * (i + 1)); k = order[i]; order[i] = order[j]; order[j] = k }
            for (i = 0; i < f; i++) q[i] = (p[i] + p[order[i]]) / 2
            printf "%.4f\n", share()
        }'
}
read -r alike apart < <(expected_shares 0.12 1024 $tokens)

# What is left is chance: a hundredth of the neurons; two where two orders are paired at random.
for type in $formats; do
    made $type tiny $type --powerinfer
    check_density $type 0.12 "$scratch/ids"
    near "$type: neurons that make 80 %" "$(value "$said" hot_share_80)" "$alike" 0.01
done

# Predictors. Of what fires, exact and predicted both compute the same neurons but for those that are missed. Tokens
# times 4 layers times 96 clusters, of which 12 % fire, are independent events: five standard errors of the recall are
# 5 sqrt(0.95 * 0.05 / (46 tokens)); those of what is let through, 1.3 of 0.12, are bound's for 0.156 over 2 (four
# layers). The vectors that the predictor reads are rounded to 8 bits: another 0.002 of the recall at most.
figure() { # figure NAME MODE PATH
    "$HEARTH" bench "$scratch/$1.gguf" --sparsity "$2" --no-guard -r 1 --prompt-lengths 16 --contexts 0 -n $tokens \
        --ids "@$scratch/ids" --json >"$said" 2>"$scratch/err" || fail "bench $1: $(cat "$scratch/err")"
    value "$said" "rows.0.$3"
}
check_predictor() { # check_predictor NAME RECALL OVER
    local fires let
    fires=$(figure "$1" exact density)
    near "$1: recall" "$(awk -v a="$(figure "$1" predicted density)" -v b="$fires" 'BEGIN { print a / b }')" "$2" \
        "$(awk -v n=$tokens 'BEGIN { print 5 * sqrt(.95 * .05 / 46 / n) + .002 }')"
    let=$(value "$said" rows.0.let_through)
    near "$1: let through" "$let" "$(awk -v x="$3" 'BEGIN { print 0.12 * x }')" "$(awk -v x="$(bound 0.156)" 'BEGIN { print x / 2 }')"
}
check_predictor f32 0.95 1.3
check_predictor q4_0 0.95 1.3
check_predictor q4_K 0.95 1.3
made sharp tiny q8_0 --powerinfer --recall 0.98 --over 1.2 --together 0.9
check_predictor sharp 0.98 1.2

# Networks without a gate, layer norms, biases that thresholds make up for, learned positions (opt); attention and network
# side by side, one head of keys and values (falcon). How hot each neuron is follows the plan less closely here
# (model_rows.h), but for the mean.
for family in opt falcon; do
    made $family $family-tiny q4_0 --powerinfer
    check_density $family 0.12 "$scratch/ids"
    check_predictor $family 0.95 1.3
done

# Other densities; equal neurons; domains, each with hot neurons of its own.
made dense tiny q8_0 --density 0.3 --share 0
check_density dense 0.3 "$scratch/ids"
made thin tiny q8_0 --density 0.04
check_density thin 0.04 "$scratch/ids"
ids 3 1024 $tokens >"$scratch/first"
ids 1024 2048 $tokens >"$scratch/second"
for shared in 0 1; do
    made domains tiny f16 --domains 2 --shared $shared --seed 4
    for part in first second; do
        check_density domains 0.12 "$scratch/$part"
        near "$part of two domains: neurons that make 80 %" "$(value "$said" hot_share_80)" "$alike" 0.01
    done
    counted domains "$scratch/ids"
    [ $shared = 1 ] && expected=$alike || expected=$apart
    near "domains, $shared shared: neurons that make 80 %" "$(value "$said" hot_share_80)" "$expected" 0.02
done

# ------------------------------------------------------------------ the same bytes
# From any number of threads; and these very bytes on every machine and from every compiler. The sums are our own: they
# change when what is planted does.
same() { # same WHAT SUM ARGUMENTS...
    local threads
    for threads in 1 2 3; do
        made threads "${@:3}" --threads $threads
        is "$1, $threads threads" "$(sha256sum <"$scratch/threads.gguf" | cut -c1-32)" "$2"
    done
}
same "PowerInfer's kind" 6754af9b237fa877ef75144895996e9b tiny q4_0 --powerinfer --layers 2
same "stock, K-quants, domains" a6d3522735ced1e81cf1ace2cc766e62 tiny q4_K --layers 1 --domains 2 --density 0.2
same "OPT, PowerInfer's kind" ce74fa5433ff80f620b44731ca4686e6 opt-tiny q4_0 --powerinfer --layers 2
same "Falcon, stock, GELU" 924d1eeab5697f14459cf987fccf34a2 falcon-tiny q4_0 --activation gelu --layers 2
same "a mixture of experts with ReLU" c0436828eb02402df2134d30f8788ff8 smallthinker-tiny q4_0 --layers 2
same "a mixture of experts with SiLU" 89b7f75bbf99077365a0b19f596ad295 qwen3-tiny-moe q8_0 --layers 2
same "recurrent blocks, a shared expert" f3328bea920cf9924416ad55f27563d6 nemotron-3-tiny q4_0 --layers 5
same "gated delta nets" b3b32e76e765378a2b37653b15bafc64 qwen3.5-tiny q8_0
made other tiny q4_0 --powerinfer --layers 2 --seed 2
[ "$(sha256sum <"$scratch/other.gguf" | cut -c1-32)" != 6754af9b237fa877ef75144895996e9b ] && pass || fail "another seed, the same bytes"

# The stock layout has the same weights.
logits() { # logits NAME OPTION...
    "$HEARTH" eval logits "$scratch/$1.gguf" "${@:2}" --ids 1,7,500,1999,300 --out "$scratch/$1.logits" --sparsity dense \
        --activations f32 --kv f32 2>"$scratch/err" || fail "eval logits: $(cat "$scratch/err")"
}
for shape in tiny opt-tiny falcon-tiny; do
    made stock $shape f32
    made packed $shape f32 --powerinfer
    logits stock
    logits packed
    close "$shape: stock against PowerInfer's kind" "$scratch/stock.logits" "$scratch/packed.logits" 1e-5
done
for shape in opt-tiny smallthinker-tiny nemotron-3-tiny; do
    made stock $shape f32
    made packed $shape f32 --neuron-major
    logits stock
    logits packed
    close "$shape: stock against neuron-major" "$scratch/stock.logits" "$scratch/packed.logits" 1e-5
done
# Experts: two of eight, in which 0.3 of the neurons fire. Both may have the same clusters, so chance is that of one.
made experts smallthinker-tiny q4_0 --neuron-major
near "experts: density" "$(figure experts exact density)" 0.075 "$(awk -v x="$(bound 0.3)" 'BEGIN { print x / 4 }')"
# Nemotron: two of eight and the shared one, which is as wide as both: 0.4 of the neurons, in which 0.3 fire. A layer is one
# block, so the second, fifth and seventh have experts. Squares of relu let a few neurons say most of what a layer adds; that
# moves the density by 0.001 or so (f32 and q4_0 were within 0.0002).
for type in f32 q4_0; do
    made experts nemotron-3-tiny $type --neuron-major
    near "Nemotron, $type: density" "$(figure experts exact density)" 0.12 \
        "$(awk -v x="$(bound 0.3)" 'BEGIN { print .4 * x + .001 }')"
    # Three states of 8 heads of 32 x 64 and three tokens of 512 channels; 2 heads of 64, keys and values, in float16, at
    # the mean position.
    near "Nemotron, $type: cache and states" "$(value "$said" rows.0.kv_bytes_per_token)" \
        "$(awk -v n=$tokens 'BEGIN { print 3 * 4 * (8 * 32 * 64 + 3 * 512) + 2 * 2 * 64 * 2 * (16 + (n + 1) / 2) }')" 1
    is "Nemotron, $type: a layer without a network" "$(value "$said" rows.0.layers.0)" null
    near "Nemotron, $type: density of the last layer" "$(value "$said" rows.0.layers.6.fired)" 0.12 \
        "$(awk -v x="$(bound 0.3)" 'BEGIN { print .4 * x + .001 }')"
done
# States neither explode nor vanish: after 2000 tokens, logits have the spread that was planned (2.5) as after the first.
made experts nemotron-3-tiny f32
made delta qwen3.5-tiny f32
for name in experts delta; do
    "$HEARTH" eval logits "$scratch/$name.gguf" --ids "@$scratch/ids" --out "$scratch/$name.logits" 2>"$scratch/err" ||
        fail "eval logits: $(cat "$scratch/err")"
    for end in head tail; do # of one token each: 2048 normal numbers, whose spread is 1.6 % off, and the norm's
        near "$name: spread of logits ($end)" "$($end -c 8192 "$scratch/$name.logits" | od -An -v -t f4 -w4 |
            awk '{ sum += $1 * $1 } END { print sqrt(sum / NR) }')" 2.5 0.3
    done
done
# The device has attention of its own: nine query heads share a key, more than the CPU gives a thread at once.
made device falcon-tiny f32 --neuron-major
logits device
cp "$scratch/device.logits" "$scratch/cpu.logits"
logits device --device host
close "falcon-tiny: the device against the CPU" "$scratch/device.logits" "$scratch/cpu.logits" 1e-5
# Stacked matrices of experts: the shapes of the published layout, rows first.
made experts smallthinker-tiny q4_0
"$HEARTH" inspect "$scratch/experts.gguf" --tensors >"$said"
has "the router" "$(grep '^blk.0.ffn_gate_inp.weight' "$said")" "8 x 256  f32"
has "gates of experts" "$(grep '^blk.0.ffn_gate_exps.weight' "$said")" "8 x 128 x 256  q4_0"
has "down of experts" "$(grep '^blk.3.ffn_down_exps.weight' "$said")" "8 x 256 x 128  q4_0"
# The published order of blocks, and what a recurrent one has.
made blocks nemotron-3-tiny q4_0
"$HEARTH" inspect "$scratch/blocks.gguf" --tensors >"$said"
has "in of a recurrent mixer" "$(grep '^blk.0.ssm_in.weight' "$said")" "776 x 256  q4_0"
has "its convolution" "$(grep '^blk.0.ssm_conv1d.weight' "$said")" "512 x 4  f32"
has "its norm" "$(grep '^blk.5.ssm_norm.weight' "$said")" "2 x 128  f32"
has "up of the shared expert" "$(grep '^blk.4.ffn_up_shexp.weight' "$said")" "256 x 256  q4_0"
has "queries" "$(grep '^blk.3.attn_q.weight' "$said")" "512 x 256  q4_0"
is "blocks without attention" "$(grep -c attn_q "$said")" 1
"$HEARTH" inspect "$scratch/blocks.gguf" --keys >"$said"
has "heads of keys by layer" "$(grep head_count_kv "$said")" "[0, 0, 0, 2, 0, 0, ...]"
has "networks by layer" "$(grep '_h_moe.feed_forward_length' "$said")" "[0, 128, 0, 0, 128, 0, ...]"
made blocks nemotron-3-tiny q4_0 --layers 10
"$HEARTH" inspect "$scratch/blocks.gguf" --tensors >"$said"
is "the order begins anew" "$(grep -c 'blk.[0257].ssm_in\|blk.7.ssm_out' "$said")" 5
made blocks qwen3.5-tiny q4_0
"$HEARTH" inspect "$scratch/blocks.gguf" --tensors >"$said"
has "queries and gates" "$(grep '^blk.3.attn_q.weight' "$said")" "1024 x 256  q4_0"
has "what is convolved" "$(grep '^blk.0.attn_qkv.weight' "$said")" "512 x 256  q4_0"
# What llama.cpp's loaders demand of the same files: sizes, the epsilon of the norms, a token for each row of the embedding.
demands() { # demands SHAPE KEY...
    local shape=$1 key
    made demands "$shape" q4_0 --layers 1
    "$HEARTH" inspect "$scratch/demands.gguf" --keys >"$said"
    for key in general.architecture context_length embedding_length block_count feed_forward_length \
        attention.head_count attention.head_count_kv tokenizer.ggml.model "${@:2}"; do
        has "$shape: keys" "$(cut -d' ' -f1 "$said")" "$key"
    done
    has "$shape: tokens" "$(grep '^tokenizer.ggml.tokens ' "$said")" "string?2048?"
}
experts="attention.layer_norm_rms_epsilon expert_count expert_used_count expert_feed_forward_length attention.key_length
    attention.value_length"
demands falcon-tiny attention.layer_norm_epsilon
demands qwen3-tiny-moe $experts
demands smallthinker-tiny $experts attention.sliding_window expert_gating_func
shared="expert_shared_feed_forward_length ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count"
demands nemotron-3-tiny $experts $shared attention.layer_norm_epsilon expert_weights_norm expert_weights_scale
demands qwen3.5-tiny $experts $shared rope.dimension_sections full_attention_interval
"$HEARTH" inspect "$scratch/q4_0.gguf" >"$said"
has "head" "$(grep '^output.weight\| output.weight' "$said")" q6_K
"$HEARTH" run "$scratch/q4_0.gguf" -p "A cat." --temp 0 -n 4 >"$said" 2>"$scratch/err" || fail "run: $(cat "$scratch/err")"

# ------------------------------------------------------------------ wrong use
wrong() { # wrong STATUS TEXT ARGUMENTS...
    local got=0
    "$make" "${@:3}" >"$scratch/out" 2>"$scratch/err" || got=$?
    is "exit status of make-model ${*:3}" $got "$1"
    has "message of make-model ${*:3}" "$(cat "$scratch/err")" "$2"
    is "lines of make-model ${*:3}" "$(wc -l <"$scratch/err")" 1
}
wrong 2 "make-model: needs SHAPE, FORMAT and OUT" tiny
wrong 2 "SHAPE: 2b is unknown; there are tiny, small, 125m, 1b" 2b q4_0 "$scratch/x"
wrong 2 "FORMAT: q9_0 is unknown; there are f32" tiny q9_0 "$scratch/x"
wrong 2 "--density: 1.5 is not a number from 0.001 to 0.9" tiny q4_0 "$scratch/x" --density 1.5
wrong 2 "--seed: 1.5 is not a whole number" tiny q4_0 "$scratch/x" --seed 1.5
wrong 2 "--rank: 100 is not a multiple of 32" tiny q4_0 "$scratch/x" --rank 100
wrong 2 "--activation: tanh is unknown; there are relu" tiny q4_0 "$scratch/x" --activation tanh
wrong 2 "--powerinfer: is for networks with relu" falcon-tiny q4_0 "$scratch/x" --activation gelu --powerinfer
wrong 2 "--powerinfer: is for networks with relu" smallthinker-tiny q4_0 "$scratch/x" --powerinfer
wrong 2 "unrecognized option '--nonsense'" tiny q4_0 "$scratch/x" --nonsense 1
wrong 1 "the hottest 0.26 of the neurons cannot make 0.8 of the activations" tiny q4_0 "$scratch/x" --density 0.6
wrong 1 "5 domains need a model and a predictor of width 320" tiny q4_0 "$scratch/x" --domains 5
wrong 1 "neurons of a cluster cannot be more alike than" tiny q4_0 "$scratch/x" --together 1
wrong 1 "No such file or directory" tiny q4_0 "$scratch/no/such/folder/x"
[ -e "$scratch/x" ] && fail "a model was left" || pass
has "help" "$("$make" --help)" "make-model 1b q4_0 --powerinfer 1b-pi-q4_0.gguf"

finish
