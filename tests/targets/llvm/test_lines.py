"""Line metadata: LLVM accepts it, and the table has the places, call sites and file names that were given."""

import re

import pytest

from tilewright.diagnostics import UNKNOWN, Location
from tilewright.targets.cpu.host.choice import best_kind
from tilewright.targets.cpu.host.elf import Image
from tilewright.targets.cpu.host.line_program import line_rows
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.lines import LineTable
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I32

MACHINE = toolchain.host_machine()
pytestmark = pytest.mark.skipif(best_kind() != "linux", reason="reads objects of Linux")
HERE = Location("/home/a user/kernels.py", 10, 4, function="outer")


def written(*places, start=HERE):
    """A module of one function with an addition from each place."""
    module = ModuleWriter(MACHINE.isa)
    f = module.function("f", [("x", I32)], I32)
    lines = LineTable(f, "outer", start)
    value = f.params[0]
    for place in places:
        f.mark = lines.mark(place)
        value = f.op("xor", f.op("mul", value, value), f.params[0])
    f.ret(value)
    return module.text()


def rows(text):
    return [(row.file, row.line) for row in line_rows(Image(toolchain.compile_object(text, MACHINE).binary, int))]


def test_places_of_instructions():
    found = rows(written(*(Location(HERE.file, line) for line in (11, 15, 12))))
    assert [line for _, line in dict.fromkeys(found) if line != HERE.line] == [11, 15, 12]
    assert {file for file, _ in found} == {HERE.file}


def test_a_place_is_written_once():
    text = written(*[Location(HERE.file, 11)] * 5)
    assert len(re.findall(r"!DILocation\(line: 11", text)) == 1 and text.count("!DICompileUnit") == 1


def test_inlined_functions_have_call_sites():
    inner = Location("/lib/inner.py", 3, function="inner", caller=Location("/lib/middle.py", 7, function="middle",
                                                                          caller=Location(HERE.file, 11)))
    text = written(inner)
    assert ("/lib/inner.py", 3) in rows(text)
    assert text.count("inlinedAt:") == 2 and all(f'name: "{n}"' in text for n in ("outer", "middle", "inner"))


def test_an_unknown_place_is_the_kernels():
    assert dict.fromkeys(rows(written(UNKNOWN))) == {(HERE.file, 10): None}


def test_a_place_in_another_file_without_a_call_site():
    assert ("/other.py", 5) in rows(written(Location("/other.py", 5)))


@pytest.mark.parametrize("name", ["/tmp/ü ñ 漢.py", 'C:\\a "b"\\c.py', "<ipython-input-1>", "/tmp/\udcff.py"])
def test_file_names(name):
    found = rows(written(Location(name, 3), start=Location(name, 2)))
    assert 3 in [line for _, line in found]
    if name.isprintable():
        assert found[0][0] == name
