#!/bin/sh
# Asks `weft verify` about every case: is the bug found, is the correct twin left alone?
# usage: bench/bugs/run.sh [CASE...]     a CASE is a folder's name or the number that it begins with
# Prints a line a case and the totals. A twin with a verdict is a false alarm; one that is not proved to train as the serial
# program does is counted apart. missed.txt lists the cases that are known to be missed or not proved, each with its reason.
# Exit 0: no other miss, no false alarm, nothing in the list that is found and proved.
set -u
cd "$(dirname "$0")/../.." || exit 2
weft=${WEFT:-build/release/weft}
bugs=bench/bugs

known=' '
while read -r number _; do known="$known$number "; done <"$bugs/missed.txt"

# Sets reading, ranks, expected, options from case.yaml.
read_case() { # CASE
    options=
    while IFS= read -r line; do
        value=${line#*: }
        case ${line%%: *} in
        expected) expected=$value ;;
        reading) options="$options --reading $value" ;;
        ranks) options="$options --ranks $value" ;;
        launch) options="$options --launch $value" ;;
        in_flight) options="$options --in-flight $value" ;;
        queued) options="$options --queued $value" ;;
        against) options="$options --against $1/$value" ;;
        esac
    done <"$1/case.yaml"
}

# Sets `found`: the expected verdict if it is among those on the program, else all of them; "correct" if there are none.
judge() { # CASE bad|good
    programs=$1/$2.yaml
    [ -f "$programs" ] || programs=$(echo "$1/$2".rank*.yaml)
    # shellcheck disable=SC2086
    output=$("$weft" verify $programs $options 2>&1)
    case $? in
    0) found=correct ;;
    1) found= ;;
    *) found=failed ;;
    esac
    [ -z "$found" ] || return
    while IFS= read -r line; do
        word=${line%%:*}
        case $word in
        "$expected") found=" $expected" && return ;;
        race | deadlock | wrong_* | missing_reduce | stale_read | uninitialised_read | out_of_bounds | resource_deadlock | \
            invalid_program | not_proved)
            case "$found " in *" $word "*) ;; *) found="$found $word" ;; esac
            ;;
        esac
    done <<END_OF_OUTPUT
$output
END_OF_OUTPUT
    found=${found:-refused}
}

wanted() { # CASE ARGS...
    at=${1##*/}
    shift
    [ $# = 0 ] && return
    for want; do
        case $at in "$want" | "$want"-*) return 0 ;; esac
    done
    return 1
}

ncases=0 nfound=0 nmissed=0 nunproved=0 nfalse=0 nunlisted=0
printf '%-38s %-19s %-22s %s\n' case expected found twin
for case in "$bugs"/*/; do
    case=${case%/}
    wanted "$case" "$@" || continue
    read_case "$case"
    judge "$case" good
    good=${found# } remark=
    judge "$case" bad
    bad=${found# }
    ncases=$((ncases + 1))
    if [ "$bad" = "$expected" ]; then nfound=$((nfound + 1)); else nmissed=$((nmissed + 1)) remark=MISSED; fi
    [ "$good" = not_proved ] && nunproved=$((nunproved + 1)) && remark=${remark:-NOT PROVED}
    name=${case##*/}
    case $known in
    *" ${name%%-*} "*) if [ -n "$remark" ]; then remark='in missed.txt'; else remark='TAKE IT FROM missed.txt'; fi ;;
    esac
    case $good in correct | not_proved) ;; *) nfalse=$((nfalse + 1)) remark='FALSE ALARM' ;; esac
    case $remark in [A-Z]*) nunlisted=$((nunlisted + 1)) ;; esac
    printf '%-38s %-19s %-22s %-12s %s\n' "$name" "$expected" "$bad" "$good" "$remark"
done
echo
echo "$ncases cases: $nfound found, $nmissed missed, $nfalse false alarms, $nunproved correct but not proved"
[ $nunlisted = 0 ]
