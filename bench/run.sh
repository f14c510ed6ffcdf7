#!/bin/bash
# run.sh [-l LABEL] [-n TOKENS] [MODEL...]: measures this machine's kernels, and hearth on the demo model and the given
# ones, in every mode that each of them can run, the modes taking turns. Nothing else should run meanwhile.
#
# bench/results/ gets, with LABEL and DATE in their names:
#   kbench, pbench   .csv   the kernels, the pool
#   modes            .csv   a row for each model, mode and prompt length: speed, bytes, floor, density
#   modes-MODEL      .json  the same with every layer's density; `hearth bench --from FILE...` shows them again
#   modes-demo, modes-models .svg   pictures of the demo model and of the given ones
# Tables carry what it needs to compare them (machine, date, commit, command) in comment lines at their head. LABEL is the
# kind of machine, in lower-case letters, digits and hyphens; by default its CPU's model. TOKENS are decoded in each of
# seven runs; 32.
#
# Models of the shapes in the tables (the 1b ones are 2.4, 1.3 and 0.7 GB):
#   for type in f16 q8_0 q4_0; do
#       build/release/bench/make-model 1b $type --powerinfer 1b-pi-$type.gguf
#   done
#   bench/run.sh 1b-pi-f16.gguf 1b-pi-q8_0.gguf 1b-pi-q4_0.gguf
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
label=
tokens=32
while getopts l:n: option; do
    case $option in
    l) label=$OPTARG ;;
    n) tokens=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
demo=models/stories-relu-q8_0.gguf
# "Intel(R) Xeon(R) Processor @ 2.00GHz" -> intel-xeon-processor
[ -n "$label" ] || label=$(sed 's/([A-Za-z]*)//g; s/ *@.*//' <<<"$cpu")
label=$(tr '[:upper:]' '[:lower:]' <<<"$label" | tr -cs 'a-z0-9\n' '-' | sed 's/^-*//; s/-*$//')
label=${label:-unknown}
date=$(date -u +%Y-%m-%d)
mkdir -p bench/results

# head_of COMMAND...: what a table needs to be compared with another.
head_of() {
    echo "# machine: $cpu, $(nproc) processors," \
        "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo), $(uname -sr)"
    echo "# date: $(date -u +%Y-%m-%dT%H:%MZ)"
    echo "# commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
    echo "# load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
    echo "# command: $*"
}

# keep FILE COMMAND...: what a command prints, behind whatever stands in FILE.part; it appears when it is complete.
keep() {
    local file=$1
    shift
    "$@" >>"$file.part" || {
        rm -f "$file.part"
        echo "run.sh: failed: $*" >&2
        return 1
    }
    mv "$file.part" "$file"
}

# measure NAME COMMAND...: a table with a head.
measure() {
    local file=bench/results/$1-$label-$date.csv
    shift
    echo "$*"
    head_of "$@" >"$file.part"
    keep "$file" "$@"
    grep -v '^#' "$file"
    echo "-> $file"
    echo
}

# The programs of bench/; one that is not built is left out.
for name in kbench pbench; do
    program=$build/bench/$name
    arguments=(--csv)
    [ "$name" = pbench ] && arguments=("$(nproc)")
    if [ -x "$program" ]; then
        measure "$name" "$program" "${arguments[@]}"
    else
        echo "$program is not built; its table is left out"
    fi
done

# Every mode of every model, once; tables and pictures come from what was saved.
saved=()
modes=bench/results/modes-$label-$date.csv
rm -f "$modes.part"
trap 'rm -f "$modes.part"' EXIT
head_of "hearth bench MODEL --compare all --json -n $tokens --prompt-lengths 512 (demo: 64)" >"$modes.part"
for model in "$demo" "$@"; do
    name=$(basename "${model%/}" .gguf)
    file=bench/results/modes-$name-$label-$date.json
    length=512
    [ "$model" = "$demo" ] && length=64
    compare=(--compare all --json -n "$tokens" --prompt-lengths "$length")
    echo "$build/hearth bench $model ${compare[*]}"
    rm -f "$file.part"
    keep "$file" "$build/hearth" bench "$model" "${compare[@]}"
    sed -i 's|"model": ".*/|"model": "|' "$file" # where it lies on this machine is nobody's business
    saved+=("$file")
    "$build/hearth" bench --from "$file"
    echo "-> $file"
    echo
done
keep "$modes" "$build/hearth" bench --from "${saved[@]}" --csv
"$build/hearth" bench --from "${saved[0]}" --csv --plot "bench/results/modes-demo-$label-$date.svg" >/dev/null
if [ ${#saved[@]} -gt 1 ]; then
    "$build/hearth" bench --from "${saved[@]:1}" --csv --plot "bench/results/modes-models-$label-$date.svg" >/dev/null
fi
echo "-> $modes and pictures beside it"
