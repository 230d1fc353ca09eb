#!/usr/bin/env bash
# The discrete VAE on MNIST: 40 epochs of the methods in the paper's figure, one epoch of the others,
# 1 to 3 layers. About two hours on 2 cores. What is done is skipped, what was interrupted goes on.
set -euo pipefail
run() { # layers, method, epochs, further settings
    hnca train vae --layers "$1" --estimator "$2" --epochs "$3" "${@:4}" \
        --out "runs/mnist-vae-$1-$2"
}
for layers in 1 2 3; do
    for method in hnca hnca+baseline disarm loo reinforce+baseline; do
        # with one layer nothing is mediated, and a baseline has nothing to do
        [ "$layers-$method" = 1-hnca+baseline ] || run "$layers" "$method" 40
    done
    for method in reinforce loo-independent arm straight-through; do
        run "$layers" "$method" 1 --eval-every 1
    done
done

hnca report -o report/vae \
    runs/mnist-vae-1-{hnca,disarm,loo,reinforce+baseline} \
    runs/mnist-vae-[23]-{hnca,hnca+baseline,disarm,loo,reinforce+baseline}
cp report/vae/figures/vae-mnist.png docs/results/vae.png
