# cli_bench.sh - the fields of bench and devices, and that the figures hang together.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$DATA/models/stories260K
"$HEARTH" bench "$model" --json -r 1 -n 4 --prompt-lengths 8,16 --contexts 0,32 -t 2 --kv f32 >"$scratch/bench.json"
for field in machine threads read_bandwidth; do
    value "$scratch/bench.json" $field >/dev/null && pass || fail "bench --json lacks $field"
done
is "threads" "$(value "$scratch/bench.json" threads)" 2
for i in 0 1 2 3; do
    for field in mode prompt_length context prefill_tokens_per_second decode_tokens_per_second bytes_per_token \
        share_of_bandwidth density kv_bytes_per_token guarantee let_through floor_tokens_per_second relative_speed; do
        value "$scratch/bench.json" rows.$i.$field >/dev/null && pass || fail "bench --json row $i lacks $field"
    done
    is "density" "$(value "$scratch/bench.json" rows.$i.density)" 1
done
value "$scratch/bench.json" rows.4 >/dev/null && fail "a fifth row" || pass
# Several sequences: a row for each number of them, a column in tables, and results that can be read again.
"$HEARTH" bench "$model" --json -r 1 -n 2 --prompt-lengths 4 --batch 1,3 >"$scratch/batch.json"
is "batches" "$(value "$scratch/batch.json" rows.0.batch) $(value "$scratch/batch.json" rows.1.batch)" "1 3"
"$HEARTH" bench --from "$scratch/batch.json" >"$scratch/table"
has "a table of batches" "$(cat "$scratch/table")" "prompt  batch  prefill"
refused 2 "batch" "$HEARTH" bench "$model" --batch 0
refused 2 "batch" "$HEARTH" bench "$model" --batch 257
is "lengths" "$(value "$scratch/bench.json" rows.1.prompt_length) $(value "$scratch/bench.json" rows.2.context)" "16 32"

# Cache: layers x (keys and values) x their width x bytes x the mean position of 4 tokens behind 32 + 8.
near "cache bytes" "$(value "$scratch/bench.json" rows.2.kv_bytes_per_token)" \
    "$("$HEARTH" inspect "$model" --json >"$scratch/i.json" && awk -v l="$(value "$scratch/i.json" model.layer_count)" \
        -v k="$(value "$scratch/i.json" model.kv_head_count)" -v h="$(value "$scratch/i.json" model.head_length)" \
        'BEGIN { print l * 2 * k * h * 4 * (32 + 8 + 2.5) }')" 1
# The share is the bytes times the speed over the bandwidth (one repetition: no median in between).
near "share" "$(value "$scratch/bench.json" rows.0.share_of_bandwidth)" "$(awk \
    -v b="$(value "$scratch/bench.json" rows.0.bytes_per_token)" \
    -v s="$(value "$scratch/bench.json" rows.0.decode_tokens_per_second)" \
    -v w="$(value "$scratch/bench.json" rows.0.read_bandwidth)" 'BEGIN { print b * s / w }')" 1e-4

# On a device its own memory sets the floor, but for the embedding, which stays on the CPU.
"$HEARTH" bench "$model" --json -r 1 -n 8 --prompt-lengths 4 --device host -ngl 99 >"$scratch/device.json" 2>/dev/null
near "floor of a device" "$(awk -v f="$(value "$scratch/device.json" rows.0.floor_tokens_per_second)" \
    -v b="$(value "$scratch/device.json" rows.0.device_bytes_per_token)" \
    -v w="$(value "$scratch/device.json" device_read_bandwidth)" 'BEGIN { print f * b / w }')" 1 0.05
has "the device's bandwidth" "$("$HEARTH" bench --from "$scratch/device.json" | head -n 1)" "; the device "
# Where nobody could measure it, neither is known, and that is said.
sed -E 's/"(floor_tokens_per_second|share_of_bandwidth|device_read_bandwidth)": [^,]*/"\1": null/' "$scratch/device.json" \
    >"$scratch/unknown.json"
