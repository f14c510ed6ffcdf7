# cli_devices.sh - `hearth devices`; runs whose layers lie on a device, in every form, against the CPU alone; what they say
# of themselves, their traces, and the overlap that bench reports.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
export POCL_CACHE_DIR=$BUILD/pocl-cache # compiled kernels; half a minute without it
mkdir -p "$POCL_CACHE_DIR"

# ------------------------------------------------------------------ hearth devices

"$HEARTH" devices --no-measure >"$scratch/table" && pass || fail "devices --no-measure: exit status $?"
case "$(cat "$scratch/table")" in
    *GB/s* | *"exchange "[0-9]*) fail "devices --no-measure has figures" ;;
    *) pass ;;
esac
has "the host in the table" "$(cat "$scratch/table")" "host "
has "the host's kernels" "$(cat "$scratch/table")" "kernels "
"$HEARTH" devices --json >"$scratch/devices.json" && pass || fail "devices --json: exit status $?"
"$HEARTH" devices --json --no-measure >"$scratch/plain.json"
is "reads without measuring" "$(value "$scratch/plain.json" read_bandwidth)" ""

opencl=
seen=
for i in $(seq 0 31); do
    spec=$(value "$scratch/devices.json" devices.$i.spec) || break
    seen="$seen $spec"
    is "spec without measuring" "$(value "$scratch/plain.json" devices.$i.spec)" "$spec"
    value "$scratch/plain.json" devices.$i.read_bandwidth >/dev/null && fail "$spec was measured" || pass
    if [ "$(value "$scratch/devices.json" devices.$i.usable)" = false ]; then
        value "$scratch/devices.json" devices.$i.problem >/dev/null && pass || fail "$spec is unusable without a reason"
        continue
    fi
    case $spec in opencl*) opencl=${opencl:-$spec} ;; esac
    for field in name memory_bytes budget_bytes units group kernels exchange read_bandwidth to_device_bandwidth \
        from_device_bandwidth exchange_seconds kernel_seconds start_seconds gpu; do
        value "$scratch/devices.json" devices.$i.$field >/dev/null && pass || fail "devices --json: $spec lacks $field"
    done
    case $(value "$scratch/devices.json" devices.$i.exchange_seconds) in
        -* | 0) fail "$spec: an exchange takes no time" ;;
        *) pass ;;
    esac
done
has "a host among the devices" "$seen " " host "
has "a row of cuda" "$seen" " cuda"
has "a row of opencl" "$seen" " opencl"
echo "  devices:$seen"

# ------------------------------------------------------------------ every form, against the CPU alone

model=$scratch/model.gguf
"$HEARTH" convert "$DATA/models/stories260K-relu" -o "$model" 2>/dev/null
"$HEARTH" inspect "$model" --json >"$scratch/inspect.json"
layers=$(value "$scratch/inspect.json" model.layer_count)
neurons=$(value "$scratch/inspect.json" model.neuron_count)
ids=$(value "$DATA/golden/real/stories260K-relu/golden.json" prompts.2.ids)

logits() { # logits OUT OPTIONS...
    "$HEARTH" eval logits "$model" --out "$scratch/$1" --ids "$ids" --activations f32 --kv f32 "${@:2}" --verbose \
        >/dev/null 2>"$scratch/err" || fail "eval logits ${*:2}: $(cat "$scratch/err")"
}

# place KV FORMS NEURONS HEAD: a placement; a form for each layer, the first NEURONS of split layers on the device.
place() {
    awk -v kv="$1" -v forms="$2" -v there="$3" -v f="$neurons" -v layers="$layers" -v head="$4" 'BEGIN {
        n = split(forms, form, " ")
        printf "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"%s\",\"embedding\":\"cpu\",\"head\":\"%s\",\"layers\":[", kv, head
        for (i = 1; i <= layers; i++) {
            k = form[i] == "device" ? f : form[i] == "split" ? there : 0
            printf "%s{\"form\":\"%s\",\"selector\":\"sign\",\"assignments\":[", (i > 1 ? "," : ""), form[i]
            if (k < f) printf "{\"side\":\"cpu\",\"neurons\":[[%d,%d]]}%s", k, f, (k > 0 ? "," : "")
            if (k > 0) printf "{\"side\":\"device0\",\"neurons\":[[0,%d]]}", k
            printf "]}"
        }
        print "]}" }'
}

