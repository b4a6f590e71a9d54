"""Source localisation: in which community did a diffusion start? The paper's section IV-A and its table I."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from .. import checks
from ..graph import Graph, generators, selection
from ..learn import Network
from .experiment import Experiment
from .models import EXTRA_LABELS, MODELS, network
from .train import Splits

Array = np.ndarray

Variant = Literal["paper", "no-bias", "noise", "unseen-times", "unseen-sources"]
Net = Literal["sbm", "karate", "les-miserables"]
SHORT = 10  # steps after which a diffusion hardly changes: later ones would be the same inputs at seen and unseen times


class Source(NamedTuple):
    """Where samples of one split may come from."""

    nodes: list[Array]  # for each community, the nodes a diffusion may start at
    times: Array


@dataclass(frozen=True)
class SourceLocalization(Experiment):
    r"""A delta at the highest-degree node of a community diffuses for t steps, :math:`x = S^t e_i`; which community?

    Defaults are the paper's protocol, where it prints one, and else the authors' scripts': see docs/experiments.md. The
    graph belongs to the cell's "graph", the samples to its "graph" and "draw"; all models meet the same.

    >>> experiment = SourceLocalization(graphs=2, data=1)
    >>> experiment.cells()
    [{'graph': 0, 'draw': 0}, {'graph': 1, 'draw': 0}]
    >>> data = experiment.splits({"graph": 0, "draw": 0})
    >>> data.x_train.shape, data.x_valid.shape, data.x_test.shape
    ((10000, 1, 50), (2400, 1, 50), (200, 1, 50))
    """

    name: ClassVar[str] = "source-localization"
    summary: ClassVar[str] = "table I: in which community did a diffusion start?"
    paper: ClassVar[dict[str, tuple[float, float]]] = {
        "spectral": (26.89, 0.87),
        "polynomial": (74.55, 7.32),
        "nv-degree": (74.77, 7.77),
        "nv-proxies": (75.62, 8.19),
        "ev": (85.47, 10.77),
        "hev-degree": (80.53, 10.21),
        "hev-proxies": (75.37, 8.20),
    }
    labels: ClassVar[dict[str, str]] = EXTRA_LABELS
    extent: ClassVar[tuple[str, ...]] = ("models", "graphs", "data")

    models: tuple[str, ...] = MODELS
    graphs: int = field(default=10, metadata={"help": "graphs drawn (one, whatever is said here, for a real network)"})
    data: int = field(default=10, metadata={"help": "draws of the data per graph"})
    variant: Variant = field(default="paper", metadata={"help": "what is changed", "choices": get_args(Variant)})
    network: Net = field(default="sbm", metadata={"help": "the graph to diffuse on", "choices": get_args(Net)})
    features: int = field(default=5, metadata={"help": "F, the features of the filter"})
    order: int = field(default=4, metadata={"help": "K, the order of the filters"})
    privileged: int = field(default=5, metadata={"help": "|B|, the privileged nodes"})
    spline: int = field(default=5, metadata={"help": "b, the parameters of a spectral filter"})
    noise: float = field(default=1e-3, metadata={"help": 'deviation of the noise per node in the variant "noise"'})
    longest: int | None = field(
        default=None,
        metadata={
            "help": f'the longest diffusion (default: the number of nodes; {SHORT} in the variant "unseen-times")'
        },
    )
    train_samples: int = 10_000
    valid_samples: int = 2_400
    test_samples: int = 200
    epochs: int = field(default=20, metadata={"help": "passes over the training samples"})
    batch: int = field(default=100, metadata={"help": "samples per step"})
    learning_rate: float = field(default=1e-3, metadata={"help": "of Adam"})
    validate_every: int = 20
    seed: int = field(default=0, metadata={"help": "of everything random"})

    def __post_init__(self) -> None:
        checks.as_choice("variant", self.variant, Variant)
        checks.as_choice("network", self.network, Net)
        self._require_sound("graphs", "data", "train_samples", "valid_samples", "test_samples")
        checks.as_number("noise", self.noise, 0)
        if self.longest is not None:
            checks.as_count("longest", self.longest, minimum=int(self.variant == "unseen-times"))

    def cells(self) -> list[dict[str, int]]:
        """Every graph once, then every graph again with other data; on a real network the data alone differ."""
        if self.network != "sbm":
            return [{"draw": draw} for draw in range(self.data)]
        return [{"graph": graph, "draw": draw} for draw in range(self.data) for graph in range(self.graphs)]

    def prepare(self, model: str, cell: dict[str, int]) -> tuple[Network, Splits]:
        graph, community = self.graph(cell)
        net = network(
            model,
            graph,
            in_features=1,
            features=self.features,
            order=self.order,
            n_privileged=self.privileged,
            n_spline=self.spline,
            classes=int(community.max()) + 1,
            bias=self.variant != "no-bias",
        )
        return net, self.splits(cell)

    def quick(self) -> SourceLocalization:
        return replace(self, graphs=2, data=1, epochs=2, train_samples=1000, valid_samples=200)

    def in_paper(self, model: str) -> tuple[float, float] | None:
        return super().in_paper(model) if self.variant == "paper" and self.network == "sbm" else None

    def positions(self, cell: dict[str, int]) -> Array | None:
        """Communities as circles on a circle; a real network is left to the drawing."""
        if self.network != "sbm":
            return None
        _, community = self.graph(cell)
        angle = 2 * np.pi * community / (community.max() + 1) + np.pi / 2
        centre = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        inside = np.arange(community.size) - np.searchsorted(community, community)  # blocks are runs of nodes
        turn = angle + 2 * np.pi * inside / np.bincount(community)[community]
        return centre + 0.42 * np.stack([np.cos(turn), np.sin(turn)], axis=1)

    # ---- graph and data ----------------------------------------------------------------------------------------------
    def graph(self, cell: dict[str, int]) -> tuple[Graph, Array]:
        """The graph of a cell, S = W / lambda_max(W), and the community of each node."""
        if self.network == "sbm":
            rng = np.random.default_rng(self.seeds("graph", cell["graph"]))
            graph, community = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=rng)
        else:
            graph, community = real_network(self.network)
        return graph.with_shift("normalized_adjacency"), community

    def splits(self, cell: dict[str, int]) -> Splits:
        """The samples of a cell."""
        graph, community = self.graph(cell)
        rng = np.random.default_rng(self.seeds("data", *cell.values()))
        known, new = self.sources(graph, community)
        diffused = diffusions(graph, max(known.times[-1], new.times[-1]))
        parts: list[Array] = []
        for count, source in ((self.train_samples, known), (self.valid_samples, known), (self.test_samples, new)):
            label, time, node = draw(source, count, rng)
            x = diffused[time, node]
            if self.variant == "noise":
                x = x + self.noise * rng.standard_normal(x.shape)
            parts += [x[:, np.newaxis].astype(np.float32), label]
        return Splits(*parts)

    def sources(self, graph: Graph, community: Array) -> tuple[Source, Source]:
        """Where training and validation samples come from, and where test samples do."""
        ranked = selection.by_degree(graph)
        members = [ranked[community[ranked] == c] for c in range(int(community.max()) + 1)]  # best first
        usual = SHORT if self.variant == "unseen-times" else graph.n_nodes
        times = np.arange((usual if self.longest is None else self.longest) + 1)
        highest = [nodes[:1] for nodes in members]
        if self.variant == "unseen-times":
            return Source(highest, times[::2]), Source(highest, times[1::2])
        if self.variant == "unseen-sources":
            return Source([n[::2] for n in members], times), Source([n[1::2] for n in members], times)
        return Source(highest, times), Source(highest, times)


def diffusions(graph: Graph, longest: int) -> Array:
    """S^t for t = 0..longest as an array [t, source, node]: a diffusion from any node, (longest + 1, N, N).

    There are no other inputs than these, however many samples are drawn.
    """
    S = graph.S.toarray().astype(np.float64)
    powers = [np.eye(graph.n_nodes)]
    for _ in range(longest):
        powers.append(S @ powers[-1])
    return np.stack(powers).transpose(0, 2, 1)


def draw(source: Source, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Community, time and starting node of `count` samples, each uniform (the node within its community)."""
    label = rng.integers(len(source.nodes), size=count)
    time = rng.choice(source.times, size=count)
    place = rng.random(count)
    sizes = np.array([len(nodes) for nodes in source.nodes])
    starts = np.cumsum(sizes) - sizes
    node = np.concatenate(source.nodes)[starts[label] + (place * sizes[label]).astype(np.int64)]
    return label, time, node


def real_network(name: str) -> tuple[Graph, Array]:
    """A network that comes with networkx, its weights left out, and communities numbered from 0, the largest first.

    Zachary's karate club falls into the two clubs it split into, the characters of *Les Misérables* into the
    communities that greedy maximisation of modularity finds.
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise ImportError(f'network is "{name}": it comes with networkx; pip install "evref[graphs]"') from error
    if name == "karate":
        G = nx.karate_club_graph()
        clubs = np.array([G.nodes[i]["club"] for i in G])
        community = (clubs != clubs[0]).astype(np.int64)
    else:
        # Numbers instead of names: the hash of a string, and with it the order of a set, is another in every process.
        G = nx.convert_node_labels_to_integers(nx.les_miserables_graph())
        found = nx.community.greedy_modularity_communities(G)
        community = np.empty(len(G), np.int64)
        for c, members in enumerate(sorted(found, key=lambda nodes: (-len(nodes), min(nodes)))):
            community[list(members)] = c
    return Graph.from_networkx(G, weight=None), community
