# cli_two_sides.sh - the calls that docs/design.md promises, with a device: logits in every mode against the CPU alone
# and against the references, the same greedy text, ordered files, and placements that are wrong.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

# LeakSanitizer dies of its own looking through the thread-local memory of all that PoCL has loaded.
export LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}use_tls=0

pwri=$DATA/golden/pwri
devices=host
if "$HEARTH" eval logits "$pwri/llama/f32.gguf" --ids 1 --out "$scratch/got" --device opencl >/dev/null 2>"$scratch/err"; then
    devices="host opencl"
else
    echo "without opencl: $(cat "$scratch/err")"
fi

logits() { # logits OUT MODEL OPTIONS...
    "$HEARTH" eval logits "$2" --out "$scratch/$1" --ids "$ids" --no-guard "${@:3}" >/dev/null 2>"$scratch/err" ||
        fail "eval logits ${*:2}: $(cat "$scratch/err")"
}

# place SELECTOR EXTRA FORM:FROM:TO...: a placement of $neurons neurons a layer; a split layer has [FROM, TO) and the last
# neuron on the device.
place() {
    awk -v f="$neurons" -v selector="$1" -v extra="$2" -v forms="${*:3}" 'BEGIN {
        n = split(forms, form, " ")
        kv = forms ~ /(ffn-host|split|device)/ ? "device0" : "cpu"
        printf "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"%s\",\"embedding\":\"cpu\",\"head\":\"device0\",\"layers\":[", kv
        for (i = 1; i <= n; i++) {
            split(form[i], part, ":")
            printf "%s{\"form\":\"%s\",\"selector\":\"%s\"%s,\"assignments\":[", (i > 1 ? "," : ""), part[1], selector, extra
            if (part[1] == "split")
                printf "{\"side\":\"cpu\",\"neurons\":[[%d,%d],[0,%d]]},{\"side\":\"device0\",\"neurons\":[[%d,%d],[%d,%d]]}",
                    part[3], f - 1, part[2], part[2], part[3], f - 1, f
            else
                printf "{\"side\":\"%s\",\"neurons\":[[0,%d]]}", part[1] == "device" ? "device0" : "cpu", f
            printf "]}"
        }
        print "]}" }'
}

# ------------------------------------------------------------------ modes and references

selector() {
    case $1 in
        dense) echo all ;;
        exact) echo sign ;;
        predicted) echo low-rank ;;
    esac
}

# every_way MODEL MODE BOUND OPTIONS...: on every device, laid in several ways, against the CPU alone; and against the file
# $reference, where there is one.
every_way() {
    local model=$1 mode=$2 bound=$3 extra= device way what
    if [ "$mode" = predicted ]; then
        "$HEARTH" inspect "$model" --json >"$scratch/inspect.json"
        extra=",\"threshold\":$(value "$scratch/inspect.json" model.predictors.threshold)"
    fi
    logits cpu "$model" --sparsity "$mode" "${@:4}"
    place "$(selector "$mode")" "$extra" split:100:700 ffn-host >"$scratch/split.json"
    place "$(selector "$mode")" "$extra" host device >"$scratch/device.json"
    for device in $devices; do
        for way in "" "--gpu-neurons 0" "--gpu-layers 1 --gpu-neurons 1055" \
            "--place $scratch/split.json" "--place $scratch/device.json"; do
            case $way in --place*) ;; *) way="$way --sparsity $mode" ;; esac
            # shellcheck disable=SC2086
            logits got "$model" --device "$device" $way "${@:4}"
            what="$device ${model#"$pwri"/} $mode ${way##*/}"
            close "$what" "$scratch/got" "$scratch/cpu" "$bound"
            [ -z "$reference" ] || close "  against ${reference##*/}" "$scratch/got" "$reference" 1e-4
            has "$what" "$(cat "$scratch/err")" "mode $mode, guarantee "
        done
    done
}

