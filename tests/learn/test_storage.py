from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import first_example

from evref import filters
from evref.contract import Module
from evref.graph import Graph
from evref.learn import (
    Dense,
    LeakyReLU,
    MaxActivation,
    MedianActivation,
    Network,
    ReLU,
    layer_catalogue,
    load_network,
    load_parameters,
    save_network,
    save_parameters,
    storage,
)

PATH = np.array([[0.0, 1, 0], [2, 0, 1], [0, 0.5, 0]])


def ring(n_nodes: int) -> Graph:
    nodes = np.arange(n_nodes)
    return Graph.from_edges(n_nodes, nodes, (nodes + 1) % n_nodes, np.linspace(1, 2, n_nodes), undirected=True)


def small_network() -> Network:
    graph = Graph(PATH)
    return Network([MaxActivation(graph, hops=2), LeakyReLU(0.2), Dense((1, 3), outputs=2)])


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name])


# ---- there and back ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_path", [str, lambda p: p], ids=["str", "path"])
def test_parameters_there_and_back(tmp_path, dtype, as_path):
    net = small_network()
    params = net.init(rng=0, dtype=dtype)
    path = as_path(tmp_path / "weights")  # no suffix: written exactly so
    save_parameters(path, params, net)
    assert os.listdir(tmp_path) == ["weights"]
    assert_same(load_parameters(path, net), params)
    assert_same(load_parameters(path), params)
    for array in load_parameters(path).values():
        array += 1  # writable


def test_numpy_reads_the_file(tmp_path):
    save_parameters(tmp_path / "a.npz", {"w": np.arange(3.0)})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["params.w"], [0, 1, 2])
        header = json.loads(archive["header"].tobytes())
    assert header["format"] == "evref" and header["schema"] == 1 and header["kind"] == "parameters"
    assert {"evref", "signature"} <= header.keys()


def test_odd_layouts_are_stored_by_value(tmp_path):
    params = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10.0)[::3],
        "scalar": np.array(2.0),
        "empty": np.zeros((0, 4)),
    }
    save_parameters(tmp_path / "a", params)
    loaded = load_parameters(tmp_path / "a")
    for name, array in params.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == np.float64 and loaded[name].dtype.isnative


def every_module() -> list[type[Module]]:
    return [*filters.catalogue.values(), *layer_catalogue.values()]


@pytest.mark.parametrize("cls", every_module(), ids=lambda cls: cls.name)
def test_every_filter_and_layer_is_rebuilt(tmp_path, cls):
    # Symmetric and connected, for the families that ask for it.
    graph = Graph(np.array([[0, 1, 0, 1], [1, 0, 2, 0], [0, 2, 0, 1], [1, 0, 1, 0]], dtype=float) / 3)
    for module in cls.examples(graph, np.random.default_rng(0)):
        net = Network([module])
        params = net.init(rng=1)
        save_network(tmp_path / "net", net, params)
        loaded, loaded_params = load_network(tmp_path / "net")
        assert isinstance(loaded, Network)
        assert loaded.signature == net.signature
        assert_same(loaded_params, params)
        x = np.random.default_rng(2).standard_normal((2, *(module.in_shape or (3,))))
        np.testing.assert_array_equal(loaded.predict(loaded_params, x), net.predict(params, x))


def test_network_keeps_the_weights_of_its_graphs(tmp_path):
    one, two = Graph(PATH), Graph(PATH.astype(np.float32))  # equal, but not in dtype
    net = Network([MaxActivation(one), Network([MedianActivation(two), ReLU()]), MaxActivation(one)])
    params = net.init(rng=0)
    save_network(tmp_path / "net", net, params)
    loaded, _ = load_network(tmp_path / "net")
    assert loaded.layers[0].graph == one and loaded.layers[1].layers[0].graph == two
    assert loaded.layers[0].graph.S.dtype == np.float64
    assert loaded.layers[1].layers[0].graph.S.dtype == np.float32
    assert loaded.layers[2].graph is loaded.layers[0].graph
    assert_same(load_parameters(tmp_path / "net", net), params)


def test_a_single_layer_can_be_saved(tmp_path):
    layer = Dense((2, 3), outputs=4, bias=False)
    save_network(tmp_path / "net", layer, layer.init(rng=0))
    assert load_network(tmp_path / "net")[0].signature == layer.signature


