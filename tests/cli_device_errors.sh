# cli_device_errors.sh - no driver, a broken one, no GPU, too little memory, placements that make no sense: one line that
# says why, and `hearth devices` goes on.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$scratch/model.gguf
"$HEARTH" convert "$DATA/models/stories260K-relu" -o "$model" 2>/dev/null
mkdir "$scratch/vendors" "$scratch/none"
logits="eval logits $model --ids 1,2 --out $scratch/never"

# ------------------------------------------------------------------ specs

# shellcheck disable=SC2086
for spec in gpu "" vulkan:0; do
    refused 2 "device" "$HEARTH" $logits --device "$spec"
done
# shellcheck disable=SC2086
{
    refused 2 "there are host, opencl and cuda" "$HEARTH" $logits --device gpu
    refused 2 "host,color=red" "$HEARTH" $logits --device host,color=red
    refused 2 "memory" "$HEARTH" $logits --device host,memory=much
    refused 2 "exchange" "$HEARTH" $logits --device host,exchange=kernel
    refused 1 "host:7: there is only host:0" "$HEARTH" $logits --device host:7
}

# ------------------------------------------------------------------ drivers that are missing or broken

bare() { # bare COMMAND...: without any GPU, whatever this machine has
    env CUDA_VISIBLE_DEVICES= OCL_ICD_VENDORS="$scratch/none" "$@"
}
# shellcheck disable=SC2086
{
    refused 1 "cuda" bare "$HEARTH" $logits --device cuda
    refused 1 "opencl" bare "$HEARTH" $logits --device opencl
}
for options in "--gpu-layers 2" "--gpu-neurons 10" "-ngl 1 --gpu-neurons 1"; do
    # shellcheck disable=SC2086
    refused 1 "there is no GPU that works, only " bare "$HEARTH" $logits $options
    has "ends with advice" "$(cat "$scratch/err")" "\`hearth devices\` says more"
    has "the host as found" "$(cat "$scratch/err")" "host"
    has "why not cuda" "$(cat "$scratch/err")" "cuda"
done
bare "$HEARTH" devices --no-measure >"$scratch/out" && pass || fail "devices without drivers: exit status $?"
has "devices without drivers" "$(cat "$scratch/out")" "not usable"
echo "libthere-is-no-such-driver.so" >"$scratch/vendors/broken.icd"
echo "no library at all" >"$scratch/broken.so"
echo "$scratch/broken.so" >"$scratch/vendors/garbage.icd"
# shellcheck disable=SC2086
refused 1 "opencl" env OCL_ICD_VENDORS="$scratch/vendors" "$HEARTH" $logits --device opencl
env OCL_ICD_VENDORS="$scratch/vendors" "$HEARTH" devices --no-measure >"$scratch/out" && pass ||
    fail "devices with broken drivers: exit status $?"
has "the host beside broken drivers" "$(cat "$scratch/out")" "host "

# A machine that hwloc finds odd, here one without /sys, is no reason to say so on the terminal.
mkdir "$scratch/no-sys"
bare env HWLOC_FSROOT="$scratch/no-sys" "$HEARTH" devices --no-measure >/dev/null 2>"$scratch/err" && pass ||
    fail "devices without /sys: exit status $?"
is "what hwloc says" "$(cat "$scratch/err")" ""

