"""CUDA's driver: devices, code in a device's memory, launches, copies.  Needs a GPU's driver.

    functions the driver's functions, through ctypes
    cuda      every call of the driver, with its error as an exception
    device    one GPU: what it can do, its context, its memory
    stream    the stream on which a launch goes
    kernel    a loaded kernel and its launches
"""
