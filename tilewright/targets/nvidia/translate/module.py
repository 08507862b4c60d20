"""The face of the package: `translated` makes PTX of a kernel's LLVM text, or says that it does not know how.

Before: the text of `generate`.  After: PTX that means the same, for the same assembler.
Tests: tests/targets/nvidia/translate/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.targets.llvm.ptx_repairs import repaired
from tilewright.targets.nvidia.translate import (
    calls,
    casts,
    conditions,
    division,
    floats,
    integers,
    pointers,
    statements,
    vectors,
)
from tilewright.targets.nvidia.translate.body import PREFIXES, Body, Operand, UntranslatableError
from tilewright.targets.nvidia.translate.flow import Flow
from tilewright.targets.nvidia.translate.lines import Places
from tilewright.targets.nvidia.translate.writing import lines_of

_HEAD = re.compile(r'define ptx_kernel void @(\w+)\((.*?)\) nounwind((?: "[\w.]+"="\d+")*)(?: !dbg !(\d+))? \{$')
_ATTRIBUTE = re.compile(r'"nvvm\.(\w+)"="(\d+)"')
_DIRECTIVES = {"reqntid": ".reqntid", "minctasm": ".minnctapersm", "maxnreg": ".maxnreg"}
_SHARED = re.compile(r"@(\w+) = external addrspace\(3\) global \[0 x i8\], align (\d+)$")
_STRING = re.compile(r'@(\w+) = internal addrspace\(1\) constant \[(\d+) x i8\] c"(.*)"(?:, align (\d+))?$')
_BYTE = re.compile(r"\\([0-9A-Fa-f]{2})|(.)", re.DOTALL)
_BY_VALUE = re.compile(r'ptr byval\(\[(\d+) x i8\]\) align (\d+) "nvvm.grid_constant" (%\w+)$')

Handler = Callable[[Body, Sequence[str]], Operand]
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(integers.BINARY, integers.binary), **dict.fromkeys(division.DIVISIONS, division.divide),
     "icmp": conditions.compare, "select": conditions.select,
    **dict.fromkeys(casts.CASTS, casts.cast), **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv"), floats.binary),
    "fneg": floats.negate, "fcmp": floats.compare, "insertelement": vectors.insert, "extractelement": vectors.extract,
    "getelementptr": pointers.element_pointer,
}


def translated(text: str, cpu: str, features: str) -> str:
    """PTX of the kernel `text` for `cpu` (`sm_90a`); `features` (`+ptx80`) say in which version.

    Raises `UntranslatableError`.
    """
    try:
        return _translated(text, cpu, features)
    except (KeyError, IndexError, ValueError) as error:      # a line of another form than is looked for
        raise UntranslatableError(f"{type(error).__name__}: {error}") from error


def _translated(text: str, cpu: str, features: str) -> str:
    lines = text.split("\n")
    if "}" not in lines:
        raise UntranslatableError(text)
    end = lines.index("}")
    head = _HEAD.match(lines[0])
    if head is None:
        raise UntranslatableError(lines[0])
    name, parameters, listed, subprogram = head.groups()
    attributes = dict(_ATTRIBUTE.findall(listed))
    body = Body(int(attributes.get("reqntid", 1024)))
    globals_ = _globals(body, lines[end + 1:])
    places = Places(lines[end + 1:]) if subprogram else None
    declared = _parameters(body, name, parameters)
    flow = Flow(body)
    flow.blocks[0].code.extend(body.entry)
    body.code = flow.blocks[0].code
    _walk(body, flow, lines[2:end], places)
    flow.close()
    written = lines_of(body, flow, places.directives if places else ())
    directives = [f"{_DIRECTIVES[key]} {value}" for key, value in attributes.items()]
    return repaired("\n".join([
        f".version {features[4:5]}.{features[5:]}", f".target {cpu}", ".address_size 64", "", *globals_, "",
        f".visible .entry {name}(", ",\n".join(declared), ")", *directives, "{", *_declarations(body), *written, "}",
        *(places.files if places else ()), ""]))


def _walk(body: Body, flow: Flow, lines: Sequence[str], places: Places | None) -> None:
    """Take the instructions, one after the other."""
    values = body.values
    for line in lines:
        if places is not None and flow.block is not None:
            line = places.entered(body, line)
        if not line:
            continue
        if flow.block is None or line[0] != " ":
            if line[0] not in " ;":
                flow.place(line[:-1])
            continue
        words = line.split(None, 3)
        if words[1] != "=":
            _without_result(body, flow, line.strip(), words[0])
            continue
        name, what = words[0], words[2]
        if what == "call":
            call = line[line.index("call"):]
            values[name] = (statements if " asm " in call else calls).call(body, call)
        elif what == "extractvalue":
            _, source, index = line.rsplit(None, 2)
            values[name] = values[source[:-1]][int(index)]
        elif what == "phi":
            flow.phi(name, line.split())
        elif what in HANDLERS:
            values[name] = HANDLERS[what](body, line.split())
        elif what == "load":
            values[name] = pointers.load(body, line[line.index("load"):])
        elif what == "alloca":
            values[name] = pointers.allocate(body, line[line.index("alloca"):])
        elif what == "freeze":
            t, token = words[3].split(" ")
            values[name] = body.get(token, t)
        else:
            raise UntranslatableError(line)


def _without_result(body: Body, flow: Flow, line: str, what: str) -> None:
    if what == "call":
        (statements if " asm " in line else calls).call(body, line)
    elif what == "br":
        flow.branch(line)
    elif what == "ret":
        if line != "ret void":
            raise UntranslatableError(line)
        flow.leave()
    elif what == "store":
        pointers.store(body, line)
    elif what != ";":
        raise UntranslatableError(line)


def _parameters(body: Body, kernel: str, listed: str) -> list[str]:
    """The declarations of the kernel's parameters; their values are known from now on."""
    declared = []
    for k, text in enumerate(listed.split(", ") if listed else ()):
        symbol = f"{kernel}_param_{k}"
        block = _BY_VALUE.match(text)
        if block is not None:
            declared.append(f"\t.param .align {block[2]} .b8 {symbol}[{block[1]}]")
            body.values[block[3]] = body.pure("%rd", "cvta.param.u64", body.pure("%rd", "mov.b64", symbol))
            continue
        t, _, name = text.partition(" ")
        if t not in ("i8", "i16", "i32", "i64"):
            raise UntranslatableError(text)
        declared.append(f"\t.param .u{t[1:]} {symbol}")
        body.values[name] = body.pure(PREFIXES[t], f"ld.param.b{t[1:]}", f"[{symbol}]")
        if t == "i8":
            body.ones[body.values[name]] = 255
    body.entry = body.code
    return declared