logits cpu --no-guard
cp "$scratch/cpu" "$scratch/expected"
for options in "" "-ngl 99" "-ngl 2" "--gpu-layers 3 --gpu-neurons 50" "--gpu-neurons 1" "--n-gpu-layers 4 --gpu-neurons 0" \
    "--gpu-neurons 171"; do
    # shellcheck disable=SC2086
    logits got --device host $options
    close "host $options" "$scratch/got" "$scratch/expected" 1e-4
done
for device in host $opencl; do
    place device0 "host ffn-host split device split" 60 device0 >"$scratch/place.json"
    logits got --device "$device" --place "$scratch/place.json"
    close "$device, all forms" "$scratch/got" "$scratch/expected" 1e-4
    has "what runs where" "$(cat "$scratch/err")" "4 of 5 layers, 2 of them split (35 % of their neurons there), 1 with all"
    cp "$scratch/got" "$scratch/once"
    logits got --device "$device" --place "$scratch/place.json"
    cmp -s "$scratch/once" "$scratch/got" && pass || fail "$device: the same placement gives other bytes"
done

# Nothing on the device: it is not even opened, and nothing is different.
logits got --no-guard --device nonsense -ngl 0
cmp -s "$scratch/got" "$scratch/expected" && pass || fail "-ngl 0 differs from the CPU alone"
case "$(cat "$scratch/err")" in *device0*) fail "-ngl 0 speaks of a device" ;; *) pass ;; esac
place cpu "host host host host host" 0 cpu >"$scratch/cpu.json"
logits got --place "$scratch/cpu.json"
cmp -s "$scratch/got" "$scratch/expected" && pass || fail "a placement of host layers differs from the CPU alone"

# ------------------------------------------------------------------ what is said

"$HEARTH" run "$model" -p "Once upon a time" -n 12 --temp 0 --device host -ngl 3 --gpu-neurons 100 \
    --verbose >"$scratch/out" 2>"$scratch/err" || fail "run: $(cat "$scratch/err")"
has "announcement" "$(cat "$scratch/err")" "device0: host, "
has "announcement" "$(cat "$scratch/err")" "3 of 5 layers, 3 of them split (58 % of their neurons there);"
has "where the head is" "$(cat "$scratch/err")" "; the head stays on the CPU; "
has "status" "$(tail -n 1 "$scratch/err")" "; 3 of 5 layers (35 % of neurons) on host"
case "$(cat "$scratch/err")" in *guard:*) fail "a guard beside a device" ;; *) pass ;; esac
"$HEARTH" run "$model" -p "Once upon a time" -n 12 --temp 0 --no-guard >"$scratch/alone" 2>/dev/null
is "greedy text" "$(cat "$scratch/out")" "$(cat "$scratch/alone")"
"$HEARTH" run "$model" -p x -n 4 --temp 0 --device host,memory=64M -ngl 99 --verbose >/dev/null 2>"$scratch/err"
has "where the head is" "$(cat "$scratch/err")" "5 of 5 layers, and the head; "
"$HEARTH" run "$model" -p x -n 4 --temp 0 --json --device host,memory=64M -ngl 99 >"$scratch/run.json"
is "driver" "$(value "$scratch/run.json" device.driver)" host
is "budget" "$(value "$scratch/run.json" device.budget_bytes)" 64000000
is "layers of form device" "$(value "$scratch/run.json" placement.layers.device)" 5
is "head" "$(value "$scratch/run.json" placement.head) $(value "$scratch/run.json" placement.kv)" "device0 device0"
is "neurons there" "$(value "$scratch/run.json" placement.device_neurons)" 1
awk -v p="$(value "$scratch/run.json" device.peak_bytes)" 'BEGIN { exit !(p > 0 && p <= 64000000) }' && pass ||
    fail "peak memory is not between nothing and the budget"
"$HEARTH" run "$model" -p x -n 4 --temp 0 --json >"$scratch/run.json"
is "no device" "$(value "$scratch/run.json" device) $(value "$scratch/run.json" placement)" "null null"
is "mode" "$("$HEARTH" run "$model" -p x -n 1 --json --device host -ngl 99 >"$scratch/run.json" && value "$scratch/run.json" mode)" exact

# ------------------------------------------------------------------ traces

