# hearth.fish - completion for fish. The program that is about to run says what may come next: `hearth help complete`.

function __hearth_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l answer ($words[1] complete -- $words[2..] "$typed" 2>/dev/null)
    if test "$answer" = :files
        set -l option (string match -r -- '^--[^=]*=' "$typed")
        printf "$option%s\n" (__fish_complete_path (string replace -- "$option" "" "$typed"))
    else
        string join -- \n $answer # WORD, a tab, what it is: as fish wants it
    end
end
complete -c hearth -f -a '(__hearth_complete)'
