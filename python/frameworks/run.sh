#!/bin/sh
# Runs the tests of weft.paddle and weft.torch with the real frameworks, each in an environment of its own.
# usage: run.sh FOLDER [paddle|torch]    environments are kept below FOLDER
# $PACKAGE: the staged package (`make python`); $FRAMEWORKS_PYTHON: an interpreter that the frameworks have wheels for.
set -u
export FLAGS_enable_pir_api=0 FLAGS_enable_pir_in_executor=0 # Paddle 3: programs of the legacy form, run as such
folder=$1 only=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
python=${FRAMEWORKS_PYTHON:-python3}
broken=0
check() { # NAME REQUIREMENT...
    name=$1 wanted=$2
    shift
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    [ -f "$here/test_$name.py" ] || return 0
    home=$folder/$name-${wanted##*=}
    if [ ! -f "$home/made" ]; then
        "$python" -m venv "$home" && "$home/bin/pip" install --quiet "$@" && touch "$home/made" || { broken=1; return; }
    fi
    echo "$name: $*"
    PYTHONPATH=$PACKAGE GLOG_minloglevel=1 "$home/bin/python" -m unittest "$here/test_$name.py" || broken=1
}
check paddle paddlepaddle==2.6.2 'numpy<2' 'protobuf<5' setuptools
check paddle paddlepaddle==3.3.1 'numpy<2' setuptools
check torch torch==2.7.1 numpy setuptools
check torch torch==2.15.0 numpy setuptools
exit $broken
