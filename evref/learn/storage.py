"""Parameters and networks on disk: npz archives with a JSON header, and never a pickle.

An archive is a zip of npy arrays, plain unless asked otherwise, which `numpy.load(path, allow_pickle=False)` reads as
well. The array "header" holds the bytes of a JSON object: format, schema, kind, evref's version, and what the kind
adds. Files are written whole or not at all (:mod:`evref.files`).
Reading trusts nothing: an archive that evref would not have written is refused with its name and what is wrong with
it; nothing is extracted to disk and nothing in it is executed.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from .. import checks, files
from ..contract import Module, Parameters
from ..graph import Graph

FORMAT = "evref"
SCHEMA = 1
_ENTRY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")  # no separators, no "..": never a path
_LOCAL_HEAD = 30  # bytes before the name and the contents of a zip entry
_NPY_DTYPE = re.compile(r"'[<>|][fiub][0-9]{1,2}'")
_NPY_HEAD = re.compile(
    rb"\{'descr': ('[ -&(-~]*'|\[[ -~]*\]), 'fortran_order': (True|False), "
    rb"'shape': \(((?:-?[0-9]{1,19}, ?)*(?:-?[0-9]{1,19})?)\), \} *\n"
)


# ---- archives --------------------------------------------------------------------------------------------------------
def write_archive(
    path: Any, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], compressed: bool = False
) -> None:
    """Write exactly `path`, whole or not at all."""
    for name, array in arrays.items():
        if not isinstance(name, str) or not _ENTRY.fullmatch(name) or name == "header":
            raise ValueError(f"{name!r} cannot name a stored array; expected letters, digits, '_', '-' and single dots")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"array {name!r} has dtype {array.dtype}; stored are floats, integers and bools")
    version = getattr(sys.modules["evref"], "__version__", "unknown")
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, "kind": kind, "evref": version, **header})
    contents: dict[str, Any] = {"header": np.frombuffer(text.encode(), np.uint8), **arrays}

    # What `np.savez` writes; on NumPy 2.0 that leaves the archive open when a write fails.
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with files.replacing(path) as handle, zipfile.ZipFile(handle, "w", method) as archive:
        for name, array in contents.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_archive(
    path: Any, kinds: tuple[str, ...], largest: int | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of an archive of one of `kinds`, or a ValueError that names the file.

    Compressed arrays are refused, or with `largest` an archive that holds more bytes than that in all: no small file
    fills the memory.
    """
    path = os.fspath(path)
    with open(path, "rb") as handle:
        try:
            with zipfile.ZipFile(handle) as archive:
                arrays = _read_entries(archive, largest)
            header = _read_header(arrays)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, OverflowError, struct.error) as error:
            raise ValueError(f"{path}: not a whole npz archive ({error})") from None
    if header["kind"] not in kinds:
        raise ValueError(f"{path}: holds {header['kind']!r}; expected {' or '.join(map(repr, kinds))}")
    return header, arrays


def _read_entries(archive: zipfile.ZipFile, largest: int | None) -> dict[str, np.ndarray]:
    _check_entries(archive, largest)
    arrays: dict[str, np.ndarray] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename or not _ENTRY.fullmatch(name):
            raise ValueError(f"entry {info.filename!r} is not a name evref gives to an array")
        if name in arrays:
            raise ValueError(f"entry {info.filename!r} occurs twice")
        arrays[name] = _read_array(info.filename, archive.read(info))
    return arrays


def _check_entries(archive: zipfile.ZipFile, largest: int | None) -> None:
    """What the directory of the archive announces, before any entry is read: every byte of the file is used once."""
    end = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise ValueError(f"entry {info.filename!r} overlaps another; expected every entry to have bytes of its own")
        end = info.header_offset + _LOCAL_HEAD + len(info.orig_filename.encode()) + info.compress_size
        if largest is None and (info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size):
            raise ValueError(f"entry {info.filename!r} is compressed; evref writes plain ones")
    if end > archive.start_dir:
        raise ValueError(f"the entries announce {end} bytes; the file has {archive.start_dir} for them")
    total = sum(info.file_size for info in archive.infolist())
    if largest is not None and total > largest:
        raise ValueError(f"the entries announce {total} bytes in all; expected at most {largest}")