neurons=1056
for family in llama bamboo; do
    ids=$(value "$pwri/$family/cases.json" 0.ids)
    for mode in dense exact predicted; do
        case $mode in
            predicted) reference=$pwri/$family/f32.reference.f32 ;;
            *) reference=$pwri/$family/f32.dense.f32 ;;
        esac
        every_way "$pwri/$family/f32.gguf" $mode 1e-4 --kv f32
    done
done
reference=
ids=$(value "$pwri/llama/cases.json" 2.ids)
for mode in exact predicted; do
    every_way "$pwri/llama/q4_0.gguf" $mode 1e-2
done

# ------------------------------------------------------------------ the demo model, as it is and ordered by hotness

model=$SOURCE/models/stories-relu-q8_0.gguf
"$HEARTH" pack "$model" "$scratch/ordered.gguf" --order hotness >/dev/null 2>"$scratch/err" || fail "pack: $(cat "$scratch/err")"
neurons=512
ids=1,403,407,261,378,432,383,286,261,376,298,315,421,395,317,426,338
place sign "" split:10:300 device host split:1:2 ffn-host split:5:500 >"$scratch/place.json"
logits cpu "$model" --sparsity exact --activations f32 --kv f32
for device in $devices; do
    for file in "$model" "$scratch/ordered.gguf"; do
        for way in "--place $scratch/place.json" "--gpu-neurons 77" "--gpu-layers 5 --gpu-neurons 333"; do
            # shellcheck disable=SC2086
            logits got "$file" --device "$device" $way --activations f32 --kv f32
            close "$device ${file##*/} ${way##*/}" "$scratch/got" "$scratch/cpu" 1e-4
        done
    done
done

# The same text whatever lies where, with any number of threads.
story() { # story WHAT MODEL OPTIONS...
    "$HEARTH" run "$2" -p "Once upon a time" -n 60 --temp 0 --activations f32 "${@:3}" 2>"$scratch/err" >"$scratch/$1" ||
        fail "run ${*:2}: $(cat "$scratch/err")"
}
story alone "$model" --no-guard
[ "$(wc -c <"$scratch/alone")" -gt 100 ] && pass || fail "no story: $(cat "$scratch/alone")"
for device in $devices host,threads=2; do
    for way in "" "-ngl 99" "--gpu-neurons 200" "--gpu-layers 3" "--place $scratch/place.json"; do
        # shellcheck disable=SC2086
        story got "$model" --device "$device" $way -t 1
        is "story by $device ${way##*/}" "$(cat "$scratch/got")" "$(cat "$scratch/alone")"
    done
    for threads in 2 3; do
        story got "$scratch/ordered.gguf" --device "$device" --gpu-neurons 100 -t $threads
        is "story by $device, ordered, $threads threads" "$(cat "$scratch/got")" "$(cat "$scratch/alone")"
    done
done

# ------------------------------------------------------------------ what is wrong

