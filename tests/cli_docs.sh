# cli_docs.sh - the commands of README.md and docs/ are run in order, as a reader would paste them, and what they print is
# compared with what the page shows.
#
# A command is a line of an indented block that begins with "$ " (lines with "> " continue it, others are what it prints),
# or, in a block without such a line, one that begins with a program's name. Every document has a fresh folder that looks
# like a clone after `make`. What cannot be run, or not as it stands, is in the lists below: there is no third way.
#
# Compared are the lines that a page shows; "..." stands for any others. What may differ from the page:
#   - what `same_thing` of the comparison below makes alike: the machine's name, threads, instruction set, memory that depends
#     on them, what the guard found by measuring, and differences of two nearly equal figures;
#   - numbers before or with a unit of time or speed (`units`);
#   - numbers with a decimal point, and of bytes, by 0.5 % and half a unit of their last digit: sums are taken in another order
#     at another level, after which even a long answer may go another way.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
if sanitized; then
    pass # nothing of this depends on how it was compiled; the plain build runs it
    finish
    exit
fi

# Commands that are not run: a shell pattern, and why.
not_run='
make demo*             | builds the very tree that is being tested
make test*             | would run this test
make                   | has been called, or this test would not run
make deb*              | compiles all anew for another prefix; cli_package packs this build
sudo *                 | installs, or starts, for everybody
man *                  | asks for pages that are not installed; cli_manual reads them
docker *               | downloads Debian, and compiles all anew
make install*          | installs for everybody; cli_examples does it in a folder of its own
export PKG_CONFIG_PATH* | of that installation
cc examples/*          | of that installation
hearth run MODEL *       | MODEL is any model; needs a graphics card
hearth bench MODEL *     | the same
hearth bench * --device cuda* | needs a graphics card
python3 bench/peers.py* | downloads and compiles llama.cpp; cli_peers runs it with programs that are there
bench/peers.py*        | the same
bench/run.sh*          | measures for minutes
tools/answer-questions * | plans and measures for minutes
hearth * humaneval.txt * | a text that tools/answer-questions writes
for text in *          | learns and measures for minutes
hearth eval sparsity gemma* | a published model, from a Python package of 250 MB
hearth tune gemma*     | the same
hearth serve *         | does not end; cli_serve runs one
curl *                 | asks a server; cli_serve asks the same
pip install *          | packages of others
OPENAI_BASE_URL=* python3 * | asks a server; cli_clients asks the same
ANTHROPIC_BASE_URL=* python3 * | the same
lm_eval *              | asks a server about a text of a registry; cli_clients asks it about texts that are here
ANTHROPIC_BASE_URL=* claude | a program that is not at hand
OPENAI_API_BASE=* aider * | the same
OPENAI_API_BASE_URL=* open-webui * | the same
hearth pull *          | downloads; cli_pull has servers of its own
hearth run $(hearth pull * | the same
hearth convert folder * | of what was downloaded
tools/test-aarch64*    | installs packages of another processor, and takes long
'

# Indented blocks that are not commands: how they begin, and what they are.
texts='
base  number*          | the modules, in order
machine: AMD EPYC*     | a plan, of a model that is not at hand
achieved: *            | a run beside its plan
{                      | a machine, or a model, as a file
{"sides": *            | a placement
models:                | settings of an editor
"language_models": {   | the same
[[]Service]*           | settings of the unit of systemd
'

# Commands that are run in a smaller form, what they print not being compared: a sed expression, and why.
smaller='
s/make-model (1b|7b|13b)/make-model tiny/    | gigabytes; the small shape has the same keys and tensors
s/make-model (opt|falcon|smallthinker)-[0-9.]+b /make-model \1-tiny / | the same
s/--contexts 0,16384/--contexts 0,64/        | minutes of attention
s/128,2048,8192/8,16/                        | the same
s/serve.py 1b.gguf/serve.py 1b.gguf --rounds 1/ | for medians that mean something
s/--gpu-neurons 1300/--gpu-neurons 300/      | of the 1024 that the small shape has
s/--layers 0-5/--layers 0-3/                 | of the 4 that the small shape has
s/--layers 6 q3moe/--layers 1 q3moe/         | gigabytes; the other layers are like the first
s/corpora/small/                             | a hundredth of the text: learning takes minutes
s/--choose bytes/--choose bytes --epochs 1/  | the same
s/-r (7|12|31)/-r 1/                         | for medians that mean something, which nobody reads here
s/--windows (4|40) |--task kl/--windows 1 / | of all windows: a minute for each setting
s/(eval sparsity stories-relu .*) -n 64 /\1 -n 8 --settings dense,exact,hot-only=0.5 / | the same: a few settings of all
s/(bench .*--compare dense,exact,predicted)/\1 -r 1 -n 8 --prompt-lengths 8/ | the same
s/--batch 1,2,4,8,16/--batch 1,4/           | the same
s#(nemotron.* --corpus) [^ ]*#\1 build/release/test-data/small/stories-train-sample.txt# | seconds of text
s/(eval sparsity .*--windows 1) +--svg/\1 --no-speed --svg/ | speed, for each setting
'

units="s ms s, ms, tokens/s tokens/s, tokens/s; tok/s GB/s microseconds"

# compare COMMAND EXPECTED ACTUAL: prints lines that are missing or too many.
compare() {
    awk -v command="$1" -v units="$units" '
        function same_thing(line) {
            gsub(/[ \t\r]+/, " ", line); sub(/ $/, "", line)
            gsub(/[0-9]+ threads?, [a-z0-9_+-]+/, "N threads, LEVEL", line)
            gsub(/scratch [0-9.]+ [kMG]?B/, "scratch SIZE", line)
            gsub(/budget [0-9.]+ [kMG]?B/, "budget SIZE", line)
            gsub(/\([-+][0-9.]+ %\)/, "(difference)", line)
            sub(/: host, .* \(budget/, ": host, CPU (budget", line)
            sub(/^.*, N threads, LEVEL, reads/, "CPU, N threads, LEVEL, reads", line)
            if (command !~ /--no-guard/) {
                sub(/mode [a-z]+( \(guard: [^)]*\))?, guarantee [a-z]+; .* neurons skipped, .* read per token/, "status: by the guard", line)
                sub(/, density [0-9.]+/, "", line)
                sub(/^guard: .*/, "guard: found", line)
            }
            return line
        }
        function split_number(word) { # into lead, number, unit
            if (!match(word, /[0-9]+(\.[0-9]+)?/)) return 0
            lead = substr(word, 1, RSTART - 1); number = substr(word, RSTART, RLENGTH); unit = substr(word, RSTART + RLENGTH)
            return 1
        }
        function word_matches(e, a, next_word, l, n, u, d, bound) {
            if (e == a) return 1
            if (!split_number(e)) return 0
            l = lead; n = number; u = unit
            if (!split_number(a) || lead != l || unit != u) return 0
            if ((u == "" && next_word in is_unit) || u in is_unit) return 1
            if (n !~ /\./ && number !~ /\./ && next_word !~ /^[kMG]?B[,;]?$/) return 0
            d = n - number; if (d < 0) d = -d
            bound = .005 * n + .5 / 10 ^ (index(n, ".") ? length(n) - index(n, ".") : 0)
            return d <= bound
        }
        function line_matches(e, a, i, n, ew, aw) {
            if (e == a) return 1
            n = split(e, ew, " ")
            if (split(a, aw, " ") != n) return 0
            for (i = 1; i <= n; i++) if (!word_matches(ew[i], aw[i], ew[i + 1])) return 0
            return 1
        }
        BEGIN { count = split(units, list, " "); for (i = 1; i <= count; i++) is_unit[list[i]] = 1 }
        FNR == 1 { file++ }
        { line = same_thing($0); if (line != "") { if (file == 1) expected[++e] = line; else actual[++a] = line } }
        END {
            for (i = 1; i <= e; i++) {
                if (expected[i] ~ /^ *\.\.\.$/) { open = 1; continue }
                found = 0
                for (j = 1; j <= a && !found; j++) if (!used[j] && line_matches(expected[i], actual[j])) { used[j] = 1; found = 1 }
                if (!found) print "  not printed: " expected[i]
            }
            for (j = 1; j <= a && !open; j++) if (!used[j]) print "  not on the page: " actual[j]
        }' "$2" "$3"
}