def _read_array(entry: str, raw: bytes) -> np.ndarray:
    """One npy file. The size is checked before memory is asked for.

    NumPy's own reader parses the head as Python and lets the tokenizer's errors through; evref writes one form only.
    """
    length = {1: 2, 2: 4}.get(raw[6] if len(raw) > 7 and raw[7] == 0 else 0, 0)  # bytes that hold the head's length
    if not raw.startswith(b"\x93NUMPY") or not length:
        raise ValueError(f"entry {entry!r} begins with {raw[:8]!r}; expected an npy array of version 1.0 or 2.0")
    start = 8 + length + int.from_bytes(raw[8 : 8 + length], "little")
    head = _NPY_HEAD.fullmatch(raw[8 + length : start])
    if head is None or len(raw) < start:
        raise ValueError(f"entry {entry!r} has a damaged npy head; expected descr, fortran_order and shape")
    dtype = _dtype(entry, head[1].decode("ascii"))
    shape = tuple(int(size) for size in head[3].split(b",") if size.strip())
    if any(n < 0 for n in shape) or prod(shape) * dtype.itemsize != len(raw) - start:
        raise ValueError(f"entry {entry!r} announces shape {shape} of {dtype}, which is not what it holds")
    flat = np.frombuffer(raw, dtype, offset=start)
    return flat.reshape(shape, order="F" if head[2] == b"True" else "C").astype(dtype.newbyteorder("="))  # writable


def _dtype(entry: str, descr: str) -> np.dtype:
    """Floats, integers or bools, as npy spells them: '<f8'."""
    try:
        # Of another text np.dtype might make an array type, a warning, or, parsing it as Python, a SyntaxError.
        dtype = np.dtype(descr[1:-1]) if _NPY_DTYPE.fullmatch(descr) else None
    except TypeError:  # a size that does not exist
        dtype = None
    if dtype is None:
        raise ValueError(f"entry {entry!r} has dtype {descr}; expected floats, integers or bools")
    return dtype