has "an unknown floor" "$("$HEARTH" bench --from "$scratch/unknown.json")" " -      -
(the device has too little memory to measure"
"$HEARTH" bench --from "$scratch/unknown.json" --plot "$scratch/unknown.svg" >/dev/null && pass || fail "--plot, floor unknown"
has "a picture of it" "$(cat "$scratch/unknown.svg")" "<svg"
case "$(cat "$scratch/unknown.svg")" in *nan*) fail "NaN in a picture" ;; *) pass ;; esac

"$HEARTH" bench "$model" --csv -r 1 -n 1 --prompt-lengths 4 --ids 1,2,3 >"$scratch/bench.csv"
is "lines of --csv" "$(wc -l <"$scratch/bench.csv")" 2
"$HEARTH" bench "$model" -r 2 -n 2 --prompt-lengths 4 --prompts "$DATA/golden/real/nll-text.txt" >"$scratch/table"
has "table" "$(cat "$scratch/table")" "dense"
# -c bounds the context of all rows; lengths that are not given fit it.
refused 2 "2 after it are more than the 13" "$HEARTH" bench "$model" -c 13 -n 2 --prompt-lengths 8 --contexts 4
"$HEARTH" bench "$model" --json -c 14 -r 1 -n 2 --prompt-lengths 8 --contexts 4 >/dev/null && pass || fail "bench -c 14"
"$HEARTH" bench "$model" --csv -c 40 -r 1 -n 2 >"$scratch/bench.csv"
is "the prompt that -c 40 leaves" "$(sed -n 2p "$scratch/bench.csv" | cut -d, -f5)" 38
refused 2 "vocabulary" "$HEARTH" bench "$model" -r 1 -n 1 --prompt-lengths 4 --ids 99999

# The vocabulary alone: the ids are as many as tokenize prints, without BOS.
text=$DATA/golden/real/nll-text.txt
"$HEARTH" bench "$model" --tokenizer "$text" -r 2 --json >"$scratch/words.json"
is "tokens of a text" "$(value "$scratch/words.json" tokens)" "$("$HEARTH" tokenize "$model" --no-special -f "$text" | wc -w)"
is "bytes of a text" "$(value "$scratch/words.json" text_bytes)" "$(wc -c <"$text")"
is "entries" "$(value "$scratch/words.json" vocabulary)" "$("$HEARTH" inspect "$model" --json >"$scratch/i.json" &&
    value "$scratch/i.json" model.vocabulary_size)"
for field in load_seconds encode_seconds decode_seconds; do
    value "$scratch/words.json" $field >/dev/null && pass || fail "bench --tokenizer lacks $field"
done
has "words as a table" "$("$HEARTH" bench "$model" --tokenizer "$text" -r 1)" "MB/s"
refused 1 "is empty" "$HEARTH" bench "$model" --tokenizer /dev/null
refused 1 "No such file" "$HEARTH" bench "$model" --tokenizer "$scratch/none"