def test_a_class_outside_the_catalogues_is_refused(tmp_path):
    class Mine(ReLU):
        name = "mine"

    class Relu2(ReLU):  # borrows a name from the catalogue
        pass

    for layer in (Mine(), Relu2()):
        with pytest.raises(TypeError, match="in no catalogue"):
            save_network(tmp_path / "net", Network([layer]), {})
    assert os.listdir(tmp_path) == []


# ---- does it fit? --------------------------------------------------------------------------------------------------
def test_another_graph_is_refused_with_both_fingerprints(tmp_path):
    layer, other = MaxActivation(Graph(PATH)), MaxActivation(Graph(PATH * (PATH != 1)))
    save_parameters(tmp_path / "a", layer.init(rng=0), layer)
    with pytest.raises(ValueError, match=f"graph {layer.graph.fingerprint}; .* graph {other.graph.fingerprint}"):
        load_parameters(tmp_path / "a", other)
    load_parameters(tmp_path / "a", MaxActivation(Graph(5 * PATH)))


def test_names_and_shapes_must_fit(tmp_path):
    save_parameters(tmp_path / "a", {"weight": np.ones(3)})
    with pytest.raises(ValueError, match=r"a: params\['weight'\] has shape \(3,\); expected \(2,\)"):
        load_parameters(tmp_path / "a", MaxActivation(Graph(PATH)))
    with pytest.raises(ValueError, match="a: params has the names"):
        load_parameters(tmp_path / "a", Dense((2,), outputs=1))
    with pytest.raises(ValueError, match="params has the names"):
        save_parameters(tmp_path / "b", {"weight": np.ones(3)}, Dense((2,), outputs=1))


def test_what_cannot_be_stored(tmp_path):
    for name in ("../x", "/x", "a/b", "a\\b", "", ".", "a..b", "é"):
        with pytest.raises(ValueError, match="cannot name"):
            save_parameters(tmp_path / "a", {name: np.ones(1)})
    with pytest.raises(TypeError, match="object"):
        save_parameters(tmp_path / "a", {"w": np.array([None])})
    with pytest.raises(TypeError, match="complex"):
        save_parameters(tmp_path / "a", {"w": np.array([1j])})
    with pytest.raises(TypeError, match="network is dict"):
        save_network(tmp_path / "a", {}, {})
    assert os.listdir(tmp_path) == []


# ---- interrupts ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
@pytest.mark.parametrize("moment", ["writing", "syncing", "renaming"])
def test_an_interrupt_leaves_the_previous_file_and_no_litter(tmp_path, monkeypatch, error, moment):
    path = tmp_path / "a.npz"
    save_parameters(path, {"w": np.arange(3.0)})
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise error("now")

    if moment == "writing":
        open_entry, calls = zipfile.ZipFile.open, []

        def second_fails(*args, **kwargs):
            calls.append(1)
            return fail() if len(calls) == 2 else open_entry(*args, **kwargs)

        monkeypatch.setattr(zipfile.ZipFile, "open", second_fails)
    else:
        monkeypatch.setattr(os, {"syncing": "fsync", "renaming": "replace"}[moment], fail)
    with pytest.raises(error):
        save_parameters(path, {"w": np.arange(5.0)})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.npz"]
    save_parameters(path, {"w": np.arange(5.0)})
    np.testing.assert_array_equal(load_parameters(path)["w"], np.arange(5.0))


def test_a_missing_folder_and_a_missing_file_are_said_plainly(tmp_path):
    with pytest.raises(FileNotFoundError):
        save_parameters(tmp_path / "nowhere" / "a", {"w": np.ones(1)})
    with pytest.raises(FileNotFoundError):
        load_parameters(tmp_path / "a")


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "a")
    save_parameters(link, {"w": np.ones(1)})
    assert link.is_symlink() and (tmp_path / "real" / "a").exists()


# ---- bad files -----------------------------------------------------------------------------------------------------
HEADER = {"format": "evref", "schema": 1, "kind": "parameters", "evref": "0", "signature": None, "graph": None}


def npy(array, allow_pickle=False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=allow_pickle)
    return stream.getvalue()


def header_bytes(**changes) -> bytes:
    return npy(np.frombuffer(json.dumps({**HEADER, **changes}).encode(), np.uint8))