def _declarations(body: Body) -> list[str]:
    """The registers and the stack."""
    kinds = {"%p": ".pred", "%rs": ".b16", "%r": ".b32", "%rd": ".b64"}
    lines = [f"\t.reg {kinds[prefix]} \t{prefix}<{count + 1}>;" for prefix, count in body.counts.items() if count]
    return lines + [f"\t{line}" for line in body.stack]


def _globals(body: Body, lines: Sequence[str]) -> list[str]:
    """The declarations of global variables and functions."""
    declared = []
    for line in lines:
        if line.startswith("define"):
            raise UntranslatableError(line)
        if line.startswith("declare") and "@vprintf" in line:
            declared.append(".extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, "
                            ".param .b64 vprintf_param_1);")
        if not line.startswith("@"):
            continue
        shared, string = _SHARED.match(line), _STRING.match(line)
        if shared is not None:
            declared.append(f".extern .shared .align {shared[2]} .b8 {shared[1]}[];")
            body.symbols[shared[1]] = 3
        elif string is not None:
            data = [int(m[1], 16) if m[1] else ord(m[2]) for m in _BYTE.finditer(string[3])]
            declared.append(f".global .align {string[4] or 1} .b8 {string[1]}[{string[2]}] = "
                            f"{{{', '.join(map(str, data))}}};")
            body.symbols[string[1]] = 1
        else:
            raise UntranslatableError(line)
    return declared
