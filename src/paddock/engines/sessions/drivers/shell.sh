# The driver of sessions of Bash: it evaluates each text in this shell, so that variables, functions and the working
# directory stay. An `exit` ends the text alone: the state is saved, and the shell replaces itself by a new one.
#
# Texts may redefine commands, and set options and traps. Therefore the driver calls commands by `builtin`, switches
# options and traps off while it works, and has no output then, which hides traces (`set -x`).
if [[ ${1-} != restored ]]; then
  exec 200<&3 3<&-
  set -- opened "$TMPDIR/.paddock-state" 0
fi
readonly __paddock_driver=${BASH_SOURCE[0]} __paddock_bash=$BASH __paddock_origin=$1 __paddock_state=$2
__paddock_enabled=$SHELLOPTS __paddock_shadow= __paddock_traps= __paddock_nothing= __paddock_exit_code=$3

__paddock_send() {  # a frame of JSON
  builtin local LC_ALL=C text="$1" size_hex
  builtin local -i size="${#text}"
  builtin printf -v size_hex '\\x%02x\\x%02x\\x%02x\\x00' "$((size & 255))" "$((size >> 8 & 255))" "$((size >> 16 & 255))"
  builtin printf "$size_hex%s" "$text" >&200
}

__paddock_begin() {  # read a request: its number, the bytes of its text and of its input, and these bytes
  builtin local LC_ALL=C sizes
  builtin read -r -u 200 || builtin return
  sizes=${REPLY#* }
  __paddock_code= __paddock_input=
  ((${sizes% *} == 0)) || builtin read -r -N "${sizes% *}" -u 200 __paddock_code
  ((${sizes#* } == 0)) || builtin read -r -N "${sizes#* }" -u 200 __paddock_input
  # The line before the text has the number 0, which Bash takes over only from a redirection. It prints no trace, and
  # leaves the last status: a subshell runs no trap, and a failure before `&&` does not end a shell with `set -e`.
  builtin local prepare="\\builtin set -o ${__paddock_enabled//:/ -o }; "
  [[ ! $__paddock_traps ]] || prepare+='\builtin eval "$__paddock_traps"; '
  [[ ! $__paddock_shadow ]] || prepare+='\builtin eval "$__paddock_shadow"; '
  ((__paddock_exit_code == 0)) || prepare+="(/bin/sh -c 'exit $__paddock_exit_code') && :; "
  __paddock_code="{ $prepare} 2>/dev/null\${__paddock_nothing:\$((LINENO=0))}"$'\n'$__paddock_code
  builtin trap 'exit 130' INT
}

__paddock_give_input() { builtin printf %b "$__paddock_input"; }

__paddock_calm() {  # switch off what disturbs the driver, and remember it for the next text
  __paddock_enabled=$SHELLOPTS __paddock_shadow=
  __paddock_probe=
  builtin printf -v __paddock_probe is
  if [[ ! $__paddock_probe ]]; then
    __paddock_shadow=$(declare -f builtin)
    unset -f builtin
  fi
  builtin set +abefhkmnptuvxBCEHPT +o pipefail
  builtin trap : INT
}

__paddock_leave() {
  __paddock_exit_code=$?
  {
    __paddock_calm
    { builtin declare -p; builtin shopt -p; builtin alias -p; builtin declare -f; } > "$__paddock_state"
    __paddock_send "{\"done\":{\"exit_code\":$__paddock_exit_code}}"
  } >/dev/null 2>&1
  builtin exec "$__paddock_bash" --noprofile --norc "$__paddock_driver" restored "$__paddock_state" "$__paddock_exit_code"
}

readonly -f __paddock_send __paddock_begin __paddock_give_input __paddock_calm __paddock_leave

# Everything is parsed before the state brings aliases. The loop ends when a text leaves it: `break` ends the text as
# `exit` does; after `set -n`, Bash executes nothing any more, and ends.
{
  if [[ $__paddock_origin == restored ]]; then
    source "$__paddock_state" >/dev/null 2>&1
    __paddock_exit_code=$3
  else
    __paddock_send '{"ready":true}'
  fi
  builtin set --
  builtin trap __paddock_leave EXIT
  for ((__paddock_ready = 1; __paddock_ready--; )); do
    { __paddock_begin || { builtin trap - EXIT; builtin exit; }; } >/dev/null 2>&1
    builtin eval "$__paddock_code" < <(__paddock_give_input)
    {
      __paddock_exit_code=$?
      __paddock_calm
      __paddock_traps=$(builtin trap -p ERR RETURN DEBUG)
      builtin trap - DEBUG ERR RETURN
      builtin trap __paddock_leave EXIT
      __paddock_send "{\"done\":{\"exit_code\":$__paddock_exit_code}}"
    } >/dev/null 2>&1
    ((__paddock_ready = 1))
  done
}