def write_zip(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def refused(path, message, load=load_parameters):
    before = sorted(os.listdir(path.parent))
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert sorted(os.listdir(path.parent)) == before


def test_the_hand_made_archive_is_otherwise_good(tmp_path):
    path = write_zip(tmp_path / "good", [("header.npy", header_bytes()), ("params.w.npy", npy([1.0]))])
    np.testing.assert_array_equal(load_parameters(path)["w"], [1.0])


def test_the_byte_order_of_another_machine_is_read(tmp_path):
    entries = [("header.npy", header_bytes()), ("params.w.npy", npy(np.arange(3.0).astype(">f8")))]
    w = load_parameters(write_zip(tmp_path / "good", entries))["w"]
    assert w.dtype == np.float64 and w.dtype.isnative
    np.testing.assert_array_equal(w, [0, 1, 2])


@pytest.mark.parametrize("content", [b"", b"PK", b"hello", npy([1.0]), b"\x80\x04N."], ids=repr)
def test_not_a_zip(tmp_path, content):
    path = tmp_path / "bad"
    path.write_bytes(content)
    refused(path, "not a whole npz archive")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"schema": 2, "evref": "9.9"}, "schema 2, from evref 9.9"),
        ({"schema": "1"}, "schema '1'"),
        ({"schema": 0}, "schema 0"),
        ({"schema": None}, "schema None"),
        ({"format": "other"}, "not evref's"),
        ({"kind": 3}, "not evref's"),
        ({"kind": "checkpoint"}, "holds 'checkpoint'; expected 'parameters' or 'network'"),
    ],
)
def test_bad_headers(tmp_path, header, message):
    refused(write_zip(tmp_path / "bad", [("header.npy", header_bytes(**header))]), message)


@pytest.mark.parametrize(
    "raw", [b"not json", b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b'"evref"'], ids=lambda raw: repr(raw[:9])
)
def test_headers_that_are_no_json_object(tmp_path, raw):
    refused(write_zip(tmp_path / "bad", [("header.npy", npy(np.frombuffer(raw, np.uint8)))]), "header is not")


def test_no_header(tmp_path):
    refused(write_zip(tmp_path / "bad", [("params.w.npy", npy([1.0]))]), "no evref header")
    refused(write_zip(tmp_path / "bad2", [("header.npy", npy([1.0]))]), "no evref header")
    np.savez(tmp_path / "plain.npz", w=np.ones(2))
    refused(tmp_path / "plain.npz", "no evref header")


@pytest.mark.parametrize(
    "name", ["../x.npy", "/etc/x.npy", "a/b.npy", "a\\b.npy", "C:x.npy", "x", "..npy", "params/.npy"]
)
def test_path_tricks(tmp_path, name):
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), (name, npy([1.0]))])
    refused(path, "is not a name evref gives")


def test_duplicate_entries(tmp_path):
    entries = [("header.npy", header_bytes()), ("w.npy", npy([1.0])), ("w.npy", npy([2.0]))]
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write_zip(tmp_path / "bad", entries)
    refused(path, "occurs twice")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_object_arrays_are_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", content)])
    refused(path, r"dtype '\|O'")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.zeros(1, [("a", "f8")]), np.zeros(1, "M8[s]")])