# A driver that ends whoever asks it costs a child of hearth, once: what it did is remembered until `hearth devices` asks
# again.
fake=$BUILD/tests/fake_opencl
if [ -e "$fake/libOpenCL.so.1" ]; then
    asked() { # asked WHAT COUNT
        is "asked, $1" "$(grep -c asked "$scratch/asked")" "$2"
    }
    fatal() { # fatal COMMAND...: with a driver that aborts
        env LD_LIBRARY_PATH="$fake" FAKE_OPENCL=abort FAKE_OPENCL_LOG="$scratch/asked" "$@"
    }
    reason="its driver kills the program that asks it (Aborted): Not enough ?\[31mmemory to run on this device."
    fatal "$HEARTH" devices --no-measure >"$scratch/out" 2>"$scratch/err" && pass || fail "a driver that aborts: exit status $?"
    has "a driver that aborts" "$(cat "$scratch/out")" "opencl   not usable: $reason"
    is "what it printed" "$(cat "$scratch/err")" ""
    asked "by devices" 1
    # shellcheck disable=SC2086
    refused 1 "opencl: $reason (\`hearth devices\` asks again)" fatal "$HEARTH" $logits --device opencl
    asked "by a run" 1
    # shellcheck disable=SC2086
    refused 1 "there is no GPU that works" fatal "$HEARTH" $logits -ngl 1
    asked "by another" 1
    # shellcheck disable=SC2086
    refused 1 "opencl: $reason" fatal env HEARTH_NO_CACHE=1 "$HEARTH" $logits --device opencl
    asked "without memory" 2
    fatal "$HEARTH" devices --no-measure >/dev/null
    asked "by devices again" 3
fi

# PoCL shares the CPU's cores: it has to be named.
"$HEARTH" devices --json --no-measure >"$scratch/devices.json"
if ! grep -q '"gpu": true' "$scratch/devices.json"; then
    # shellcheck disable=SC2086
    refused 1 "there is no GPU that works" "$HEARTH" $logits -ngl 1
fi

# ------------------------------------------------------------------ memory

for size in 1000 100000 400000; do
    # shellcheck disable=SC2086
    refused 1 "wanted" "$HEARTH" $logits --device host,memory=$size
    has "the budget" "$(cat "$scratch/err")" "budget"
done
for size in 1000 100000; do
    refused 1 "wanted" "$HEARTH" bench "$model" -r 1 -n 2 --prompt-lengths 2 --device host,memory=$size -ngl 99
done

# ------------------------------------------------------------------ placements

LAYER='{"form":"device","selector":"sign","assignments":[{"side":"device0","neurons":[[0,172]]}]}'
placement() { # placement SIDES KV LAYER0
    echo "{\"sides\":$1,\"kv\":\"$2\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":[$3,$LAYER,$LAYER,$LAYER,$LAYER]}" \
        >"$scratch/place.json"
}
wrong() { # wrong STATUS PATTERN
    # shellcheck disable=SC2086
    refused "$1" "$2" "$HEARTH" $logits --device host --place "$scratch/place.json"
    has "the file of: $2" "$(cat "$scratch/err")" "place.json: placement: "
}
both='["cpu","device0"]'
placement '["cpu"]' cpu "$LAYER"
wrong 1 "layer 0: form device: device0 is not among the sides"
placement '["cpu","device0","device1"]' device0 "$LAYER"
wrong 1 "side device1"
placement "$both" cpu "$LAYER"
wrong 1 "kv: is cpu, and must be device0: layer 0 is of form device"
placement "$both" device0 '{"form":"split","selector":"sign","assignments":[{"side":"device0","neurons":[[0,172]]}]}'
wrong 1 "layer 0: form split: all neurons lie on device0"
placement "$both" device0 '{"form":"host","selector":"sign","assignments":[{"side":"device0","neurons":[[0,172]]}]}'
wrong 1 "layer 0: form host: 172 of 172 neurons lie on device0"
placement "$both" device0 '{"form":"split","selector":"low-rank","threshold":0,"assignments":[]}'
# shellcheck disable=SC2086
refused 1 "layer 0 has no such predictor" "$HEARTH" $logits --device host --place "$scratch/place.json"
placement "$both" device0 "$LAYER"
# shellcheck disable=SC2086
refused 1 "place.json: there is no GPU that works" bare "$HEARTH" $logits --place "$scratch/place.json"
refused 2 "the file of --place says" "$HEARTH" run "$model" -p x --device host --place "$scratch/place.json" -ngl 2

[ -e "$scratch/never" ] && fail "a failed command left its output" || pass

finish
