"""perf sees kernels: the files that it reads, and perf itself where it is installed and allowed."""

import os
import shutil
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.cpu_host.kernels import KINDS
from tilewright.runtime import knobs
from tilewright.targets.cpu.host import perf

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="the Linux host")


@triton.jit
def busy(x_ptr, n):
    x = tl.load(x_ptr)
    for _ in range(n):
        x = tl.sqrt(x + 1)      # line of the loop
    tl.store(x_ptr, x)


def line_of_the_loop():
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith("# line of the loop"))


@pytest.fixture(scope="module")
def image():
    with knobs.scope(debug_info=True):
        made = triton.jit(busy.fn)[(1,)](np.ones(1, np.float32), 10)
    return made._loaded._image


def records(content):
    """The header's fields, then kind and content of each record of a dump."""
    header = struct.unpack_from("<IIIIIIQQ", content)
    found, at = [], header[2]
    while at < len(content):
        kind, size = struct.unpack_from("<II", content, at)
        found.append((kind, content[at + 16:at + size]))
        at += size
    assert at == len(content)
    return header, found


@pytest.fixture
def make():
    """Makes recorders, which write no more when the test is over: they live as long as the process."""
    made = []

    def recorder(kind):
        made.append(perf.Map() if kind == "map" else perf.Dump())
        return made[-1]

    yield recorder
    for each in made:
        each._works = False


def entry_of(recorder, tmp_path, monkeypatch, image):
    path = tmp_path / "file"
    monkeypatch.setattr(type(recorder), "path", lambda self: path)
    recorder.add(image)
    recorder.add(image)         # once
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_bytes()


def test_a_map_has_names_by_address(make, tmp_path, monkeypatch, image):
    said = entry_of(make("map"), tmp_path, monkeypatch, image).decode().splitlines()
    (line,) = [text for text in said if "busy" in text]
    address, size, name = line.split()
    assert int(address, 16) == image.symbols[name] and 0 < int(size, 16) <= image.size


def test_a_dump_has_code_and_lines(make, tmp_path, monkeypatch, image):
    header, found = records(entry_of(make("dump"), tmp_path, monkeypatch, image))
    assert header[:3] == (0x4A695444, 1, 40) and header[5] == os.getpid()
    kinds = [kind for kind, _ in found]
    assert kinds.count(2) == 1 and {*kinds} == {0, 2}        # of the kernel's functions one has lines
    place = kinds.index(2)
    (_, lines), (kind, load) = found[place:place + 2]
    assert kind == 0        # lines come before their code
    _, _, vma, address, size, _ = struct.unpack_from("<IIQQQQ", load)
    name, _, code = load[40:].partition(b"\0")
    assert vma == address == image.symbols[name.decode()] and len(code) == size
    code_address, count = struct.unpack_from("<QQ", lines)
    entries, at = [], 16
    for _ in range(count):
        place, line, _ = struct.unpack_from("<QII", lines, at)
        end = lines.index(b"\0", at + 16)
        entries.append((place, line, lines[at + 16:end].decode()))
        at = end + 1
    assert code_address == address and at == len(lines)
    assert line_of_the_loop() in {line for _, line, file in entries if file == __file__}
    assert all(address <= place < address + size and line for place, line, _ in entries)


@pytest.mark.parametrize("kind", perf.KINDS)
def test_a_forked_process_writes_its_own_file(make, kind, tmp_path, image, monkeypatch):
    recorder = make(kind)
    monkeypatch.setattr(type(recorder), "path", lambda self: tmp_path / str(os.getpid()))
    recorder.add(image)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    mine, its = ((tmp_path / str(pid)).read_bytes() for pid in (os.getpid(), child))
    assert len(its) == len(mine) and b"busy" in its


def test_another_users_file_and_a_link_are_not_written(make, tmp_path, monkeypatch, image):
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "file").symlink_to(target)
    monkeypatch.setattr(perf.Map, "path", lambda self: tmp_path / "file")
    recorder = make("map")
    with pytest.warns(RuntimeWarning, match="perf is not told of kernels"):
        recorder.add(image)
    assert target.read_text() == "precious"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(perf.Map, "path", lambda self: target)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        make("map").add(image)
    assert target.read_text() == "precious"


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="TILEWRIGHT_PERF='mpa': expected one of map, dump"):
        perf.recorder("mpa")


PROGRAM = """
    import os
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def busy(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets)
        for _ in range(n):
            x = tl.sqrt(x + 1)
        tl.store(x_ptr + offsets, x)

    busy[(1,)](np.ones(1024, np.float32), 1_000_000, BLOCK=1024)
    print(os.getpid())
"""


@pytest.mark.parametrize("kind", perf.KINDS)
def test_perf_names_the_kernel(kind, tmp_path):
    if shutil.which("perf") is None:
        pytest.skip("no perf")
    path, data = tmp_path / "program.py", tmp_path / "perf.data"
    path.write_text(textwrap.dedent(PROGRAM))
    variables = {**os.environ, "TILEWRIGHT_DEBUG_INFO": "1", "TILEWRIGHT_PERF": kind, "TMPDIR": str(tmp_path),
                 "HOME": str(tmp_path), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
                 "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*words):
        return subprocess.run(["perf", *words], capture_output=True, text=True, env=variables, timeout=120)

    recorded = run("record", "-e", "cpu-clock:u", "-k", "1", "-o", data, sys.executable, path)
    if recorded.returncode:
        pytest.skip(f"perf may not record here: {recorded.stderr[-200:]}")
    if kind == "dump":
        assert run("inject", "--jit", "-i", data, "-o", tmp_path / "injected").returncode == 0
        data = tmp_path / "injected"
        made = b"".join(path.read_bytes() for path in tmp_path.glob("jitted-*.so"))
        assert str(path).encode() in made
    said = run("report", "-i", data, "--stdio", "--sort", "sym").stdout
    Path(f"/tmp/perf-{recorded.stdout.split()[0]}.map").unlink(missing_ok=True)
    assert "kernel_busy" in said, said[:2000]