def test_other_dtypes(tmp_path, array):
    refused(write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", npy(array))]), "dtype")


def test_compressed_entries(tmp_path):
    entries = [("header.npy", header_bytes()), ("params.w.npy", npy(np.zeros(10_000)))]
    refused(write_zip(tmp_path / "bad", entries, zipfile.ZIP_DEFLATED), "is compressed")


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(3,)", "(1,)", "(-2,)", "(-1, -2)", "(0,)"])
def test_a_lying_array_header(tmp_path, shape):
    truth, lie = b"(2,), }".ljust(25), f"{shape}, }}".encode().ljust(25)
    assert truth in npy([1.0, 2.0])
    content = npy([1.0, 2.0]).replace(truth, lie)
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", content)])
    refused(path, "'params.w.npy' announces shape")


HEAD = npy([1.0, 2.0])[10:].split(b"}")[0] + b"}"


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"}", b"("),  # the tokenizer finds no end
        HEAD.replace(b"{", b"\x00"),
        HEAD.replace(b"'descr'", b"'desc'"),
        HEAD.replace(b"(2,)", b"(2, (((("),
        HEAD.replace(b"(2,)", b"(2 2)"),
        HEAD.replace(b"(2,)", b"(" + b"9" * 5000 + b",)"),
        HEAD.replace(b"(2,)", b"(-2,)"),
        HEAD.replace(b"(2,)", b"(2.0,)"),
        HEAD.replace(b"False", b"0    "),
        HEAD.replace(b"<f8", b"<f9"),
        HEAD.replace(b"<f8", b"\xff\xfe"),
        HEAD.replace(b"<f8", b",f8"),  # np.dtype reads these two as Python, or as several fields
        HEAD.replace(b"<f8", b"f8,"),
        HEAD.replace(b"<f8", b"2f8"),
        HEAD.replace(b"<f8", b"a16"),  # warns
        HEAD.replace(b"<f8", b"<f99"),
        HEAD.replace(b"'<f8'", b"[('a', '<f8')]"),
        HEAD.replace(b"'<f8'", b"__import__('os')"),
        b"[" * 60_000,
        b"",
    ],
    ids=lambda head: repr(head[:70]),
)
def test_a_damaged_array_head(tmp_path, head):
    head += b"\n"
    content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + np.array([1.0, 2.0]).tobytes()
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", content)])
    refused(path, "entry 'params.w.npy'")


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x03\x00\x00\x00", npy([1.0])[:50]]
)
def test_an_array_without_a_whole_head(tmp_path, content):
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", content)])
    refused(path, "entry 'params.w.npy'")


def test_every_byte_of_an_array_head_may_be_wrong(tmp_path):
    """With good checksums: other numbers may come, another exception may not."""
    content = npy([1.0, 2.0])
    for position in range(128):
        for flip in (1, 4, 0x20, 0x80):
            changed = bytearray(content)
            changed[position] ^= flip
            path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", bytes(changed))])
            try:
                load_parameters(path)
            except ValueError as error:
                assert str(path) in str(error) and "params.w.npy" in str(error)


@pytest.mark.parametrize("load", [load_parameters, lambda path: storage.read_archive(path, ("parameters",), 2**40)])
def test_overlapping_entries(tmp_path, load):
    """A hundred names for the same bytes: 0.8 MB would become 80."""
    entries = [("header.npy", header_bytes())] + [(f"params.w{i:02}.npy", b"") for i in range(99)]
    path = write_zip(tmp_path / "bad", [*entries, ("params.w99.npy", npy(np.ones(100_000)))])
    with zipfile.ZipFile(path, "a") as archive:
        last = archive.infolist()[-1]
        for info in archive.infolist()[1:-1]:
            info.header_offset, info.CRC = last.header_offset, last.CRC
            info.compress_size = info.file_size = last.file_size
        archive._didModify = True
    assert sum(info.file_size for info in zipfile.ZipFile(path).infolist()) > 90 * path.stat().st_size
    refused(path, "overlaps another", load)


def test_entries_that_reach_into_the_directory(tmp_path):
    path = write_zip(tmp_path / "bad", [("header.npy", header_bytes()), ("params.w.npy", npy(np.ones(10)))])
    with zipfile.ZipFile(path, "a") as archive:
        archive.infolist()[-1].compress_size = archive.infolist()[-1].file_size = 10**12
        archive._didModify = True
    refused(path, "announce 1000000000[0-9]* bytes; the file has")