def _read_header(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Takes the header out of `arrays`."""
    raw = arrays.pop("header", None)
    if raw is None or raw.dtype != np.uint8:
        raise ValueError("has no evref header")
    try:
        header = json.loads(raw.tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is not JSON ({error})") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("kind"), str):
        raise ValueError("the header is not evref's")
    schema = header.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise ValueError(f"the header has schema {schema!r}; expected an integer from 1 to {SCHEMA}")
    if schema > SCHEMA:
        raise ValueError(
            f"has schema {schema}, from evref {header.get('evref')}; this evref reads up to schema {SCHEMA}"
        )
    return header


def with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix + "."): a for name, a in arrays.items() if name.startswith(prefix + ".")}


# ---- parameters ------------------------------------------------------------------------------------------------------
def save_parameters(path: Any, params: Mapping[str, Any], module: Module | None = None) -> None:
    """Save a dict of named arrays; with `module`, also what they belong to.

    Parameters
    ----------
    path : str or path
        Written exactly so; no suffix is added.
    params : dict of arrays
    module : Module, optional
        Its signature, its support and the names of its nodes go into the file, and `load_parameters` holds another
        module against them.
    """
    if module is None:
        arrays = {str(name): checks.as_floating(f"params[{name!r}]", array) for name, array in params.items()}
    else:
        arrays = module._checked_parameters(params, check_finite=False)
    write_archive(path, "parameters", _belonging(module), with_prefix("params", arrays))


def load_parameters(path: Any, module: Module | None = None) -> Parameters:
    """The arrays of a file of parameters or of a network; with `module`, only if they fit it.

    Raises
    ------
    ValueError
        If the file is damaged or foreign, or its names, shapes or graph are not those of `module`. Where both have
        names for their nodes, these must be the same, node by node.
    """
    header, arrays = read_archive(path, ("parameters", "network"))
    params = without_prefix("params", arrays)
    if module is None:
        return params
    saved, ours = header.get("graph"), _belonging(module)["graph"]
    if saved is not None and ours is not None and saved != ours:
        raise ValueError(f"{os.fspath(path)}: a model of graph {saved}; {type(module).__name__} lives on graph {ours}")
    there = _decoded_names(path, header).get(FIRST)
    names = None if module.graph is None else module.graph.nodes
    if there is not None and names is not None and not isinstance(names, range) and names != tuple(there):
        raise ValueError(
            f"{os.fspath(path)}: a model of nodes called {_head(there)}; those of {type(module).__name__} are called "
            f"{_head(names)}"
        )
    return _fitting(path, params, module)


def _head(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _belonging(module: Module | None) -> dict[str, Any]:
    graph = None if module is None else module.graph
    return {
        "signature": None if module is None else module.signature,
        "graph": None if graph is None else graph.fingerprint,
        **_encoded_names([] if graph is None else [graph]),
    }


def _fitting(path: Any, params: Parameters, module: Module) -> Parameters:
    try:
        return module._checked_parameters(params, check_finite=False)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


# ---- networks --------------------------------------------------------------------------------------------------------
def save_network(path: Any, network: Module, params: Mapping[str, Any]) -> None:
    """Save a network (or a single filter) with its parameters and its graph, so that the file stands alone.

    The names of the graph's nodes are in the file, and the network's `classes`.

    Raises
    ------
    TypeError
        A class that is in no catalogue; nodes whose names are not strings, numbers or tuples of them.
    """
    if not isinstance(network, Module):
        raise TypeError(f"network is {type(network).__name__}; expected a Network, a filter or a layer")
    arrays = with_prefix("params", network._checked_parameters(params, check_finite=False))
    encoder = _Encoder(arrays)
    described = encoder.encode(network)
    header = {**_belonging(network), **_encoded_names(encoder.graphs), "module": described}
    write_archive(path, "network", header, arrays)


def load_network(path: Any) -> tuple[Any, Parameters]:
    """The network and the parameters of a file of `save_network`."""
    header, arrays = read_archive(path, ("network",))
    names = _decoded_names(path, header)
    try:
        network = _Decoder(arrays, names).decode(header.get("module"))
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: the network is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{os.fspath(path)}: the network cannot be rebuilt ({error})") from None
    if not isinstance(network, Module):
        raise ValueError(f"{os.fspath(path)}: describes no network")
    if network.signature != header.get("signature"):
        raise ValueError(f"{os.fspath(path)}: rebuilds as {network.signature}; was saved as {header.get('signature')}")
    return network, _fitting(path, without_prefix("params", arrays), network)


def _classes() -> dict[str, type]:
    """What a file may name: the catalogues and nothing else."""
    from .. import filters, learn

    return {**filters.catalogue, **learn.layer_catalogue}


class _Encoder:
    """Constructor arguments as JSON; arrays and graphs go to entries of their own and are named by number."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.graphs: list[Graph] = []
        self.n_arrays = 0

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic) and value.dtype.kind in "fiub":
            return value.item()
        if isinstance(value, (list, tuple)):
            return {type(value).__name__: [self.encode(item) for item in value]}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.encode(item) for key, item in value.items()}}
        if isinstance(value, np.ndarray):
            entry, self.n_arrays = f"array.{self.n_arrays}", self.n_arrays + 1
            self.arrays[entry] = value
            return {"array": entry}
        if isinstance(value, Graph):
            return {"graph": self._graph(value)}
        if isinstance(value, Module):
            if _classes().get(value.name) is not type(value):
                raise TypeError(f"{type(value).__name__} is in no catalogue of evref, so a file could not rebuild it")
            config = {key: self.encode(item) for key, item in value.config().items()}
            if "graph" in inspect.signature(type(value)).parameters:
                config["graph"] = self.encode(value.graph)
            return {"module": value.name, "config": config}
        raise TypeError(f"a constructor argument of type {type(value).__name__} cannot be stored")

    def _graph(self, graph: Graph) -> str:
        for number, known in enumerate(self.graphs):
            if known is graph:
                return f"graph.{number}"
        entry = f"graph.{len(self.graphs)}"
        self.graphs.append(graph)
        S = graph.S
        self.arrays.update(with_prefix(entry, {"indptr": S.indptr, "indices": S.indices, "data": S.data}))
        return entry