# commands_of PAGE FOLDER: FOLDER/N.command and FOLDER/N.expected of every command, in order.
commands_of() {
    awk -v folder="$2" '
        function begin(text) { n++; file = sprintf("%s/%03d", folder, n); print text >(file ".command"); printf "" >(file ".expected") }
        !/^    / { block = 0; blank = $0 == ""; next }
        !block && !blank { next }
        { line = substr($0, 5); first = !block }
        first { block = 1; prompt = 0 }
        line ~ /^\$ / { prompt = 1; begin(substr(line, 3)); next }
        prompt && line ~ /^> / { print substr(line, 3) >(file ".command"); next }
        prompt { print line >(file ".expected"); next }
        line ~ /^(hearth|make|make-model|python3|cmake|ctest|cc|cp|export|bench\/[a-z.]+|tools\/[a-z0-9-]+)( |$)/ { begin(line); next }
        first { print line >(folder "/texts") }
    ' "$1"
}

# listed LIST TEXT: what the list says of it; false where it is not there.
listed() {
    local pattern reason
    while IFS='|' read -r pattern reason; do
        pattern=${pattern%"${pattern##*[! ]}"}
        # shellcheck disable=SC2053 # a pattern it is
        [ -n "$pattern" ] && [[ $2 == $pattern ]] && echo "${reason# }" && return
    done <<<"$1"
    return 1
}