def test_every_truncation_is_found(tmp_path):
    good = tmp_path / "good"
    save_parameters(good, {"w": np.arange(4.0)})
    content = good.read_bytes()
    path = tmp_path / "bad"
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        refused(path, "not a whole npz archive")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_never_give_other_numbers(tmp_path, data):
    good = tmp_path / "good"
    if not good.exists():
        save_network(good, small_network(), small_network().init(rng=0))
    content = bytearray(good.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "bad"
    path.write_bytes(content)
    try:
        network, params = load_network(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert network.signature == small_network().signature
        assert_same(params, small_network().init(rng=0))


def rewritten(tmp_path, change):
    """A saved network whose header `change` has been at, checksums and all."""
    good = tmp_path / "good"
    save_network(good, small_network(), small_network().init(rng=0))
    header, arrays = storage.read_archive(good, ("network",))
    change(header, arrays)
    kind = header.pop("kind")
    for key in ("format", "schema", "evref"):
        header.pop(key)
    storage.write_archive(tmp_path / "bad", kind, header, arrays)
    return tmp_path / "bad"


def first_layer(header):
    return header["module"]["config"]["layers"]["tuple"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a: first_layer(h).update(module="os.system"), "no filter or layer is called 'os.system'"),
        (lambda h, a: first_layer(h).update(module="__import__"), "no filter or layer is called"),
        (lambda h, a: first_layer(h)["config"].update(hops=-1), "hops is -1"),
        (lambda h, a: first_layer(h)["config"].update(surprise=1), "surprise"),
        (lambda h, a: first_layer(h)["config"].update(graph={"graph": "graph.7"}), "graph.7"),
        (lambda h, a: first_layer(h)["config"].update(graph={"what": 1}), "cannot read"),
        (lambda h, a: first_layer(h)["config"].update(graph=None), "graph is NoneType"),
        (lambda h, a: h.update(module=None), "describes no network"),
        (lambda h, a: h.update(module={"list": []}), "describes no network"),
        (lambda h, a: h.update(signature="else"), "was saved as else"),
        (lambda h, a: a.pop("graph.0.data"), "graph.0.data"),
        (lambda h, a: a["graph.0.indices"].fill(10**6), "rebuilt"),
        (lambda h, a: a["graph.0.indptr"].fill(-5), "rebuilt"),
        (lambda h, a: a.update({"graph.0.indptr": np.zeros((0,), np.int32)}), "rebuilt"),
        (lambda h, a: a["graph.0.data"].fill(np.nan), "rebuilt"),
        (lambda h, a: a.pop("params.0.weight"), "params has the names"),
        (lambda h, a: a.update({"params.0.weight": np.ones(9)}), "has shape"),
    ],
)
def test_a_forged_network_is_refused(tmp_path, change, message):
    refused(rewritten(tmp_path, change), message, load_network)


def numbers(value, place=()):
    """The place of every integer in a description."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield place
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*place, key))


@pytest.mark.parametrize("cls", every_module(), ids=lambda cls: cls.name)
def test_no_number_in_a_small_file_asks_for_much_time_or_memory(tmp_path, cls):
    """Each integer of a description in turn is 10^9: refused at once, and with no more memory than before."""
    graph = Graph(np.array([[0, 1, 0, 1], [1, 0, 2, 0], [0, 2, 0, 1], [1, 0, 1, 0]], dtype=float) / 3)
    module = first_example(cls, graph, np.random.default_rng(0))
    save_network(tmp_path / "good", module, module.init(rng=0))
    places = list(numbers(storage.read_archive(tmp_path / "good", ("network",))[0]["module"]))
    for place in places:
        header, arrays = storage.read_archive(tmp_path / "good", ("network",))
        inner = header["module"]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = 10**9
        rest = {key: header[key] for key in ("signature", "graph", "module")}
        storage.write_archive(tmp_path / "bad", "network", rest, arrays)
        tracemalloc.start()
        refused(tmp_path / "bad", r"rebuilt|was saved as|has shape", load_network)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10e6, f"{place}: {peak} bytes"


def test_a_dense_array_of_a_sparse_graph_is_refused_with_its_size(tmp_path):
    small = ring(8)
    net = filters.SpectralGCNN(small, 3)
    save_network(tmp_path / "good", net, net.init(rng=0))
    header, arrays = storage.read_archive(tmp_path / "good", ("network",))
    large = ring(20_000)
    arrays.update({f"graph.0.{part}": getattr(large.S, part) for part in ("indptr", "indices", "data")})
    rest = {key: header[key] for key in ("signature", "graph", "module")}
    storage.write_archive(tmp_path / "bad", "network", rest, arrays)
    refused(tmp_path / "bad", r"dense array of 20000 x 20000 numbers, 3.2 GB; the limit is 0.54 GB", load_network)


def test_deep_nesting_is_refused(tmp_path):
    def nest(header, arrays):
        for _ in range(400):
            header["module"] = {"list": [header["module"]]}

    refused(rewritten(tmp_path, nest), "describes no network|nested too deeply", load_network)


def test_parameters_are_not_a_network(tmp_path):
    save_parameters(tmp_path / "a", {"w": np.ones(1)})
    refused(tmp_path / "a", "holds 'parameters'; expected 'network'", load_network)
