"""Requests to the compile child as fields of a frame, and as a text file that repeats one.

Shared by both ends (`server`, `client`); nothing here imports llvmlite.  Tests: tests/targets/llvm/test_requests.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.targets.llvm.machine import FROM_PTX, Assembler, Machine, Request

# first field of a request
HOST, COMPILE = b"host", b"compile"
# first field of a reply: done, LLVM refuses the text, the assembler refuses it, a fault of ours
DONE, REFUSED, NOT_ASSEMBLED, FAULT = b"done", b"refused", b"not assembled", b"fault"
# These begin the lines of a reproducer that hold what is not in the text: comments of LLVM text, and of PTX.
_LLVM_HEADER, _PTX_HEADER = "; tilewright ", "// tilewright "


def pack_machine(machine: Machine) -> list[bytes]:
    """Four fields; `Machine(*texts)` is the opposite."""
    return [t.encode() for t in (machine.triple, machine.cpu, machine.features, machine.llvm)]


def pack(request: Request) -> list[bytes]:
    """The fields of a compile request."""
    return [COMPILE, *pack_machine(request.machine), request.output.encode(), b"%d" % request.codegen_level,
            b"%d" % request.optimise, request.text.encode(), request.assembler.library.encode(),
            request.assembler.ptxas.encode(), *(o.encode() for o in request.assembler.options)]


def unpack(fields: Sequence[bytes]) -> Request:
    """The opposite of `pack`."""
    triple, cpu, features, llvm, output, level, optimise, text, *assembler = (f.decode() for f in fields[1:])
    return Request(text, Machine(triple, cpu, features, llvm), output, int(level), int(optimise),
                   Assembler(assembler[0], assembler[1], tuple(assembler[2:])))


def reproducer(request: Request) -> str:
    """A text from which `read_reproducer` makes the request again, and which is LLVM text, or PTX, as well."""
    machine = request.machine
    options = {"triple": machine.triple, "cpu": machine.cpu, "features": machine.features, "llvm": machine.llvm,
               "output": request.output, "codegen_level": request.codegen_level, "optimise": request.optimise,
               "library": request.assembler.library, "ptxas": request.assembler.ptxas,
               "options": " ".join(request.assembler.options)}
    header = _PTX_HEADER if request.output == FROM_PTX else _LLVM_HEADER
    return "".join(f"{header}{name}={value}\n" for name, value in options.items()) + request.text


def suffix_of(request: Request) -> str:
    """What the name of a reproducer's file ends with."""
    return ".ptx" if request.output == FROM_PTX else ".ll"


def read_reproducer(text: str, host: Machine) -> Request:
    """The opposite of `reproducer`; a file without our header lines is a request for `host`."""
    lines, headers = text.splitlines(keepends=True), (_LLVM_HEADER, _PTX_HEADER)
    options = dict(line.partition(" tilewright ")[2].rstrip("\n").split("=", 1) for line in lines
                   if line.startswith(headers))
    body = "".join(line for line in lines if not line.startswith(headers))
    if not options:
        return Request(body, host)
    machine = Machine(*(options[name] for name in ("triple", "cpu", "features", "llvm")))
    return Request(body, machine, options["output"], int(options["codegen_level"]),
                   int(options["optimise"]), Assembler(options.get("library", ""), options.get("ptxas", ""),
                                                       tuple(options.get("options", "").split())))
