# The driver of sessions of Bash: it evaluates each text in this shell, so that variables, functions and the working
# directory stay. An `exit` ends the text alone: the state is saved, and the shell replaces itself by a new one.
__paddock_driver=${BASH_SOURCE[0]}
if [[ ${1-} == restored ]]; then
  source "$TMPDIR/.paddock-state" 2>/dev/null || :
  rm -f "$TMPDIR/.paddock-state" || :
  cd -- "$__paddock_directory" 2>/dev/null || :
else
  exec 200<>/dev/fd/3 2>/dev/null || exec 200<&3
  exec 3<&-
fi

__paddock_send() {  # a frame of JSON
  local LC_ALL=C text=$1 size_hex
  local -i size=${#text}
  printf -v size_hex '\\x%02x\\x%02x\\x%02x\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16 & 255)) 0
  printf "$size_hex%s" "$text" >&200
}

__paddock_finish() {
  trap : INT
  __paddock_send "{\"done\":{\"exit_code\":$1}}"
}

__paddock_leave() {
  local code=$?
  trap - INT
  __paddock_directory=$PWD
  { declare -p; declare -f; alias -p; shopt -p; set +o; } > "$TMPDIR/.paddock-state" 2>/dev/null
  __paddock_finish "$code"
  exec "$BASH" --noprofile --norc "$__paddock_driver" restored
}

__paddock_serve() {
  local __paddock_number __paddock_code __paddock_input
  local -i __paddock_code_bytes __paddock_input_bytes
  while IFS=' ' read -r -u 200 __paddock_number __paddock_code_bytes __paddock_input_bytes; do
    __paddock_code= __paddock_input=
    ((__paddock_code_bytes == 0)) || LC_ALL=C IFS= read -r -N "$__paddock_code_bytes" -u 200 __paddock_code || :
    ((__paddock_input_bytes == 0)) || LC_ALL=C IFS= read -r -N "$__paddock_input_bytes" -u 200 __paddock_input || :
    trap 'exit 130' INT
    __paddock_evaluate < <(printf %b "$__paddock_input")  # without `||`, which would switch off `set -e`
    __paddock_finish $?
  done
}

__paddock_evaluate() { eval "$__paddock_code"; }

trap __paddock_leave EXIT
[[ ${1-} == restored ]] || __paddock_send '{"ready":true}'
set --
__paddock_serve
trap - EXIT
