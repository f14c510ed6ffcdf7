# hearth.bash - completion for bash. The program that is about to run says what may come next: `hearth help complete`.

_hearth()
{
    local word answer words=()
    # bash cuts --name=value into three words.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        [ "$word" = = ] || words+=("$word")
    done
    [ "${COMP_WORDS[COMP_CWORD]}" != = ] || words+=("")
    answer=$("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${words[@]}" 2>/dev/null)
    COMPREPLY=()
    case $answer in
        "") ;;
        :files) compopt -o default ;; # where COMPREPLY is empty bash offers files
        *)
            mapfile -t COMPREPLY <<<"$answer"
            COMPREPLY=("${COMPREPLY[@]%%$'\t'*}") # without what they are
            ;;
    esac
}
complete -F _hearth hearth
