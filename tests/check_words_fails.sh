#!/bin/sh
# check-words must find words that were given up, wherever they stand, and nothing else.
set -eu
check=$1
root=$(mktemp -d "${TMPDIR:-/tmp}/check words XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/src/cli" "$root/docs"
touch "$root/README.md"

# expect STATUS TEXT: the check ends so and says so about src/cli/run.c, which holds standard input.
expect() {
    cat >"$root/src/cli/run.c"
    status=0
    said=$("$check" "$root" 2>&1) || status=$?
    if [ "$status" -ne "$1" ] || ! echo "$said" | grep -qF "$2"; then
        echo "expected status $1 and \"$2\", got $status and: $said"
        exit 1
    fi
}

expect 0 "" <<'END'
hearth_mode mode = HEARTH_MODE_EXACT; /* the class of a Python program, units, a kept promise */
END
expect 1 'src/cli/run.c:2:hearth_rung r;   (now: mode)' <<'END'
int i;
hearth_rung r;
END
expect 1 "(now: guarantee)" <<'END'
puts("mode exact, class bitwise");
END
expect 1 "(now: loss, or cost)" <<'END'
{OPTION_ROW(0, "price", TEXT, pack_values, price, "FILE", "")}
END
expect 1 "(now: unknown option; is not a number)" <<'END'
fail(error, HEARTH_INVALID, "%s: is no option", text);
END
echo "what a rung is" >"$root/docs/use.md"
expect 1 "docs/use.md:1:what a rung is" </dev/null