# Mode against mode, on a PowerInfer file and on a stock one, in one process.
pwri=$DATA/golden/pwri/llama/f16.gguf
relu=$DATA/models/stories260K-relu
ids=1,272,204,165,88,100,15,26,8,58,260,208,292,162,195,310
quick="-r 1 -n 15 --prompt-lengths 1 --ids $ids -t 1"
if [ -e "$pwri" ] && [ -e "$relu" ]; then
    # shellcheck disable=SC2086 # several options
    "$HEARTH" bench "$pwri" --compare exact,dense,predicted $quick --json >"$scratch/pwri.json"
    i=0
    for mode in exact dense predicted; do
        is "mode $i" "$(value "$scratch/pwri.json" rows.$i.mode)" $mode
        for field in computed fired active; do
            value "$scratch/pwri.json" rows.$i.layers.1.$field >/dev/null && pass || fail "row $i: no layers.1.$field"
        done
        value "$scratch/pwri.json" rows.$i.layers.2 >/dev/null && fail "row $i: a third layer" || pass
        i=$((i + 1))
    done
    is "speed of the first" "$(value "$scratch/pwri.json" rows.0.relative_speed)" 1
    is "guarantee of all: the weakest" "$(value "$scratch/pwri.json" guarantee)" lossy
    is "dense density" "$(value "$scratch/pwri.json" rows.1.density)" 1
    is "let through without a predictor" "$(value "$scratch/pwri.json" rows.0.let_through)" 1
    # The same mode on its own gives the same bytes and densities.
    for i in 0 1 2; do
        # shellcheck disable=SC2086
        "$HEARTH" bench "$pwri" --sparsity "$(value "$scratch/pwri.json" rows.$i.mode)" --no-guard $quick --json \
            >"$scratch/one.json"
        for field in mode guarantee bytes_per_token density let_through layers.0.fired; do
            is "$field of mode $i alone" "$(value "$scratch/one.json" rows.0.$field)" \
                "$(value "$scratch/pwri.json" rows.$i.$field)"
        done
    done
    # What the reference says an ideal decode reads, over all the ids: the prompt's is one token more.
    if python_packages; then
        "$python" "$SOURCE/tests/reference/pwri_reference.py" "$pwri" --ids $ids --stats >"$scratch/stats.json"
        for i in 0 1 2; do
            want=$(value "$scratch/stats.json" "bytes_per_token.$(value "$scratch/pwri.json" rows.$i.mode)")
            near "bytes of $(value "$scratch/pwri.json" rows.$i.mode)" "$(awk \
                -v b="$(value "$scratch/pwri.json" rows.$i.bytes_per_token)" \
                -v k="$(value "$scratch/pwri.json" rows.$i.kv_bytes_per_token)" 'BEGIN { print b - k }')" \
                "$want" "$(awk -v w="$want" 'BEGIN { print 0.02 * w }')"
        done
    else
        skip_part "$no_python_packages"
    fi

    "$HEARTH" bench "$relu" --compare all -r 1 -n 2 --prompt-lengths 4 --layers --plot "$scratch/a&b.svg" >"$scratch/table"
    has "table of all" "$(cat "$scratch/table")" "exact "
    is "layers" "$(awk 'NF == 7 && $1 == "exact"' "$scratch/table" | wc -l)" \
        "$("$HEARTH" inspect "$relu" --json >"$scratch/i.json" && value "$scratch/i.json" model.layer_count)"
    is "nothing predicts" "$(grep -c predicted "$scratch/table" || true)" 0
    svg=$(cat "$scratch/a&b.svg")
    has "picture" "$svg" "<svg xmlns="
    has "picture: mode" "$svg" ">exact</text>"
    has "picture: model" "$svg" ">stories260K-relu</text>"
    # From saved results: the same bars, of several models, in one picture and one table.
    "$HEARTH" bench --from "$scratch/pwri.json" "$scratch/pwri.json" --plot "$scratch/two.svg" --csv >"$scratch/two.csv"
    is "lines of two" "$(wc -l <"$scratch/two.csv")" 7
    is "bytes of a saved row" "$(sed -n 4p "$scratch/two.csv" | cut -d, -f9)" \
        "$(printf %.0f "$(value "$scratch/pwri.json" rows.2.bytes_per_token)")"
    is "groups of two" "$(grep -c 'class="group"' "$scratch/two.svg")" 2
    is "bars of two" "$(grep -c '<rect class="c2"' "$scratch/two.svg")" 4
    sed 's#"model": "[^"]*"#"model": "x/<b>\\"\&\\u0007 \\u202e.gguf"#' "$scratch/pwri.json" >"$scratch/hostile.json"
    "$HEARTH" bench --plot-from "$scratch/hostile.json" --plot "$scratch/hostile.svg" --csv >"$scratch/hostile.csv"
    has "hostile name" "$(cat "$scratch/hostile.svg")" '>&lt;b&gt;&quot;'
    has "hostile name in CSV" "$(sed -n 2p "$scratch/hostile.csv")" '"<b>""'
    if command -v xmllint >/dev/null; then
        for picture in "$scratch"/*.svg; do
            xmllint --noout "$picture" && pass || fail "${picture##*/} is not well-formed"
        done
    fi
    is "half-written pictures" "$(find "$scratch" -name '.*.svg*' | wc -l)" 0

    refused 1 "mode predicted" "$HEARTH" bench "$relu" --compare dense,predicted
    refused 1 "mode exact" "$HEARTH" bench "$model" --compare exact,dense
    refused 1 "No such file" "$HEARTH" bench --from "$scratch/pwri.json" --plot "$scratch/none/x.svg"
    for broken in 's/"mode": "exact"/"mode": "e\\u001b[1m"/ rows?0?: mode: is not a word' \
        's/"density": 1.0/"density": -1/ rows?1?: density: is negative' 's/"active"/"activ"/ active: is missing' \
        's/"rows"/"row"/ rows: is not a list'; do
        sed "${broken%%/ *}/" "$scratch/pwri.json" >"$scratch/broken.json"
        refused 1 "${broken#*/ }" "$HEARTH" bench --from "$scratch/broken.json"
    done
