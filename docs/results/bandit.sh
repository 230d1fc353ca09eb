#!/usr/bin/env bash
# The contextual bandit on MNIST: 20 epochs of 1 and 3 hidden layers by four methods, and one epoch
# of 2. About a quarter of an hour on 2 cores. What is done is skipped, what was interrupted goes on.
set -euo pipefail
for method in hnca hnca+baseline reinforce reinforce+baseline; do
    for layers in 1 2 3; do
        epochs=$([ "$layers" = 2 ] && echo 1 || echo 20)
        hnca train bandit --layers "$layers" --estimator "$method" --epochs "$epochs" \
            --out "runs/mnist-bandit-$layers-$method"
    done
done
hnca report runs/mnist-bandit-[13]-* -o report/bandit
cp report/bandit/figures/bandit-mnist.png docs/results/bandit.png
