# cli_help.sh - every command explains itself, with every option and an example; wrong use gets a suggestion.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

overview=$("$HEARTH" --help)
is "no arguments" "$("$HEARTH")" "$overview"
is "help" "$("$HEARTH" help)" "$overview"
is "help help" "$("$HEARTH" help help)" "$overview"
is "help --help" "$("$HEARTH" help --help)" "$overview"
has "version" "$("$HEARTH" --version)" "hearth 0."

for command in run serve pull "eval ppl" "eval logits" "eval humaneval" bench devices convert quantize pack inspect tokenize tune manual complete; do
    # shellcheck disable=SC2086 # a command may be two words
    help=$("$HEARTH" $command --help)
    # shellcheck disable=SC2086
    is "help $command" "$("$HEARTH" help $command)" "$help"
    has "usage of $command" "$help" "usage: hearth $command "
    has "options of $command" "$help" "--help"
    has "example of $command" "$help" "  \$ hearth $command"
    has "overview names $command" "$overview" "${command% *}"
    long=$(printf '%s\n' "$help" | awk 'length > 130' | wc -l)
    is "lines of $command over 130 columns" "$long" 0
    # Every option of the table is understood: with --help behind it nothing else happens.
    for option in $(printf '%s\n' "$help" | grep -oE '^  (-., |    )--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'); do
        case "$help" in
            *"$option "[A-Z0-9a-z]*) value=1 ;;
            *) value= ;;
        esac
        # shellcheck disable=SC2086
        "$HEARTH" $command "$option" $value --help >/dev/null 2>"$scratch/err" && pass ||
            case "$(cat "$scratch/err")" in
                *"unknown option"*) fail "$command: $option is in the help and not understood" ;;
                *) pass ;;
            esac
    done
done
# Lists of names in the help are those that the errors give.
formats=$("$HEARTH" quantize a b q9_9 2>&1 | sed 's/.*the formats are //' || true)
for command in quantize convert pack; do
    has "formats of $command" "$("$HEARTH" $command --help | tr -s ' \n' ' ')" ": $formats"
