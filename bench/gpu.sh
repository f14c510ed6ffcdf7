#!/bin/bash
# gpu.sh pack BUILD FOLDER
# gpu.sh [-o OUT] [-m MODELS] [-d DEVICE] [-l SECONDS] [-n TOKENS] [-z ARCHIVE] STEP...
#
# Everything worth doing on a machine with a GPU that is bare and lent for minutes: no compilers, no libraries, few
# calls. `pack` puts the programs of a build (HEARTH_STATIC=ON makes them need less), the libraries that they need
# besides libc, and this script into FOLDER, which is carried there whole. There:
#
#     info           the machine, the driver, `hearth devices`
#     kcheck         every kernel on DEVICE (cuda) against the scalar reference
#     memcheck       the same under compute-sanitizer, where that program is
#     pingpong       round trips of the exchange, in each way
#     make-SHAPE     MODELS/SHAPE-{f16,q8_0,q4_0,q4_K}.gguf by make-model; SHAPE: tiny, 1b, 7b, 13b
#     resident-SHAPE `hearth bench` of all of them, everything on the device
#     early-SHAPE    ... with kernels that begin early
#     half-SHAPE     ... with half of the neurons of every layer on the device, with a trace
#     prompts-SHAPE  prompts of 64, 512 and 2032 tokens of F16 and Q4_0: resident, and with half of the neurons, streamed and not
#     cpu-SHAPE      ... without the device, for comparison
#     kernels-SHAPE  how long every command of a token takes, of F16 and Q4_0, resident and with half of the neurons
#
# Steps are done in the order given and leave OUT/STEP.txt, and .csv, .json where they make tables; one that fails is
# said and the next one done. Each may take SECONDS (540). TOKENS are decoded in each timed run (32). ARCHIVE (.tar.gz)
# is brought up to date after every step, so that a call that is cut short loses one step at most. For example, in three
# calls of ten minutes:
#
#     gpu.sh -o out -m /dev/shm/m info kcheck memcheck pingpong
#     gpu.sh -o out -m /dev/shm/m make-1b resident-1b early-1b half-1b
#     gpu.sh -o out -m /dev/shm/m make-7b kernels-7b prompts-7b resident-7b half-7b
# shellcheck disable=SC2317,SC2016 # steps are called by name, in a shell of their own
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

die() {
    echo "gpu.sh: $*" >&2
    exit 2
}

# ------------------------------------------------------------------ here

# Copies what a program is linked to, but for libc's own libraries, which must be the machine's.
pack_libraries() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so[^/]*$' |
        while read -r library; do cp -L "$library" "$folder/lib/"; done
}

pack() {
    [ $# -eq 2 ] || die "usage: gpu.sh pack BUILD FOLDER"
    local build=$1
    folder=$2
    mkdir -p "$folder/lib" || exit 1
    local programs=("$build/hearth" "$build/tests/kcheck" "$build/bench/pingpong" "$build/bench/make-model")
    cp "${programs[@]}" "$here/gpu.sh" "$folder/" || exit 1
    (cd "$folder" && strip hearth kcheck pingpong make-model)
    pack_libraries "${programs[@]}"
    du -sh "$folder"
}

if [ "${1:-}" = pack ]; then
    shift
    pack "$@"
    exit
fi

# ------------------------------------------------------------------ there

out=gpu-out models=gpu-models device=cuda limit=540 tokens=32 archive=
while getopts o:m:d:l:n:z: option; do
    case $option in
    o) out=$OPTARG ;;
    m) models=$OPTARG ;;
    d) device=$OPTARG ;;
    l) limit=$OPTARG ;;
    n) tokens=$OPTARG ;;
    z) archive=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "no steps; the head of this file lists them"
mkdir -p "$out" "$models" || exit 1

# own PROGRAM ARGUMENT...: one of the packed programs, with the packed libraries; nothing else gets to see those.
own() {
    local program=$here/$1
    shift
    LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$program" "$@"
}

# saved FILE COMMAND...: what it prints goes to a file and is shown.
saved() {
    local file=$out/$1
    shift
    "$@" >"$file"
    local status=$?
    cat "$file"
    return "$status"
}

step_info() {
    date -u +%Y-%m-%dT%H:%MZ
    uname -srm
    sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c
    nvidia-smi || true
    nvidia-smi -q -d CLOCK,PCIE 2>/dev/null | head -n 80
    own hearth devices
    saved devices.json own hearth devices --json >/dev/null
}

step_kcheck() {
    own kcheck --device "$device"
}

step_memcheck() {
    command -v compute-sanitizer >/dev/null || {
        echo "compute-sanitizer is not here"
        return 0
    }
    LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} compute-sanitizer --tool memcheck \
        --error-exitcode 1 "$here/kcheck" --seed 1 --device "$device"
}

