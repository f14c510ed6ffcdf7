# check-layers must fail on includes that point the wrong way, and only on those.
subject=src/number/half.c
. "$(dirname "$0")/check_fails.sh"
mkdir -p "$root/src/base" "$root/src/number" "$root/src/file" "$root/src/cli" "$root/tests"
cat >"$root/CMakeLists.txt" <<'END'
set(library_modules base number kernel file)
set(program_modules eval)
END
touch "$root/src/base/error.h" "$root/src/file/gguf.h" "$root/src/cli/command.h" "$root/tests/golden.h"

expect 0 "" <<'END'
#include "../base/error.h"
#include <hearth.h>
END
expect 1 "src/number/half.c:2: number includes src/file/gguf.h" <<'END'
#include "../base/error.h"
#include "../file/gguf.h"
END
expect 1 "src/number/half.c:1: number includes src/cli/command.h" <<'END'
#  include  "../cli/command.h"
END
expect 1 "which is outside src" <<'END'
#include "../../tests/golden.h"
END
expect 1 "not a file of this tree" <<'END'
#include "missing.h"
END
mkdir "$root/src/unheard"
touch "$root/src/unheard/of.c"
echo 'int of;' >"$root/src/unheard/of.c"
expect 1 "src/unheard is not in the list" </dev/null
rm -r "$root/src/unheard"

{
    echo 'int long_one(int x)'
    echo '{'
    yes '    x++;' | head -n 900
    echo '}'
} | expect 0 "long_one has 902 lines (over 100)"
expect 0 "" <<'END'
#include "../base/error.h"
END
if [ -n "$said" ]; then
    echo "expected no output, got: $said"
    exit 1
fi
echo "check-layers fails where it must"