done
# A mix is in the help of quantize, and quantize knows it.
mixes=$("$HEARTH" quantize a b q9_9 2>&1 | sed 's/.*the mixes are //; s/; the formats.*//' || true)
help=$("$HEARTH" quantize --help | tr -s ' \n' ' ')
for mix in ${mixes//,/}; do
    has "mix $mix in the help" "$help" " $mix"
done
is "number of mixes" "$(wc -w <<<"$mixes")" 17
refused 2 "iq2_xs: can be read, not written" "$HEARTH" quantize a b iq2_xs
refused 2 "iq1_s: can be read, not written" "$HEARTH" convert a -o b --type iq1_s
refused 2 "q1_0: can be read, not written" "$HEARTH" pack a b --down-type q1_0
for command in run quantize convert pack; do
    has "activations of $command" "$("$HEARTH" $command --help | tr -s ' \n' ' ')" ": silu, relu, fatrelu"
done
has "parts of eval" "$("$HEARTH" eval --help)" logits

refused 2 "did you mean run" "$HEARTH" rnu
refused 2 "did you mean tokenize" "$HEARTH" tokenise
refused 2 "unknown command" "$HEARTH" frobnicate
refused 2 "chat: unknown command; did you mean run?" "$HEARTH" chat model.gguf
# A description is whole, however long it is.
has "the end of a long description" "$("$HEARTH" run --help | tr -s ' \n' ' ')" "and reasoning (text is then without it)"
refused 2 "did you mean eval ppl" "$HEARTH" eval pll
refused 2 "did you mean help eval ppl" "$HEARTH" help eval pll
refused 2 "eval: foo: is not one of ppl, " "$HEARTH" eval foo
refused 2 "eval: foo: is not one of ppl, " "$HEARTH" help eval foo
refused 2 "needs a subcommand" "$HEARTH" eval
refused 2 "did you mean --prompt" "$HEARTH" run --promt x
refused 2 "did you mean --top-k" "$HEARTH" run --topk 3
refused 2 "unknown option" "$HEARTH" run --frobnicate
refused 2 "unknown option" "$HEARTH" run -z
refused 2 "a command comes first" "$HEARTH" -z
refused 2 "needs a value" "$HEARTH" run -p
refused 2 "takes no value" "$HEARTH" run --json=1 -p x
refused 2 "is not a whole number" "$HEARTH" run -p x -n many
refused 2 "is out of range, it goes from 1 to 1073741824, or is -1" "$HEARTH" run -p x -n 0
refused 2 "is out of range" "$HEARTH" run -p x -n 99999999999999999999
refused 2 "is out of range" "$HEARTH" run -p x --top-p 1.5
refused 2 "is not a number" "$HEARTH" run -p x --temp nan
refused 2 "is not a number" "$HEARTH" run -p x --temp=hot
refused 2 "is not one of f16, f32, q8_0" "$HEARTH" run -p x --kv f64
refused 2 "is not ID=BIAS" "$HEARTH" run -m m -p x --logit-bias 12
refused 2 "is not a whole number" "$HEARTH" run -p x --seed -1
refused 2 "one argument too many" "$HEARTH" run a b -p x
refused 2 "needs a prompt" "$HEARTH" run a --json
refused 2 "too few" "$HEARTH" quantize a b
refused 2 "-o: is missing" "$HEARTH" convert a
refused 2 "cannot be written" "$HEARTH" quantize a b q9_9
refused 2 "MODEL: is missing" "$HEARTH" inspect
refused 2 "MODEL: is empty" "$HEARTH" inspect ""
refused 2 "--ids: is missing" "$HEARTH" eval logits m --out x
refused 2 "--out: is missing" "$HEARTH" eval logits m --ids 1
refused 2 "is not a list" "$HEARTH" eval logits m --ids 1,x --out x
for ids in 1,,3 1,3, "1, ,3" ,1 ,; do
    refused 2 "is not a list of whole numbers" "$HEARTH" eval logits m --ids "$ids" --out x
done
refused 2 "--ids: '1,,3' is not a list" "$HEARTH" eval logits m --ids 1,,3 --out x
refused 2 "is out of range" "$HEARTH" eval logits m --ids 1,-1 --out x
refused 2 "is out of range" "$HEARTH" eval logits m --ids 4294967297 --out x
refused 2 "list is empty" "$HEARTH" eval logits m --ids "" --out x
refused 2 "needs --separator" "$HEARTH" eval ppl m f --documents 3
refused 2 "no size is below zero" "$HEARTH" run -m m -p x --sparsity pruned --threshold -1
refused 2 "needs --sparsity pruned" "$HEARTH" run -m m -p x --prune 0.5
refused 2 "and no --threshold" "$HEARTH" run -m m -p x --sparsity pruned --prune 0.5 --threshold 1
refused 2 "is out of range" "$HEARTH" run -m m -p x --sparsity pruned --prune 1.5
refused 2 "not one of auto, dense, exact, predicted" "$HEARTH" run -m m -p x --sparsity some
refused 2 "needs --sparsity predicted" "$HEARTH" run -m m -p x --threshold 0.5
refused 2 "needs --sparsity predicted" "$HEARTH" run -m m -p x --threshold 0.5 --sparsity exact
refused 2 "is not a number" "$HEARTH" run -m m -p x --threshold nan --sparsity predicted
refused 2 "the file of --place says" "$HEARTH" run -m m -p x --place p.json --sparsity exact
for option in --gpu-layers -ngl --n-gpu-layers --gpu-neurons; do
    refused 2 "$option: '1.5' is not a whole number" "$HEARTH" eval logits m --ids 1 --out x $option 1.5
    refused 2 "$option: -1 is out of range" "$HEARTH" eval logits m --ids 1 --out x $option -1
    refused 2 "the file of --place says what the device works on" \
        "$HEARTH" eval logits m --ids 1 --out x $option 1 --place p.json
done
refused 2 "unknown option" "$HEARTH" run -nglx 1
refused 2 "--device: is empty" "$HEARTH" run -m m -p x --device ""
for command in "run -m m -p x" "eval logits m --ids 1 --out x" "bench m"; do
    # shellcheck disable=SC2086
    refused 2 "--trace: needs the name of a file" "$HEARTH" $command --trace -
done

finish
