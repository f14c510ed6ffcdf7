# cli_bench.sh - the fields of bench and devices, and that the figures hang together.
. "$SOURCE/tests/lib.sh"
need "$SHARED/models/stories260K"

model=$SHARED/models/stories260K
"$HEARTH" bench "$model" --json -r 1 -n 4 --prompt-lengths 8,16 --contexts 0,32 -t 2 --kv f32 >"$scratch/bench.json"
for field in machine threads read_bandwidth; do
    value "$scratch/bench.json" $field >/dev/null && pass || fail "bench --json lacks $field"
done
is "threads" "$(value "$scratch/bench.json" threads)" 2
for i in 0 1 2 3; do
    for field in rung prompt_length context prefill_tokens_per_second decode_tokens_per_second bytes_per_token \
        share_of_bandwidth density kv_bytes_per_token; do
        value "$scratch/bench.json" rows.$i.$field >/dev/null && pass || fail "bench --json row $i lacks $field"
    done
    is "density" "$(value "$scratch/bench.json" rows.$i.density)" 1
done
value "$scratch/bench.json" rows.4 >/dev/null && fail "a fifth row" || pass
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

"$HEARTH" bench "$model" --csv -r 1 -n 1 --prompt-lengths 4 --ids 1,2,3 >"$scratch/bench.csv"
is "lines of --csv" "$(wc -l <"$scratch/bench.csv")" 2
"$HEARTH" bench "$model" -r 2 -n 2 --prompt-lengths 4 --prompts "$SHARED/golden/real/nll-text.txt" >"$scratch/table"
has "table" "$(cat "$scratch/table")" "dense"
# -c bounds the context of all rows; lengths that are not given fit it.
refused 2 "2 after it are more than the 13" "$HEARTH" bench "$model" -c 13 -n 2 --prompt-lengths 8 --contexts 4
"$HEARTH" bench "$model" --json -c 14 -r 1 -n 2 --prompt-lengths 8 --contexts 4 >/dev/null && pass || fail "bench -c 14"
"$HEARTH" bench "$model" --csv -c 40 -r 1 -n 2 >"$scratch/bench.csv"
is "the prompt that -c 40 leaves" "$(sed -n 2p "$scratch/bench.csv" | cut -d, -f2)" 38
refused 2 "vocabulary" "$HEARTH" bench "$model" -r 1 -n 1 --prompt-lengths 4 --ids 99999

"$HEARTH" devices --json >"$scratch/devices.json"
for field in cpu cores processors memory_bytes levels read_bandwidth; do
    value "$scratch/devices.json" $field >/dev/null && pass || fail "devices --json lacks $field"
done
is "first level" "$(value "$scratch/devices.json" levels.0.name) $(value "$scratch/devices.json" levels.0.present)" \
    "scalar true"
has "devices" "$("$HEARTH" devices)" "GB/s"
echo "  $(value "$scratch/devices.json" cpu): $(value "$scratch/devices.json" read_bandwidth.0.bytes_per_second) bytes/s"

finish
