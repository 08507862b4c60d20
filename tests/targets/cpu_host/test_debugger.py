"""gdb sees kernels: the list that it reads, lines by address, and gdb itself where it is installed."""

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.targets.cpu_host.kernels import CHILDREN, KINDS, counted, kernel
from tilewright.runtime import knobs
from tilewright.targets.cpu.host.debugger import DEBUGGER, Debugger, placed
from tilewright.targets.cpu.host.elf import Image, Object
from tilewright.targets.cpu.host.library import Symbols
from tilewright.targets.cpu.host.line_program import line_rows
from tilewright.targets.cpu.host.linux import LinuxHost
from tilewright.targets.cpu.host.registration_library import registration_library

pytestmark = pytest.mark.skipif("linux" not in KINDS, reason="the Linux host")


@triton.jit
def doubled(x):
    return x * 2        # line of doubled


@triton.jit
def shown(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    x = tl.sqrt(x)      # line of sqrt
    tl.store(x_ptr + offsets, doubled(x), mask=offsets < n)     # line of store


def line_of(mark):
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# line of {mark}"))


def compiled(fn, *args, **kwargs):
    """A fresh kernel's machine code in memory, with line tables."""
    with knobs.scope(debug_info=True):
        return triton.jit(fn.fn)[(1,)](*args, **kwargs)


def objects_in_a_row(debugger):
    """The list of a debugger, checked in both directions: the addresses of its objects."""
    found, before, at = [], 0, debugger.descriptor.first
    while at:
        following, previous, address, size = (ctypes.c_uint64 * 4).from_address(at)
        assert previous == before and size > 0
        found.append((address, size))
        before, at = at, following
    assert debugger.descriptor.version == 1
    return found


def test_lines_by_address():
    x = np.full(100, 16.0, np.float32)
    made = compiled(shown, x, 100, BLOCK=128)
    assert (x == 8).all()
    image = made._loaded._image
    lines = {row.line for row in line_rows(image) if row.file == __file__}
    assert {line_of("doubled"), line_of("sqrt"), line_of("store")} <= lines
    low, high = image.base, image.base + image.size
    assert all(low <= row.address < high for row in line_rows(image))


def test_the_lines_are_those_that_objdump_reads(tmp_path):
    if shutil.which("objdump") is None:
        pytest.skip("no objdump")
    made = compiled(shown, np.zeros(100, np.float32), 100, BLOCK=128)
    image = made._loaded._image
    path = tmp_path / "kernel.o"
    path.write_bytes(placed(image))
    said = subprocess.run(["objdump", "--dwarf=decodedline", path], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\S+ +(\d+) +0x([0-9a-f]+)", said, re.MULTILINE)
    assert [(int(address, 16), int(line)) for line, address in rows] == [
        (row.address, row.line) for row in line_rows(image)]


def test_a_kernel_is_in_the_list_until_it_goes():
    made = compiled(shown, np.zeros(100, np.float32), 100, BLOCK=128)
    gc.collect()
    mine = placed(made._loaded._image)
    assert DEBUGGER.objects().count(mine) == 1
    count = len(objects_in_a_row(DEBUGGER))
    del made
    gc.collect()
    assert mine not in DEBUGGER.objects() and len(objects_in_a_row(DEBUGGER)) == count - 1


def test_nothing_is_registered_unless_it_is_wanted():
    triton.jit(shown.fn)[(1,)](np.zeros(100, np.float32), 100, BLOCK=128)
    before = len(objects_in_a_row(DEBUGGER))
    made = triton.jit(shown.fn)[(1,)](np.zeros(100, np.float32), 100, BLOCK=128)
    assert len(objects_in_a_row(DEBUGGER)) == before
    assert line_rows(made._loaded._image) == [] and "!dbg" not in made.asm["llir"]


def test_the_code_is_the_same_with_and_without_lines():
    """Line tables change no instruction."""
    made = [triton.jit(shown.fn)[(1,)](np.zeros(100, np.float32), 100, BLOCK=128),
            compiled(shown, np.zeros(100, np.float32), 100, BLOCK=128)]

    def instructions(one):
        binary = one.code.binary
        parsed = Object(binary)
        section = parsed.sections[parsed.number(".text")]
        return binary[section.offset:section.offset + section.size]

    assert instructions(made[0]) == instructions(made[1])


def test_section_headers_say_where_sections_are():
    code = kernel(counted)
    image = Image(code.binary, Symbols())
    before, after = Object(code.binary), Object(placed(image))
    assert [s._replace(header=0) for s in before.sections] == [s._replace(header=0) for s in after.sections]
    for number, address in image.sections.items():
        at = after.sections[number].header + 16
        assert int.from_bytes(placed(image)[at:at + 8], "little") == address


def test_many_threads_come_and_go():
    debugger, binary = Debugger(), kernel(counted).binary

    def work():
        for _ in range(30):
            images = [Image(binary, Symbols()) for _ in range(3)]
            for image in images:
                debugger.add(image)
                debugger.add(image)     # once
            del images, image

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert objects_in_a_row(debugger) == [] and debugger._known == {}


def test_a_forked_process_has_a_list_of_its_own():
    debugger, binary = Debugger(), kernel(counted).binary
    image = Image(binary, Symbols())
    debugger.add(image)
    child = os.fork()
    if child == 0:
        more = Image(binary, Symbols())
        debugger.add(more)
        os._exit(len(objects_in_a_row(debugger)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert len(objects_in_a_row(debugger)) == 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_readelf_understands_the_library(machine, tmp_path):
    if shutil.which("readelf") is None:
        pytest.skip("no readelf")
    path = tmp_path / "library.so"
    path.write_bytes(registration_library(machine))
    said = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert not said.stderr and "__jit_debug_register_code" in said.stdout and "Warning" not in said.stdout


def test_the_hosts_own_code_is_shown_with_the_first_kernel():
    host = LinuxHost(CHILDREN, 1)
    code = kernel(counted)
    host.load(code)
    before = len(objects_in_a_row(DEBUGGER))
    loaded = host.load(type(code)(code.target, code.name, code.binary, {}, {**code.metadata, "line_info": True}))
    assert len(objects_in_a_row(DEBUGGER)) == before + 2
    assert host.launchers is None or len(objects_in_a_row(DEBUGGER)) == before + 3
    del loaded


PROGRAM = """
    import numpy as np
    import tilewright as triton
    import tilewright.language as tl

    @triton.jit
    def inner(x):
        y = x * 2
        return y + 1        # here

    @triton.jit
    def outer(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(x_ptr + offsets, inner(x), mask=offsets < n)       # called

    x = np.ones(1000, np.float32)
    outer[(4,)](x, 1000, BLOCK=256)
    print("three", x.sum())
"""


def gdb(folder, path, *commands):
    """What gdb says when it runs the program under these commands."""
    script = folder / "commands.gdb"
    script.write_text("\n".join(["set debuginfod enabled off", "set pagination off", "set breakpoint pending on",
                                 "set confirm off", "set print frame-info source-and-location", *commands]))
    variables = {**os.environ, "TILEWRIGHT_DEBUG_INFO": "1", "TILEWRIGHT_NUM_THREADS": "1",
                 "TILEWRIGHT_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-x", script, "--args", sys.executable, path],
                          capture_output=True, text=True, env=variables, timeout=120)
    return done.stdout


@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")
def test_gdb_stops_at_a_line_and_shows_it(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    lines = path.read_text().splitlines()
    here, called = (next(i for i, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
                    for mark in ("here", "called"))
    said = gdb(tmp_path, path, f"break program.py:{here}", "run", "bt 8", "delete", "continue")
    if "ptrace: Operation not permitted" in said:
        pytest.skip("gdb may not trace processes here")
    assert re.search(rf"#0 .*inner \(\) at .*program.py:{here}", said), said
    assert re.search(rf"#1 .*outer \(\) at .*program.py:{called}", said), said
    assert re.search(r" in launch \(\)\n#\d+ .*(libffi|_ctypes|in call \(\))", said), said     # and so on to Python
    assert "return y + 1" in said and "three 3000.0" in said
    lines.insert(0, "# the function moves, and what the cache has is not taken for it")
    path.write_text("\n".join(lines))
    said = gdb(tmp_path, path, "break outer", f"break program.py:{here + 1}", "run", "continue", "bt 1")
    assert re.search(rf"hit Breakpoint 2, .*inner \(\) at .*program.py:{here + 1}", said), said
