#!/usr/bin/env bash
# The convolutional VAE on MNIST and Fashion-MNIST: 20 epochs of four methods. A quarter of an hour of
# one core for each run. What is done is skipped, what was interrupted goes on.
set -euo pipefail
hnca sweep docs/results/conv-vae.toml --out runs/conv-vae
hnca report runs/conv-vae -o runs/conv-vae/report
for dataset in mnist fashion-mnist; do
    cp "runs/conv-vae/report/figures/conv-vae-$dataset.png" "docs/results/conv-vae-$dataset.png"
    hnca generate "runs/conv-vae/conv-vae-hnca+baseline-$dataset-0" \
        -o "docs/results/conv-vae-$dataset-samples.png"
done
