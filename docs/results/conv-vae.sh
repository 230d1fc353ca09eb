#!/usr/bin/env bash
# The convolutional VAE on MNIST and Fashion-MNIST: 20 epochs of four methods. A quarter of an hour of
# one core for each run. What is done is skipped, what was interrupted goes on.
set -euo pipefail
hnca sweep docs/results/conv-vae/conv-vae.toml
python docs/results/page.py collect runs/conv-vae
python docs/results/page.py write
for dataset in mnist fashion-mnist; do
    hnca generate "runs/conv-vae/conv-vae-hnca+baseline-$dataset-0" \
        -o "docs/results/conv-vae/$dataset-samples.png"
done