smaller_form() { # smaller_form COMMAND
    local arguments=() expression
    while IFS= read -r expression; do
        expression=${expression%"| "*}
        expression=${expression%"${expression##*[! ]}"}
        [ -z "$expression" ] || arguments+=(-e "$expression")
    done <<<"$smaller"
    sed -E "${arguments[@]}" <<<"$1"
}

# A folder like that of a clone that was built. What commands may write to is copied.
clone() { # clone FOLDER
    mkdir -p "$1/build/release/test-data/small"
    cp -r "$SOURCE/models" "$1/"
    ln -s "$SOURCE"/{bench,bindings,docs,examples,include,packaging,tests,tools} "$1/"
    ln -s "$BUILD"/hearth "$BUILD"/bench "$BUILD"/libhearth.so.0 "$1/build/release/"
    ln -s "$DATA"/{corpora,golden,models} "$1/build/release/test-data/"
    head -c 10000 "$DATA/corpora/stories-train-sample.txt" >"$1/build/release/test-data/small/stories-train-sample.txt"
    ln -s "$DATA/corpora/HumanEval.jsonl.gz" "$1/build/release/test-data/small/"
}

# Runs what commands_of found, in one shell, so that variables last. An error that the page shows is expected.
run_page() { # run_page PAGE
    local file command form reason status expected differences begun
    for file in "$scratch/page"/*.command; do
        command=$(cat "$file")
        expected=${file%.command}.expected
        if reason=$(listed "$not_run" "$command"); then
            echo "  not run ($reason): $command"
            continue
        fi
        form=$(smaller_form "$command")
        status=0
        begun=$SECONDS
        eval "$form" >"$scratch/printed" 2>&1 </dev/null || status=$?
        [ $((SECONDS - begun)) -lt 5 ] || echo "  $((SECONDS - begun)) s: $form"
        is "$1: $command: exit status ($(tail -n 1 "$scratch/printed"))" "$status" "$(grep -c '^hearth: ' "$expected")"
        [ -s "$expected" ] && [ "$form" = "$command" ] || continue
        case $command in *1b-*) continue ;; esac # a model that was made in a smaller form
        differences=$(compare "$command" "$expected" "$scratch/printed")
        is "$1: $command: the page and the program" "$differences" ""
    done
}

cd "$SOURCE" || exit
exec 3>&1 # what run_page prints, while its counts are read
for page in ${PAGES:-README.md docs/*.md models/README.md bench/results/README.md}; do
    mkdir "$scratch/page" "$scratch/clone"
    commands_of "$SOURCE/$page" "$scratch/page"
    touch "$scratch/page/texts"
    while read -r text; do
        listed "$texts" "$text" >/dev/null && pass || fail "$page: neither a command nor in the list of texts: $text"
    done <"$scratch/page/texts"
    if [ -e "$scratch/page/001.command" ]; then
        clone "$scratch/clone"
        # The page sets the PATH itself where it needs to; this one is for pages that leave it to README.md.
        counts=$(
            cd "$scratch/clone" || exit
            PATH=$PWD/build/release:$PWD/build/release/bench:$PATH
            run_page "$page" >&3
            echo "$checks $failures"
        )
        read -r checks failures <<<"$counts"
    fi
    rm -rf "$scratch/page" "$scratch/clone"
done

finish
