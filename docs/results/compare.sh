#!/bin/sh
# The figures of docs/which_estimator.md: what `hnca compare` finds on three networks. Takes ten
# minutes; much of it is compiling, so that a second time needs less.
#
#     sh docs/results/compare.sh
set -eu
cd "$(dirname "$0")/../.."
out=docs/results/compare

compare() { # NAME SECONDS SUBJECT...
    name=$1 seconds=$2
    shift 2
    hnca compare "$@" --budget "$seconds" -o "$out/$name" | grep -v ^wrote | tee "$out/$name.txt"
    mv "$out/$name/compare.png" "$out/$name.png"
    rm -r "${out:?}/$name"
}

compare vae-2 400 vae --layers 2 --preset quick
compare bandit 90 bandit --layers 2 --preset quick
compare own 90 examples/own_experiment.py:Patterns
