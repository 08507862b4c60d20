"""Native code reads arrays and tensors as their libraries say; where it is not sure of a library, it asks."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime.arguments import LOWEST
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.jit import JITFunction
from tilewright.targets.cpu.host import launcher, torch_layout
from tilewright.targets.cpu.host.choice import best_kind
from tilewright.targets.cpu.host.launcher_tensors import LOWEST_ADDRESS, NUMPY_TYPES
from tilewright.targets.cpu.host.records import WORD, Types, element_word

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(best_kind() != "linux", reason="native launchers are for Linux"),
    pytest.mark.unchecked("native code launches nothing there"),
]


def doubled_source(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n).to(tl.float32) * 2, mask=i < n)


@pytest.fixture
def doubled():
    return triton.jit(doubled_source)


@pytest.fixture
def slow(monkeypatch):
    """The arguments of the launches that came to Python."""
    calls = []
    launch = JITFunction._launch

    def counted(self, grid, key, args, kwargs):
        calls.append(args)
        return launch(self, grid, key, args, kwargs)

    monkeypatch.setattr(JITFunction, "_launch", counted)
    return calls


def warm(kernel, *args):
    for _ in range(3):
        kernel[(1,)](*args)


def words():
    return (ctypes.c_int64 * (Types.SIZE // WORD))()


def describe():
    return launcher._describer(torch)


@pytest.fixture
def types(doubled, monkeypatch):
    """The words of this process's launchers; nothing else changes them, and they are put back."""
    warm(doubled, torch.ones(2), torch.ones(2), 2, 2)
    monkeypatch.setattr(torch_layout, "learn", lambda *_: False)
    launchers = DEVICES.cpu(doubled.settings()).launchers()
    before = list(launchers._types)
    yield launchers._types
    launchers._types[:] = before