class _Decoder:
    """The way back. Raises whatever a constructor raises; the caller adds the file's name."""

    def __init__(self, arrays: dict[str, np.ndarray], names: dict[str, list[Any]]) -> None:
        self.arrays, self.names = arrays, names
        self.graphs: dict[str, Graph] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        match value:
            case {"module": str(name), "config": dict(config)}:
                if name not in _classes():
                    raise ValueError(f"no filter or layer is called {name!r}")
                return _classes()[name](**{key: self.decode(item) for key, item in config.items()})
            case {"list": list(items)}:
                return [self.decode(item) for item in items]
            case {"tuple": list(items)}:
                return tuple(self.decode(item) for item in items)
            case {"dict": dict(items)}:
                return {key: self.decode(item) for key, item in items.items()}
            case {"array": str(entry)}:
                return self.arrays[entry]
            case {"graph": str(entry)}:
                return self._graph(entry)
        raise ValueError(f"cannot read {value!r}")

    def _graph(self, entry: str) -> Graph:
        if entry not in self.graphs:
            indptr, indices, data = (self.arrays[f"{entry}.{part}"] for part in ("indptr", "indices", "data"))
            n_nodes = len(indptr) - 1
            S = sparse.csr_array((data, indices, indptr), shape=(n_nodes, n_nodes))
            self.graphs[entry] = Graph(S, nodes=self.names.get(entry))
        return self.graphs[entry]


# ---- names of nodes --------------------------------------------------------------------------------------------------
FIRST = "graph.0"  # the graph of the module itself: what is encoded first


def _encoded_names(graphs: Sequence[Graph]) -> dict[str, Any]:
    """The part of the header that names the nodes of those graphs whose nodes have names."""
    names = {
        f"graph.{number}": [_encoded_name(i, name) for i, name in enumerate(graph.nodes)]
        for number, graph in enumerate(graphs)
        if not isinstance(graph.nodes, range)
    }
    return {"nodes": names} if names else {}


def _encoded_name(node: int, name: Any) -> Any:
    if isinstance(name, (str, int, float)):
        return name
    if isinstance(name, tuple):
        return {"tuple": [_encoded_name(node, part) for part in name]}
    raise TypeError(
        f"node {node} is called {name!r} ({type(name).__name__}); files hold names that are strings, numbers or tuples "
        "of them (Graph(graph.S, nodes=...) gives others)"
    )


def _decoded_names(path: Any, header: dict[str, Any]) -> dict[str, list[Any]]:
    names = header.get("nodes", {})
    if not isinstance(names, dict) or not all(isinstance(these, list) for these in names.values()):
        raise ValueError(f"{os.fspath(path)}: the names of the nodes are not lists of names")
    try:
        return {entry: [_decoded_name(name) for name in these] for entry, these in names.items()}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)}: the names of the nodes cannot be read ({error})") from None


def _decoded_name(value: Any) -> Any:
    match value:
        case str() | int() | float():
            return value
        case {"tuple": list(parts)}:
            return tuple(_decoded_name(part) for part in parts)
    raise ValueError(f"{type(value).__name__} is no name")