step_pingpong() {
    saved pingpong.csv own pingpong --csv
}

# Of PowerInfer's kind: with predictors and planted sparsity, so that all modes can be run.
step_make() {
    local type
    for type in f16 q8_0 q4_0 q4_K; do
        [ -s "$models/$1-$type.gguf" ] || own make-model "$1" "$type" --powerinfer "$models/$1-$type.gguf" || return
    done
    ls -l "$models"
}

# bench NAME SHAPE ARGUMENT...: each format of a shape in the modes that matter, as text and as JSON.
bench() {
    local name=$1 shape=$2 type mode status=0
    shift 2
    for type in f16 q8_0 q4_0 q4_K; do
        for mode in dense exact; do
            own hearth bench "$models/$shape-$type.gguf" --sparsity "$mode" --no-guard --prompt-lengths 64 --contexts 0 \
                -n "$tokens" "$@" --json >"$out/$name-$shape-$type-$mode.json" &&
                own hearth bench --from "$out/$name-$shape-$type-$mode.json" || status=1
        done
    done
    return "$status"
}

step_resident() {
    bench resident "$1" --device "$device"
}

step_early() {
    bench early "$1" --device "$device,launch=early"
}

step_cpu() {
    bench cpu "$1"
}

# half_of SHAPE: half of the neurons of a layer.
half_of() {
    case $1 in
    tiny) echo 512 ;;
    1b) echo 2816 ;;
    7b) echo 5504 ;;
    13b) echo 6912 ;;
    *) die "$1: no such shape" ;;
    esac
}

step_kernels() {
    local neurons type mode
    neurons=$(half_of "$1") || return
    for type in f16 q4_0; do
        for mode in dense exact; do
            own hearth bench "$models/$1-$type.gguf" --sparsity "$mode" --no-guard --prompt-lengths 64 --contexts 0 -n 16 \
                -r 1 --device "$device,times=$out/kernels-$1-$type-$mode.csv" || return
        done
        own hearth bench "$models/$1-$type.gguf" --sparsity exact --no-guard --prompt-lengths 64 --contexts 0 -n 16 -r 1 \
            --device "$device,times=$out/kernels-$1-$type-half.csv" --gpu-neurons "$neurons" || return
    done
}

step_prompts() {
    local neurons type stream
    neurons=$(half_of "$1") || return
    for type in f16 q4_0; do
        prompts "$1-$type" resident --gpu-layers 999 || return
        for stream in off on; do
            prompts "$1-$type" "half-$stream" --gpu-neurons "$neurons" --stream "$stream" || return
        done
    done
}

# prompts MODEL HOW ARGUMENT...: speeds of prompts, and how long each command of one takes.
prompts() {
    local model=$1 how=$2
    shift 2
    own hearth bench "$models/$model.gguf" --sparsity dense --prompt-lengths 64,512,2032 --contexts 0 -n 2 -r 3 \
        --device "$device" "$@" --json >"$out/prompts-$model-$how.json" &&
        own hearth bench --from "$out/prompts-$model-$how.json" &&
        own hearth bench "$models/$model.gguf" --sparsity dense --prompt-lengths 512 --contexts 0 -n 1 -r 1 \
            --device "$device,times=$out/prompts-$model-$how.csv" "$@" >/dev/null
}

step_half() {
    local neurons type
    neurons=$(half_of "$1") || return
    bench half "$1" --device "$device" --gpu-neurons "$neurons" || return
    for type in f16 q4_0; do
        own hearth bench "$models/$1-$type.gguf" --sparsity exact --no-guard --prompt-lengths 64 --contexts 0 -n 8 -r 1 \
            --device "$device" --gpu-neurons "$neurons" --trace "$out/half-$1-$type-trace.json" || return
        gzip -f "$out/half-$1-$type-trace.json"
    done
}

# do_step STEP: "make-7b" is step_make 7b.
do_step() {
    local name=${1%%-*} shape=
    [ "$name" = "$1" ] || shape=${1#*-}
    [ "$(type -t "step_$name")" = function ] || die "no such step: $1"
    "step_$name" "$shape"
}

export -f own saved bench prompts half_of do_step die
export here out models device tokens
for name in info kcheck memcheck pingpong make resident early prompts cpu kernels half; do
    export -f "step_${name?}"
done

failed=0
for step in "$@"; do
    echo "== $step"
    begin=$(date +%s)
    timeout "$limit" bash -c 'do_step "$1"' bash "$step" 2>&1 | tee "$out/$step.txt"
    status=${PIPESTATUS[0]}
    echo "== $step: status $status, $(($(date +%s) - begin)) s" | tee -a "$out/$step.txt"
    [ "$status" -eq 0 ] || failed=1
    [ -z "$archive" ] || tar czf "$archive" -C "$(dirname "$out")" "$(basename "$out")"
done
exit $failed
