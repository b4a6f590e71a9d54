"""Files are written whole or not at all, keep their permissions, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from evref import files
from evref.learn import load_parameters, save_parameters

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, locks and limits of POSIX")


def python(code: str, *arguments, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.startswith(files.PREFIX)]


def test_there_and_back(tmp_path):
    files.write_text(tmp_path / "a", "ä\n")
    files.write_text(str(tmp_path / "a"), "ö\n")
    assert (tmp_path / "a").read_bytes() == "ö\n".encode()
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_exception_leaves_the_previous_file_and_nothing_else(tmp_path, error):
    files.write_text(tmp_path / "a", "before")

    def fail() -> None:
        with files.replacing(tmp_path / "a") as handle:
            handle.write(b"af")
            raise error

    with pytest.raises(error):
        fail()
    assert (tmp_path / "a").read_text(encoding="utf-8") == "before"
    assert os.listdir(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_an_overwritten_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "a"
    save_parameters(path, {"w": np.ones(2)})
    path.chmod(mode)
    save_parameters(path, {"w": np.zeros(2)})
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert not load_parameters(path)["w"].any()


@posix
def test_the_mode_behind_a_symbolic_link_is_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    path, link = tmp_path / "folder" / "a", tmp_path / "link"
    save_parameters(path, {"w": np.ones(2)})
    path.chmod(0o640)
    link.symlink_to("folder/a")
    save_parameters(link, {"w": np.zeros(2)})
    assert link.is_symlink() and os.listdir(tmp_path / "folder") == ["a"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and not load_parameters(path)["w"].any()


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_new_file_honours_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        files.write_text(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


def test_a_folder_is_refused_and_a_missing_one_named(tmp_path):
    with pytest.raises(OSError, match=str(tmp_path)):
        files.write_text(tmp_path, "")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files.write_text(tmp_path / "nowhere" / "a", "")
    assert os.listdir(tmp_path) == []


@posix
def test_a_device_is_written_to_and_not_replaced():
    files.write_text(os.devnull, "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


KILLED = """
    import os, signal, sys
    from evref import files
    with files.replacing(sys.argv[1]) as handle:
        handle.write(b"half")
        handle.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_what_killed_processes_left_is_removed_by_the_next_save(tmp_path):
    path = tmp_path / "a"
    files.write_text(path, "before")
    for _ in range(3):
        assert python(KILLED, path).returncode == -signal.SIGKILL
    (tmp_path / ".evref-0123456789abcdef.tmp").write_bytes(b"left by an earlier version, which took no locks")
    assert (
        len(temporaries(tmp_path)) == 2 and path.read_text(encoding="utf-8") == "before"
    )  # each removed what the one before left
    files.write_text(path, "after")
    assert os.listdir(tmp_path) == ["a"] and path.read_text(encoding="utf-8") == "after"


@posix
def test_kills_at_any_moment_leave_one_whole_file(tmp_path):
    """60 processes that save over and over, killed after 0 to 40 ms; each starts in the litter of the one before."""
    code = """
        import os, signal, sys, time
        import numpy as np
        from evref import files
        from evref.learn import load_parameters, save_parameters
        path, n = sys.argv[1], 20_000
        save_parameters(path, {"w": np.zeros(n)})
        litter = overwritten = 0
        for pause in np.random.default_rng(0).uniform(0, 0.04, 60):
            child = os.fork()
            while child == 0:
                save_parameters(path, {"w": np.full(n, np.random.default_rng().random())})
            before = load_parameters(path)["w"][0]
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            w = load_parameters(path)["w"]
            names = [name for name in os.listdir(os.path.dirname(path)) if name.startswith(files.PREFIX)]
            if w.size != n or (w != w[0]).any() or len(names) > 1:
                sys.exit(f"{w}, {names}")
            litter, overwritten = litter + len(names), overwritten + (w[0] != before)
        print(litter, overwritten)
    """
    done = python(code, tmp_path / "a")
    assert done.returncode == 0, done.stderr
    litter, overwritten = map(int, done.stdout.split())
    assert litter >= 5 and overwritten >= 5  # there was something to remove, and something to damage
    files.write_text(tmp_path / "b", "")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@posix
def test_the_temporary_file_of_a_live_process_stays(tmp_path):
    code = """
        import sys
        from evref import files
        with files.replacing(sys.argv[1]) as handle:
            handle.write(b"theirs")
            print("writing", flush=True)
            sys.stdin.readline()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "theirs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "writing\n"
        (left,) = temporaries(tmp_path)
        files.write_text(tmp_path / "ours", "ours")
        assert temporaries(tmp_path) == [left]
        other.stdin.write("\n")
        other.stdin.close()
        assert other.wait(timeout=60) == 0
    assert sorted(os.listdir(tmp_path)) == ["ours", "theirs"]
    assert (tmp_path / "theirs").read_text(encoding="utf-8") == "theirs"


@posix
def test_a_temporary_file_in_use_by_this_process_stays(tmp_path):
    with files.replacing(tmp_path / "a") as first:
        first.write(b"first")
        files.write_text(tmp_path / "b", "second")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "first" and (tmp_path / "b").read_text(
        encoding="utf-8"
    ) == "second"


@posix
def test_a_file_taken_for_stale_before_its_lock_is_made_again(tmp_path, monkeypatch):
    flock, calls = files.fcntl.flock, []

    def removed_meanwhile(handle, how):
        calls.append(handle.name)
        if len(calls) == 1:
            os.unlink(handle.name)
        flock(handle, how)

    monkeypatch.setattr(files.fcntl, "flock", removed_meanwhile)
    files.write_text(tmp_path / "a", "whole")
    assert len(calls) == 2 and (tmp_path / "a").read_text(encoding="utf-8") == "whole"


@posix
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    """The limit on the size of files stands for the full disk: `write` takes a part, then fails."""
    path = tmp_path / "a"
    save_parameters(path, {"w": np.arange(3.0)})
    before = path.read_bytes()
    code = """
        import resource, signal, sys
        import numpy as np
        from evref.learn import save_parameters
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            save_parameters(sys.argv[1], {"w": np.ones(100_000)})
        except OSError as error:
            print("OSError", error)
    """
    done = python(code, path)
    assert done.stdout == f"OSError [Errno 27] File too large: {str(path)!r}\n", done.stderr  # not the temporary file
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]