fi
refused 2 "did you mean exact" "$HEARTH" bench "$model" --compare dense,exakt
refused 2 "unknown mode 'frob'; there are dense, exact" "$HEARTH" bench "$model" --compare frob
refused 2 "unknown mode ''" "$HEARTH" bench "$model" --compare dense,
refused 2 "unknown mode ''" "$HEARTH" bench "$model" --compare ""
refused 2 "exact: stands there twice" "$HEARTH" bench "$model" --compare exact,dense,exact
refused 2 "--compare names the modes already" "$HEARTH" bench "$model" --compare dense --sparsity exact
refused 2 "placements of its own" "$HEARTH" bench "$model" --compare dense --place x.json
refused 2 "names no such mode" "$HEARTH" bench "$model" --compare dense --threshold 1
refused 2 "needs the name of a file" "$HEARTH" bench "$model" --plot -
refused 2 "neither measures nor writes JSON" "$HEARTH" bench --from x.json --json
refused 2 "one argument too many" "$HEARTH" bench "$model" other

# Ways of using a device with so much memory: 2 MB have five of its six layers.
for i in 0 1; do
    printf '{"task_id": "HumanEval/%d", "prompt": "def add%d(a, b):\\n", "entry_point": "add%d", "test": "def check(f): pass", "canonical_solution": "    return a + b\\n"}\n' $i $i $i
done >"$scratch/two.jsonl"
ways=("$HEARTH" bench "$SOURCE/models/stories-relu-q8_0.gguf" --device host,threads=1 -t 1 --prompts "$scratch/two.jsonl"
    --prompt-lengths 64 -n 32 -r 2 --sparsity exact)
# holds WHAT NUMBERS CONDITION: awk says so of $1, $2 ...
holds() { awk "{ exit !($3) }" <<<"$2" && pass || fail "$1: not $3 of $2"; }
"${ways[@]}" --simulate-vram 2M,100K --json >"$scratch/ways.json"
is "ways" "$(for i in 0 1 2 3; do value "$scratch/ways.json" sizes.0.rows.$i.way; done | xargs)" "cpu off static adaptive"
value "$scratch/ways.json" sizes.0.rows.4 >/dev/null && fail "a fifth way" || pass
on_device() { value "$scratch/ways.json" "sizes.0.rows.$1.on_device"; }
holds "hits" "$(on_device 0) $(on_device 1) $(on_device 2) $(on_device 3)" \
    '$1 == 0 && 0 < $2 && $2 < 1 && 0 < $3 && $3 < $4 && $4 < 1' # the neurons of stories do not suit programs
