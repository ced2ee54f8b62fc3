#!/bin/sh
# Runs the tests of weft.paddle and weft.torch with the real frameworks, each in an environment of its own; and mypy.
# usage: run.sh FOLDER [paddle|torch|types]    environments are made below FOLDER, and kept
# $FRAMEWORKS_PYTHON: an interpreter that the frameworks have wheels for.
# The package is what this folder builds now, installed below FOLDER for this run alone; tests that would import another
# are refused. What cannot be installed is skipped, and said so. Fails if a test fails, or if nothing could be run.
set -u
export FLAGS_enable_pir_api=0 FLAGS_enable_pir_in_executor=0 # Paddle 3: programs of the legacy form, run as such
unset WEFT_LIBRARY PYTHONPATH # which would lead to another package
only=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
python=${FRAMEWORKS_PYTHON:-python3}
summary='' failed=0 ran=0
mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit
package=$(mktemp -d "$folder/package.XXXXXX") || exit
trap 'rm -rf "$package"' EXIT
trap 'exit 1' HUP INT TERM

say() { # LINE
    summary="$summary
$1"
}

# A copy: others may build in this folder while the tests run.
install_package() {
    make --no-print-directory -C "$here/../.." BUILD="${BUILD:-build}" python WHEELS="$package" >"$package/log" 2>&1 &&
        "$python" -m zipfile -e "$package"/weft-*.whl "$package" && return
    cat "$package/log"
    return 1
}

imports_package() { # PYTHON
    PYTHONPATH=$package "$1" -c 'import os, sys, weft
if not os.path.samefile(os.path.dirname(weft.__file__), sys.argv[1]): sys.exit("another package is in the way: " + weft.__file__)' \
        "$package/weft"
}

version_fits() { # LEAST MOST: versions of Python 3 that the framework has wheels for
    "$python" -c "import sys; sys.exit(not (3, $1) <= sys.version_info[:2] <= (3, $2))"
}

check() { # NAME LEAST MOST REQUIREMENT...
    name=$1 least=$2 most=$3 wanted=$4
    shift 3
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    if ! version_fits "$least" "$most"; then
        say "skipped  $wanted: it has wheels for Python 3.$least to 3.$most, and $python is $("$python" -V 2>&1): set FRAMEWORKS_PYTHON"
        return
    fi
    home=$folder/$name-${wanted##*=}
    if [ ! -f "$home/made" ]; then
        echo "$wanted: installing it into $home"
        if ! { "$python" -m venv "$home" && "$home/bin/pip" install --quiet "$@"; } >"$home.log" 2>&1; then
            say "skipped  $wanted: it cannot be installed ($home.log): $(tail -n 1 "$home.log")"
            return
        fi
        touch "$home/made"
    fi
    echo "$name: $*"
    ran=$((ran + 1))
    if imports_package "$home/bin/python" && PYTHONPATH=$package GLOG_minloglevel=1 "$home/bin/python" -m unittest "$here/test_$name"*.py; then
        say "passed   $wanted"
    else
        failed=$((failed + 1))
        say "FAILED   $wanted"
    fi
}

install_package || exit
say "package  $(git -C "$here" describe --always --dirty 2>/dev/null)"
check types 9 14 mypy==2.4.1 numpy
check paddle 8 12 paddlepaddle==2.6.2 'numpy<2' 'protobuf<5' setuptools
check paddle 9 13 paddlepaddle==3.3.1 'numpy<2' setuptools
check torch 9 13 torch==2.7.1 numpy setuptools
check torch 10 14 torch==2.15.0 numpy setuptools
echo "check-frameworks:$summary"
[ "$failed" = 0 ] && [ "$ran" -gt 0 ]
