#!/bin/bash
# run.sh [-l LABEL] [MODEL...]: measures this machine's kernels and hearth on the demo model and the
# given ones. Each table goes to bench/results/WHAT-LABEL-DATE.csv, with what it needs to be compared
# (machine, date, commit, command) in comment lines at its head. LABEL is the kind of machine, in
# lower-case letters, digits and hyphens; by default its CPU's model. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
label=
while getopts l: option; do
    case $option in
    l) label=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
models=("models/stories-relu-q8_0.gguf" "$@")
# "Intel(R) Xeon(R) Processor @ 2.00GHz" -> intel-xeon-processor
[ -n "$label" ] || label=$(sed 's/([A-Za-z]*)//g; s/ *@.*//' <<<"$cpu")
label=$(tr '[:upper:]' '[:lower:]' <<<"$label" | tr -cs 'a-z0-9\n' '-' | sed 's/^-*//; s/-*$//')
label=${label:-unknown}
mkdir -p bench/results

# measure NAME COMMAND...: a table with a head; it appears when it is complete.
measure() {
    local name=$1
    shift
    local file
    file="bench/results/$name-$label-$(date -u +%Y-%m-%d).csv"
    echo "$*"
    {
        echo "# machine: $cpu, $(nproc) processors," \
            "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo), $(uname -sr)"
        echo "# date: $(date -u +%Y-%m-%dT%H:%MZ)"
        echo "# commit: $(git describe --always --dirty 2>/dev/null || echo unknown)"
        echo "# load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
        echo "# command: $*"
        "$@"
    } >"$file.part" || {
        rm -f "$file.part"
        echo "run.sh: failed: $*" >&2
        return 1
    }
    mv "$file.part" "$file"
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
for model in "${models[@]}"; do
    name=$(basename "$model")
    measure "bench-${name%.gguf}" "$build/hearth" bench "$model" --csv
done