for field in device_bytes main_bytes first_token_seconds prefill_tokens_per_second decode_tokens_per_second relative_speed neurons \
    predicted_tokens_per_second cpu_seconds device_seconds guarantee; do
    value "$scratch/ways.json" sizes.0.rows.3.$field >/dev/null && pass || fail "a way lacks $field"
done
holds "memory" "$(value "$scratch/ways.json" sizes.0.rows.0.device_bytes) $(value "$scratch/ways.json" sizes.0.rows.3.device_bytes)" \
    '$1 == 0 && 0 < $2 && $2 < 2e6'
holds "both sides are busy" "$(value "$scratch/ways.json" sizes.0.rows.3.cpu_seconds) $(value "$scratch/ways.json" sizes.0.rows.3.device_seconds)" \
    '0 < $1 && 0 < $2'
# A device that holds nothing leaves the CPU alone.
is "ways with too little" "$(value "$scratch/ways.json" sizes.1.rows.0.way) $(value "$scratch/ways.json" sizes.1.take.0)" "cpu cpu"
value "$scratch/ways.json" sizes.1.rows.1 >/dev/null && fail "a way that is another" || pass
"${ways[@]}" --simulate-vram 100K --compare adaptive,off >"$scratch/table"
has "what is left out" "$(cat "$scratch/table")" "100 kB: off is left out: not one whole layer fits"
"${ways[@]}" --simulate-vram 2M --compare adaptive,cpu >"$scratch/table"
has "advice" "$(cat "$scratch/table")" "2.00 MB: take [a-z]*: [0-9.]* times [a-z]*"
# A picture has a curve of each way in both panels.
"${ways[@]}" --simulate-vram 1.5M,2M --compare off,adaptive --plot "$scratch/ways.svg" >/dev/null
is "points" "$(grep -o "MB of device memory 2, [a-z]*" "$scratch/ways.svg" | sort | uniq -c | xargs)" \
    "2 MB of device memory 2, share 2 MB of device memory 2, tokens"
has "picture" "$(cat "$scratch/ways.svg")" "Active neurons that the device had"
refused 2 "one prompt length, context and batch are drawn" \
    "${ways[@]}" --simulate-vram 2M --prompt-lengths 8,16 --plot "$scratch/two.svg"
refused 2 "unknown way 'exact'" "${ways[@]}" --simulate-vram 2M --compare exact
refused 2 "did you mean static" "${ways[@]}" --simulate-vram 2M --compare statik
refused 2 "off: stands there twice" "${ways[@]}" --simulate-vram 2M --compare off,off
refused 2 "simulate-vram: 'much' is not a size" "${ways[@]}" --simulate-vram much
refused 2 "simulate-vram" "${ways[@]}" --simulate-vram ""
refused 2 "makes placements and a table of its own" "${ways[@]}" --simulate-vram 2M --csv
refused 2 "says itself what the device has" "${ways[@]}" --simulate-vram 2M --hot-set static
refused 2 "says how much memory it has" "${ways[@]}" --device host,memory=9 --simulate-vram 2M
echo '{"task_id": 7}' >"$scratch/broken.jsonl"
refused 1 "broken.jsonl" "${ways[@]}" --prompts "$scratch/broken.jsonl" --simulate-vram 2M

"$HEARTH" devices --json >"$scratch/devices.json"
for field in cpu cores processors memory_bytes levels read_bandwidth; do
    value "$scratch/devices.json" $field >/dev/null && pass || fail "devices --json lacks $field"
done
is "first level" "$(value "$scratch/devices.json" levels.0.name) $(value "$scratch/devices.json" levels.0.present)" \
    "scalar true"
has "devices" "$("$HEARTH" devices)" "GB/s"
echo "  $(value "$scratch/devices.json" cpu): $(value "$scratch/devices.json" read_bandwidth.0.bytes_per_second) bytes/s"

finish
