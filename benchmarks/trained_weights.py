"""How large the weights of trained runs are, beside the limit of the kernel's fastest form.

    hnca train vae --layers 2 --preset best --epochs 40 --out runs/best
    python benchmarks/trained_weights.py runs/best

A vector of weights of which one is beyond the limit is left to the share form:
`kernels/bernoulli.py` says why, and step_profile.py what that costs.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hnca import Affine, LogProb
from hnca.kernels.bernoulli import TANH_LIMIT
from hnca.lab.training import RunDirectory, read_trained

LANES = 8  # weights of a vector, with AVX2


def weights_of(graph) -> dict[str, np.ndarray]:
    """Of all linear layers with inputs; [outputs, inputs] each."""
    layers = {node.name: node.layer for node in graph.nodes}
    layers |= {part.name: part.layer for part in graph.objective if isinstance(part, LogProb)}
    maps = {name: layer.logits for name, layer in layers.items()}
    found = {name: np.asarray(m.weight) for name, m in maps.items() if isinstance(m, Affine)}
    return {name: weight for name, weight in found.items() if weight.size}


def beyond(weight: np.ndarray) -> tuple[float, float]:
    """The shares of weights, and of vectors of them, that are beyond the limit."""
    large = np.abs(weight) > TANH_LIMIT
    whole = large[:, : large.shape[1] // LANES * LANES].reshape(len(large), -1, LANES)
    return float(large.mean()), float(whole.any(axis=-1).mean())


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="How large the weights of trained runs are.")
    parser.add_argument("runs", nargs="+", type=Path, help="directories of runs")
    table = Table("run", "epoch", "layer", "max |w|", f"beyond {TANH_LIMIT:g}", "vectors with one")
    for run in parser.parse_args().runs:
        trained = read_trained(RunDirectory(run))
        for name, weight in weights_of(trained.graph).items():
            shares = [f"{share:.1%}" for share in beyond(weight)]
            largest = f"{np.abs(weight).max():.1f}"
            table.add_row(trained.experiment.title, f"{trained.epoch}", name, largest, *shares)
    Console().print(table)


if __name__ == "__main__":
    main()