split="0 1 2 3 4"
trace() { # trace WHAT LAYERS COMMAND...
    "${@:3}" --trace "$scratch/trace.json" >/dev/null 2>"$scratch/err" || fail "$1: $(cat "$scratch/err")"
    # shellcheck disable=SC2086
    "$TOOLS/check_trace" "$scratch/trace.json" $2 >"$scratch/counts" 2>&1 && pass || fail "$1: $(cat "$scratch/counts")"
    echo "  $1: $(tr '\n' ',' <"$scratch/counts")"
}
trace "trace of a run" "$split" "$HEARTH" run "$model" -p "Once upon a time" -n 20 --temp 0 --device host --gpu-neurons 86
trace "trace of logits" "2 4" "$HEARTH" eval logits "$model" --ids "$ids" --out "$scratch/got" --device host \
    --place "$scratch/place.json"
trace "trace of a streamed prompt" "$split" "$HEARTH" run "$model" -p "Once upon a time there was a little girl who lived" -n 4 \
    --temp 0 --device host --gpu-neurons 86 --stream on
has "parts that crossed the bus" "$(cat "$scratch/counts")" "bus copy "
python3 "$SOURCE/tools/draw-trace" "$scratch/trace.json" "$scratch/trace.svg" --step 0 2>"$scratch/err" &&
    has "copies in the picture" "$(cat "$scratch/trace.svg")" 'class="copy"' || fail "draw-trace: $(cat "$scratch/err")"
trace "trace of all on the device" "" "$HEARTH" run "$model" -p "Once" -n 5 --temp 0 --device host -ngl 99
trace "trace of the CPU alone" "" "$HEARTH" run "$model" -p "Once" -n 5 --temp 0
trace "trace of bench" "$split" "$HEARTH" bench "$model" -r 1 -n 8 --prompt-lengths 8 --device host --gpu-neurons 86
# Eight tokens of five layers in one extra run, and nothing of what is timed.
has "spans of bench" "$(cat "$scratch/counts")" "device0 neurons 40"
rm -f "$scratch/trace.json"
refused 1 "nomodel" "$HEARTH" run "$scratch/nomodel" -p x --trace "$scratch/trace.json"
[ -e "$scratch/trace.json" ] && fail "a failed run left a trace" || pass
refused 1 "/nowhere" "$HEARTH" run "$model" -p x --trace /nowhere/trace.json

# ------------------------------------------------------------------ bench

"$HEARTH" bench "$model" --json -r 2 -n 16 --prompt-lengths 4 --contexts 0,8 --device host --gpu-neurons 86 >"$scratch/bench.json"
for row in 0 1; do
    # 2 extra runs of 16 tokens and 5 layers
    is "samples" "$(value "$scratch/bench.json" rows.$row.overlap.samples)" 160
    for field in median fifth_percentile exchange_seconds cpu_seconds device_seconds; do
        value "$scratch/bench.json" rows.$row.overlap.$field >/dev/null && pass || fail "bench --json lacks overlap.$field"
    done
    awk -v m="$(value "$scratch/bench.json" rows.$row.overlap.median)" -v l="$(value "$scratch/bench.json" \
        rows.$row.overlap.fifth_percentile)" 'BEGIN { exit !(0 <= l && l <= m && m <= 1) }' && pass || fail "overlaps"
done
is "split layers" "$(value "$scratch/bench.json" placement.layers.split)" 5
has "overlap read back" "$("$HEARTH" bench --from "$scratch/bench.json")" "95 of 100"
has "overlap in the table" "$("$HEARTH" bench "$model" -r 1 -n 4 --prompt-lengths 4 --device host --gpu-neurons 86 2>&1)" \
    "split layers"
"$HEARTH" bench "$model" --json -r 1 -n 4 --prompt-lengths 4 --device host -ngl 2 >"$scratch/bench.json"
is "no split layers" "$(value "$scratch/bench.json" rows.0.overlap)" null
"$HEARTH" bench "$model" --json -r 1 -n 4 --prompt-lengths 4 --device host --gpu-neurons 86 --compare dense,exact \
    >"$scratch/bench.json"
is "both modes on both sides" "$(value "$scratch/bench.json" rows.0.overlap.samples) $(value "$scratch/bench.json" \
    rows.1.overlap.samples)" "20 20"

finish
