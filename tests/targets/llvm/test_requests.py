"""Requests survive the way to the child, and the way into a file that people send."""

import pytest

from tilewright.targets.llvm.machine import ASSEMBLY, FROM_PTX, Assembler, Machine, Request
from tilewright.targets.llvm.requests import pack, pack_machine, read_reproducer, reproducer, suffix_of, unpack

HOST = Machine("a-b-c", "cpu", "+x", "1")
REQUESTS = [Request("define void @f() {\n  ret void\n}\n", Machine("x86_64-linux", "znver4", "+avx,-sse4a", "20.1")),
            Request("; été = 1\n", Machine("aarch64", "", ""), ASSEMBLY, 0, 1),
            Request("// \n.version 8.0\n", Machine("nvptx64", "sm_80", "+ptx80"), FROM_PTX,
                    assembler=Assembler("", "/bin/ptxas", ("-lineinfo",)))]


@pytest.mark.parametrize("request_", REQUESTS)
def test_fields(request_):
    assert unpack(pack(request_)) == request_


@pytest.mark.parametrize("request_", REQUESTS)
def test_reproducer(request_):
    assert read_reproducer(reproducer(request_), HOST) == request_


def test_reproducers_are_named_and_commented_as_what_they_are():
    llvm, _, ptx = REQUESTS
    assert (suffix_of(llvm), suffix_of(ptx)) == (".ll", ".ptx")
    assert reproducer(llvm).startswith("; ") and reproducer(ptx).startswith("// ") and "\n;" not in reproducer(ptx)


def test_any_other_file_is_for_this_machine():
    assert read_reproducer("; text\n", HOST) == Request("; text\n", HOST)


def test_machine():
    assert Machine(*(f.decode() for f in pack_machine(HOST))) == HOST
