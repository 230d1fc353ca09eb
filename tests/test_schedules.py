"""Learning rates and weights that change while a network learns, and which units stay active."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hnca
from hnca.lab.errors import UserError
from hnca.lab.experiments import VAE, Bandit
from hnca.lab.files import write_json
from hnca.lab.training import Devices, RunDirectory
from hnca.lab.training.run import configuration, default_settings
from test_runs import DATA, TINY, DiesAfter, Killed, outcome, run, trainer

SMALL = VAE(
    epochs=3,
    units=(4, 3),
    batch_size=12,
    learning_rate=1e-2,
    eval_every=3,
    eval_samples=2,
    estimator="hnca+learned",
    schedule="cosine",
    warmup_steps=2,
    clip=0.5,
    kl_warmup=2,
)


def rates(experiment, steps: int) -> list[float]:
    """The step sizes that gradient descent takes, along a gradient of 1."""
    optimizer = replace(experiment, optimizer="sgd").make_optimizer(steps)
    state, found = optimizer.init(jnp.ones(())), []
    for _ in range(steps):
        update, state = optimizer.update(jnp.ones(()), state)
        found.append(float(update))
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 1, 1, 1, 1]),
        ({"schedule": "cosine"}, [(1 + np.cos(np.pi * n / 5)) / 2 for n in range(5)]),
        ({"schedule": "linear"}, [1, 0.8, 0.6, 0.4, 0.2]),
        ({"warmup_steps": 2}, [0, 0.5, 1, 1, 1]),
        ({"schedule": "linear", "warmup_steps": 2}, [0, 0.5, 1, 2 / 3, 1 / 3]),
        ({"clip": 0.25}, [0.25] * 5),
        ({"clip": 3.0}, [1, 1, 1, 1, 1]),
    ],
)
def test_learning_rates(settings, expected):
    found = rates(Bandit(learning_rate=1.0, **settings), 5)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_what_makes_no_sense():
    with pytest.raises(UserError, match="--warmup-steps 5: the whole run has no more than 5 steps"):
        Bandit(warmup_steps=5).make_optimizer(5)
    for settings, message in (
        ({"warmup_steps": -1}, "--warmup-steps must be 0 or more, not -1"),
        ({"clip": 0.0}, "--clip must be above 0"),
        ({"kl_warmup": -1}, "--kl-warmup must be 0 or more, not -1"),
        ({"kl_warmup": 2**31}, "--kl-warmup must be below 2,147,483,648, not 2147483648"),
        ({"kl_start": -0.1}, "--kl-start must be from 0 to 1, not -0.1"),
        ({"kl_start": 1.5}, "--kl-start must be from 0 to 1, not 1.5"),
        ({"kl_start": float("nan")}, "--kl-start must be from 0 to 1, not nan"),
        ({"kl_warmup": 1, "estimator": "vimco"}, "vimco climbs another bound"),
    ):
        with pytest.raises(UserError, match=message):
            replace(SMALL, **settings).check()


def test_weights_of_the_kl_terms():
    """Of every component but the image's, rising in a line."""
    trained = trainer(SMALL)
    weights = SMALL.step({"image": jnp.zeros((2, 6, 6), jnp.uint8)}, jax.random.key(0)).weights
    assert callable(weights)
    parts = {part.name for part in trained.graph.objective}
    assert set(weights(jnp.asarray(0.0))) == parts - {"p:x"}
    for progress, weight in ((0, 0.1), (0.5, 0.325), (1, 0.55), (2, 1), (7, 1)):
        for found in weights(jnp.asarray(float(progress))).values():
            np.testing.assert_allclose(found, weight, rtol=1e-6)


@pytest.mark.slow
def test_everything_at_once_survives_a_kill(tmp_path):
    """A schedule, a learned baseline, KL warm-up: the same bits as if nothing had happened."""
    run(tmp_path / "whole", SMALL)
    with pytest.raises(Killed):
        run(tmp_path / "killed", SMALL, DiesAfter(1))
    run(tmp_path / "killed", SMALL)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    entries = RunDirectory(tmp_path / "whole").read_metrics()
    assert all(0 <= entry["active_units/h1"] <= 4 for entry in entries)
    with pytest.raises(UserError, match="holds a run with epochs 3, not 4"):  # it has come to rest
        run(tmp_path / "whole", replace(SMALL, epochs=4))


def test_active_units():
    """Those whose probability of firing, over the epoch, leaves room for both values."""
    small = replace(SMALL, units=(4,))
    steps = {"value": jnp.zeros(2), "variance/h1": jnp.ones(2)}
    steps["firing/h1"] = jnp.array([[0.0, 1, 0.02, 1], [1, 1, 0.02, 0.999]])
    assert trainer(small).summarise(steps)["active_units/h1"] == 2


def test_a_run_of_an_earlier_version_goes_on(tmp_path):
    """Its configuration does not know of settings that came later: they are as they were."""
    config = configuration(TINY, TINY.images(DATA), None, Devices())
    check = lambda: RunDirectory(tmp_path).check(config, TINY.free, default_settings(TINY))
    before = {name: config["settings"][name] for name in ("seed", "epochs", "layers", "units")}
    before |= {"learning_rate": 1e-2, "batch_size": 10}
    write = lambda settings: write_json(tmp_path / "config.json", config | {"settings": settings})
    write(before)
    check()
    write(before | {"clip": 1.0, "epochs": 7})
    with pytest.raises(UserError, match=r"holds a run with clip 1\.0, not None"):
        check()


def test_presets():
    best = VAE(**VAE.presets["best"])
    best.check()
    assert isinstance(best.make_estimator(), hnca.HNCA)
    assert (best.epochs, best.learning_rate, best.schedule) == (84, 3e-3, "cosine")