def test_the_places_in_this_torchs_tensors_are_found():
    types = words()
    assert torch_layout.learn(torch, describe(), types)
    assert types[Types.TENSOR_AT // WORD] and types[Types.KEYS_AT // WORD] and types[Types.GET_DATA // WORD]
    assert types[Types.PLAIN // WORD] == torch._C._dispatch_keys(torch.ones(1)).raw_repr()
    assert types[Types.NEGATIVE // WORD].bit_count() == 1


def other_torch(**changed):
    """This torch, with other private functions."""
    private = SimpleNamespace(**{name: getattr(torch._C, name)
                                 for name in ("_dispatch_keys", "DispatchKeySet", "DispatchKey")} | changed)
    return SimpleNamespace(**{**vars(torch), "_C": private})


@pytest.mark.parametrize("changed", [
    {"_dispatch_keys": lambda t: SimpleNamespace(raw_repr=lambda: 1)},          # all have the same keys
    {"_dispatch_keys": lambda t: SimpleNamespace(raw_repr=lambda: id(t))},      # which stand nowhere
    {"DispatchKeySet": lambda key: SimpleNamespace(raw_repr=lambda: 1)},        # the bit of all tensors
    {"DispatchKey": None},
], ids=["same", "elsewhere", "other bit", "absent"])
def test_of_an_unknown_torch_nothing_is_taken_as_known(changed):
    types = words()
    assert not torch_layout.learn(other_torch(**changed), describe(), types)
    assert not any(types)


def test_without_the_c_functions_the_places_are_still_known(monkeypatch):
    monkeypatch.setitem(torch_layout._FUNCTIONS, Types.GET_DIM, "no_such_function")
    types = words()
    assert torch_layout.learn(torch, describe(), types)
    assert types[Types.PLAIN // WORD] == types[Types.INFERRED // WORD] == -1 and types[Types.KEYS_AT // WORD]


def test_functions_that_do_not_say_what_dlpack_does_are_not_used(monkeypatch):
    monkeypatch.setitem(torch_layout._FUNCTIONS, Types.GET_STRIDES, "aoti_torch_get_sizes")
    types = words()
    assert torch_layout.learn(torch, describe(), types)
    assert types[Types.PLAIN // WORD] == -1


def test_while_a_mode_makes_other_tensors_nothing_is_learnt():
    from torch._subclasses.fake_tensor import FakeTensorMode
    types = words()
    with FakeTensorMode():
        assert not torch_layout.learn(torch, describe(), types)
    assert not any(types)
    with torch.inference_mode():
        assert torch_layout.learn(torch, describe(), types)
    assert types[Types.PLAIN // WORD] != types[Types.INFERRED // WORD]


def negatives():
    """Tensors with the negative bit, also in memory that is aligned to half of a complex number."""
    memory = np.zeros(68, np.uint8)
    start = 4 + -memory.ctypes.data % 8
    halfway = torch.from_numpy(memory[start:start + 32].view(np.complex64))
    assert halfway.data_ptr() % 8 == 4
    z = torch.tensor([1 + 2j, 3 + 4j, 5 + 6j, 7 + 8j])
    return {"imag": z.conj().imag, "one": z.conj().imag[1:2], "halfway": halfway.conj().imag,
            "marked": torch._neg_view(torch.ones(4)), "view": torch._neg_view(torch.ones(8))[4:],
            "parameter": torch.nn.Parameter(torch._neg_view(torch.ones(4)))}


def as_on_gpu(get_gpu=None):
    """Words with which tensors in the CPU's memory are read as those on a GPU are; for its number a function is asked
    that says 0, as the device's type is for the CPU."""
    library = ctypes.CDLL(torch._C.__file__)
    number = ctypes.cast(get_gpu or library.aoti_torch_get_device_type, ctypes.c_void_p).value
    plain, inferred = torch_layout._ordinary_keys(torch, "CPU")
    return {Types.PLAIN: -1, Types.INFERRED: -1, Types.CUDA_PLAIN: plain, Types.CUDA_INFERRED: inferred,
            Types.GET_GPU: number}


WAYS = {"keys": {}, "dlpack": {Types.PLAIN: -1, Types.INFERRED: -1},
        "no functions": {Types.PLAIN: -1, Types.INFERRED: -1, Types.GET_DTYPE: 0}, "asked": {Types.TENSOR_AT: 0},
        "gpu": as_on_gpu()}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", negatives())
def test_no_negative_bit_slips_through(doubled, types, name, way):
    for offset, word in way.items():
        types[offset // WORD] = word
    x, o = negatives()[name], torch.zeros(4)
    like = torch.nn.Parameter(torch.ones_like(x)) if isinstance(x, torch.nn.Parameter) else torch.ones(4)
    warm(doubled, like[:x.numel()] if name == "one" else like, o, 1, 4)
    warm(doubled, torch.ones(9)[1:5], o, 1, 4)      # not divisible by 16
    with pytest.raises(TypeError, match="parameter 'x': its negative bit is set"):
        doubled[(1,)](x, o, 1, 4)
    doubled[(1,)](x.resolve_neg(), o, 1, 4)
    assert o[0] == 2 * x[0]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", torch_layout._DTYPES)
def test_tensors_of_all_dtypes_are_read_natively(doubled, types, slow, name, way):
    for offset, word in way.items():
        types[offset // WORD] = word
    dtype = getattr(torch, name)
    o = torch.zeros(4, dtype=torch.float32)
    makers = {"plain": lambda: torch.ones(8).to(dtype), "inferred": torch.inference_mode()(
        lambda: torch.ones(8).to(dtype)), "strided": lambda: torch.ones(4, 2).to(dtype).t()}
    for make in makers.values():
        kept = make()       # all at 16 bytes
        warm(doubled, kept, o, 4, 4)
        slow.clear()
        doubled[(1,)](kept, o, 4, 4)
        assert o.tolist() == [2.0] * 4
        in_doubt = way in (WAYS["no functions"], WAYS["asked"]) and name in ("int8", "uint8")   # or int1, see below
        assert len(slow) == in_doubt


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", ["int1", "int4", "int7", "uint1", "uint4", "uint7"])
def test_integers_of_fewer_bits_are_not_taken_for_bytes(doubled, types, name, way):
    """They are one to DLPack."""
    if not hasattr(torch, name):
        pytest.skip("of a later torch")
    for offset, word in way.items():
        types[offset // WORD] = word
    numbers, o = torch.arange(16, dtype=torch.uint8), torch.zeros(4)
    byte = torch.int8 if name[0] == "i" else torch.uint8
    narrow = numbers.view(getattr(torch, name))
    if name == "int1":          # like the language's own
        warm(doubled, narrow, o, 4, 4)
        assert o.tolist() == [0, 2, 2, 2]
    warm(doubled, numbers.view(byte), o, 4, 4)
    doubled[(1,)](numbers.view(byte), o, 4, 4)
    assert o.tolist() == [0, 2, 4, 6]
    if name == "int1":
        doubled[(1,)](narrow, o, 4, 4)
        assert o.tolist() == [0, 2, 2, 2]
    else:
        with pytest.raises(TypeError, match=f"{name} cannot be loaded"):
            doubled[(1,)](narrow, o, 4, 4)


def freed(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor


WITHOUT_MEMORY = {
    "freed": lambda: freed(torch.ones(4)), "freed view": lambda: freed(torch.ones(9)[5:]),
    "freed and strided": lambda: freed(torch.ones(4, 2).t()), "functional": lambda: torch._to_functional_tensor(
        torch.ones(4)), "zero": lambda: torch._efficientzerotensor(4)}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", WITHOUT_MEMORY.values(), ids=WITHOUT_MEMORY)
def test_elements_without_memory_are_not_launched_with(doubled, types, make, way):
    for offset, word in way.items():
        types[offset // WORD] = word
    x, o = torch.ones(4), torch.zeros(4)
    warm(doubled, x, o, 4, 4)
    warm(doubled, torch.ones(9)[5:], o, 4, 4)
    for args in ((make(), o, 4, 4), (x, make(), 4, 4), (make(), o, 0, 4)):
        with pytest.raises(TypeError, match="has no data"):
            doubled[(1,)](*args)
        with pytest.raises(TypeError, match="has no data"):
            triton.jit(doubled_source)[(1,)](*args)


def test_empty_tensors_need_no_memory(doubled, types, slow):
    o = torch.zeros(4)
    warm(doubled, torch.ones(4), o, 0, 4)
    slow.clear()
    for empty in (torch.ones(0), torch.ones(3, 0), torch.ones(0, 3)[:, 1:]):
        assert empty.data_ptr() == 0
        doubled[(1,)](empty, o, 0, 4)
    assert not slow


def test_the_lowest_address_is_one_number():
    assert LOWEST_ADDRESS == LOWEST


def test_what_is_no_ordinary_tensor_gets_its_error(doubled, types):
    o = torch.zeros(4)
    warm(doubled, torch.ones(4), o, 4, 4)
    for other, error in ((torch.ones(4).to_sparse(), "layout"), (torch.ones(4, device="meta"), "meta"),
                         (torch.ones(4, dtype=torch.complex64), "cannot be loaded"),
                         (torch.empty(4, dtype=torch.bits8), "cannot be loaded")):
        with pytest.raises(TypeError, match=error):
            doubled[(1,)](other, o, 4, 4)
    with pytest.raises(TypeError, match=r"inside torch\.func"):
        torch.vmap(lambda x: doubled[(1,)](x, o, 4, 4))(torch.ones(2, 4))


def test_a_copy_on_write_tensor_is_copied_first(doubled, types, slow):
    o = torch.zeros(4)
    warm(doubled, torch.ones(4), o, 4, 4)
    slow.clear()
    twin = torch._lazy_clone(o)
    doubled[(1,)](torch.full((4,), 3.0), twin, 4, 4)
    assert not slow and twin.tolist() == [6.0] * 4 and o.tolist() == [2.0] * 4


# -- tensors on GPUs, for which those in the CPU's memory stand here

@pytest.fixture
def cpu_for_gpu(monkeypatch):
    """The CPU under the names of a GPU."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch_layout, "_GPU", "CPU")
    monkeypatch.setattr(torch_layout, "_DL_CUDA", 1)
    monkeypatch.setitem(torch_layout._GPU_FUNCTIONS, Types.GET_GPU, "aoti_torch_get_device_type")      # 0 for the CPU


@pytest.mark.parametrize("tensor", [torch.ones(4), torch.nn.Parameter(torch.ones(2, 3)), torch.inference_mode()(
    lambda: torch.ones(3))(), torch.ones(4, 2).t()[1:]], ids=["plain", "parameter", "inferred", "strided"])
def test_how_to_read_tensors_on_a_gpu_is_learnt_from_one(cpu_for_gpu, tensor):
    types = words()
    torch_layout.learn(torch, describe(), types)
    assert types[Types.CUDA_PLAIN // WORD] == types[Types.CUDA_INFERRED // WORD] == torch_layout.UNKNOWN
    before = list(types)
    assert not torch_layout.learn_gpu(torch, describe(), types, [1, None, np.ones(2)]) and list(types) == before
    assert torch_layout.learn_gpu(torch, describe(), types, [1, torch.ones(3).to_sparse(), tensor])
    for gpu, cpu in ((Types.CUDA_PLAIN, Types.PLAIN), (Types.CUDA_INFERRED, Types.INFERRED)):
        assert types[gpu // WORD] == types[cpu // WORD]
    assert types[Types.GET_GPU // WORD]


def test_the_keys_of_tensors_on_a_gpu_differ_from_the_cpus_by_device_alone():
    here, there = (torch_layout._ordinary_keys(torch, device) for device in ("CPU", "CUDA"))
    assert here[0] == torch._C._dispatch_keys(torch.ones(1)).raw_repr() and not set(here) & set(there)
    assert [word.bit_count() for word in here] == [word.bit_count() for word in there]


@pytest.mark.parametrize("change", [
    lambda m: m.setattr(torch_layout, "_DL_CUDA", 2),                                           # another kind of device
    lambda m: m.setitem(torch_layout._GPU_FUNCTIONS, Types.GET_GPU, "aoti_torch_get_device_index"),    # -1 for the CPU
    lambda m: m.setitem(torch_layout._GPU_FUNCTIONS, Types.GET_GPU, "no_such_function"),
    lambda m: m.setitem(torch_layout._GPU_FUNCTIONS, Types.GET_STRIDES, "aoti_torch_get_sizes"),
    lambda m: m.setattr(torch_layout, "_KEYS", torch_layout._KEYS[:1] * 4),
    lambda m: m.setattr(torch_layout, "_KEYS", ("{}", "Autocast{}", "NoKey{}", "ADInplaceOrView")),
], ids=["kind", "number", "function", "strides", "keys", "names"])
def test_where_a_tensor_on_a_gpu_is_not_as_expected_nothing_is_learnt(cpu_for_gpu, monkeypatch, change):
    types = words()
    torch_layout.learn(torch, describe(), types)
    before = list(types)
    change(monkeypatch)
    assert not torch_layout.learn_gpu(torch, describe(), types, [torch.ones(4, 2).t()]) and list(types) == before


@pytest.mark.parametrize("tensor", [torch.ones(2, dtype=torch.complex64).conj(), torch._neg_view(torch.ones(3)),
                                    torch.ones(3).to_sparse()], ids=["conjugate", "negative", "sparse"])
def test_nothing_is_learnt_from_other_tensors(cpu_for_gpu, tensor):
    types = words()
    torch_layout.learn(torch, describe(), types)
    assert not torch_layout.learn_gpu(torch, describe(), types, [tensor])


def test_tensors_are_not_asked_before_cuda_is_in_use(cpu_for_gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    types = words()
    torch_layout.learn(torch, describe(), types)
    assert not torch_layout.learn_gpu(torch, describe(), types, [torch.ones(4)])


def test_modes_hear_nothing_of_the_search(cpu_for_gpu):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise AssertionError(function)

    types, x = words(), torch.ones(4)
    torch_layout.learn(torch, describe(), types)
    with Mode():
        assert torch_layout.learn_gpu(torch, describe(), types, [x])


def test_without_the_c_functions_tensors_on_gpus_are_left_to_dlpack(cpu_for_gpu, monkeypatch):
    monkeypatch.setitem(torch_layout._FUNCTIONS, Types.GET_DIM, "no_such_function")
    types = words()
    assert torch_layout.learn(torch, describe(), types)
    assert not torch_layout.learn_gpu(torch, describe(), types, [torch.ones(4)])


def test_launches_teach_how_to_read_tensors_on_gpus(cpu_for_gpu, doubled, types, slow):
    for args in ((torch.ones(4), torch.zeros(4), 4, 4),     # a way to call, and a key, that are known, and others
                 (torch.ones(9)[1:5], torch.zeros(4), 4, 4), (torch.ones(4), torch.zeros(4), 4)):
        for word in (Types.CUDA_PLAIN, Types.CUDA_INFERRED):
            types[word // WORD] = torch_layout.UNKNOWN
        slow.clear()
        doubled[(1,)](*args, **({} if len(args) == 4 else {"BLOCK": 4}))
        learnt = types[Types.CUDA_PLAIN // WORD] == types[Types.PLAIN // WORD]
        assert learnt == bool(slow)


def test_the_number_of_a_tensors_gpu_is_part_of_the_key(doubled, types, slow):
    number, code = 0, 0

    def get_gpu(handle, where):
        ctypes.c_int32.from_address(where).value = number
        return code

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(get_gpu)
    for offset, word in as_on_gpu(function).items():
        types[offset // WORD] = word
    x, o = torch.ones(4), torch.zeros(4)
    warm(doubled, x, o, 4, 4)
    for number, code, launches_in_python in ((0, 0, 0), (1, 0, 1), (1, 0, 0), (0, 0, 0), (0, 1, 1)):  # noqa: B007
        slow.clear()
        doubled[(1,)](x, o, 4, 4)
        assert len(slow) == launches_in_python


# -- NumPy

def test_numpys_numbers_of_types():
    letters = {(6, 8): "?", (0, 8): "b", (1, 8): "B", (0, 16): "h", (1, 16): "H", (0, 32): "i", (1, 32): "I",
               (2, 16): "e", (2, 32): "f", (2, 64): "d"}
    for number, kind in NUMPY_TYPES.items():
        code, bits = kind
        wanted = letters.get(kind, "lq"[number > 8] if code == 0 else "LQ"[number > 8])
        assert np.dtype(wanted).num == number and np.dtype(wanted).itemsize == bits // 8
    assert element_word(2, 32) == 2 | 32 << 8 | 1 << 16


def test_arrays_are_what_native_code_expects(monkeypatch):
    assert launcher._arrays_are_known()
    monkeypatch.setattr(launcher.Array, "STRIDES", launcher.Array.SHAPE)
    assert not launcher._arrays_are_known()


@pytest.mark.parametrize("letter", "?bBhHiIlLqQefd")
def test_arrays_of_all_dtypes_are_read_natively(doubled, slow, letter):
    o = np.zeros(4, np.float32)
    arrays = (np.ones(8, letter), np.ones((4, 2), letter)[::-1].T, np.ones((4, 1, 2), letter, "F"))
    for x in arrays:
        warm(doubled, x, o, 1, 1)
        slow.clear()
        doubled[(1,)](x, o, 1, 1)
        assert not slow


def test_arrays_that_are_no_plain_numbers_come_to_python(doubled, slow):
    o = np.zeros(4, np.float32)
    warm(doubled, np.ones(4, np.float32), o, 4, 4)
    for x, error in ((np.ones(4, ">f4"), "foreign byte order"), (np.ones(4, np.complex64), "cannot be loaded"),
                     (np.ones(4, "M8[s]"), "cannot be loaded"), (np.ones(4, "f4,i4"), "cannot be loaded"),
                     (np.ones(4, object), "cannot be loaded")):
        with pytest.raises(TypeError, match=error):
            doubled[(1,)](x, o, 4, 4)
    slow.clear()
    unaligned = np.zeros(20, np.uint8)[1:17].view(np.float32)
    assert not unaligned.flags.aligned
    doubled[(1,)](unaligned, o, 4, 4)
    assert len(slow) == 1 and o.tolist() == [0.0] * 4


def test_nothing_is_written_where_numpy_forbids_or_warns(doubled):
    o = np.zeros(4, np.float32)
    warm(doubled, np.ones(4, np.float32), o, 4, 4)
    frozen = o.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        doubled[(1,)](o, frozen, 4, 4)
    doubled[(1,)](frozen, o, 4, 4)
