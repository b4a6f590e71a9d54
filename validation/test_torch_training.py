"""Training through the bridge in PyTorch's own loop, and docs/torch.md, which shows it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Sampler, TensorDataset  # noqa: E402 - needs torch

import evref as ev  # noqa: E402
from evref.bridges.torch import FilterModule, NetworkModule  # noqa: E402
from evref.verify.examples import probe_graph  # noqa: E402

GRAPH = probe_graph(6, "directed")
CLASSES, SAMPLES, BATCH, EPOCHS, RATE, SEED = 3, 50, 16, 5, 0.01, 7
FILTER = ev.EdgeVariant(GRAPH, order=2, in_features=1, out_features=4, bias=True)
NET = ev.Network([FILTER, ev.ReLU(), ev.Dense((4, 6), outputs=CLASSES)])


class ShufflesOfFit(Sampler):
    """The order in which `ev.fit` takes the samples."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.rng = n, np.random.default_rng(seed)

    def __len__(self) -> int:
        return self.n

    def __iter__(self):
        return iter(self.rng.permutation(self.n).tolist())


def data(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    label = rng.integers(0, CLASSES, SAMPLES)
    x = rng.standard_normal((SAMPLES, 1, 6)) + np.eye(CLASSES, 6)[label][:, None]
    return x.astype(dtype), label


def wrapped(params: dict[str, np.ndarray], dtype: torch.dtype) -> torch.nn.Module:
    return NetworkModule(NET, params, dtype=dtype)


def between_layers_of_torch(params: dict[str, np.ndarray], dtype: torch.dtype) -> torch.nn.Module:
    first = FilterModule(FILTER, {"phi": params["0.phi"], "bias": params["0.bias"]}, dtype=dtype)
    last = torch.nn.Linear(4 * 6, CLASSES, dtype=dtype)
    with torch.no_grad():
        last.weight.copy_(torch.tensor(params["2.weight"]))
        last.bias.copy_(torch.tensor(params["2.bias"]))
    return torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Flatten(), last)


def trained(model: torch.nn.Module, x: np.ndarray, label: np.ndarray) -> list[float]:
    """The mean loss of every epoch, as `fit` reports it."""
    samples = TensorDataset(torch.tensor(x), torch.tensor(label))
    loader = DataLoader(samples, batch_size=BATCH, sampler=ShufflesOfFit(len(x), SEED))
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for signals, labels in loader:
            adam.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(signals), labels)
            loss.backward()
            adam.step()
            total += len(signals) * loss.item()
        losses.append(total / len(x))
    return losses


@pytest.mark.parametrize("model", [wrapped, between_layers_of_torch])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_the_losses_are_those_of_fit(model, dtype: type, rtol: float) -> None:
    x, label = data(dtype)
    params = NET.init(1, dtype=dtype)
    result = ev.fit(
        NET,
        params,
        (x, label),
        loss=ev.CrossEntropy(),
        optimizer=ev.Adam(RATE),
        epochs=EPOCHS,
        batch_size=BATCH,
        rng=SEED,
        progress=False,
    )
    module = model(params, torch.float64 if dtype is np.float64 else torch.float32)
    losses = trained(module, x, label)
    np.testing.assert_allclose(losses, [row["loss"] for row in result.history], rtol=rtol)
    assert losses[-1] < 0.9 * losses[0]
    for ours, theirs in zip(result.params.values(), module.parameters(), strict=True):
        np.testing.assert_allclose(theirs.numpy(force=True), ours, rtol=100 * rtol, atol=100 * rtol)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_model_learns_the_same() -> None:
    """One graph for layers of both kinds; the ops compute a forward pass more, with the same bits."""
    torch.compiler.reset()
    x, label = data(np.float64)
    params = NET.init(1)
    model = between_layers_of_torch(params, torch.float64)
    expected = trained(model, x, label)
    again = between_layers_of_torch(params, torch.float64)
    found = trained(torch.compile(again, fullgraph=True, backend="aot_eager"), x, label)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