wrong() { # wrong PATTERN LAYER0 [SIDES]: layer 0 of the placement is wrong
    local rest
    rest='{"form":"host","selector":"sign","assignments":[{"side":"cpu","neurons":[[0,512]]}]}'
    echo "{\"sides\":${3:-[\"cpu\",\"device0\"]},\"kv\":\"device0\",\"embedding\":\"cpu\",\"head\":\"cpu\"," \
        "\"layers\":[$2,$rest,$rest,$rest,$rest,$rest]}" >"$scratch/wrong.json"
    refused 1 "wrong.json: placement: $1" "$HEARTH" run "$model" -p x -n 1 --device host --place "$scratch/wrong.json"
}
split() { # split CPU DEVICE: ranges
    echo "{\"form\":\"split\",\"selector\":\"sign\",\"assignments\":[{\"side\":\"cpu\",\"neurons\":[$1]},{\"side\":\"${3:-device0}\",\"neurons\":[$2]}]}"
}
wrong "layer 0: neuron 300 is listed nowhere" "$(split '[0,300]' '[301,512]')"
wrong "layer 0: neuron 300 is listed twice" "$(split '[0,301]' '[300,512]')"
wrong "layer 0: neurons ?300, 513? are not a range within 512" "$(split '[0,300]' '[300,513]')"
wrong "layer 0: side is gpu, which is not among the sides" "$(split '[0,300]' '[300,512]' gpu)"
wrong "side gpu: there are only cpu and device0" "$(split '[0,300]' '[300,512]')" '["cpu","gpu"]'
echo '{"sides":["cpu","device0"],' >"$scratch/wrong.json"
refused 1 "wrong.json: placement: " "$HEARTH" run "$model" -p x --device host --place "$scratch/wrong.json"
refused 1 "nowhere.json" "$HEARTH" run "$model" -p x --device host --place "$scratch/nowhere.json"
refused 1 "model.gguf" "$HEARTH" run "$DATA/golden/llama/model.gguf" -p x --device host --gpu-neurons 10 --sparsity exact
for command in "run $model -p x" "bench $model -n 1"; do
    # shellcheck disable=SC2086
    {
        refused 2 "nonsense" "$HEARTH" $command --device nonsense
        refused 1 "host: attention norm: 512 bytes wanted, " "$HEARTH" $command --device host,memory=100 -ngl 99
        refused 1 "budget" "$HEARTH" $command --device host,memory=1K -ngl 99
        refused 1 "host: measuring: " "$HEARTH" $command --device host,memory=100
    }
done

# ------------------------------------------------------------------ hot sets that live

demo=$SOURCE/models/stories-relu-q8_0.gguf
hot() { # hot NAME HOW OPTIONS...: the greedy answer as $scratch/NAME.json, with a hot set
    "$HEARTH" run "$demo" -p "Once upon a time" -n 100 --temp 0 --activations f32 --json --hot-set "${@:2}" \
        >"$scratch/$1.json" 2>"$scratch/err" || fail "run --hot-set ${*:2}: $(cat "$scratch/err")"
}
hot alone off --sparsity exact --no-guard
has "no hot set" "$(cat "$scratch/alone.json")" '"hot_set":null'
for how in static adaptive frozen; do
    hot "$how" "$how" --device host --gpu-neurons 128 --sparsity exact --save-hot-set "$scratch/$how.place"
    is "$how: text" "$(value "$scratch/$how.json" text)" "$(value "$scratch/alone.json" text)"
    is "$how: layers" "$(value "$scratch/$how.json" hot_set.layers)" 6
done
is "static: swaps" "$(value "$scratch/static.json" hot_set.swaps)" 0
is "adaptive: swaps, and a set of its own" "$(cmp -s "$scratch/static.place" "$scratch/adaptive.place" || echo another)" another
# The stored set is the one that another run has.
hot again static --device host --place "$scratch/adaptive.place" --save-hot-set "$scratch/again.place"
is "the stored set, again" "$(cmp "$scratch/adaptive.place" "$scratch/again.place")" ""
has "hit rates" "$("$HEARTH" run "$demo" -p "Once" -n 20 --temp 0 --device host --gpu-neurons 128 --hot-set adaptive 2>&1)" \
    "hot set: * % of the active neurons were on the device, * changed places ("
has "nothing to change" "$("$HEARTH" run "$demo" -p "Once" -n 2 --temp 0 --hot-set adaptive 2>&1)" \
    "note: --hot-set: no layer has neurons that it skips, or whole experts, on both sides"
"$HEARTH" run "$demo" -p "Once" -n 1 -q --save-hot-set "$scratch/none/set" >"$scratch/out" 2>"$scratch/err" &&
    fail "--save-hot-set wrote into a folder that is missing"
has "a folder that is missing" "$(cat "$scratch/err")" "/none"
refused 2 "*--hot-set: 'warm'*" "$HEARTH" run "$demo" -p "Once" --hot-set warm

finish
